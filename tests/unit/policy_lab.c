/* policy_lab.c - see policy_lab.h. */
#include "policy_lab.h"

#include <stdio.h>

#include "base/err.h"
#include "test.h"

static const struct policy_reader reader = { .hook = policy_any_hook };

struct policy *
lab_rules(const char *rules)
{
	struct policy *p = NULL;
	struct err err = {0};
	char text[65536];

	snprintf(text, sizeof(text), "version: 1\negress:\n%s", rules);
	if (policy_load_text_all("p", text, strlen(text), &reader, &p, NULL, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s in\n%s", err.text, text);
	return p;
}

const char *
lab_refuses_file(const char *text)
{
	static struct err err;
	struct policy *p = NULL;

	err = (struct err){0};
	if (policy_load_text_all("p", text, strlen(text), &reader, &p, NULL, &err) == 0) {
		policy_free(p);
		return "";
	}
	CHECK(p == NULL);
	return strncmp(err.text, "p:", 2) == 0 ? err.text + 2 : err.text;
}

const char *
lab_refuses(const char *rules)
{
	char text[65536];

	snprintf(text, sizeof(text), "version: 1\negress:\n%s", rules);
	return lab_refuses_file(text);
}

static struct http_text
whole(const char *text)
{
	return (struct http_text){ text, strlen(text) };
}

static void
take_header(struct http_head *head, char *line)
{
	char *value = strstr(line, ": ");

	CHECK(value != NULL);
	*value = '\0';
	value += 2;
	if (strcmp(line, "length") == 0)
		head->length = strcmp(value, "unknown") == 0 ? HTTP_LENGTH_UNKNOWN :
		               strtoull(value, NULL, 10);
	else if (strcmp(line, "upgrade") == 0)
		head->upgrade = whole(value);
	else
		head->fields[head->n_fields++] = (struct http_field){ whole(line), whole(value) };
}

void
lab_request(struct lab_request *lab, const char *text)
{
	char *line, *rest = lab->text, *url, *slash, *colon;

	memset(lab, 0, sizeof(*lab));
	snprintf(lab->text, sizeof(lab->text), "%s", text);
	line = strsep(&rest, "\n");
	url = strchr(line, ' ');
	CHECK(url != NULL);
	*url++ = '\0';
	lab->head.method = whole(line);
	lab->head.scheme = strncmp(url, "https://", 8) == 0 ? HTTP_TLS : HTTP_PLAIN;
	lab->req.protocol = strncmp(url, "tcp://", 6) == 0 ? POLICY_TCP :
	                    strncmp(url, "tls://", 6) == 0 ? POLICY_TLS : POLICY_HTTP;
	url = strstr(url, "://") + 3;
	slash = strchr(url, '/');
	lab->head.path = whole(slash != NULL ? slash : "/");
	snprintf(lab->host, sizeof(lab->host), "%.*s",
	         (int)(slash != NULL ? (size_t)(slash - url) : strlen(url)), url);
	colon = lab->host[0] == '[' ? strstr(lab->host, "]:") : strchr(lab->host, ':');
	lab->head.port = lab->head.scheme == HTTP_TLS ? 443 : 80;
	if (colon != NULL) {
		colon += *colon == ']';
		lab->head.port = (uint16_t)atoi(colon + 1);
		*colon = '\0';
	}
	while (rest != NULL && *rest != '\0')
		take_header(&lab->head, strsep(&rest, "\n"));
	lab->head.host = whole(lab->host);
	lab->req.host = lab->host;
	lab->req.port = lab->head.port;
	lab->req.head = &lab->head;
}

static const char *
decide(const struct policy *p, struct lab_request *lab)
{
	static const char *const verdicts[] = { "deny", "allow", "ask" };
	static char text[32];
	struct policy_decision d;
	struct policy_logged logged;

	policy_decide(p, &lab->req, &d, &logged);
	snprintf(text, sizeof(text), "%s%s%s %d", verdicts[d.verdict], d.needs_body ? "?" : "",
	         d.too_large ? "!" : "", d.rule);
	return text;
}

const char *
lab_decide(const struct policy *p, const char *request)
{
	static struct lab_request lab;

	lab_request(&lab, request);
	return decide(p, &lab);
}

const char *
lab_decide_body(const struct policy *p, const char *request, unsigned fits)
{
	static struct lab_request lab;
	unsigned char bits[1] = { (unsigned char)fits };

	lab_request(&lab, request);
	lab.req.body_fits = bits;
	lab.req.n_body_fits = sizeof(bits);
	return decide(p, &lab);
}

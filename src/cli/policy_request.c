/* policy_request.c - parses a request as people write it into the form that policies decide on. */
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cli/policy.h"
#include "policy/policy_tools.h"

static const struct scheme {
	const char *name;
	enum policy_protocol protocol;
	enum http_scheme scheme;
	bool websocket;
	uint16_t port;                  /* 0: must be given */
} schemes[] = {
	{ "https", POLICY_HTTP, HTTP_TLS, false, 443 },
	{ "http", POLICY_HTTP, HTTP_PLAIN, false, 80 },
	{ "wss", POLICY_HTTP, HTTP_TLS, true, 443 },
	{ "ws", POLICY_HTTP, HTTP_PLAIN, true, 80 },
	{ "tcp", POLICY_TCP, HTTP_PLAIN, false, 0 },
	{ "tls", POLICY_TLS, HTTP_PLAIN, false, 443 },
};

static const struct scheme *
take_scheme(const char **url)
{
	const char *end = strstr(*url, "://");
	size_t n = end != NULL ? (size_t)(end - *url) : 0;

	if (end == NULL)
		return &schemes[0];
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		if (strlen(schemes[i].name) == n && strncmp(schemes[i].name, *url, n) == 0) {
			*url = end + 3;
			return &schemes[i];
		}
	}
	return NULL;
}

static struct http_text
text_of(const char *text)
{
	return (struct http_text){ text, strlen(text) };
}

/* Copies to ASKED's own memory, which is large enough. */
static char *
keep(char **room, const char *text, size_t len)
{
	char *copy = *room;

	memcpy(copy, text, len);
	copy[len] = '\0';
	*room += len + 1;
	return copy;
}

static int
take_url(struct policy_asked *asked, const char *url, char **room, struct err *err)
{
	const struct scheme *scheme = take_scheme(&url);
	size_t n = strcspn(url, "/?#"), len;
	struct http_text path = { url + n, strcspn(url + n, "#") };
	struct http_head *head = &asked->head;
	char *fixed;
	int r;

	if (scheme == NULL)
		return err_set(err, EINVAL, "'%.100s' is not an http, https, ws, wss, tcp or tls URL",
		               url);
	r = http_authority_parse((struct http_text){ url, n }, asked->host, &head->port, err);
	if (r < 0)
		return err_wrap(err, "'%.100s'", url);
	head->port = head->port != 0 ? head->port : scheme->port;
	if (head->port == 0)
		return err_set(err, EINVAL, "raw TCP needs a port: tcp://%s:PORT", asked->host);
	head->scheme = scheme->scheme;
	head->host = text_of(asked->host);
	if (scheme->websocket)
		head->upgrade = text_of("websocket");
	if (path.len == 0 || *path.at == '?') {
		fixed = *room;
		*fixed = '/';
		memcpy(fixed + 1, path.at, path.len);
		path = (struct http_text){ fixed, path.len + 1 };
		*room += path.len + 1;
	}
	fixed = *room;
	r = http_path_normalise(path, fixed, http_path_room(path), &len, err);
	if (r == -EBADMSG && err != NULL) {
		snprintf(asked->refused, sizeof(asked->refused), "%.200s", err->text);
		fixed[0] = '/';
		len = 1;
		r = 0;
	}
	*room += http_path_room(path) + 1;
	head->path = (struct http_text){ fixed, len };
	asked->req = (struct policy_request){ .protocol = scheme->protocol, .head = head,
	                                      .host = asked->host, .port = head->port };
	return r < 0 ? err_wrap(err, "'%.100s'", url) : 0;
}

static int
take_header(struct policy_asked *asked, const char *text, char **room, struct err *err)
{
	const char *colon = strchr(text, ':'), *value;
	struct http_head *head = &asked->head;
	char *name;
	size_t len;

	if (colon == NULL || colon == text || head->n_fields == HTTP_FIELDS_MAX)
		return err_set(err, EINVAL, "'%.100s' is not a header such as 'accept: text/html'", text);
	name = keep(room, text, (size_t)(colon - text));
	for (char *c = name; *c != '\0'; c++)
		*c = (char)tolower((unsigned char)*c);
	value = colon + 1 + strspn(colon + 1, " \t");
	len = strlen(value);
	while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t'))
		len--;
	value = keep(room, value, len);
	if (strcmp(name, "upgrade") == 0)
		head->upgrade = text_of(value);
	else if (strcmp(name, "connection") != 0 && strcmp(name, "content-length") != 0)
		head->fields[head->n_fields++] = (struct http_field){ text_of(name), text_of(value) };
	return 0;
}

/* ---- calls of MCP tools ---- */

static const struct call {
	const char *prefix, *method, *member, *before;
} calls[] = {
	{ "tool:", "tools/call", "name", "" },
	{ "prompt:", "prompts/get", "name", "" },
	{ "resource:", "resources/read", "uri", "mcp://" },
};

static const struct call *
call_of(const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		if (strncmp(word, calls[i].prefix, strlen(calls[i].prefix)) == 0)
			return &calls[i];
	return NULL;
}

bool
policy_asked_is_call(const char *word)
{
	return call_of(word) != NULL;
}

/* The message as a client sends it. */
static int
make_call(struct policy_asked *asked, const char *word, const char *args, size_t n_args, struct err *err)
{
	const struct call *call = call_of(word);
	json_t *given = args == NULL ? json_object() : json_loadb(args, n_args, JSON_REJECT_DUPLICATES, NULL);
	OWN(freep) char *name = str_format("%s%s", call->before, word + strlen(call->prefix));
	json_t *message;

	if (name == NULL || !json_is_object(given)) {
		json_decref(given);
		return name == NULL ? err_set(err, ENOMEM, "out of memory") :
		       err_set(err, EINVAL, "the arguments of a call are a JSON object: {\"title\": \"x\"}");
	}
	message = json_pack("{s:s, s:i, s:s, s:{s:s, s:o}}", "jsonrpc", "2.0", "id", 1, "method", call->method, "params",
	                    call->member, name, "arguments", given);
	asked->call = message != NULL ? json_dumps(message, JSON_COMPACT) : NULL;
	json_decref(message);
	return asked->call != NULL ? 0 : err_set(err, EINVAL, "'%.100s' cannot be called", word);
}

static int
init_call(struct policy_asked *asked, const char *word, const char *args, size_t n_args, struct err *err)
{
	static const char *const headers[] = { "content-type: application/json" };
	OWN(freep) char *message = NULL;
	int r = make_call(asked, word, args, n_args, err);

	if (r < 0)
		return r;
	message = TAKE(asked->call);
	r = policy_asked_init(asked, "POST", "http://" POLICY_TOOLS_HOST POLICY_TOOLS_PATH, headers, 1, message,
	                      strlen(message), err);
	asked->call = TAKE(message);
	return r;
}

int
policy_asked_init(struct policy_asked *asked, const char *method, const char *url,
                  const char *const *headers, size_t n_headers, const char *body,
                  size_t n_body, struct err *err)
{
	size_t size = 5 * strlen(url) + 64;
	char *room;
	int r;

	*asked = (struct policy_asked){ .body = body, .n_body = n_body };
	if (policy_asked_is_call(url))
		return init_call(asked, url, body, n_body, err);
	for (size_t i = 0; i < n_headers; i++)
		size += strlen(headers[i]) + 8;
	asked->texts = room = calloc(1, size);
	if (room == NULL)
		return err_set(err, ENOMEM, "out of memory");
	asked->head.method = text_of(method != NULL ? method : body != NULL ? "POST" : "GET");
	asked->head.length = n_body;
	r = take_url(asked, url, &room, err);
	for (size_t i = 0; r == 0 && i < n_headers; i++)
		r = take_header(asked, headers[i], &room, err);
	if (r == 0 && asked->req.protocol == POLICY_HTTP)
		r = http_head_check(&asked->head, err);
	return r;
}

void
policy_asked_free(struct policy_asked *asked)
{
	free(asked->texts);
	free(asked->call);
	asked->texts = asked->call = NULL;
}

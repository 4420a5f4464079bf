/* policy_sent.c - the request as it is sent, after the rewrites of the rules that let it through. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/policy.h"

void
policy_sent_freep(struct policy_sent **sent)
{
	if (*sent == NULL)
		return;
	for (size_t i = 0; i < POLICY_LAYERS_MAX; i++)
		free((*sent)->paths[i]);
	buf_free(&(*sent)->body);
	free(*sent);
}

static void
note_changes(struct policy_sent *sent, const struct policy_rewrite *rw, uint64_t changed)
{
	for (size_t i = 0; i < rw->n; i++)
		if ((changed >> i & 1) != 0 && sent->n_edits < ARRAY_LEN(sent->edits))
			sent->edits[sent->n_edits++] = &rw->edits[i];
}

static int
rewrite_body(struct policy_sent *sent, const struct policy_rewrite *rw, uint64_t *ret_changed,
             struct err *err)
{
	struct buf next = BUF(POLICY_CLI_BODY_MAX);
	int r;

	r = policy_rewrite_body(rw, &sent->head, (const char *)sent->body.data, sent->body.len, &next,
	                        ret_changed, err);
	if (r < 0) {
		buf_free(&next);
		return r;
	}
	buf_free(&sent->body);
	sent->body = next;
	sent->head.length = next.len;
	return 0;
}

/* Have the outer layers decide on the rewritten request, as the courier does.  *D, the decision on the
 * request before, becomes theirs. */
static int
ask_outside(struct policy_judge *judge, const struct policy *p, unsigned layer,
            const struct policy_asked *asked, const struct policy_sent *sent, struct policy_decision *d,
            struct err *err)
{
	OWN(freep) struct policy_judgement *got = calloc(1, sizeof(*got));
	struct policy_asked again = { .req = asked->req, .body = (const char *)sent->body.data,
	                              .n_body = sent->body.len };
	const struct policy_decision inner = *d;
	int r;

	if (got == NULL)
		return err_set(err, ENOMEM, "out of memory");
	http_head_copy(&again.head, &sent->head);
	snprintf(again.host, sizeof(again.host), "%.*s", (int)sent->head.host.len, sent->head.host.at);
	again.req.head = &again.head;
	again.req.host = again.host;
	again.req.port = sent->head.port;
	again.req.body_fits = NULL;
	if (policy_is_doh(&again.req))
		return err_set(err, EPERM, "rewritten, it asks for names over HTTPS or TLS, which would hide them, "
		               "and no rule changes that");
	policy_decide_outside(p, layer + 1, &again.req, &inner, d);
	if (d->needs_body) {
		r = policy_judge_inspect(judge, &again, got, err);
		if (r < 0)
			return r;
		again.req.body_fits = got->fits;
		again.req.n_body_fits = got->n_fits;
		policy_decide_outside(p, layer + 1, &again.req, &inner, d);
	}
	if (d->verdict != POLICY_DENY)
		return 0;
	return err_set(err, EPERM, "rewritten, it is refused%s%s", d->rule >= 0 ? " by " : ": no rule "
	               "matches in an outer policy", d->rule >= 0 ? policy_rule_place(p, d->rule) : "");
}

static int
rewrite(struct policy_judge *judge, const struct policy *p, const struct policy_asked *asked,
        struct policy_decision *d, struct policy_sent *sent, struct err *err)
{
	int r = 0;

	for (unsigned layer = 0; r == 0 && layer < POLICY_LAYERS_MAX; layer++) {
		const struct policy_rewrite *rw = policy_rewrite_of(p, policy_way_rule(p, &d->way, layer));
		uint64_t changed = 0, in_body = 0;

		if (rw == NULL)
			continue;
		r = policy_rewrite_head(rw, &sent->head, &sent->paths[layer], &changed, err);
		if (r == 0 && asked->body != NULL && policy_rewrite_needs_body(rw, &sent->head))
			r = rewrite_body(sent, rw, &in_body, err);
		if (r < 0)
			break;
		note_changes(sent, rw, changed | in_body);
		if ((changed | in_body) != 0)
			r = ask_outside(judge, p, layer, asked, sent, d, err);
	}
	return r;
}

int
policy_sent_make(struct policy_judge *judge, const struct policy *p,
                 const struct policy_asked *asked, struct policy_decision *decision,
                 struct policy_sent **ret_sent, struct err *err)
{
	OWN(policy_sent_freep) struct policy_sent *sent = calloc(1, sizeof(*sent));
	struct policy_decision d = *decision;
	int r;

	if (sent == NULL)
		return err_set(err, ENOMEM, "out of memory");
	http_head_copy(&sent->head, &asked->head);
	buf_init(&sent->body, POLICY_CLI_BODY_MAX);
	if (asked->body != NULL)
		buf_put(&sent->body, asked->body, asked->n_body);
	r = rewrite(judge, p, asked, &d, sent, err);
	if (r < 0)
		return r;
	*decision = d;
	*ret_sent = TAKE(sent);
	return 0;
}

/* ---- output ---- */

static char *
url_of(const struct http_head *head)
{
	bool tls = head->scheme == HTTP_TLS;
	char port[8] = "";

	if (head->port != (tls ? 443 : 80))
		snprintf(port, sizeof(port), ":%u", head->port);
	return str_format("http%s://%.*s%s%.*s", tls ? "s" : "", (int)head->host.len, head->host.at, port,
	                  (int)head->path.len, head->path.at);
}

static void
print_safe(const char *before, struct http_text text, const char *after)
{
	fputs(before, stdout);
	text_print_safe(stdout, text.at, text.len, false);
	fputs(after, stdout);
}

void
policy_sent_print(const struct policy_sent *sent)
{
	OWN(freep) char *url = url_of(&sent->head);
	char text[POLICY_EDIT_TEXT_MAX];

	if (sent->n_edits == 0 || url == NULL)
		return;
	for (size_t i = 0; i < sent->n_edits; i++)
		printf("%s%s", i > 0 ? ", " : "rewritten: ", policy_edit_text(sent->edits[i], text));
	print_safe("\nsent as: ", sent->head.method, " ");
	print_safe("", (struct http_text){ url, strlen(url) }, "\n");
	for (size_t i = 0; i < sent->head.n_fields; i++) {
		print_safe("  ", sent->head.fields[i].name, ": ");
		print_safe("", sent->head.fields[i].value, "\n");
	}
	if (sent->body.len > 0)
		print_safe("  ", (struct http_text){ (const char *)sent->body.data, sent->body.len }, "\n");
}

static void
json_text(struct json *out, const char *key, struct http_text text)
{
	OWN(freep) char *copy = strndup(text.len > 0 ? text.at : "", text.len);

	json_str(out, key, copy);
}

void
policy_sent_json(struct json *out, const struct policy_sent *sent)
{
	OWN(freep) char *url = url_of(&sent->head);
	char text[POLICY_EDIT_TEXT_MAX];

	if (sent->n_edits == 0)
		return;
	json_open(out, "sent", '{');
	json_text(out, "method", sent->head.method);
	json_str(out, "url", url);
	json_open(out, "headers", '[');
	for (size_t i = 0; i < sent->head.n_fields; i++) {
		json_open(out, NULL, '[');
		json_text(out, NULL, sent->head.fields[i].name);
		json_text(out, NULL, sent->head.fields[i].value);
		json_close(out, ']');
	}
	json_close(out, ']');
	if (sent->body.len > 0)
		json_text(out, "body", (struct http_text){ (const char *)sent->body.data, sent->body.len });
	json_open(out, "rewritten", '[');
	for (size_t i = 0; i < sent->n_edits; i++)
		json_str(out, NULL, policy_edit_text(sent->edits[i], text));
	json_close(out, ']');
	json_close(out, '}');
}

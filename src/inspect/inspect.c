/* inspect.c - inspects one body: undoes its coding, searches for secrets, and matches rules. */
#include "inspect/inspect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "inspect/body.h"
#include "inspect/body_shape.h"
#include "inspect/decode.h"
#include "inspect/git.h"

#define FIRST_TEXT (16 * 1024)

struct inspect {
	const struct policy *policy;
	bool secrets, rules;
	char *shape;                    /* NULL: not wanted */
	char *head;                     /* BODY's texts point into it */
	struct body body;
	struct decode *decode;          /* NULL: its coding is unknown: */
	struct err coding;
	struct secrets_scan scan;
	struct secrets_scan *raw;       /* for the compressed bytes, which some servers do not decode */

	bool collects;                  /* some rule needs the whole body as text */
	bool too_much;
	char *text;
	size_t n_text, cap;

	struct git_push *git;           /* it is a push, and some rule is about it */
	bool git_unreadable;

	bool has_input, has_bytes, done;
	bool secret, unreadable;
	char call[INSPECT_CALL_MAX];
	char what[sizeof(((struct inspect_findings *)0)->what)];
	unsigned char *fits;
	size_t n_fits;
};

static size_t held;                     /* text of all bodies at once */

/* ---- beginning and end ---- */

static bool
wants_text(const struct policy_rule *rule)
{
	const struct policy_body *b = &rule->body;

	return rule->call.present || b->n_json > 0 || b->regex.n > 0 || b->graphql || b->jsonrpc;
}

static struct http_text
copy_text(char **at, struct http_text text)
{
	struct http_text copy = { *at, text.len };

	if (text.len > 0)
		memcpy(*at, text.at, text.len);
	*at += text.len;
	return copy;
}

static bool
copy_head(struct inspect *in, const struct inspect_request *req)
{
	char *at = malloc(req->method.len + req->path.len + req->content_type.len + 1);

	in->head = at;
	if (at == NULL)
		return false;
	in->body.method = copy_text(&at, req->method);
	in->body.path = copy_text(&at, req->path);
	in->body.content_type = copy_text(&at, req->content_type);
	return true;
}

/* Find out what the rules need. */
static int
prepare_rules(struct inspect *in)
{
	size_t n = policy_n_rules(in->policy);
	bool push = policy_is_push(in->body.method, in->body.path), git = false;

	in->n_fits = (n + 7) / 8;
	in->fits = calloc(in->n_fits + 1, 1);
	if (in->fits == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct policy_rule *rule = policy_rule_at(in->policy, i);

		in->collects = in->collects || wants_text(rule);
		git = git || (push && rule->git.push.n > 0);
	}
	return git ? git_push_new(in->secrets, &in->git) : 0;
}

static decode_sink take_decoded;

int
inspect_new(const struct inspect_request *req, struct inspect **ret_inspect, struct err *err)
{
	OWN(inspect_freep) struct inspect *in = calloc(1, sizeof(*in));
	int r = in != NULL && copy_head(in, req) ? 0 : -ENOMEM;

	if (r == 0) {
		in->policy = req->policy;
		in->secrets = req->secrets;
		in->rules = req->rules && req->policy != NULL;
		in->shape = req->shape ? calloc(1, INSPECT_SHAPE_MAX) : NULL;
		r = req->shape && in->shape == NULL ? -ENOMEM : 0;
	}
	if (r == 0 && in->rules)
		r = prepare_rules(in);
	if (r == 0 && (in->secrets || in->shape != NULL) && in->git == NULL &&
	    policy_is_push(in->body.method, in->body.path))
		r = git_push_new(in->secrets, &in->git);
	/* A push is described by its refs. */
	in->collects = in->collects || (r == 0 && in->shape != NULL && in->git == NULL);
	if (r < 0)
		return err_set(err, -r, "there is no memory to look into a body");
	/* An unknown coding matters only if there is a body. */
	(void)decode_new(req->content_coding, take_decoded, in, &in->decode, &in->coding);
	if (in->secrets && in->decode != NULL && !decode_is_plain(in->decode)) {
		in->raw = calloc(1, sizeof(*in->raw));
		if (in->raw == NULL)
			return err_set(err, ENOMEM, "there is no memory to look into a body");
	}
	*ret_inspect = TAKE(in);
	return 0;
}

static void
drop_text(struct inspect *in)
{
	held -= in->cap;
	free(in->text);
	in->text = NULL;
	in->n_text = in->cap = 0;
}

void
inspect_free(struct inspect *in)
{
	if (in == NULL)
		return;
	drop_text(in);
	git_push_free(in->git);
	decode_free(in->decode);
	free(in->head);
	free(in->shape);
	free(in->raw);
	free(in->fits);
	free(in);
}

/* ---- bytes ---- */

static void
collect(struct inspect *in, const unsigned char *data, size_t len)
{
	if (in->too_much)
		return;
	if (len > in->cap - in->n_text) {
		size_t cap = in->cap == 0 ? FIRST_TEXT : in->cap;
		char *text = NULL;

		while (cap < in->n_text + len)
			cap *= 2;
		if (in->n_text + len <= INSPECT_DECODED_MAX && cap - in->cap <= INSPECT_HELD_MAX - held)
			text = realloc(in->text, cap);
		if (text == NULL) {
			in->too_much = true;
			drop_text(in);
			return;
		}
		held += cap - in->cap;
		in->text = text;
		in->cap = cap;
	}
	memcpy(in->text + in->n_text, data, len);
	in->n_text += len;
}

static void
note_secret(struct inspect *in, const char *name)
{
	if (name == NULL || in->secret)
		return;
	in->secret = true;
	snprintf(in->what, sizeof(in->what), "%s", name);
}

static void
note_unreadable(struct inspect *in, const char *why)
{
	if (in->unreadable)
		return;
	in->unreadable = true;
	if (!in->secret)
		snprintf(in->what, sizeof(in->what), "%.*s", (int)sizeof(in->what) - 1, why);
}

static int
take_decoded(void *arg, const unsigned char *data, size_t len)
{
	struct inspect *in = arg;

	in->has_bytes = true;
	if (in->secrets && !in->secret)
		note_secret(in, secrets_find(&in->scan, data, len));
	if (in->git != NULL && !in->git_unreadable && !in->git->is_over &&
	    git_push_feed(in->git, data, len) < 0)
		in->git_unreadable = true;
	if (in->git != NULL)
		note_secret(in, in->git->secret);
	if (in->collects)
		collect(in, data, len);
	return 0;
}

/* ---- rules ---- */

/* Results that are computed once per body. */
struct reading {
	const struct inspect *in;
	bool parsed, listed;
	json_t *root;
	struct body_operations ops;
	int ops_result;
	struct body_regex_time time;
};

static const json_t *
root_of(struct reading *rd)
{
	if (!rd->parsed && rd->in->n_text > 0)
		rd->root = body_json_parse(rd->in->text, rd->in->n_text);
	rd->parsed = true;
	return rd->root;
}

static enum body_fit
fits_graphql(struct reading *rd, const struct policy_body *rule, bool every)
{
	const struct inspect *in = rd->in;
	struct body body = in->body;

	body.data = in->text;
	body.len = in->n_text;
	if (body.len == 0 && !body_graphql_in_query(body.path))
		return BODY_MISFITS;
	if (!rd->listed)
		rd->ops_result = body_graphql_read(&body, root_of(rd), &rd->ops);
	rd->listed = true;
	return rd->ops_result < 0 ? BODY_UNREADABLE : body_graphql_fits(&rd->ops, rule, every);
}

enum matcher { MATCH_JSON, MATCH_JSONRPC, MATCH_CALL, MATCH_GRAPHQL, MATCH_REGEX, MATCHERS };

/* The result of one matcher of a rule; FITS if the rule has no such matcher. */
static enum body_fit
fits_matcher(struct reading *rd, enum matcher matcher, const struct policy_rule *of, bool every)
{
	const struct policy_body *rule = &of->body;
	const struct inspect *in = rd->in;
	bool has[MATCHERS] = { rule->n_json > 0, rule->jsonrpc, of->call.present, rule->graphql, rule->regex.n > 0 };

	if (!has[matcher])
		return BODY_FITS;
	if (in->unreadable || in->too_much)
		return BODY_UNREADABLE;
	if (matcher == MATCH_GRAPHQL)
		return fits_graphql(rd, rule, every);
	if (in->n_text == 0)
		return BODY_MISFITS;
	if (matcher != MATCH_REGEX && !http_type_is_json(in->body.content_type))
		return BODY_UNREADABLE;
	switch (matcher) {
	case MATCH_JSON:
		return body_json_fits(root_of(rd), rule, every);
	case MATCH_JSONRPC:
		return body_jsonrpc_fits(root_of(rd), rule, every);
	case MATCH_CALL:
		return body_call_fits(root_of(rd), &of->call, every, &rd->time);
	default:
		return body_regex_fits(in->text, in->n_text, &rule->regex, &rd->time);
	}
}

static enum body_fit
fits_git(const struct inspect *in, const struct policy_rule *rule, bool every)
{
	if (rule->git.push.n == 0)
		return BODY_FITS;
	/* The rule applies only if the head was recognised as a push. */
	if (in->git == NULL)
		return BODY_UNREADABLE;
	if (!in->has_bytes)
		return in->unreadable ? BODY_UNREADABLE : BODY_MISFITS;
	if (in->git_unreadable || in->unreadable)
		return BODY_UNREADABLE;
	return body_git_fits(in->git, &rule->git, every);
}

/* An unreadable body fits rules that refuse, and no rule that allows. */
static bool
fits_rule(struct reading *rd, const struct policy_rule *rule)
{
	bool every = rule->verb == POLICY_VERB_ALLOW, unreadable = false;
	enum body_fit fit = fits_git(rd->in, rule, every);

	for (enum matcher m = 0; m < MATCHERS && fit != BODY_MISFITS; m++) {
		unreadable = unreadable || fit == BODY_UNREADABLE;
		fit = fits_matcher(rd, m, rule, every);
	}
	unreadable = unreadable || fit == BODY_UNREADABLE;
	return fit != BODY_MISFITS && !(unreadable && every);
}

static void
evaluate(struct inspect *in)
{
	struct reading rd = { .in = in };
	size_t n = in->rules ? policy_n_rules(in->policy) : 0;
	bool calls = false;

	for (size_t i = 0; i < n; i++) {
		const struct policy_rule *rule = policy_rule_at(in->policy, i);

		if (policy_rule_wants_body(rule) && fits_rule(&rd, rule))
			in->fits[i / 8] |= (unsigned char)(1u << i % 8);
		calls = calls || rule->call.present;
	}
	if (calls && http_type_is_json(in->body.content_type) && !in->unreadable && !in->too_much && in->n_text > 0)
		body_call_describe(root_of(&rd), in->call);
	if (in->shape != NULL && in->call[0] != '\0' && body_call_shape(in->text, in->n_text, in->shape))
		;
	else if (in->shape != NULL && !in->unreadable && !in->too_much)
		body_shape(in->body.content_type, in->text, in->n_text, in->shape);
	body_graphql_free(&rd.ops);
	body_json_freep(&rd.root);
	drop_text(in);
	in->done = true;
}

/* ---- early results ---- */

static bool
git_is_known(const struct inspect *in)
{
	size_t n = in->rules ? policy_n_rules(in->policy) : 0;

	if (in->git_unreadable || in->git->is_over)
		return true;
	if (!in->git->has_commands)
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct policy_rule *rule = policy_rule_at(in->policy, i);

		if (rule->git.push.n > 0 &&
		    body_git_needs_pack(in->git, &rule->git, rule->verb == POLICY_VERB_ALLOW))
			return false;
	}
	return true;
}

/* Whether the result is final, whatever follows. */
static bool
is_known(const struct inspect *in)
{
	if (in->unreadable)
		return true;
	if (in->secrets && !in->secret)
		return false;
	return !in->collects && (in->git == NULL || git_is_known(in));
}

enum inspect_progress
inspect_feed(struct inspect *in, const void *data, size_t len)
{
	struct err err = {0};

	if (in->done)
		return INSPECT_DONE;
	in->has_input = in->has_input || len > 0;
	if (in->raw != NULL && !in->secret)
		note_secret(in, secrets_find(in->raw, data, len));
	if (in->decode == NULL && len > 0)
		note_unreadable(in, in->coding.text);
	else if (len > 0 && decode_feed(in->decode, data, len, &err) < 0)
		note_unreadable(in, err.text);
	if (!is_known(in))
		return INSPECT_WANTS_MORE;
	evaluate(in);
	return INSPECT_DONE;
}

void
inspect_finish(struct inspect *in)
{
	struct err err = {0};

	if (in->done)
		return;
	if (in->decode != NULL && decode_finish(in->decode, &err) < 0)
		note_unreadable(in, err.text);
	/* A server that does not decode it gets a body that is not empty. */
	if (in->has_input && !in->has_bytes && (in->collects || in->git != NULL))
		note_unreadable(in, "it unpacks to nothing");
	if (in->git != NULL && in->has_bytes && !in->git_unreadable &&
	    git_push_finish(in->git) < 0)
		in->git_unreadable = true;
	if (in->secrets && in->git != NULL && in->has_bytes &&
	    (in->git_unreadable || in->git->pack_broken))
		note_unreadable(in, "what it pushes cannot be read");
	evaluate(in);
}

void
inspect_result(const struct inspect *in, struct inspect_findings *ret_findings)
{
	*ret_findings = (struct inspect_findings){ .secret = in->secret,
	                                           .unreadable = in->unreadable,
	                                           .fits = in->fits, .n_fits = in->n_fits,
	                                           .shape = in->shape != NULL ? in->shape : "" };
	if (in->secret || in->unreadable)
		memcpy(ret_findings->what, in->what, sizeof(ret_findings->what));
	memcpy(ret_findings->call, in->call, sizeof(ret_findings->call));
	if (in->git != NULL && in->git->has_commands && !in->git_unreadable)
		git_push_describe(in->git, ret_findings->pushed);
}

bool
body_glob_any(const struct policy_list *globs, const char *text, size_t len)
{
	for (size_t i = 0; i < globs->n; i++)
		if (policy_glob_text(globs->at[i], text, len))
			return true;
	return false;
}

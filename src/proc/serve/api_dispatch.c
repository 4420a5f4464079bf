/* api_dispatch.c - dispatches over the API: makes, shows and cancels them.
 *
 * A client with the agents' role sees and cancels only dispatches that agents made: those have a
 * mark in their folder.  A client with a dispatch's token sees and cancels only that dispatch's
 * children, and no other agent does.  The keys of agents are kept apart from those of operators. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data.h"
#include "base/num.h"
#include "base/own.h"
#include "dispatch/dispatch.h"
#include "proc/serve/api.h"
#include "proc/serve/follow.h"

#define MARK "by-agents"
#define GRACE_MS 10000

static const struct api_member members[] = {
	{ "agent", API_TEXT, true },         { "env", API_TEXTS, false },
	{ "input", API_TEXT, false },        { "input_base64", API_TEXT, false },
	{ "on_behalf_of", API_TEXT, false }, { "target", API_TEXT, false },
	{ "retries", API_NUMBER, false },    { "timeout", API_TEXT, false },
	{ "capabilities", API_TEXTS, false }, { "secrets", API_TEXTS, false },
	{ "worker_image", API_TEXT, false }, { "sandbox", API_TRUTH, false },
	{ "record", API_TEXT, false },
	{ "idempotency_key", API_TEXT, false }, {0}
};

int
api_dispatch_folder(const char *id)
{
	OWN(closep) int top = data_folder("dispatches", false, NULL);

	return top < 0 ? top : openat(top, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* ---- making ---- */

struct asked {
	struct dispatch_request request;
	const char *envs[DISPATCH_ENVS_MAX], *capabilities[DISPATCH_CAPABILITIES_MAX],
	           *secrets[DISPATCH_SECRETS_MAX];
	void *input;                    /* decoded */
	char *key;
};

static void
asked_free(struct asked *a)
{
	free(a->input);
	free(a->key);
}

static const char *
text_of(const struct api_call *c, const char *name)
{
	return json_string_value(api_body_get(c, name));
}

static int
read_key(struct api_call *c, struct asked *a)
{
	struct http_text header = http_head_get(&c->q->head, "idempotency-key");
	const char *said = text_of(c, "idempotency_key");
	int n;

	if (said == NULL && header.len == 0)
		return 0;
	if (said != NULL && header.len > 0 && !http_text_is(header, said))
		return api_body_wrong(c, "idempotency_key", api_fail_with(c, 400, "invalid",
			"'idempotency_key' and the header Idempotency-Key contradict each other: send "
			"one"));
	n = asprintf(&a->key, "%s%.*s", c->q->role == SERVE_AGENT ? DISPATCH_AGENT_KEYS : "",
	             said != NULL ? (int)strlen(said) : (int)header.len, said != NULL ? said : header.at);
	if (n < 0) {
		a->key = NULL;
		return api_fail_with(c, 503, "unavailable", "out of memory");
	}
	a->request.key = a->key;
	return 0;
}

static int
read_numbers(struct api_call *c, struct asked *a)
{
	const json_t *retries = api_body_get(c, "retries");
	const char *timeout = text_of(c, "timeout");
	json_int_t n = json_integer_value(retries);

	if (n < 0 || n > DISPATCH_RETRIES_MAX)
		return api_body_wrong(c, "retries", api_fail_with(c, 400, "invalid",
			"'retries' must be a number up to %d", DISPATCH_RETRIES_MAX));
	a->request.retries = (unsigned)n;
	if (timeout != NULL && num_parse_duration(timeout, &a->request.timeout_ms, &c->err) < 0) {
		err_wrap(&c->err, "'timeout'");
		return api_body_wrong(c, "timeout", api_fail_as(c, 400, "invalid"));
	}
	return 0;
}

static int
read_words(struct api_call *c, const char *name, const char **words, size_t max, size_t *ret_n)
{
	const json_t *list = api_body_get(c, name), *word;
	size_t i;

	if (json_array_size(list) > max)
		return api_body_wrong(c, name, api_fail_with(c, 400, "invalid", "'%s' has at most %zu names", name, max));
	json_array_foreach (list, i, word)
		words[i] = json_string_value(word);
	*ret_n = json_array_size(list);
	return 0;
}

static int
read_asked(struct api_call *c, struct asked *a)
{
	size_t n_envs, n_capabilities, n_secrets;

	if (api_body_check(c, members) < 0 ||
	    read_words(c, "env", a->envs, DISPATCH_ENVS_MAX, &n_envs) < 0 ||
	    read_words(c, "capabilities", a->capabilities, DISPATCH_CAPABILITIES_MAX, &n_capabilities) < 0 ||
	    read_words(c, "secrets", a->secrets, DISPATCH_SECRETS_MAX, &n_secrets) < 0)
		return -EINVAL;
	a->request = (struct dispatch_request){
		.agent = text_of(c, "agent"), .envs = a->envs, .n_envs = n_envs,
		.capabilities = a->capabilities, .n_capabilities = n_capabilities,
		.secrets = a->secrets, .n_secrets = n_secrets, .image = text_of(c, "worker_image"),
		.record = text_of(c, "record"),
		.principal = text_of(c, "on_behalf_of"), .target = text_of(c, "target"),
		.parent = c->parent[0] != '\0' ? c->parent : NULL,
	};
	a->request.sandbox = json_is_true(api_body_get(c, "sandbox"));
	if (c->parent[0] != '\0' && a->request.principal != NULL)
		return api_body_wrong(c, "on_behalf_of", api_fail_with(c, 403, "forbidden",
			"an agent acts for the principal of its own dispatch: leave 'on_behalf_of' out"));
	/* Rules may match on the principal, and an agent holds that token.  On the socket, which
	 * the operator controls, only cloister-mcp sets it. */
	if (c->q->role == SERVE_AGENT && c->q->door->is_tcp && a->request.principal != NULL)
		return api_body_wrong(c, "on_behalf_of", api_fail_with(c, 403, "forbidden",
			"an agent cannot choose its principal: leave 'on_behalf_of' out"));
	if (api_body_bytes(c, "input", "input_base64", &a->request.input, &a->request.input_len, &a->input) < 0 ||
	    read_key(c, a) < 0 || read_numbers(c, a) < 0)
		return -EINVAL;
	return 0;
}

static int
mark(const char *id, struct err *err)
{
	OWN(closep) int folder = api_dispatch_folder(id);
	OWN(closep) int fd = folder < 0 ? -1 : openat(folder, MARK, O_WRONLY | O_CREAT | O_CLOEXEC |
	                                              O_NOFOLLOW, 0600);

	return fd < 0 ? err_errno(err, "cannot mark the dispatch as an agent's") : 0;
}

static int
answer_one(struct api_call *c, const char *id)
{
	OWN(dispatch_free) struct dispatch d = {0};
	struct registry *r = api_registry(c);
	json_t *resolved = NULL, *result = NULL;

	if (dispatch_get(r, id, &d, &c->err) < 0 ||
	    dispatch_read_resolved(&d, &resolved, &c->err) < 0)
		return api_fail(c);
	if (!dispatch_state_is_over(d.state) || dispatch_get_result(r, d.id, &result, NULL) < 0)
		result = json_null();
	c->answer = dispatch_to_json(&d);
	json_object_set_new(c->answer, "resolved", resolved);
	json_object_set_new(c->answer, "result", result);
	return 0;
}

struct noting {
	struct api_call *call;
	const struct dispatch_request *request;
};

/* Recorded before it is accepted: nothing runs without a record. */
static int
note_asked(void *arg, const struct dispatch_note *note, struct err *err)
{
	struct noting *n = arg;

	(void)err;                      /* it is the call's own */
	return api_note_first(n->call, "dispatch.asked", (const char *const[][2]){ { "dispatch", note->id },
	                      { "agent", n->request->agent },
	                      { "principal", n->request->principal },
	                      { "resolved", note->resolved }, { "image", note->image },
	                      { "programs", note->programs } }, 6);
}

int
api_submit(struct api_call *c, struct dispatch_request *request, bool *ret_created)
{
	struct noting noting = { c, request };

	if (c->api->stopping)
		return api_fail_with(c, 503, "stopping", "the service is about to stop: try again in a moment");
	request->by_agent = c->q->role == SERVE_AGENT;
	request->note = note_asked;
	request->note_arg = &noting;
	request->begin = c->api->concurrency;
	request->lock = &c->lock;
	if (dispatch_submit(api_registry(c), request, c->id, ret_created, &c->err) < 0)
		return api_fail(c);
	return c->q->role != SERVE_AGENT || c->parent[0] != '\0' || mark(c->id, &c->err) == 0 ? 0 : api_fail(c);
}

int
api_dispatch(struct api_call *c)
{
	OWN(asked_free) struct asked a = {0};
	bool created;

	if (api_registry(c) == NULL || read_asked(c, &a) < 0 || api_submit(c, &a.request, &created) < 0)
		return -EIO;
	c->status = created ? 202 : 200;
	return 0;
}

static int
answer_asked(struct api_call *c)
{
	return answer_one(c, c->id);
}

void
api_submit_begin(struct api_call *c)
{
	if (c->lock > 0)
		(void)dispatcher_begin(c->api->dispatcher, c->id, TAKE_FD(c->lock), NULL);
	else
		(void)dispatcher_take(c->api->dispatcher, c->id, NULL);
}

/* The row exists: it can begin while the response is made. */
void
api_dispatch_begin(struct api_call *c)
{
	api_submit_begin(c);
	api_go_on(c, answer_asked);
}

/* ---- looking ---- */

bool
api_may_see(const struct api_call *c, const struct dispatch *d)
{
	OWN(closep) int folder = -1;

	if (c->q->role == SERVE_OPERATOR)
		return true;
	if (c->parent[0] != '\0')
		return strcmp(d->parent, c->parent) == 0;
	folder = api_dispatch_folder(d->id);
	return folder >= 0 && faccessat(folder, MARK, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The requested dispatch, if the client may see it.  To an agent, somebody else's dispatch does not
 * exist, nor does the beginning of its id. */
int
api_find_dispatch(struct api_call *c, struct dispatch *ret_d)
{
	struct registry *r = api_registry(c);
	int found;

	if (r == NULL)
		return -EIO;
	found = dispatch_get(r, c->params.at[0], ret_d, &c->err);
	if (found == 0 && api_may_see(c, ret_d))
		return 0;
	if (found < 0 && (c->q->role == SERVE_OPERATOR || (found != -ENOENT && found != -ENOTUNIQ)))
		return api_fail(c);
	return api_fail_with(c, 404, "not_found", "you have no dispatch '%.64s'", c->params.at[0]);
}

int
api_dispatch_show(struct api_call *c)
{
	OWN(dispatch_free) struct dispatch d = {0};

	return api_find_dispatch(c, &d) < 0 ? -EIO : answer_one(c, d.id);
}

struct listing {
	json_t *items;
	int64_t last;
};

static int
add_item(void *arg, const struct dispatch *d)
{
	struct listing *l = arg;

	l->last = d->seq;
	return json_array_append_new(l->items, dispatch_to_json(d));
}

int
api_dispatches_list(struct api_call *c)
{
	struct dispatch_filter filter = { .state = -1, .parent = api_query(c, "parent") };
	struct listing l = { .items = json_array() };
	const char *state = api_query(c, "state");
	struct registry *r = api_registry(c);
	enum dispatch_state wanted;
	uint64_t limit, before;
	char next[24];
	bool more;

	if (r == NULL || api_query_number(c, "limit", 1, API_PAGE_MAX, API_PAGE, &limit) < 0 ||
	    api_query_number(c, "after", 1, INT64_MAX, 0, &before) < 0)
		goto failed;
	if (state != NULL && dispatch_state_parse(state, &wanted) < 0) {
		api_fail_with(c, 400, "invalid", "there is no state '%.32s': use queued, starting, "
		              "running, finished, failed, cancelled or timed_out", state);
		goto failed;
	}
	filter.state = state != NULL ? (int)wanted : -1;
	filter.before = (int64_t)before;
	filter.limit = (unsigned)limit;
	if (dispatch_list(r, &filter, add_item, &l, &c->err) < 0) {
		api_fail(c);
		goto failed;
	}
	more = json_array_size(l.items) == limit;
	snprintf(next, sizeof(next), "%lld", (long long)l.last);
	c->answer = json_pack("{s:o, s:s?}", "items", l.items, "next", more ? next : NULL);
	return 0;
failed:
	json_decref(l.items);
	return -EIO;
}

int
api_dispatch_cancel(struct api_call *c)
{
	static const struct api_member none[] = { {0} };
	OWN(dispatch_free) struct dispatch d = {0};

	if ((c->body != NULL && api_body_check(c, none) < 0) || api_find_dispatch(c, &d) < 0)
		return -EIO;
	if (dispatch_cancel(api_registry(c), d.id, GRACE_MS, &c->err) < 0)
		return api_fail(c);
	if (api_note(c, false, "dispatch.cancelled", (const char *const[][2]){ { "dispatch", d.id } }, 1) < 0)
		return -EIO;
	return answer_one(c, d.id);
}

/* ---- results ---- */

static int
answer_fd(struct api_call *c, int fd)
{
	struct stat st;

	if (fd < 0)
		return api_fail(c);
	c->fd = fd;
	if (fstat(fd, &st) < 0) {
		err_errno(&c->err, "cannot read the result");
		return api_fail(c);
	}
	c->fd_len = (uint64_t)st.st_size;
	c->type = "application/octet-stream";
	return 0;
}

int
api_dispatch_output(struct api_call *c)
{
	OWN(dispatch_free) struct dispatch d = {0};
	const char *stream = api_query(c, "stream");
	bool is_stderr = stream != NULL && strcmp(stream, "stderr") == 0, truncated = false;

	if (stream != NULL && !is_stderr && strcmp(stream, "stdout") != 0)
		return api_fail_with(c, 400, "invalid", "the parameter 'stream' must be stdout or stderr");
	if (api_find_dispatch(c, &d) < 0)
		return -EIO;
	if (answer_fd(c, dispatch_open_output(api_registry(c), d.id, is_stderr ? DISPATCH_STDERR :
	                                      DISPATCH_STDOUT, &truncated, &c->err)) < 0)
		return -EIO;
	if (truncated)
		serve_field(c->q, "cloister-truncated", "true");
	return 0;
}

int
api_dispatch_files(struct api_call *c)
{
	OWN(dispatch_free) struct dispatch d = {0};

	if (api_find_dispatch(c, &d) < 0)
		return -EIO;
	return dispatch_get_files(api_registry(c), d.id, &c->answer, &c->err) < 0 ? api_fail(c) : 0;
}

int
api_dispatch_file(struct api_call *c)
{
	OWN(dispatch_free) struct dispatch d = {0};

	if (api_find_dispatch(c, &d) < 0)
		return -EIO;
	return answer_fd(c, dispatch_open_file(api_registry(c), d.id, c->params.at[1], &c->err));
}

/* ---- events ---- */

/* A browser that followed to the end comes again with the last number: then nothing is left. */
static bool
is_all_told(int folder, uint64_t after)
{
	struct follow_source *s = follow_source_new(dup(folder), "events.jsonl");
	const char *line;
	size_t len;
	uint64_t n = 0;

	while (s != NULL && follow_next_line(s, &line, &len) > 0)
		n++;
	follow_source_free(s);
	return n <= after;
}

int
api_dispatch_events(struct api_call *c)
{
	OWN(dispatch_free) struct dispatch d = {0};
	int folder;

	if (api_find_dispatch(c, &d) < 0)
		return -EIO;
	folder = api_dispatch_folder(d.id);
	c->source = folder < 0 ? NULL : follow_source_new(folder, "events.jsonl");
	if (c->source == NULL)
		return api_fail_with(c, 503, "unavailable", "the events cannot be opened");
	c->source->key = "event";
	c->source->last = "dispatch.finished";
	if (api_follow_prepare(c, true) < 0)
		return -EIO;
	c->is_all_told = dispatch_state_is_over(d.state) && c->source->after > 0 &&
	                 is_all_told(folder, c->source->after);
	return 0;
}

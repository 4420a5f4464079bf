/* api.c - finds the route of a request, handles it in a thread, and answers it. */
#include "proc/serve/api.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/num.h"
#include "base/own.h"
#include "canon/canon.h"
#include "dispatch/dispatch.h"
#include "loop/loop.h"
#include "proc/serve/api_thread.h"
#include "proc/serve/checker.h"
#include "proc/serve/e2b.h"
#include "proc/serve/follow.h"
#include "proc/serve/inside.h"
#include "proc/serve/live.h"
#include "proc/serve/metrics.h"
#include "proc/serve/serve_options.h"
#include "proc/serve/tallies.h"
#include "registry/registry.h"

#define ALLOW_MAX 128

/* ---- failures ---- */

static const struct {
	int error;
	unsigned status;
	const char *code;
} failures[] = {
	{ ENOENT, 404, "not_found" },    { EINVAL, 400, "invalid" },
	{ EBADMSG, 400, "invalid" },     { EILSEQ, 400, "invalid" },
	{ ERANGE, 400, "invalid" },
	{ EEXIST, 409, "conflict" },     { EALREADY, 409, "over" },
	{ EBUSY, 409, "busy" },          { ENOTUNIQ, 409, "ambiguous" },
	{ EIDRM, 410, "retired" },       { EPERM, 403, "forbidden" },
	{ EFBIG, 413, "too_large" },     { E2BIG, 413, "too_large" },
	{ ENOSPC, 507, "no_space" },     { EDQUOT, 507, "no_space" },
	{ EOPNOTSUPP, 501, "unsupported" }, { EAGAIN, 503, "unavailable" },
};

static void
judge(int error, unsigned *ret_status, const char **ret_code)
{
	*ret_status = 500;
	*ret_code = "internal";
	for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
		if (failures[i].error == error) {
			*ret_status = failures[i].status;
			*ret_code = failures[i].code;
		}
	}
}

int
api_fail(struct api_call *c)
{
	judge(c->err.code, &c->status, &c->code);
	return -EIO;
}

void
api_refuse_request(struct serve_request *q, const struct err *err)
{
	unsigned status;
	const char *code;

	judge(err->code, &status, &code);
	serve_refuse(q, status, code, NULL, err->text);
}

int
api_fail_as(struct api_call *c, unsigned status, const char *code)
{
	c->status = status;
	c->code = code;
	return -EIO;
}

int
api_fail_with(struct api_call *c, unsigned status, const char *code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->err.text, sizeof(c->err.text), fmt, ap);
	va_end(ap);
	c->err.code = EIO;
	return api_fail_as(c, status, code);
}

/* ---- parameters for handlers ---- */

const char *
api_query(const struct api_call *c, const char *name)
{
	size_t len = strlen(name), i = 0;

	for (const char *at = c->route->query; at != NULL && *at != '\0'; i++) {
		size_t n = strcspn(at, " ");

		if (n == len && memcmp(at, name, n) == 0)
			return c->query[i];
		at += n + strspn(at + n, " ");
	}
	return NULL;
}

int
api_query_number(struct api_call *c, const char *name, uint64_t min, uint64_t max,
                 uint64_t otherwise, uint64_t *ret_n)
{
	const char *text = api_query(c, name);

	*ret_n = otherwise;
	if (text == NULL || num_parse_count(text, min, max, ret_n, &c->err) == 0)
		return 0;
	err_wrap(&c->err, "the parameter '%s'", name);
	return api_fail(c);
}

int
api_query_bool(struct api_call *c, const char *name, bool otherwise, bool *ret_value)
{
	const char *text = api_query(c, name);

	*ret_value = text == NULL ? otherwise : strcmp(text, "true") == 0;
	if (text == NULL || *ret_value || strcmp(text, "false") == 0)
		return 0;
	return api_fail_with(c, 400, "invalid", "the parameter '%s' must be true or false", name);
}

int
api_answer_text(struct api_call *c, char *text, size_t len, const char *type)
{
	if (text == NULL) {
		err_set(&c->err, ENOMEM, "out of memory");
		return api_fail(c);
	}
	c->text = text;
	c->text_len = len;
	c->type = type;
	return 0;
}

/* ---- bodies ---- */

static bool
is_json(struct http_text type)
{
	static const char want[] = "application/json";
	size_t n = sizeof(want) - 1;

	return type.len >= n && strncasecmp(type.at, want, n) == 0 &&
	       (type.len == n || type.at[n] == ';' || type.at[n] == ' ');
}

static int
read_body(struct api_call *c)
{
	struct serve_body *body = &c->q->body;
	void *map = MAP_FAILED;
	const char *text = (char *)body->data.data;
	int r;

	if (body->len == 0)
		return api_fail_with(c, 400, "invalid", "the body is missing: send a JSON object, %s of "
		                     "/v1/openapi.json", c->route->body);
	if (!is_json(http_head_get(&c->q->head, "content-type")))
		return api_fail_with(c, 415, "not_json", "the body must be JSON: send 'Content-Type: "
		                     "application/json'");
	if (body->fd > 0) {
		map = mmap(NULL, body->len, PROT_READ, MAP_PRIVATE, body->fd, 0);
		text = map;
		if (map == MAP_FAILED)
			return api_fail_with(c, 503, "unavailable", "there is no memory for the body");
	}
	r = canon_read(text, body->len, &c->body, &c->err);
	if (map != MAP_FAILED)
		munmap(map, body->len);
	if (r < 0) {
		err_wrap(&c->err, "the body cannot be read as JSON");
		return api_fail_as(c, r == -ENOMEM ? 503 : 400, r == -ENOMEM ? "unavailable" : "invalid");
	}
	return 0;
}

/* ---- handling ---- */

static void
call_free(struct api_call *c)
{
	route_params_free(&c->params);
	route_query_free(c->query);
	json_decref(c->delegate);
	json_decref(c->body);
	json_decref(c->answer);
	free(c->text);
	close_fd(&c->fd);
	close_fd(&c->lock);
	follow_source_free(c->source);
	inside_free(c->inside);
	e2b_call_free(c->e2b);
	e2b_dismiss(c);
	free(c);
}

void
api_answer(struct api_call *c)
{
	unsigned status = c->status != 0 ? c->status : c->route->status;
	char *text;

	if (c->fd > 0) {
		serve_answer_fd(c->q, status, c->type, c->fd, c->fd_len);
		c->fd = 0;
	} else if (c->text != NULL) {
		serve_answer(c->q, status, c->type, c->text, c->text_len);
	} else if (c->answer != NULL) {
		size_t len;

		/* ASCII only: nothing in it can control a terminal. */
		text = json_dumps(c->answer, JSON_COMPACT | JSON_ENSURE_ASCII);
		len = text != NULL ? strlen(text) : 0;
		if (text != NULL)
			text[len] = '\n';       /* in the place of the NUL */
		serve_answer(c->q, text != NULL ? status : 500, "application/json", text,
		             text != NULL ? len + 1 : 0);
		free(text);
	} else {
		serve_answer(c->q, status, NULL, NULL, 0);
	}
	c->q = NULL;
}

static void
done(struct serve_job *job)
{
	struct api_call *c = (struct api_call *)job;
	bool begins = c->code == NULL && c->route->begin != NULL && (c->then == NULL || c->again);

	c->kept = c->again = false;
	if (begins)
		c->route->begin(c);
	if (c->kept)
		return;
	if (c->code != NULL)
		serve_refuse(c->q, c->status, c->code, c->pointer[0] != '\0' ? c->pointer : NULL,
		             c->err.text);
	else if (!begins)
		api_answer(c);
	call_free(c);
}

/* A client that shows a token is the agent of that dispatch, whatever else it claims, or nobody. */
static int
find_parent(struct api_call *c)
{
	OWN(dispatch_free) struct dispatch d = {0};
	OWN(json_decrefp) json_t *resolved = NULL;
	int r;

	if (c->q->token[0] == '\0' || c->parent[0] != '\0')
		return 0;
	r = dispatch_token_find(api_registry(c), c->q->token, &d, &resolved, &c->err);
	if (r == -EACCES) {
		serve_field(c->q, "www-authenticate", "Bearer realm=\"cloister\"");
		return api_fail_as(c, 401, "unauthorized");
	}
	if (r < 0)
		return api_fail(c);
	snprintf(c->parent, sizeof(c->parent), "%s", d.id);
	snprintf(c->q->who, sizeof(c->q->who), "dispatch %s", d.id);
	c->delegate = json_incref(json_object_get(resolved, "delegate"));
	return 0;
}

/* An unknown member would be a mistake that nobody notices. */
static int
take_body(struct api_call *c)
{
	static const struct api_member none[] = { {0} };
	const char *body = c->route->body;

	if (body == NULL || strchr(body, '/') != NULL || (body[0] == '?' && c->q->body.len == 0))
		return 0;
	if (read_body(c) < 0)
		return -EINVAL;
	return strcmp(body, "?Nothing") == 0 ? api_body_check(c, none) : 0;
}

static void
work(struct serve_job *job, void *own)
{
	struct api_call *c = (struct api_call *)job;
	int r;

	c->own = own;
	if (find_parent(c) < 0)
		return;
	if (c->then != NULL)
		r = c->then(c);
	else if (take_body(c) < 0)
		return;
	else
		r = c->route->work(c);
	if (r < 0 && c->code == NULL)
		api_fail(c);
}

void
api_go_on(struct api_call *c, int (*then)(struct api_call *c))
{
	c->then = then;
	c->kept = true;
	c->job.heavy = false;
	serve_pool_add(c->api->pool, &c->job);
}

/* ---- finding the route ---- */

static bool
has_method(const struct serve_request *q, const struct api_route *route)
{
	return http_text_is(q->head.method, route->method) ||
	       (q->is_head && strcmp(route->method, "GET") == 0);
}

static void
refuse_method(struct serve_request *q, const char *allow)
{
	serve_field(q, "allow", allow);
	serve_refuse(q, 405, "method_not_allowed", NULL, "this path does not support the method: see the "
	             "header 'Allow'");
}

/* A route that a role may not use does not exist for it. */
static const struct api_route *
find_route(struct serve_request *q, struct route_params *ret_params)
{
	char allow[ALLOW_MAX] = "";
	struct route_params params = {0};

	const struct api_route *route = q->door->routes != NULL ? q->door->routes : api_routes();

	for (; route->method != NULL; route++) {
		if ((route->roles & q->role) == 0 || !route_match(route->path, q->path, &params))
			continue;
		if (has_method(q, route)) {
			*ret_params = params;
			return route;
		}
		route_params_free(&params);
		snprintf(allow + strlen(allow), sizeof(allow) - strlen(allow), "%s%s%s",
		         allow[0] != '\0' ? ", " : "", route->method,
		         strcmp(route->method, "GET") == 0 ? ", HEAD" : "");
	}
	if (q->role == SERVE_GUEST)
		serve_refuse_token(q, q->door->routes != NULL ? "this path is none of a sandbox's" :
		                   "the token is missing: send 'Authorization: Bearer TOKEN' with the "
		                   "token in the server's token file (serve/token in the data folder), or "
		                   "log in with a browser (`cloister dashboard`)");
	else if (allow[0] != '\0')
		refuse_method(q, allow);
	else
		serve_refuse(q, 404, "not_found", NULL, "there is no such path: see /v1/openapi.json");
	return NULL;
}

static void
take_head(void *arg, struct serve_request *q)
{
	struct api *api = arg;
	struct api_call *c = calloc(1, sizeof(*c));
	struct err err = {0};

	if (c == NULL) {
		serve_refuse(q, 503, "unavailable", NULL, "out of memory");
		return;
	}
	c->job = (struct serve_job){ .work = work, .done = done };
	c->api = api;
	c->q = q;
	api_common_fields(q);
	c->route = find_route(q, &c->params);
	if (c->route == NULL) {
		call_free(c);
		return;
	}
	if (route_query(q->query, c->route->query, c->query, &err) < 0) {
		serve_refuse(q, 400, "invalid", NULL, err.text);
		call_free(c);
		return;
	}
	q->body_max = c->route->body_max;
	if (!e2b_admit(c)) {
		serve_refuse(q, 429, "busy", NULL, "too many uploads with a signature at a time: try again in a moment");
		call_free(c);
		return;
	}
	q->app = c;
}

static void
take_request(void *arg, struct serve_request *q)
{
	struct api *api = arg;
	struct api_call *c = q->app;

	c->stats = *serve_stats(api->server);
	/* Also if the body did not fit in memory: few of these are worked on at once, and no other request
	 * waits for them. */
	c->job.heavy = q->body.fd > 0 || c->route->heavy;
	serve_pool_add(api->pool, &c->job);
}

static void
lose_request(void *arg, struct serve_request *q)
{
	(void)arg;
	if (q->app != NULL)
		call_free(q->app);
}

const struct serve_handler api_handler = { take_head, take_request, lose_request };

/* ---- beginning and end ---- */

bool
api_is_idle(const struct api *api)
{
	return serve_pool_busy(api->pool) == 0 && dispatcher_driven(api->dispatcher) == 0 && api->published == NULL &&
	       e2b_is_idle(api->e2b);
}

void
api_print_routes(void)
{
	for (const struct api_route *route = api_routes(); route->method != NULL; route++)
		printf("%-14s %-6s %s\n", (route->roles & SERVE_GUEST) != 0 ? "operator,guest" :
		       (route->roles & SERVE_AGENT) != 0 ? "operator,agent" : "operator", route->method,
		       route->path);
}

/* Takes over what was under way when the last service ended. */
static int
take_over(struct api *api, uint64_t retain_ms, struct err *err)
{
	const struct dispatcher_options options = { .concurrency = api->concurrency,
	                                            .prune_ms = retain_ms, .changed = e2b_changed, .over = e2b_over,
	                                            .arg = api };
	size_t n = 0;
	int r = registry_open(true, &api->registry, err);

	r = r == 0 ? dispatcher_new(api->loop, api->registry, &options, &api->dispatcher, err) : r;
	r = r == 0 ? dispatcher_recover(api->dispatcher, &n, err) : r;
	if (r < 0)
		return r;
	dispatcher_set_adopting(api->dispatcher, true);
	if (n > 0)
		fprintf(stderr, "cloister: %zu dispatch%s under way: continuing %s\n", n,
		        n == 1 ? " is" : "es are", n == 1 ? "it" : "them");
	return 0;
}

int
api_start(struct loop *loop, int spool, const struct serve_options *options,
          struct api **ret_api, struct err *err)
{
	OWN(api_freep) struct api *api = calloc(1, sizeof(*api));
	int r;

	if (api == NULL)
		return err_errno(err, "cannot start the service");
	api->loop = loop;
	api->started_ms = dispatch_now_ms();
	/* Before there are threads. */
	json_object_seed(0);
	(void)dispatch_build_hash(api->build, NULL);
	api->concurrency = options->concurrency != 0 ? (unsigned)options->concurrency :
	                   DISPATCH_CONCURRENCY;
	r = take_over(api, options->retain_ms, err);
	r = r == 0 ? follow_new(loop, &api->follow, err) : r;
	r = r == 0 ? tallies_new(&api->tallies, err) : r;
	r = r == 0 ? metrics_new(api->tallies, api->started_ms, &api->metrics, err) : r;
	r = r == 0 ? checker_new(api, &api->checker, err) : r;
	r = r == 0 ? live_new(api, &api->live, err) : r;
	r = r == 0 ? serve_pool_new(loop, API_THREADS, api_thread_new, api_thread_free, &api->pool, err) :
	    r;
	r = r == 0 ? serve_new(loop, &api_handler, api, spool, &api->server, err) : r;
	if (r < 0)
		return r;
	api_sessions_start(api);
	api_settle_begin(api);
	*ret_api = TAKE(api);
	return 0;
}

void
api_stop(struct api *api, void (*stopped)(void *arg), void *arg)
{
	api->stopping = true;
	checker_stop(api->checker);
	e2b_stop(api->e2b);
	dispatcher_drain(api->dispatcher);
	serve_stop(api->server, stopped, arg);
}

void
api_free(struct api *api)
{
	if (api == NULL)
		return;
	loop_cancel_timer(api->loop, &api->expire);
	checker_stop(api->checker);
	loop_cancel_timer(api->loop, &api->settle_due);
	serve_pool_free(api->pool);
	if (api->server != NULL)
		api_settle(api->registry);
	serve_free(api->server);
	e2b_free(api->e2b);
	api_sandboxes_free(api);
	follow_free(api->follow);
	live_free(api->live);
	checker_free(api->checker);
	metrics_free(api->metrics);
	tallies_free(api->tallies);
	dispatcher_free(api->dispatcher);
	registry_close(api->registry);
	free(api);
}

/* e2b_sandboxes.c - makes, lists, shows and ends sandboxes over E2B's API.
 *
 * A template is a registered agent.  A sandbox's timeout is its cell's time to live, which can be moved, within the time
 * limit of the agent's registration. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "cell/cell_control.h"
#include "cell/cell_secrets.h"
#include "proc/serve/api_steer.h"
#include "proc/serve/e2b.h"
#include "proc/serve/sandbox.h"

#define TIMEOUT_MAX_S (30 * 24 * 3600)
#define METADATA_MAX 64
#define EVENTS_HEAD (256 * 1024)        /* of a dispatch's events, in which its start is */
#define PAGE 100
#define PAGE_MAX 1000

/* ---- what is known of one ---- */

struct box {
	struct dispatch d;
	json_t *record, *resolved;
};

static void
box_free(struct box *b)
{
	dispatch_free(&b->d);
	json_decref(b->record);
	json_decref(b->resolved);
}

/* The sandbox in the path, if it runs and the client may see it. */
static int
find_box(struct api_call *c, struct box *ret_b)
{
	struct box *b = ret_b;

	if (strlen(c->params.at[0]) != DISPATCH_ID_LEN || api_find_dispatch(c, &b->d) < 0 ||
	    dispatch_state_is_over(b->d.state) || (b->record = e2b_record_load(b->d.id)) == NULL ||
	    json_is_true(json_object_get(b->record, "killed")))
		return api_fail_with(c, 404, "not_found", "sandbox '%.64s' was not found", c->params.at[0]);
	snprintf(c->id, sizeof(c->id), "%s", b->d.id);
	return dispatch_get_resolved(api_registry(c), b->d.id, &b->resolved, &c->err) < 0 ? api_fail(c) : 0;
}

static uint64_t
number_of(const json_t *object, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(object, name));

	return n > 0 ? (uint64_t)n : 0;
}

/* A limit of the resolution; 0: none. */
static uint64_t
limit_of(const json_t *resolved, const char *name, int (*parse)(const char *text, uint64_t *ret_n, struct err *err))
{
	const char *text = e2b_text(json_object_get(resolved, "limits"), name);
	uint64_t n = 0;

	return text != NULL && parse(text, &n, NULL) == 0 ? n : 0;
}

/* When the agent's own time limit ends it. */
static uint64_t
wall_of(const struct dispatch *d, const json_t *resolved)
{
	uint64_t time = limit_of(resolved, "time", num_parse_duration);

	return time == 0 ? UINT64_MAX : (d->started_ms != 0 ? d->started_ms : dispatch_now_ms()) + time;
}

static void
put_size(json_t *o, const json_t *resolved)
{
	struct cell_limits usual;
	uint64_t cpus = limit_of(resolved, "cpus", num_parse_milli), memory = limit_of(resolved, "memory", num_parse_size);
	uint64_t disk = limit_of(resolved, "disk", num_parse_size);

	cell_limits_default(&usual);
	cpus = cpus != 0 ? cpus : usual.cpus_milli != 0 ? usual.cpus_milli : (uint64_t)get_nprocs() * 1000;
	memory = memory != 0 ? memory : usual.memory;
	disk = disk != 0 ? disk : usual.disk;
	json_object_set_new(o, "cpuCount", json_integer((json_int_t)((cpus + 999) / 1000)));
	json_object_set_new(o, "memoryMB", json_integer((json_int_t)(memory >> 20)));
	json_object_set_new(o, "diskSizeMB", json_integer((json_int_t)(disk >> 20)));
}

static json_t *
describe(const struct dispatch *d, const json_t *record, const json_t *resolved)
{
	json_t *metadata = json_object_get(record, "metadata");
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:O}", "sandboxID", d->id, "templateID", d->agent, "alias", d->agent,
	                      "clientID", "cloister", "state", "running", "envdVersion", E2B_ENVD, "metadata", metadata);

	json_object_set_new(o, "startedAt", e2b_time(d->started_ms != 0 ? d->started_ms : d->created_ms));
	json_object_set_new(o, "endAt", e2b_time(number_of(record, "end_ms")));
	put_size(o, resolved);
	return o;
}

/* The client may use it: with its token. */
static json_t *
describe_access(const struct api_call *c, const char *id, const char *agent)
{
	char token[E2B_TOKEN_LEN + 1], domain[sizeof(E2B_DOMAIN) + 8];

	e2b_make_token(c->api->e2b, id, token);
	snprintf(domain, sizeof(domain), E2B_DOMAIN ":%u", c->api->e2b->port);
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "sandboxID", id, "templateID", agent, "alias", agent, "clientID",
	                 "cloister", "envdVersion", E2B_ENVD, "envdAccessToken", token, "domain", domain);
}

/* ---- the time to live ---- */

/* The 'timeout' of the body, in milliseconds; 0: there is none. */
static int
read_timeout(struct api_call *c, uint64_t *ret_ms)
{
	const json_t *timeout = api_body_get(c, "timeout");
	json_int_t seconds = json_integer_value(timeout);

	*ret_ms = 0;
	if (json_is_null(timeout))
		return 0;
	if (seconds < 1 || seconds > TIMEOUT_MAX_S)
		return api_fail_with(c, 400, "invalid", "the timeout must be 1 to %d seconds", TIMEOUT_MAX_S);
	*ret_ms = (uint64_t)seconds * 1000;
	return 0;
}

static int
refuse_time(struct api_call *c, const char *agent, const json_t *resolved)
{
	return api_fail_with(c, 400, "invalid", "the timeout is longer than the agent's time limit: '%.64s' has %s in all", agent,
	                     e2b_text(json_object_get(resolved, "limits"), "time"));
}

static int
check_wall(struct api_call *c, const struct dispatch *d, const json_t *resolved, uint64_t ms)
{
	uint64_t wall = wall_of(d, resolved), now = dispatch_now_ms();

	return now + ms <= wall ? 0 : refuse_time(c, d->agent, resolved);
}

static int
set_end(struct api_call *c, const char *cell, json_t *record, uint64_t ms)
{
	const struct timeval patience = { .tv_sec = API_PATIENCE_S };
	const struct cell_steer_who who = { .by = c->q->who, .tells = true };
	OWN(closep) int runtime = cell_runtime_open(&c->err);
	OWN(closep) int fd = -1;
	struct cell_entry entry;
	char text[24];
	int r = runtime;

	snprintf(text, sizeof(text), "%llums", (unsigned long long)ms);
	r = r >= 0 ? cell_find(runtime, true, cell, &entry, &c->err) : r;
	r = r >= 0 ? fd = cell_connect(runtime, &entry, &c->err) : r;
	if (r < 0)
		return api_fail(c);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (cell_set_ttl(fd, &who, ms, &c->err) < 0 ||
	    api_note(c, true, "cell.ttl", (const char *const[][2]){ { "cell", cell }, { "ttl", text } }, 2) < 0)
		return api_fail(c);
	json_object_set_new(record, "end_ms", json_integer((json_int_t)(dispatch_now_ms() + ms)));
	return e2b_record_store(c->id, record, &c->err) < 0 ? api_fail(c) : 0;
}

int
e2b_set_timeout(struct api_call *c)
{
	static const struct api_member members[] = { { "timeout", API_NUMBER, true }, {0} };
	OWN(box_free) struct box b = {0};
	uint64_t ms;

	if (api_body_check(c, members) < 0 || read_timeout(c, &ms) < 0 || find_box(c, &b) < 0 ||
	    check_wall(c, &b.d, b.resolved, ms) < 0)
		return -EIO;
	return set_end(c, b.d.cell, b.record, ms);
}

/* ---- waiting for news of a dispatch ---- */

static void
look_again(struct api_call *c)
{
	c->e2b->news = c->api->e2b->news;
	api_go_on(c, c->e2b->after);
}

/* In BEGIN, again and again: AFTER, in a thread, looks whether it is time to answer, and else sets C->again. */
static void
wait_for_news(struct api_call *c)
{
	struct e2b *e = c->api->e2b;

	if (c->e2b->news != e->news || c->api->stopping) {
		look_again(c);
		return;
	}
	c->kept = true;
	c->e2b->next = e->waiting;
	e->waiting = c;
}

static void
wake(struct e2b *e, const char *id)
{
	struct api_call *all = TAKE(e->waiting), *next;

	e->news++;
	for (struct api_call *c = all; c != NULL; c = next) {
		next = c->e2b->next;
		if (id == NULL || strcmp(c->id, id) == 0) {
			look_again(c);
			continue;
		}
		c->e2b->next = e->waiting;
		c->e2b->news = e->news;
		e->waiting = c;
	}
}

void
e2b_changed(void *arg, const char *id, enum dispatch_state state)
{
	struct api *api = arg;

	(void)state;
	if (api->e2b != NULL)
		wake(api->e2b, id);
}

void
e2b_over(void *arg)
{
	e2b_stop(((struct api *)arg)->e2b);
}

void
e2b_stop(struct e2b *e)
{
	if (e != NULL)
		wake(e, NULL);
}

/* ---- making one ---- */

static const struct api_member members[] = {
	{ "templateID", API_TEXT, true }, { "timeout", API_NUMBER, false }, { "metadata", API_ANY, false },
	{ "envVars", API_ANY, false }, { "secure", API_TRUTH, false }, { "allow_internet_access", API_TRUTH, false },
	{ "autoPause", API_TRUTH, false }, { "autoPauseMemory", API_TRUTH, false }, { "autoResume", API_ANY, false },
	{ "mcp", API_ANY, false }, { "network", API_ANY, false }, { "iam", API_ANY, false }, { "volumeMounts", API_ANY, false },
	{0}
};

/* An object of texts. */
static int
check_texts(struct api_call *c, const char *member, size_t max)
{
	json_t *object = (json_t *)(uintptr_t)api_body_get(c, member), *value;
	const char *name;

	if (json_is_null(object))
		return 0;
	if (!json_is_object(object) || json_object_size(object) > max)
		return api_fail_with(c, 400, "invalid", "'%s' must be at most %zu names with texts", member, max);
	json_object_foreach (object, name, value)
		if (!json_is_string(value) || name[0] == '\0' || (strcmp(member, "envVars") == 0 && strchr(name, '=') != NULL))
			return api_fail_with(c, 400, "invalid", "'%s' must be names and texts", member);
	return 0;
}

/* What this service cannot do is refused: to leave it out silently could take a wall away. */
static int
check_unserved(struct api_call *c)
{
	static const struct {
		const char *member, *why;
	} unserved[] = {
		{ "mcp", "MCP servers are registered with the agent" },
		{ "network", "what a sandbox may reach is its agent's policy" },
		{ "iam", "credentials are the secrets of the agent's registration" },
		{ "volumeMounts", "volumes are not served: register an agent with a workspace" },
	};
	const json_t *resume = json_object_get(api_body_get(c, "autoResume"), "enabled");

	for (size_t i = 0; i < ARRAY_LEN(unserved); i++)
		if (!json_is_null(api_body_get(c, unserved[i].member)))
			return api_fail_with(c, 400, "invalid", "'%s': %s", unserved[i].member, unserved[i].why);
	return json_is_true(api_body_get(c, "autoPause")) || json_is_true(resume) ?
	       api_fail_with(c, 400, "invalid", "sandboxes are not paused: they end with their timeout") : 0;
}

static json_t *
object_or_empty(const json_t *value)
{
	return json_is_object(value) ? json_deep_copy(value) : json_object();
}

static int look_created(struct api_call *c);

/* Whether a sandbox of RESOLVED is what is asked for. */
static int
check_wanted(struct api_call *c, const json_t *resolved)
{
	struct e2b_call *e = c->e2b;
	const bool asked = e->end_ms != 0;
	const uint64_t time = limit_of(resolved, "time", num_parse_duration);
	const char *agent = e2b_text(c->body, "templateID");

	e->end_ms = asked ? e->end_ms : E2B_TIMEOUT_MS;
	if (!asked && time != 0 && time < e->end_ms)
		e->end_ms = time;
	if (time != 0 && e->end_ms > time)
		return refuse_time(c, agent, resolved);
	if (json_is_false(api_body_get(c, "allow_internet_access")) && !json_is_null(json_object_get(resolved, "policy")))
		return api_fail_with(c, 400, "invalid", "'allow_internet_access': what a sandbox may reach is its agent's policy, and "
		                     "'%.64s' has one: register an agent without", agent);
	return 0;
}

/* The version that was checked, whatever is registered meanwhile. */
static int
submit(struct api_call *c, const json_t *resolved)
{
	const json_t *agent = json_object_get(resolved, "agent");
	OWN(freep) char *pinned = str_format("%s@%s", e2b_text(agent, "name"), e2b_text(agent, "hash"));
	struct dispatch_request request = { .sandbox = true, .agent = pinned };
	struct e2b_call *e = c->e2b;
	bool created;

	if (pinned == NULL)
		return api_fail_with(c, 503, "unavailable", "out of memory");
	if (api_submit(c, &request, &created) < 0)
		return -EIO;
	e->record = json_pack("{s:o, s:o, s:I}", "metadata", object_or_empty(api_body_get(c, "metadata")), "envs",
	                      object_or_empty(api_body_get(c, "envVars")), "end_ms",
	                      (json_int_t)(dispatch_now_ms() + e->end_ms));
	return e2b_record_store(c->id, e->record, &c->err) < 0 ? api_fail(c) : 0;
}

int
e2b_create(struct api_call *c)
{
	struct dispatch_request request = { .sandbox = true, .by_agent = c->q->role == SERVE_AGENT };
	struct e2b_call *e = e2b_call_of(c);
	OWN(json_decrefp) json_t *resolved = NULL;

	if (e == NULL || api_body_check(c, members) < 0 || check_unserved(c) < 0 ||
	    check_texts(c, "metadata", METADATA_MAX) < 0 || check_texts(c, "envVars", CELL_ARGS_MAX / 4) < 0 ||
	    read_timeout(c, &e->end_ms) < 0)
		return -EIO;
	e->after = look_created;
	request.agent = e2b_text(c->body, "templateID");
	if (dispatch_resolve(api_registry(c), &request, &resolved, &c->err) < 0)
		return api_fail(c);
	return check_wanted(c, resolved) < 0 || submit(c, resolved) < 0 ? -EIO : 0;
}

void
e2b_create_begin(struct api_call *c)
{
	if (c->e2b->asked) {
		wait_for_news(c);
		return;
	}
	c->e2b->asked = true;
	api_submit_begin(c);
	look_again(c);
}

/* Whether its agent has started. */
static bool
has_started(struct api_call *c)
{
	OWN(closep) int fd = dispatch_open_events(api_registry(c), c->id, NULL);
	OWN(freep) char *text = malloc(EVENTS_HEAD);
	ssize_t n = fd < 0 || text == NULL ? -1 : pread(fd, text, EVENTS_HEAD, 0);
	static const char started[] = "\"event\":\"agent.started\"";

	/* No text inside has such quotes. */
	return n > 0 && memmem(text, (size_t)n, started, sizeof(started) - 1) != NULL;
}

static int
look_created(struct api_call *c)
{
	OWN(dispatch_free) struct dispatch d = {0};

	if (c->api->stopping)
		return api_fail_with(c, 503, "stopping", "the service is about to stop: try again in a moment");
	if (dispatch_get(api_registry(c), c->id, &d, &c->err) < 0)
		return api_fail(c);
	if (dispatch_state_is_over(d.state))
		return api_fail_with(c, 500, "failed", "the sandbox did not start: %s", d.reason[0] != '\0' ? d.reason :
		                     dispatch_state_name(d.state));
	if (!has_started(c)) {
		c->again = true;
		return 0;
	}
	if (sandbox_reach(c, &d) < 0 || set_end(c, d.cell, c->e2b->record, c->e2b->end_ms) < 0)
		return -EIO;
	c->answer = describe_access(c, d.id, d.agent);
	return 0;
}

/* ---- using one that is there ---- */

int
e2b_connect(struct api_call *c)
{
	static const struct api_member ones[] = { { "timeout", API_NUMBER, false }, { "memory", API_TRUTH, false },
	                                          { "autoPause", API_TRUTH, false }, {0} };
	OWN(box_free) struct box b = {0};
	uint64_t ms;

	if (api_body_check(c, ones) < 0 || read_timeout(c, &ms) < 0 || find_box(c, &b) < 0)
		return -EIO;
	/* It is never shortened by this. */
	if (ms != 0 && dispatch_now_ms() + ms > number_of(b.record, "end_ms") &&
	    (check_wall(c, &b.d, b.resolved, ms) < 0 || set_end(c, b.d.cell, b.record, ms) < 0))
		return -EIO;
	c->answer = describe_access(c, b.d.id, b.d.agent);
	return 0;
}

int
e2b_info(struct api_call *c)
{
	OWN(box_free) struct box b = {0};
	char token[E2B_TOKEN_LEN + 1];

	if (find_box(c, &b) < 0)
		return -EIO;
	e2b_make_token(c->api->e2b, b.d.id, token);
	c->answer = describe(&b.d, b.record, b.resolved);
	json_object_set_new(c->answer, "envdAccessToken", json_string(token));
	json_object_set_new(c->answer, "lifecycle", json_pack("{s:s, s:b}", "onTimeout", "kill", "autoResume", 0));
	return 0;
}

int
e2b_metrics(struct api_call *c)
{
	OWN(box_free) struct box b = {0};
	OWN(json_decrefp) json_t *size = json_object();
	struct cell_info info = {0};
	struct timespec now;
	uint64_t lived_us, seconds = dispatch_now_ms() / 1000;

	if (find_box(c, &b) < 0 || e2b_look(c, b.d.cell, &info) < 0)
		return -EIO;
	put_size(size, b.resolved);
	clock_gettime(CLOCK_BOOTTIME, &now);
	lived_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
	lived_us = lived_us > info.started_ns / 1000 ? lived_us - info.started_ns / 1000 : 1;
	c->answer = json_pack("[{s:o, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I}]", "timestamp", e2b_time(seconds * 1000),
		"timestampUnix", (json_int_t)seconds, "cpuCount", (json_int_t)number_of(size, "cpuCount"), "cpuUsedPct",
		(double)info.use.cpu_us * 100 / (double)lived_us, "memUsed", (json_int_t)info.memory, "memTotal",
		(json_int_t)number_of(size, "memoryMB") << 20, "memCache", (json_int_t)0, "diskUsed", (json_int_t)info.use.disk,
		"diskTotal", (json_int_t)number_of(size, "diskSizeMB") << 20);
	cell_spec_free(&info.spec);
	return 0;
}

/* ---- the list ---- */

struct listing {
	struct api_call *call;
	json_t *items, *metadata;
	const char *template;
	size_t limit;
	int64_t last;
	bool more;
};

static bool
has_metadata(const json_t *record, json_t *wanted)
{
	const char *name;
	json_t *value;

	json_object_foreach (wanted, name, value) {
		const char *has = e2b_text(json_object_get(record, "metadata"), name);

		if (has == NULL || strcmp(has, json_string_value(value)) != 0)
			return false;
	}
	return true;
}

static int
add_box(void *arg, const struct dispatch *d)
{
	struct listing *l = arg;
	OWN(json_decrefp) json_t *record = NULL;
	OWN(json_decrefp) json_t *resolved = NULL;

	if (l->template != NULL && strcmp(l->template, d->agent) != 0)
		return 0;
	if (!api_may_see(l->call, d) || (record = e2b_record_load(d->id)) == NULL ||
	    json_is_true(json_object_get(record, "killed")) || !has_metadata(record, l->metadata))
		return 0;
	if (json_array_size(l->items) == l->limit) {
		l->more = true;
		return 1;
	}
	if (dispatch_get_resolved(api_registry(l->call), d->id, &resolved, NULL) < 0)
		return 0;
	l->last = d->seq;
	return json_array_append_new(l->items, describe(d, record, resolved));
}

/* Escapes of a query, in place. */
static void
unescape(char *text)
{
	char *to = text;
	size_t len = strlen(text);

	for (const char *at = text, *end = text + len; at < end;) {
		int byte = *at == '%' ? codec_percent_byte(at, (size_t)(end - at)) : -1;

		*to++ = byte > 0 ? (char)byte : *at == '+' ? ' ' : *at;
		at += byte > 0 ? 3 : 1;
	}
	*to = '\0';
}

/* "a=b&c=d", whose names and texts are escaped twice. */
static json_t *
read_metadata(const char *query)
{
	json_t *wanted = json_object();
	OWN(freep) char *copy = query != NULL ? strdup(query) : NULL;
	char *rest = copy, *pair;

	while (copy != NULL && (pair = strsep(&rest, "&")) != NULL) {
		char *value = strchr(pair, '=');

		if (value == NULL)
			continue;
		*value++ = '\0';
		for (int i = 0; i < 2; i++) {
			unescape(pair);
			unescape(value);
		}
		json_object_set_new(wanted, pair, json_string(value));
	}
	return wanted;
}

int
e2b_list(struct api_call *c)
{
	const char *state = api_query(c, "state"), *order = api_query(c, "order");
	OWN(json_decrefp) json_t *items = json_array();
	OWN(json_decrefp) json_t *metadata = read_metadata(api_query(c, "metadata"));
	struct listing l = { .call = c, .items = items, .metadata = metadata, .template = api_query(c, "template") };
	struct dispatch_filter filter = { .state = DISPATCH_RUNNING };
	uint64_t limit, before;
	char next[24];
	int r;

	if (api_query_number(c, "limit", 1, PAGE_MAX, PAGE, &limit) < 0 ||
	    api_query_number(c, "nextToken", 1, INT64_MAX, 0, &before) < 0)
		return -EIO;
	if ((order != NULL && strcmp(order, "desc") != 0) || api_query(c, "startedAfter") != NULL)
		return api_fail_with(c, 400, "invalid", "the list is in order of 'desc', and not selected by 'startedAfter'");
	l.limit = (size_t)limit;
	filter.before = (int64_t)before;
	/* Nothing is ever paused. */
	if (state == NULL || strstr(state, "running") != NULL) {
		r = dispatch_list(api_registry(c), &filter, add_box, &l, &c->err);
		if (r < 0)
			return api_fail(c);
	}
	if (l.more) {
		snprintf(next, sizeof(next), "%lld", (long long)l.last);
		serve_field(c->q, "x-next-token", next);
	}
	c->answer = json_incref(items);
	return 0;
}

/* ---- the end ---- */

static int
look_killed(struct api_call *c)
{
	OWN(dispatch_free) struct dispatch d = {0};

	/* Nothing of it is left when its driver is done, either. */
	if (!c->api->stopping && dispatch_get(api_registry(c), c->id, &d, &c->err) == 0 &&
	    (!dispatch_state_is_over(d.state) || dispatch_is_driven(c->id)))
		c->again = true;
	return 0;
}

int
e2b_kill(struct api_call *c)
{
	OWN(box_free) struct box b = {0};
	struct e2b_call *e = e2b_call_of(c);

	if (e == NULL || find_box(c, &b) < 0)
		return -EIO;
	e->after = look_killed;
	/* From now on it is over for its clients. */
	json_object_set_new(b.record, "killed", json_true());
	if (e2b_record_store(c->id, b.record, &c->err) < 0)
		return api_fail(c);
	if (dispatch_cancel(api_registry(c), c->id, 0, &c->err) < 0)
		return c->err.code == EALREADY ? 0 : api_fail(c);
	return api_note(c, false, "dispatch.cancelled", (const char *const[][2]){ { "dispatch", c->id } }, 1);
}

void
e2b_kill_begin(struct api_call *c)
{
	if (c->e2b->asked)
		wait_for_news(c);
	else
		look_again(c);
	c->e2b->asked = true;
}

/* ---- the rest ---- */

int
e2b_health(struct api_call *c)
{
	char cell[CELL_ID_LEN + 1];

	return e2b_enter(c, cell);
}

int
e2b_unserved(struct api_call *c)
{
	return api_fail_with(c, 501, "unsupported", "this part of E2B's API is not served by cloister: see docs/e2b.md");
}

/* worker.c - the half of cloister-lock that reads what servers, and the cells in which they run, wrote.
 *
 * It has a channel to the keeper, over which it gets pipes.  It gives up everything else before it reads the first
 * byte. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/io.h"
#include "base/own.h"
#include "canon/canon.h"
#include "confine/lockdown.h"
#include "ipc/ipc.h"
#include "ipc/lock_channel.h"
#include "policy/policy_yaml.h"
#include "proc/lock/client.h"
#include "proc/lock/lock_proc.h"

struct last_call {
	char server[POLICY_TOOLS_SERVER_MAX + 1], tool[POLICY_TOOLS_TOOL_MAX + 1];
	char called[32];                /* when */
	char *folder, *home;
};

static struct worker {
	char *file;                     /* the lock's name */
	struct lock lock;
	struct listing *listings[POLICY_TOOLS_SERVERS_MAX];
	size_t n;
	struct check_findings findings;
	struct last_call call;
	struct buf seen;                /* events of calls of which a scope is proposed */
} w;

/* ---- answers ---- */

static int
send_chunks(const void *data, size_t len, struct err *err)
{
	for (size_t at = 0; at < len;) {
		const size_t n = len - at < LOCK_CHUNK_MAX ? len - at : LOCK_CHUNK_MAX;
		OWN(buf_free) struct buf b;
		int r;

		ipc_begin(&b, LOCK_CHUNK);
		buf_put(&b, (const char *)data + at, n);
		r = ipc_send(LOCK_CHANNEL_FD, &b, NULL, 0, err);
		if (r < 0)
			return r;
		at += n;
	}
	return 0;
}

static int
send_done(uint64_t number, struct err *err)
{
	OWN(buf_free) struct buf b;

	ipc_begin(&b, LOCK_DONE);
	buf_put_u64(&b, number);
	return ipc_send(LOCK_CHANNEL_FD, &b, NULL, 0, err);
}

static int
send_failed(const struct err *why, struct err *err)
{
	OWN(buf_free) struct buf b;

	ipc_begin(&b, LOCK_FAILED);
	buf_put_str(&b, why->text);
	return ipc_send(LOCK_CHANNEL_FD, &b, NULL, 0, err);
}

/* ---- the lock ---- */

static int
do_begin(struct ipc_message *m, struct buf *out, uint64_t *number, struct err *err)
{
	OWN(freep) char *text = NULL;
	OWN(closep) int fd = ipc_take_fd(m, 0);
	size_t len;
	int r;

	(void)out;
	(void)number;
	if (buf_dup_str(&m->body, &w.file) < 0)
		return err_set(err, EBADMSG, "the question is not valid");
	r = read_open(fd, w.file, LOCK_MAX, &text, &len, err);
	return r < 0 ? r : lock_read(w.file, text, len, &w.lock, err);
}

static int
do_write(struct ipc_message *m, struct buf *out, uint64_t *number, struct err *err)
{
	(void)m;
	(void)number;
	return lock_write(out, &w.lock, (const struct listing *const *)w.listings, w.n, err);
}

/* ---- servers ---- */

struct pipes { int in, out, errors; };

static struct pipes
take_pipes(struct ipc_message *m)
{
	struct pipes p;

	p.in = ipc_take_fd(m, 0);
	p.out = ipc_take_fd(m, 1);
	p.errors = ipc_take_fd(m, 2);
	return p;
}

static struct listing *
find_listing(const char *server)
{
	for (size_t i = 0; i < w.n; i++)
		if (strcmp(w.listings[i]->server, server) == 0)
			return w.listings[i];
	return NULL;
}

static void
listing_drop(struct listing **l)
{
	if (*l != NULL)
		listing_free(*l);
	free(*l);
}

static int
read_files(struct buf *b, struct listing *l, struct err *err)
{
	while (buf_left(b) > 0) {
		struct listed_file *file = &l->files[l->n_files];
		const char *hash;

		if (l->n_files == LOCK_FILES_MAX || buf_dup_str(b, &file->name) < 0)
			return err_set(err, EBADMSG, "the question is not valid");
		l->n_files++;
		if (buf_get_str(b, &hash) < 0 || strlen(hash) != HASH_HEX)
			return err_set(err, EBADMSG, "the question is not valid");
		memcpy(file->sha256, hash, HASH_HEX + 1);
	}
	return 0;
}

static int
do_list(struct ipc_message *m, struct buf *out, uint64_t *number, struct err *err)
{
	OWN(listing_drop) struct listing *l = calloc(1, sizeof(*l));
	OWN(client_free) struct client client = {0};
	const struct pipes pipes = take_pipes(m);
	const char *server, *path, *hash, *package;
	uint64_t ms;
	int r;

	if (l == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (buf_get_str(&m->body, &server) < 0 || !policy_tools_is_server(server, strlen(server)) ||
	    buf_get_str(&m->body, &path) < 0 || buf_get_str(&m->body, &hash) < 0 || buf_get_str(&m->body, &package) < 0 ||
	    buf_get_u64(&m->body, &ms) < 0 || pipes.errors < 0 || w.n == POLICY_TOOLS_SERVERS_MAX)
		return err_set(err, EBADMSG, "the question is not valid");
	snprintf(l->server, sizeof(l->server), "%s", server);
	r = read_files(&m->body, l, err);
	if (r < 0)
		return r;
	l->path = strdup(path);
	l->sha256 = strdup(hash);
	l->package = strdup(package);
	if (l->path == NULL || l->sha256 == NULL || l->package == NULL)
		return err_set(err, ENOMEM, "out of memory");
	client_init(&client, pipes.in, pipes.out, pipes.errors, ms);
	r = client_greet(&client, l, err);
	r = r == 0 ? client_list(&client, l, err) : r;
	if (r < 0)
		return client_explain(&client, err);
	*number = lock_put_changes(out, &w.lock, l);
	w.listings[w.n++] = TAKE(l);
	return 0;
}

/* ---- calls ---- */

/* ---- which arguments ---- */

static int
choose_arguments(const char *server, const char *tool, uint32_t example, const char *given, json_t **ret_arguments,
                 struct err *err)
{
	const struct node *at = lock_example(lock_tool(&w.lock, server, tool), example);
	const struct listing *l = find_listing(server);
	const struct listed_tool *listed = l != NULL ? listing_find(l, tool) : NULL;
	const struct node *written = at != NULL && at->kind == NODE_MAP ? node_get(at, "arguments") : NULL;

	if (*given != '\0')
		*ret_arguments = canon_value(given, strlen(given));
	else if (at != NULL)
		*ret_arguments = written != NULL ? lock_node_json(written) : json_object();
	else
		*ret_arguments = listed != NULL ? check_example(listed) : json_object();
	return json_is_object(*ret_arguments) ? 0 : err_set(err, EINVAL, "the arguments of the example are no map");
}

static void
note_time(char ret_time[32])
{
	struct timespec now;
	struct tm utc;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	strftime(ret_time, 32, "%Y-%m-%dT%H:%M:%S.", &utc);
	snprintf(ret_time + strlen(ret_time), 32 - strlen(ret_time), "%03dZ", (int)(now.tv_nsec / 1000000));
}

static int
read_call(struct ipc_message *m, uint32_t *ret_example, const char **ret_given, uint64_t *ret_ms)
{
	const char *server, *tool;

	free(TAKE(w.call.folder));
	free(TAKE(w.call.home));
	if (buf_get_str(&m->body, &server) < 0 || !policy_tools_is_server(server, strlen(server)) ||
	    buf_get_str(&m->body, &tool) < 0 || !definition_is_name(tool) || buf_get_u32(&m->body, ret_example) < 0 ||
	    buf_get_str(&m->body, ret_given) < 0 || buf_dup_str(&m->body, &w.call.folder) < 0 ||
	    buf_dup_str(&m->body, &w.call.home) < 0 || buf_get_u64(&m->body, ret_ms) < 0)
		return -EBADMSG;
	/* What was seen of another tool is none of this one's. */
	if (strcmp(w.call.server, server) != 0 || strcmp(w.call.tool, tool) != 0)
		buf_reset(&w.seen);
	snprintf(w.call.server, sizeof(w.call.server), "%s", server);
	snprintf(w.call.tool, sizeof(w.call.tool), "%s", tool);
	return 0;
}

static int
do_call(struct ipc_message *m, struct buf *out, uint64_t *number, struct err *err)
{
	static struct listing unused;
	OWN(client_free) struct client client = {0};
	OWN(json_decrefp) json_t *arguments = NULL;
	const struct pipes pipes = take_pipes(m);
	bool failed = false;
	const char *given;
	uint32_t example;
	uint64_t ms;
	int r = read_call(m, &example, &given, &ms);

	if (r < 0 || pipes.errors < 0)
		return err_set(err, EBADMSG, "the question is not valid");
	client_init(&client, pipes.in, pipes.out, pipes.errors, LOCK_START_MS);
	r = choose_arguments(w.call.server, w.call.tool, example, given, &arguments, err);
	r = r == 0 ? client_greet(&client, &unused, err) : r;
	if (r < 0)
		return client_explain(&client, err);
	note_time(w.call.called);
	client.deadline = io_now_ms() + (int64_t)ms;
	r = client_call(&client, w.call.tool, arguments, &failed, out, err);
	if (r < 0)
		return client_explain(&client, err);
	*number = failed;
	return 0;
}

static int
do_observe(struct ipc_message *m, struct buf *out, uint64_t *number, struct err *err)
{
	OWN(closep) int from = ipc_take_fd(m, 0), changed = ipc_take_fd(m, 1);
	OWN(freep) char *events = NULL, *changes = NULL;
	const struct node *tool = lock_tool(&w.lock, w.call.server, w.call.tool);
	struct observation o = { .tool = tool, .server = w.call.server, .name = w.call.tool, .called = w.call.called,
	                         .folder = w.call.folder, .home = w.call.home };
	uint32_t judges;
	int r;

	(void)out;
	(void)number;
	if (buf_get_u32(&m->body, &judges) < 0 || o.folder == NULL || o.home == NULL)
		return err_set(err, EBADMSG, "the question is not valid");
	r = read_open(from, "the record of the cell", CHECK_EVENTS_MAX, &events, &o.n_events, err);
	r = r == 0 ? read_open(changed, "the changes of the cell", CHECK_CHANGES_MAX, &changes, &o.n_changes, err) : r;
	if (r < 0)
		return r;
	o.events = events;
	o.changes = changes;
	if (judges && tool != NULL)
		check_observation(&w.findings, &o);
	if (!judges)
		buf_put(&w.seen, events, o.n_events);
	return 0;
}

static int
do_findings(struct ipc_message *m, struct buf *out, uint64_t *number, struct err *err)
{
	(void)m;
	(void)number;
	(void)err;
	check_listings(&w.findings, &w.lock, (const struct listing *const *)w.listings, w.n);
	check_put(out, &w.findings);
	return 0;
}

/* ---- learning ---- */

static int
do_script(struct ipc_message *m, struct buf *out, uint64_t *number, struct err *err)
{
	OWN(closep) int fd = ipc_take_fd(m, 0);
	OWN(freep) char *text = NULL;
	size_t len, line = 0;
	int r = read_open(fd, "the script's output", CHECK_CHANGES_MAX, &text, &len, err);

	for (char *at = text, *end; r == 0 && at < text + len; at = end + 1) {
		OWN(json_decrefp) json_t *call = NULL;
		OWN(freep) char *arguments = NULL;
		const char *tool;

		line++;
		end = memchr(at, '\n', (size_t)(text + len - at));
		end = end != NULL ? end : text + len;
		if (end == at)
			continue;
		call = canon_value(at, (size_t)(end - at));
		tool = json_string_value(json_object_get(call, "tool"));
		arguments = json_is_object(json_object_get(call, "arguments")) ?
		            json_dumps(json_object_get(call, "arguments"), JSON_COMPACT) : strdup("{}");
		if (tool == NULL || !definition_is_name(tool) || arguments == NULL)
			return err_set(err, EINVAL, "line %zu of the script's output is no call: {\"tool\": \"name\", \"arguments\": {}}",
			               line);
		buf_put_str(out, tool);
		buf_put_str(out, arguments);
		++*number;
	}
	return r;
}

static int
do_propose(struct ipc_message *m, struct buf *out, uint64_t *number, struct err *err)
{
	OWN(buf_free) struct buf example = BUF(LOCK_MAX);
	const char *server, *tool, *arguments;
	int r;

	(void)number;
	if (buf_get_str(&m->body, &server) < 0 || buf_get_str(&m->body, &tool) < 0 || buf_get_str(&m->body, &arguments) < 0)
		return err_set(err, EBADMSG, "the question is not valid");
	if (buf_failed(&w.seen))
		return err_set(err, E2BIG, "the records of its calls are too long");
	r = check_put_scope(out, lock_scope(lock_tool(&w.lock, server, tool)), (const char *)w.seen.data, w.seen.len, err);
	buf_reset(&w.seen);
	r = r == 0 ? lock_set(&w.lock, server, tool, "scope", (const char *)out->data, out->len, err) : r;
	if (r < 0 || lock_example(lock_tool(&w.lock, server, tool), 0) != NULL)
		return r;
	/* JSON is YAML. */
	buf_put_text(&example, "[{arguments: ");
	buf_put_text(&example, arguments);
	buf_put_text(&example, "}]");
	return lock_set(&w.lock, server, tool, "examples", (const char *)example.data, example.len, err);
}

/* ---- the process ---- */

static const struct {
	enum lock_message type;
	int (*answer)(struct ipc_message *m, struct buf *out, uint64_t *number, struct err *err);
} questions[] = {
	{ LOCK_BEGIN, do_begin }, { LOCK_LIST, do_list }, { LOCK_TEXT, do_write }, { LOCK_FINDINGS, do_findings },
	{ LOCK_CALL, do_call }, { LOCK_OBSERVE, do_observe }, { LOCK_SCRIPT, do_script }, { LOCK_PROPOSE, do_propose },
};

static int
answer(struct ipc_message *m, struct err *err)
{
	OWN(buf_free) struct buf out = BUF(LOCK_MAX);
	uint64_t number = 0;
	struct err why = {0};
	int r = err_set(&why, EBADMSG, "the two processes of cloister-lock have different versions");

	for (size_t i = 0; i < ARRAY_LEN(questions); i++)
		if (questions[i].type == m->type)
			r = questions[i].answer(m, &out, &number, &why);
	if (r == 0 && buf_failed(&out))
		r = err_set(&why, E2BIG, "there is too much to report");
	if (r < 0)
		return send_failed(&why, err);
	r = send_chunks(out.data, out.len, err);
	return r < 0 ? r : send_done(number, err);
}

static void
prepare(void)
{
	OWN(policy_freep) struct policy *unused = NULL;

	json_object_seed(0);
	tzset();
	/* So that its tables are there. */
	(void)policy_load_text("", "version: 1\n", 11, &unused, NULL, NULL);
}

int
lock_worker_main(void)
{
	static const struct lockdown what_is_left = { .filter = FILTER_INSPECT };
	struct err err = {0};
	int r;

	prepare();
	buf_init(&w.seen, CHECK_EVENTS_MAX);
	r = lockdown_enter(&what_is_left, LOCK_CHANNEL_FD + 1, &err);
	while (r == 0) {
		OWN(ipc_message_free) struct ipc_message m = {0};

		r = ipc_receive(LOCK_CHANNEL_FD, &m, &err);
		r = r == 0 ? answer(&m, &err) : r;
	}
	if (r == -EPIPE)
		return 0;
	fprintf(stderr, "cloister-lock: %s\n", err.text);
	return 125;
}

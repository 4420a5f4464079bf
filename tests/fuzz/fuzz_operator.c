/* fuzz_operator.c - objects of a hostile cluster's users, and answers of a server and a service that refuse at any moment: the
 * operator asks for nothing outside their namespace, and always stops asking.
 *
 * The input is lines.  The first letter says what happens: 0 to 3, an object of that kind is there; a to d, it is gone; L, all are
 * listed again; T, time passes; M and letters, which questions fail. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "fleet/fleet.h"
#include "fuzz.h"
#include "proc/fleet/operator.h"

#define LINES_MAX 64
#define ASKED_MAX 4096                  /* in one round */

static json_t *server;                  /* {path: object} */
static char mood[32], namespace[256];
static size_t asked, version;
static bool is_one_namespace;

/* Whether this question fails. */
static bool
fails(void)
{
	size_t n = strlen(mood);

	assert(++asked < ASKED_MAX);
	return n > 0 && (mood[asked % n] & 1) != 0;
}

/* ---- instead of fleet_http.c and kube_watch.c ---- */

const char *
fleet_http_where(const struct fleet_http *http)
{
	(void)http;
	return "k.example:443";
}

int
fleet_http_to(struct fleet_http *http, const struct fleet_server *to, struct err *err)
{
	(void)http;
	(void)to;
	(void)err;
	return 0;
}

void
fleet_reply_free(struct fleet_reply *reply)
{
	buf_free(&reply->body);
}

char *
fleet_http_escape(const char *text)
{
	char *copy = strdup(text);

	for (char *at = copy; at != NULL && *at != '\0'; at++)
		if (strchr("abcdefghijklmnopqrstuvwxyz0123456789.-", *at) == NULL)
			*at = '_';
	return copy;
}

static void
check_path(const char *path)
{
	char within[300];

	assert(strncmp(path, "/apis/", 6) == 0 && strpbrk(path, " \r\n?#") == NULL && strstr(path, "/../") == NULL);
	snprintf(within, sizeof(within), "/namespaces/%s/", namespace);
	assert(!is_one_namespace || strstr(path, within) != NULL);
}

/* What the server has at PATH after the request; NULL: it refuses. */
static json_t *
change(const char *method, const char *path, json_t *said)
{
	json_t *has = json_object_get(server, path);
	char text[24];

	if (strcmp(method, "POST") == 0) {
		OWN(freep) char *whole = str_format("%s/%s", path, kube_text(said, "metadata", "name", NULL));

		if (json_object_get(server, whole) != NULL)
			return NULL;
		json_object_set(server, whole, said);
		has = said;
	}
	if (has != NULL && strcmp(method, "PATCH") == 0)
		(void)json_object_update_recursive(has, said);
	if (has != NULL && strcmp(method, "GET") != 0) {
		snprintf(text, sizeof(text), "%zu", ++version);
		json_object_set_new(json_object_get(has, "metadata"), "resourceVersion", json_string(text));
	}
	return has;
}

int
fleet_http_ask(struct fleet_http *http, const struct fleet_request *request, struct fleet_reply *ret_reply, struct err *err)
{
	static const long statuses[] = { 404, 409, 422, 500 };
	OWN(json_decrefp) json_t *said = request->body != NULL ? json_loads(request->body, 0, NULL) : NULL;
	OWN(freep) char *path = strdup(request->path), *text = NULL;
	char *status = strstr(path, "/status");
	json_t *has;

	(void)http;
	check_path(path);
	if (status != NULL && status[7] == '\0')
		*status = '\0';
	if (fails())
		return err_set(err, ETIMEDOUT, "silent");
	has = change(request->method, path, said);
	*ret_reply = (struct fleet_reply){ .status = has != NULL ? 200 : statuses[asked % ARRAY_LEN(statuses)] };
	buf_init(&ret_reply->body, FLEET_BODY_MAX + 1);
	text = has != NULL ? json_dumps(has, JSON_COMPACT) : strdup("{}");
	buf_put_text(&ret_reply->body, text != NULL ? text : "");
	if (strcmp(request->method, "DELETE") == 0)
		(void)json_object_del(server, path);
	return 0;
}

int
kube_watch_tend(struct kube_watch *watch, uint64_t now_ms, struct err *err)
{
	(void)watch;
	(void)now_ms;
	(void)err;
	return 0;
}

void
kube_watch_close(struct kube_watch *watch)
{
	(void)watch;
}

/* ---- instead of operator_service.c ---- */

int
op_service_dispatch(struct op *op, const char *agent, const char *uid, const char *principal, char ret_id[OP_ID_MAX + 1],
                    struct err *err)
{
	(void)op;
	(void)uid;
	assert(*agent != '\0' && strncmp(principal, "kubernetes:", 11) == 0);
	snprintf(ret_id, OP_ID_MAX + 1, "%s", "abcdefgh");
	return fails() ? err_set(err, EINVAL, "refused: %.100s", agent) : 0;
}

int
op_service_look(struct op *op, const char *id, struct op_dispatch *ret_d, struct err *err)
{
	static const char *const states[] = { "queued", "starting", "running", "finished", "cancelled", "odd" };

	(void)op;
	(void)id;
	snprintf(ret_d->state, sizeof(ret_d->state), "%s", states[asked % ARRAY_LEN(states)]);
	snprintf(ret_d->principal, sizeof(ret_d->principal), "%s", "kubernetes:a/s:u");
	return fails() ? err_set(err, asked % 2 == 0 ? ENOENT : EAGAIN, "it is away") : 0;
}

int
op_service_has_started(struct op *op, const char *id, bool *ret_has, struct err *err)
{
	(void)op;
	(void)id;
	*ret_has = asked % 2 == 0;
	return fails() ? err_set(err, EAGAIN, "it is away") : 0;
}

int
op_service_cancel(struct op *op, const char *id, struct err *err)
{
	(void)op;
	assert(*id != '\0');
	return fails() ? err_set(err, EAGAIN, "it is away") : 0;
}

int
op_service_reserve(struct op *op, const char *agent, const char *uid, unsigned slots, unsigned *ret_slots, unsigned *ret_ready,
                   struct err *err)
{
	(void)op;
	(void)uid;
	assert(slots <= OP_REPLICAS_MAX && (slots == 0 || (agent != NULL && *agent != '\0')));
	*ret_slots = slots < 3 ? slots : 3;
	*ret_ready = *ret_slots / 2;
	return fails() ? err_set(err, EAGAIN, "it is away") : 0;
}

/* ---- */

static void
note_namespace(const json_t *object)
{
	const char *said = kube_text(object, "metadata", "namespace", NULL);

	if (namespace[0] == '\0')
		snprintf(namespace, sizeof(namespace), "%s", said);
	is_one_namespace = is_one_namespace && strcmp(namespace, said) == 0;
}

static void
give(struct op *op, int kind, const char *text, bool is_gone)
{
	struct op_kind_state *k = &op->kinds[kind];
	OWN(json_decrefp) json_t *object = json_loads(text, 0, NULL), *copy = json_deep_copy(object);
	OWN(freep) char *path = NULL;

	/* The server gives objects, with some metadata. */
	if (!json_is_object(json_object_get(object, "metadata")))
		return;
	note_namespace(object);
	path = op_path(op, (enum op_kind)kind, kube_text(object, "metadata", "namespace", NULL), kube_text(object, "metadata", "name", NULL), "");
	if (is_gone)
		(void)json_object_del(server, path);
	else
		json_object_set(server, path, copy);
	k->watch.handler->object(k, object, is_gone);
}

static void
list_again(struct op *op)
{
	for (int i = 0; i < OP_KINDS; i++) {
		op->kinds[i].watch.handler->begins(&op->kinds[i]);
		op->kinds[i].watch.handler->listed(&op->kinds[i]);
	}
}

static void
take_line(struct op *op, const char *line, uint64_t *now)
{
	if (*line >= '0' && *line < '0' + OP_KINDS)
		give(op, *line - '0', line + 1, false);
	else if (*line >= 'a' && *line < 'a' + OP_KINDS)
		give(op, *line - 'a', line + 1, true);
	else if (*line == 'L')
		list_again(op);
	else if (*line == 'M')
		snprintf(mood, sizeof(mood), "%.30s", line + 1);
	else
		*now += 60000;
	asked = 0;
	(void)op_objects_look(op, *now);
	for (int i = 0; i < OP_KINDS; i++)
		assert(op->kinds[i].n <= OP_OBJECTS_MAX);
}

static void
be_quiet(void)
{
	static bool done;

	if (!done)
		stderr = fopen("/dev/null", "we");
	done = true;
	assert(stderr != NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(freep) char *text = strndup((const char *)data, size);
	OWN(freep) struct op *op = calloc(1, sizeof(*op));
	char *rest = text, *line, empty[] = "";
	uint64_t now = 1000000;

	be_quiet();
	assert(text != NULL && op != NULL);
	server = json_object();
	mood[0] = namespace[0] = '\0';
	is_one_namespace = true;
	version = 1000;
	op->kube.access.prefix = empty;
	op_objects_begin(op);
	for (size_t i = 0; i < LINES_MAX && (line = strsep(&rest, "\n")) != NULL; i++)
		take_line(op, line, &now);
	mood[0] = '\0';
	take_line(op, "T", &now);
	op_objects_end(op);
	for (int i = 0; i < OP_KINDS; i++)
		assert(op->kinds[i].n == 0);
	assert(op->n_ghosts == 0 && op->n_events == 0);
	json_decref(server);
	return 0;
}

/* e2b_host.c - names of sandboxes' ports (PORT-ID.e2b.localhost), to which SDKs lead with getHost().
 *
 * The agent's registration says which ports have such a name.  Whoever knows the name may use it, as with any published
 * port.  The first request's Host decides where a connection leads, and all of its bytes go there: a program of init's
 * connects to the port in the cell, as the agent could.  So its server sees nothing of another connection. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "base/num.h"
#include "base/own.h"
#include "ipc/init_channel.h"
#include "loop/relay.h"
#include "proc/serve/api_thread.h"
#include "proc/serve/e2b.h"

#define HOSTS_MAX 128                   /* connections: the door has room for others too */
#define PIECE 16384
#define LAST_PIECES 64                  /* read after its end: more than its pipe holds */
#define HELD_MAX (256 * 1024)           /* of the client, that the server in the cell has not taken */
#define BY_MAX 64

struct e2b_host {
	struct serve_job job;           /* first */
	struct e2b_host *next, **at;
	struct e2b *e2b;
	struct serve_request *q;        /* NULL: the client is gone */
	struct inside *inside;
	char id[DISPATCH_ID_LEN + 1];
	uint16_t port;
	struct err refused;             /* code 0: it is not */
	struct buf held;                /* from the client */
	size_t taken;                   /* of it */
	struct loop_source in, out;
	struct relay_idle idle;
	bool opens;                     /* a thread has it */
	bool runs, client_ended, answers, full;
};

static struct loop *
loop_of(const struct e2b_host *h)
{
	return h->e2b->api->loop;
}

bool
e2b_is_host(const char *host)
{
	static const char end[] = "." E2B_DOMAIN;
	size_t len = strlen(host);

	return len >= sizeof(end) - 1 && strcmp(host + len - (sizeof(end) - 1), end) == 0;
}

/* PORT-ID, before the domain. */
static bool
read_name(struct e2b_host *h, const char *host)
{
	const char *dash = strchr(host, '-'), *dot = strchr(host, '.');
	char text[8];
	uint64_t port;

	if (dash == NULL || dot == NULL || dash > dot || (size_t)(dash - host) >= sizeof(text) ||
	    dot - dash - 1 != DISPATCH_ID_LEN || strcmp(dot + 1, E2B_DOMAIN) != 0)
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)(dash - host), host);
	snprintf(h->id, sizeof(h->id), "%.*s", DISPATCH_ID_LEN, dash + 1);
	if (num_parse_count(text, 1, UINT16_MAX, &port, NULL) < 0)
		return false;
	h->port = (uint16_t)port;
	return true;
}

/* ---- the end ---- */

static void
drop(struct e2b_host *h)
{
	loop_unwatch(loop_of(h), &h->in);
	loop_unwatch(loop_of(h), &h->out);
	relay_idle_stop(&h->idle);
	inside_free(TAKE(h->inside));
	*h->at = h->next;
	if (h->next != NULL)
		h->next->at = h->at;
	buf_free(&h->held);
	free(h);
}

/* The client gets STATUS, unless its server has begun to answer. */
static void
refuse(struct e2b_host *h, unsigned status, const char *code, const char *message)
{
	struct serve_request *q = TAKE(h->q);

	if (q != NULL && h->answers)
		serve_end(q, true);
	else if (q != NULL)
		serve_refuse(q, status, code, NULL, message);
	drop(h);
}

static void
refuse_with(struct e2b_host *h, const struct err *error)
{
	const bool missing = error->code == ENOENT, forbidden = error->code == EPERM;

	refuse(h, missing ? 404 : forbidden ? 403 : 502, missing ? "not_found" : forbidden ? "forbidden" : "unavailable",
	       error->text);
}

static void
gone(struct serve_request *q)
{
	struct e2b_host *h = q->app;

	h->q = NULL;
	if (q->conn != NULL && !h->answers)
		serve_refuse(q, 503, "stopping", NULL, "the service is about to stop");
	else if (h->answers)
		serve_end(q, true);
	else
		serve_drop(q);
	if (!h->opens)
		drop(h);
}

static void
silent(void *arg)
{
	refuse(arg, 504, "timeout", "nothing was sent for too long");
}

/* ---- bytes ---- */

static void
feed(struct e2b_host *h)
{
	while (h->taken < h->held.len) {
		ssize_t n = inside_write(h->inside, h->held.data + h->taken, h->held.len - h->taken);

		if (n == -EAGAIN) {
			h->in.fd = h->inside->to;
			(void)loop_watch(loop_of(h), &h->in, EPOLLOUT, NULL);
			return;
		}
		/* It takes no more, and may still answer. */
		h->taken = n < 0 ? h->held.len : h->taken + (size_t)n;
	}
	loop_unwatch(loop_of(h), &h->in);
	buf_reset(&h->held);
	h->taken = 0;
	if (h->client_ended)
		inside_close_input(h->inside);
	else if (h->q != NULL)
		serve_hear(h->q, true);
}

static void
can_feed(void *arg, uint32_t events)
{
	(void)events;
	feed(arg);
}

static void
received(struct serve_request *q, const void *data, size_t len)
{
	struct e2b_host *h = q->app;

	h->idle.last_ms = loop_now_ms();
	h->client_ended |= len == 0;
	buf_put(&h->held, data, len);
	if (buf_failed(&h->held)) {
		if (!h->opens)
			refuse(h, 413, "too_large", "more was sent than the sandbox takes");
		return;
	}
	serve_hear(q, false);
	if (h->runs)
		feed(h);
}

/* False: not for now, or never again. */
static bool
carry(struct e2b_host *h)
{
	char data[PIECE];
	ssize_t n = inside_read(h->inside, INSIDE_OUT, data, sizeof(data));

	if (n == 0)
		loop_unwatch(loop_of(h), &h->out);
	if (n <= 0)
		return false;
	h->idle.last_ms = loop_now_ms();
	if (!h->answers) {
		h->answers = true;
		serve_carry(h->q);
	}
	h->full = !serve_send(h->q, data, (size_t)n);
	return !h->full;
}

static void
can_carry(void *arg, uint32_t events)
{
	struct e2b_host *h = arg;

	(void)events;
	if (h->full || (!carry(h) && h->full))
		(void)loop_watch(loop_of(h), &h->out, 0, NULL);
}

static void
writable(struct serve_request *q)
{
	struct e2b_host *h = q->app;

	h->full = false;
	if (h->inside != NULL && h->inside->from[INSIDE_OUT] > 0)
		(void)loop_watch(loop_of(h), &h->out, EPOLLIN, NULL);
}

/* ---- its program in the cell ---- */

static void
started(void *arg, const struct err *error)
{
	struct e2b_host *h = arg;

	if (error != NULL) {
		refuse_with(h, error);
		return;
	}
	h->runs = true;
	h->out.fd = h->inside->from[INSIDE_OUT];
	if (loop_watch(loop_of(h), &h->out, EPOLLIN, &h->refused) < 0)
		refuse_with(h, &h->refused);
	else
		feed(h);
}

static void
ended(void *arg, int status, const struct err *error)
{
	struct e2b_host *h = arg;
	struct serve_request *q;
	char message[120];

	/* Nobody else reads what is left in the pipe, and others may write into it for ever. */
	for (int n = 0; n < LAST_PIECES && (carry(h) || h->full); n++)
		h->full = false;
	if (h->answers) {
		q = TAKE(h->q);
		serve_end(q, error != NULL);
		drop(h);
		return;
	}
	snprintf(message, sizeof(message), "nothing listens at port %u of the sandbox", h->port);
	refuse(h, 502, "unavailable", error == NULL && WIFEXITED(status) && WEXITSTATUS(status) == 0 ?
	       "the server in the sandbox closed the connection without a response" : message);
}

/* ---- finding it, in a thread ---- */

static bool
has_port(const json_t *resolved, uint16_t port)
{
	const json_t *one;
	size_t i;

	json_array_foreach (json_object_get(resolved, "ports"), i, one)
		if (json_integer_value(one) == port)
			return true;
	return false;
}

static int
find(struct e2b_host *h, struct registry *registry, char ret_cell[CELL_ID_LEN + 1])
{
	OWN(dispatch_free) struct dispatch d = {0};
	OWN(json_decrefp) json_t *resolved = NULL, *record = NULL;
	struct err *err = &h->refused;

	if (dispatch_get(registry, h->id, &d, NULL) < 0 || dispatch_state_is_over(d.state) || d.cell[0] == '\0' ||
	    (record = e2b_record_load(h->id)) == NULL || json_is_true(json_object_get(record, "killed")))
		return err_set(err, ENOENT, "sandbox '%s' was not found", h->id);
	if (dispatch_get_resolved(registry, h->id, &resolved, err) < 0)
		return -EIO;
	if (!has_port(resolved, h->port))
		return err_set(err, EPERM, "port %u of the sandbox has no name: register its agent with `ports: [%u]`", h->port,
		               h->port);
	snprintf(ret_cell, CELL_ID_LEN + 1, "%s", d.cell);
	return 0;
}

static void
open_work(struct serve_job *job, void *own)
{
	struct e2b_host *h = (struct e2b_host *)job;
	char cell[CELL_ID_LEN + 1], port[8], by[BY_MAX];
	const struct inside_order order = { .argv = (char *[]){ (char[]){ INIT_OWN_DIAL }, port, NULL }, .own = true,
	                                    .by = by };

	snprintf(port, sizeof(port), "%u", h->port);
	snprintf(by, sizeof(by), "host %s-%s", port, h->id);
	if (find(h, ((struct api_thread *)own)->registry, cell) == 0)
		(void)inside_open(cell, &order, &h->inside, &h->refused);
}

static void
open_done(struct serve_job *job)
{
	struct e2b_host *h = (struct e2b_host *)job;

	h->opens = false;
	if (h->q == NULL) {
		drop(h);
	} else if (h->inside == NULL) {
		refuse_with(h, &h->refused);
	} else if (buf_failed(&h->held)) {
		refuse(h, 413, "too_large", "more was sent than the sandbox takes");
	} else {
		h->inside->started = started;
		h->inside->ended = ended;
		h->inside->arg = h;
		/* Not before: while a thread has it, nothing ends it. */
		relay_idle_start(&h->idle, loop_of(h));
		if (inside_watch(h->inside, loop_of(h), &h->refused) < 0)
			refuse_with(h, &h->refused);
	}
}

/* ---- a connection ---- */

void
e2b_host(void *arg, struct serve_request *q, const char *host, const void *data, size_t len)
{
	struct e2b *e = ((struct api *)arg)->e2b;
	struct e2b_host *h = NULL;
	size_t n = 0;

	for (h = e->hosts; h != NULL; h = h->next)
		n++;
	h = n < HOSTS_MAX && !e->api->stopping ? calloc(1, sizeof(*h)) : NULL;
	if (h == NULL) {
		serve_refuse(q, 429, "busy", NULL, "too many connections lead to sandboxes' ports: try again in a moment");
		return;
	}
	*h = (struct e2b_host){ .job = { .work = open_work, .done = open_done }, .e2b = e, .q = q, .next = e->hosts,
		.at = &e->hosts, .in = { .fd = -1, .ready = can_feed, .arg = h }, .out = { .fd = -1, .ready = can_carry, .arg = h },
		.idle = { .due = silent, .arg = h } };
	buf_init(&h->held, HELD_MAX);
	if (h->next != NULL)
		h->next->at = &h->next;
	e->hosts = h;
	q->app = h;
	q->received = received;
	q->writable = writable;
	q->gone = gone;
	if (!read_name(h, host)) {
		refuse(h, 404, "not_found", "the name must be PORT-SANDBOX." E2B_DOMAIN);
		return;
	}
	buf_put(&h->held, data, len);
	serve_hear(q, false);
	h->opens = true;
	serve_pool_add(e->api->pool, &h->job);
}

void
e2b_hosts_free(struct e2b *e)
{
	while (e->hosts != NULL) {
		e->hosts->opens = false;        /* there are no threads any more */
		drop(e->hosts);
	}
}

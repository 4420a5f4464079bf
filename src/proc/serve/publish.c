/* publish.c - ports of sandboxes at ports of this machine's loopback.
 *
 * For each connection, one of init's own programs connects to the port in the cell, as the agent could, and the
 * service carries the bytes.  No socket passes the wall: a TCP socket could be connected to another place. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "cell/cell_control.h"
#include "ipc/init_channel.h"
#include "loop/relay.h"
#include "proc/serve/sandbox.h"

#define PORTS_MAX 64                    /* of all sandboxes */
#define CARRIES_MAX 16                  /* connections of one port; others wait */

struct publishing {
	struct publishing *next, **at;
	struct api *api;
	char dispatch[API_ID_MAX], cell[CELL_ID_LEN + 1], by[SERVE_NAME_MAX];
	uint16_t inner, outer;
	struct loop_source listener;
	struct loop_source life;        /* a connection to the supervisor, which ends with the cell */
	struct carried *carried;
	size_t n;
	bool over;                      /* freed with its last connection */
};

/* One connection. */
struct carried {
	struct serve_job job;           /* first */
	struct carried *next, **at;
	struct publishing *of;
	struct inside *inside;
	struct relay in, out;
	struct relay_idle idle;
	int fd;
	bool opens;                     /* a thread has it */
};

static void
free_if_over(struct publishing *p)
{
	if (p->over && p->carried == NULL)
		free(p);
}

static void
watch_listener(struct publishing *p)
{
	if (!p->over)
		(void)loop_watch(p->api->loop, &p->listener, p->n < CARRIES_MAX ? EPOLLIN : 0, NULL);
}

static void
end_carried(struct carried *k)
{
	struct publishing *p = k->of;

	relay_idle_stop(&k->idle);
	relay_drop(&k->in);
	relay_drop(&k->out);
	inside_free(k->inside);
	close(k->fd);
	*k->at = k->next;
	if (k->next != NULL)
		k->next->at = k->at;
	p->n--;
	free(k);
	watch_listener(p);
	free_if_over(p);
}

static void
end_publishing(struct publishing *p)
{
	struct carried *next;

	if (p->over)
		return;
	p->over = true;
	loop_unwatch(p->api->loop, &p->listener);
	loop_unwatch(p->api->loop, &p->life);
	close(p->listener.fd);
	close(p->life.fd);
	*p->at = p->next;
	if (p->next != NULL)
		p->next->at = p->at;
	if (p->carried == NULL) {
		free(p);
		return;
	}
	for (struct carried *k = p->carried; k != NULL; k = next) {
		bool last = k->next == NULL;

		next = k->next;
		if (!k->opens)
			end_carried(k);
		if (last)
			return;
	}
}

/* ---- connections ---- */

static void
open_work(struct serve_job *job, void *own)
{
	struct carried *k = (struct carried *)job;
	char port[8];
	const struct inside_order order = { .argv = (char *[]){ (char[]){ INIT_OWN_DIAL }, port, NULL }, .own = true,
	                                    .by = k->of->by };
	struct err err = {0};

	(void)own;
	snprintf(port, sizeof(port), "%u", k->of->inner);
	(void)inside_open(k->of->cell, &order, &k->inside, &err);
}

/* The client has said everything: so the server hears that. */
static void
in_done(void *arg, struct relay *relay)
{
	struct carried *k = arg;

	(void)relay;
	inside_close_input(k->inside);
}

static void
out_done(void *arg, struct relay *relay)
{
	(void)relay;
	end_carried(arg);
}

static void
silent(void *arg)
{
	end_carried(arg);
}

static void
started(void *arg, const struct err *error)
{
	struct carried *k = arg;
	struct loop *loop = k->of->api->loop;

	if (error != NULL) {
		end_carried(k);
		return;
	}
	k->in.done = in_done;
	k->out.done = out_done;
	k->in.arg = k->out.arg = k;
	k->in.idle = k->out.idle = &k->idle;
	k->idle = (struct relay_idle){ .due = silent, .arg = k };
	if (relay_start(&k->in, loop, k->fd, k->inside->to, NULL) < 0 ||
	    relay_start(&k->out, loop, k->inside->from[INSIDE_OUT], k->fd, NULL) < 0)
		end_carried(k);
	else
		relay_idle_start(&k->idle, loop);
}

/* Its output may still be on the way: the relay sees its end. */
static void
ended(void *arg, int status, const struct err *error)
{
	(void)arg;
	(void)status;
	(void)error;
}

static void
open_done(struct serve_job *job)
{
	struct carried *k = (struct carried *)job;

	k->opens = false;
	if (k->of->over || k->inside == NULL) {
		end_carried(k);
		return;
	}
	k->inside->started = started;
	k->inside->ended = ended;
	k->inside->arg = k;
	if (inside_watch(k->inside, k->of->api->loop, NULL) < 0)
		end_carried(k);
}

static void
accept_one(void *arg, uint32_t events)
{
	struct publishing *p = arg;
	int fd = accept4(p->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct carried *k = fd < 0 ? NULL : calloc(1, sizeof(*k));

	(void)events;
	if (k == NULL) {
		closep(&fd);
		return;
	}
	*k = (struct carried){ .job = { .work = open_work, .done = open_done }, .next = p->carried, .at = &p->carried,
	                       .of = p, .fd = fd, .opens = true };
	if (k->next != NULL)
		k->next->at = &k->next;
	p->carried = k;
	p->n++;
	watch_listener(p);
	serve_pool_add(p->api->pool, &k->job);
}

/* ---- publishing ---- */

static const struct api_member members[] = { { "port", API_NUMBER, true }, {0} };

static int
listen_loopback(uint16_t *ret_port, struct err *err)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	OWN(closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) < 0 || listen(fd, 64) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &len) < 0)
		return err_errno(err, "cannot listen on a port of this machine");
	*ret_port = ntohs(address.sin_port);
	return TAKE_FD(fd);
}

/* A connection that ends with the cell. */
static int
await_end(const char *cell, struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(err);
	OWN(closep) int fd = -1;
	struct cell_entry entry;
	int r = runtime < 0 ? runtime : cell_find(runtime, true, cell, &entry, err);

	fd = r < 0 ? r : cell_connect(runtime, &entry, err);
	r = fd < 0 ? fd : cell_control_ask(fd, VERB_WAIT, NULL, err);
	return r < 0 ? r : TAKE_FD(fd);
}

/* The descriptors are in C->fd and C->lock until they are used. */
int
api_sandbox_publish(struct api_call *c)
{
	json_int_t port;
	char cell[CELL_ID_LEN + 1], text[8];

	if (api_body_check(c, members) < 0)
		return -EIO;
	port = json_integer_value(api_body_get(c, "port"));
	if (port < 1 || port > 65535)
		return api_body_wrong(c, "port", api_fail_with(c, 400, "invalid", "'port' must be 1 to 65535"));
	if (sandbox_find(c, cell) < 0)
		return -EIO;
	snprintf(text, sizeof(text), "%d", (int)port);
	if (api_note_first(c, "sandbox.publish", (const char *const[][2]){ { "dispatch", c->id }, { "cell", cell },
	                   { "port", text } }, 3) < 0)
		return api_fail(c);
	c->lock = await_end(cell, &c->err);
	if (c->lock < 0) {
		c->lock = 0;
		return c->err.code == ENOENT ? api_fail_as(c, 409, "over") : api_fail(c);
	}
	c->text = strdup(cell);
	return c->text != NULL ? 0 : api_fail_with(c, 503, "unavailable", "out of memory");
}

static void
cell_over(void *arg, uint32_t events)
{
	(void)events;
	end_publishing(arg);
}

static struct publishing *
find(const struct api_call *c, uint16_t port, size_t *ret_n)
{
	struct publishing *found = NULL;

	for (struct publishing *p = c->api->published; p != NULL; p = p->next, (*ret_n)++)
		if (strcmp(p->cell, c->text) == 0 && p->inner == port)
			found = p;
	return found;
}

static struct publishing *
make(struct api_call *c, uint16_t port)
{
	struct publishing *p = calloc(1, sizeof(*p));

	if (p == NULL) {
		(void)err_set(&c->err, ENOMEM, "out of memory");
		return NULL;
	}
	*p = (struct publishing){ .next = c->api->published, .at = &c->api->published, .api = c->api, .inner = port,
		.life = { .fd = c->lock, .ready = cell_over, .arg = p }, .listener = { .ready = accept_one, .arg = p } };
	snprintf(p->dispatch, sizeof(p->dispatch), "%s", c->id);
	snprintf(p->cell, sizeof(p->cell), "%s", c->text);
	snprintf(p->by, sizeof(p->by), "%s", c->q->who);
	p->listener.fd = listen_loopback(&p->outer, &c->err);
	if (p->listener.fd < 0) {
		free(p);
		return NULL;
	}
	c->lock = 0;
	if (p->next != NULL)
		p->next->at = &p->next;
	c->api->published = p;
	if (loop_watch(c->api->loop, &p->listener, EPOLLIN, &c->err) < 0 ||
	    loop_watch(c->api->loop, &p->life, EPOLLIN, &c->err) < 0) {
		end_publishing(p);
		return NULL;
	}
	return p;
}

void
api_sandbox_publish_begin(struct api_call *c)
{
	uint16_t port = (uint16_t)json_integer_value(api_body_get(c, "port"));
	size_t n = 0;
	struct publishing *p = find(c, port, &n);

	if (p == NULL && n >= PORTS_MAX) {
		(void)api_fail_with(c, 409, "busy", "%d ports are published already: end some of the sandboxes", PORTS_MAX);
		return;
	}
	p = p != NULL ? p : make(c, port);
	free(TAKE(c->text));
	if (p == NULL) {
		(void)api_fail(c);
		return;
	}
	c->answer = json_pack("{s:s, s:i, s:i}", "host", "127.0.0.1", "port", (int)p->outer, "cell_port", (int)p->inner);
	api_answer(c);
}

void
api_sandboxes_free(struct api *api)
{
	while (api->published != NULL) {
		for (struct carried *k = api->published->carried; k != NULL; k = k->next)
			k->opens = false;       /* there are no threads any more */
		end_publishing(api->published);
	}
}

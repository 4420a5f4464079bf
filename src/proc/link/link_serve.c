/* link_serve.c - the service's end: accepts workers, and lets those in that have joined. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "base/codec.h"
#include "base/data.h"
#include "base/io.h"
#include "base/tell.h"
#include "ipc/ipc.h"
#include "link/link_cert.h"
#include "link/link_workers.h"
#include "proc/link/link_proc.h"
#include "upstream/address.h"

#define PEERS_MAX 2048
#define STRANGERS_MAX 64                /* that have shown nothing yet */
#define STRANGER_MS 10000
#define BACKLOG 64
#define FORGET_MS 60000
#define NOTE_MS 200                     /* in which changes are gathered */
#define SET_S 60                        /* two clocks differ by less unless one was set */

struct peer {
	struct server *server;
	struct peer *next;
	struct link_pump pump;
	struct loop_timer late;
	struct link_worker worker;      /* its id is "" until it is known */
	bool dead;
};

struct server {
	struct loop *loop;
	SSL_CTX *tls;
	struct link_authority authority;
	struct loop_source listener;
	struct loop_file changed;
	struct loop_round sweep;
	struct loop_timer forget;       /* workers that are gone for good */
	uint64_t looked, looked_ms;     /* when that was last, by time(2) and by loop_now_ms() */
	uint64_t forgets_from;          /* by the latter: those that are there have the time to come back */
	struct peer *peers;
	size_t n;
	struct link_presence *present;  /* LINK_JOINED_MAX of them */
	size_t n_present;
	struct loop_timer note;         /* PRESENT is to be written */
	int dir;
	char home[LINK_HOME_MAX + 1];
};

/* ---- its end ---- */

/* From now on the time counts after which nobody knows it any more. */
static void
note_end(struct server *s, struct link_worker *w)
{
	struct link_worker known;

	/* It may have been removed. */
	if (w->seen == 0 || link_workers_get(s->dir, w->id, &known, NULL) < 0)
		return;
	w->seen = (uint64_t)time(NULL);
	(void)link_workers_add(s->dir, w, NULL);
}

/* ---- who is connected ---- */

/* The place of ID; without one, that of the worker that is gone for the longest time. */
static struct link_presence *
find_present(struct server *s, const char *id)
{
	struct link_presence *oldest = NULL;

	for (size_t i = 0; i < s->n_present; i++) {
		struct link_presence *p = &s->present[i];

		if (strcmp(p->id, id) == 0)
			return p;
		if (p->since == 0 && (oldest == NULL || p->last < oldest->last))
			oldest = p;
	}
	if (s->n_present < LINK_JOINED_MAX)
		oldest = &s->present[s->n_present++];
	return oldest;
}

static void
note_presence(struct server *s, const char *id, bool is_there)
{
	struct link_presence *p = *id == '\0' ? NULL : find_present(s, id);
	uint64_t now = (uint64_t)time(NULL);

	if (p == NULL)
		return;
	snprintf(p->id, sizeof(p->id), "%s", id);
	p->since = is_there ? now : 0;
	p->last = now;
	loop_set_timer(s->loop, &s->note, NOTE_MS);
}

static void
write_presence(void *arg)
{
	struct server *s = arg;
	uint64_t now = (uint64_t)time(NULL);

	for (size_t i = 0; i < s->n_present; i++)
		if (s->present[i].since != 0)
			s->present[i].last = now;
	(void)link_presence_write(s->dir, s->present, s->n_present, NULL);
}

/* Those of a service before this one are gone. */
static int
begin_presence(struct server *s, struct err *err)
{
	int r = link_presence_read(s->dir, &s->present, &s->n_present, err);

	for (size_t i = 0; r == 0 && i < s->n_present; i++)
		s->present[i].since = 0;
	loop_prepare_timer(&s->note, write_presence, s);
	return r < 0 ? r : link_presence_write(s->dir, s->present, s->n_present, err);
}

static bool
is_connected(void *arg, const char *id)
{
	const struct server *s = arg;
	const struct peer *peer = s->peers;

	while (peer != NULL && strcmp(peer->worker.id, id) != 0)
		peer = peer->next;
	return peer != NULL;
}

/* Whether the clock was set since the last look, so that times from before say nothing. */
static bool
clock_was_set(const struct server *s, uint64_t now, uint64_t now_ms)
{
	uint64_t went = now - s->looked, passed = (now_ms - s->looked_ms) / 1000;

	return now < s->looked || went > passed + SET_S || went + SET_S < passed;
}

/* Not before those that are there had the time to come back. */
static void
forget_due(void *arg)
{
	struct server *s = arg;
	uint64_t now = (uint64_t)time(NULL), now_ms = loop_now_ms();

	if (clock_was_set(s, now, now_ms))
		s->forgets_from = now_ms + LINK_AWAY_S * 1000;
	if (now_ms >= s->forgets_from)
		link_workers_forget(s->dir, now, is_connected, s);
	write_presence(s);
	s->looked = now;
	s->looked_ms = now_ms;
	loop_set_timer(s->loop, &s->forget, FORGET_MS);
}

static void
sweep(void *arg)
{
	struct server *s = arg;
	struct peer **at = &s->peers, *peer;

	while ((peer = *at) != NULL) {
		if (!peer->dead) {
			at = &peer->next;
			continue;
		}
		*at = peer->next;
		s->n--;
		note_end(s, &peer->worker);
		if (!is_connected(s, peer->worker.id))
			note_presence(s, peer->worker.id, false);
		loop_cancel_timer(s->loop, &peer->late);
		pump_close(&peer->pump);
		free(peer);
	}
	/* There may be places again. */
	if (s->n < PEERS_MAX)
		(void)loop_watch(s->loop, &s->listener, EPOLLIN, NULL);
}

static void
drop(struct peer *peer)
{
	peer->dead = true;
	loop_at_round_end(peer->server->loop, &peer->server->sweep);
}

static void
over(void *arg, const char *why)
{
	(void)why;
	drop(arg);
}

static void
too_late(void *arg)
{
	drop(arg);
}

static void
refuse(struct peer *peer, const char *why)
{
	(void)pump_say(&peer->pump, &(struct link_hello_message){ .type = LINK_REFUSED, .why = why });
	drop(peer);
}

/* ---- its beginning ---- */

/* A worker has one stream: its last one, since it knows best. */
static void
replace(struct server *s, const struct peer *peer)
{
	for (struct peer *other = s->peers; other != NULL; other = other->next)
		if (other != peer && !other->dead && strcmp(other->worker.id, peer->worker.id) == 0)
			drop(other);
}

static int
hand_over(struct peer *peer, struct err *err)
{
	OWN(buf_free) struct buf message = {0};
	OWN(closep) int fd = pump_join(&peer->pump, 0, err);

	if (fd < 0)
		return fd;
	ipc_begin(&message, LINK_WORKER);
	buf_put_str(&message, peer->worker.id);
	buf_put_str(&message, peer->worker.name);
	buf_put_str(&message, peer->worker.home);
	buf_put_str(&message, peer->worker.pool);
	return ipc_send(LINK_CHANNEL_FD, &message, &fd, 1, err);
}

static void
ready(void *arg)
{
	struct peer *peer = arg;
	struct server *s = peer->server;
	char id[LINK_ID_LEN + 1], print[LINK_HEX + 1];
	struct link_worker worker;
	struct err err = {0};

	/* Without a certificate it has a token to show. */
	if (!link_tls_peer(peer->pump.conn.ssl, id, print))
		return;
	if (link_workers_get(s->dir, id, &worker, &err) < 0 || strcmp(worker.print, print) != 0) {
		refuse(peer, "this worker was removed: join with a new token");
		return;
	}
	peer->worker = worker;
	loop_cancel_timer(s->loop, &peer->late);
	replace(s, peer);
	if (pump_say(&peer->pump, &(struct link_hello_message){ .type = LINK_WELCOME, .home = s->home }) < 0 ||
	    hand_over(peer, &err) < 0)
		drop(peer);
	else
		note_presence(s, worker.id, true);
}

/* A worker's claims are known by its data folder, so nobody else may have the name of it. */
static int
check_home(struct server *s, const char *home, struct err *err)
{
	OWN(freep) struct link_worker *all = NULL;
	size_t n = 0;
	int r = strcmp(home, s->home) == 0 ?
	        err_set(err, EEXIST, "a worker needs a data folder of its own, and not the service's") :
	        link_workers_list(s->dir, &all, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		if (strcmp(all[i].home, home) == 0)
			r = err_set(err, EEXIST, "a worker with this data folder has joined already, as %s: remove that one first, with "
			            "`cloister worker remove %s`", all[i].id, all[i].id);
	return r;
}

static int
enrol(struct server *s, const struct link_hello_message *said, char ret_cert[LINK_CERT_MAX], struct link_worker *w,
      struct err *err)
{
	unsigned char id[LINK_ID_LEN / 2];
	uint64_t now = (uint64_t)time(NULL);
	bool passes = false;
	int r = link_workers_check_token(s->dir, said->secret, now, said->pool, err);

	/* A mistake of the operator's leaves the token for the next attempt. */
	r = r == 0 ? check_home(s, said->home, err) : r;
	r = r == 0 ? link_workers_use_token(s->dir, said->secret, now, w->pool, &passes, err) : r;
	if (r < 0)
		return r;
	if (RAND_bytes(id, sizeof(id)) != 1)
		return err_set(err, EIO, "there is no randomness for a worker's id");
	codec_hex(id, sizeof(id), w->id);
	snprintf(w->name, sizeof(w->name), "%s", said->name);
	snprintf(w->home, sizeof(w->home), "%s", said->home);
	w->since = now;
	w->seen = passes ? now : 0;
	r = link_authority_sign(&s->authority, said->pem, w->id, ret_cert, err);
	r = r == 0 ? link_cert_print(ret_cert, w->print, err) : r;
	return r == 0 ? link_workers_add(s->dir, w, err) : r;
}

static void
heard(void *arg)
{
	struct peer *peer = arg;
	struct server *s = peer->server;
	struct link_hello_message said;
	struct link_worker worker = {0};
	struct err err = {0};
	char cert[LINK_CERT_MAX];
	size_t len;
	int r = link_hello_get(&peer->pump.in, false, &said, &len);

	if (r == 0)
		return;
	if (r < 0) {
		drop(peer);
		return;
	}
	if (enrol(s, &said, cert, &worker, &err) < 0) {
		refuse(peer, err.text);
		return;
	}
	fprintf(stderr, "cloister: worker %s has joined: %s\n", worker.id, worker.name);
	(void)pump_say(&peer->pump, &(struct link_hello_message){ .type = LINK_ENROLLED, .home = s->home, .id = worker.id,
	                                                          .pem = cert });
	/* It comes back with its certificate. */
	drop(peer);
}

/* ---- accepting ---- */

static void
add_peer(struct server *s, int fd)
{
	struct peer *peer = calloc(1, sizeof(*peer));
	SSL *ssl = peer == NULL ? NULL : SSL_new(s->tls);
	const int yes = 1, idle_s = 30, lost_ms = 60000;

	if (ssl == NULL) {
		free(peer);
		close(fd);
		return;
	}
	/* A worker whose machine is gone says nothing. */
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost_ms, sizeof(lost_ms));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	SSL_set_accept_state(ssl);
	*peer = (struct peer){ .server = s, .next = s->peers, .late = { .due = too_late, .arg = peer },
		.pump = { .ready = ready, .heard = heard, .over = over, .arg = peer } };
	s->peers = peer;
	s->n++;
	loop_set_timer(s->loop, &peer->late, STRANGER_MS);
	pump_open(&peer->pump, s->loop, fd, ssl);
}

/* Those who say nothing do not keep out those who come after them. */
static void
make_room(struct server *s)
{
	struct peer *oldest = NULL;
	size_t n = 0;

	for (struct peer *peer = s->peers; peer != NULL; peer = peer->next)
		if (peer->worker.id[0] == '\0' && !peer->dead) {
			oldest = peer;
			n++;
		}
	if (n >= STRANGERS_MAX)
		drop(oldest);
}

static void
accept_ready(void *arg, uint32_t events)
{
	struct server *s = arg;
	int fd;

	(void)events;
	for (int i = 0; i < BACKLOG && s->n < PEERS_MAX; i++) {
		fd = accept4(s->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			break;
		make_room(s);
		add_peer(s, fd);
	}
	if (s->n >= PEERS_MAX)
		loop_unwatch(s->loop, &s->listener);
}

/* Some were removed. */
static void
changed(void *arg, const char *name)
{
	struct server *s = arg;
	struct link_worker worker;

	if (strcmp(name, LINK_CHANGED) != 0)
		return;
	for (struct peer *peer = s->peers; peer != NULL; peer = peer->next)
		if (peer->worker.id[0] != '\0' && link_workers_get(s->dir, peer->worker.id, &worker, NULL) == -ENOENT)
			drop(peer);
}

static int
listen_at(const char *text, uint16_t *ret_port, struct err *err)
{
	struct sockaddr_storage at;
	struct link_address where;
	struct address a;
	socklen_t len = sizeof(at);
	const int yes = 1;
	OWN(closep) int fd = -1;
	int r = link_address_parse(text, true, &where, err);

	if (r < 0)
		return r;
	if (!address_parse(where.host, &a))
		return err_set(err, EINVAL, "'%s' is no address of this machine: write one such as 0.0.0.0:PORT", text);
	fd = socket(a.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
	    bind(fd, (struct sockaddr *)&at, address_to_socket(&a, where.port, &at)) < 0 || listen(fd, BACKLOG) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &len) < 0)
		return err_errno(err, "cannot listen at %s", text);
	*ret_port = ntohs(at.ss_family == AF_INET ? ((struct sockaddr_in *)&at)->sin_port :
	                  ((struct sockaddr_in6 *)&at)->sin6_port);
	return TAKE_FD(fd);
}

/* For `cloister worker token`, with the port that it has become. */
static int
write_address(int dir, const char *text, uint16_t port, struct err *err)
{
	char line[LINK_ADDRESS_MAX + 16];

	snprintf(line, sizeof(line), "%.*s:%u\n", (int)(strrchr(text, ':') - text), text, port);
	return create_file_at(dir, LINK_ADDRESS, 0600, line, err);
}

static int
read_home(struct server *s, struct err *err)
{
	OWN(freep) char *path = data_path("registry/home", err), *text = NULL;
	int r = path == NULL ? -ENOENT : read_file_at(AT_FDCWD, path, LINK_HOME_MAX + 2, &text, NULL, err);

	if (r < 0)
		return err_wrap(err, "the name of this service");
	text[strcspn(text, "\n")] = '\0';
	if (!link_is_name(text, LINK_HOME_MAX))
		return err_set(err, EBADMSG, "the name of this service in '%s' is damaged", path);
	snprintf(s->home, sizeof(s->home), "%s", text);
	return 0;
}

static int
begin(struct server *s, const char *address, uint16_t *ret_port, struct err *err)
{
	OWN(freep) char *path = data_path(LINK_WORKERS, err);
	const char *const writable[] = { path, NULL };
	int r;

	s->dir = data_folder(LINK_WORKERS, true, err);
	if (s->dir < 0)
		return s->dir;
	r = read_home(s, err);
	r = r == 0 ? link_authority_open(s->dir, &s->authority, err) : r;
	r = r == 0 ? link_tls_service(&s->authority, &s->tls, err) : r;
	r = r == 0 ? loop_new(&s->loop, err) : r;
	if (r < 0)
		return r;
	loop_prepare_round(&s->sweep, sweep, s);
	r = begin_presence(s, err);
	if (r < 0)
		return r;
	loop_prepare_timer(&s->forget, forget_due, s);
	loop_set_timer(s->loop, &s->forget, LINK_AWAY_S * 1000);
	s->looked = (uint64_t)time(NULL);
	s->looked_ms = loop_now_ms();
	s->changed = (struct loop_file){ .changed = changed, .arg = s };
	s->listener = (struct loop_source){ .ready = accept_ready, .arg = s, .fd = listen_at(address, ret_port, err) };
	r = s->listener.fd < 0 ? s->listener.fd : loop_watch(s->loop, &s->listener, EPOLLIN, err);
	r = r == 0 ? loop_watch_file(s->loop, &s->changed, s->dir, LOOP_FILE_WRITTEN, err) : r;
	r = r == 0 ? write_address(s->dir, address, *ret_port, err) : r;
	r = r == 0 ? link_watch_parent(s->loop, err) : r;
	return r == 0 ? link_lock_down(NULL, writable, err) : r;
}

int
link_serve(const char *address, struct err *err)
{
	static struct server s;
	OWN(buf_free) struct buf message = {0};
	uint16_t port = 0;
	int r = begin(&s, address, &port, err);

	ipc_begin(&message, r == 0 ? LINK_LISTENS : LINK_FAILED);
	if (r == 0)
		buf_put_u32(&message, port);
	else
		buf_put_str(&message, err->text);
	if (ipc_send(LINK_CHANNEL_FD, &message, NULL, 0, err) < 0)
		return -EPIPE;
	/* The service prints it. */
	if (r < 0)
		exit(TELL_FAILED);
	r = loop_run(s.loop, err);
	/* All of them have lost this service. */
	write_presence(&s);
	for (size_t i = 0; i < s.n_present; i++)
		s.present[i].since = 0;
	(void)link_presence_write(s.dir, s.present, s.n_present, NULL);
	return r;
}

/* link_dial.c - a worker's end: dials the services that it has joined, again and again; and joins one. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/data.h"
#include "base/io.h"
#include "base/own.h"
#include "ipc/ipc.h"
#include "link/link_cert.h"
#include "link/link_services.h"
#include "proc/link/link_proc.h"
#include "upstream/dial.h"
#include "upstream/resolve.h"

#define AGAIN_MIN_MS 500
#define AGAIN_MAX_MS 30000
#define PATIENCE_MS 20000               /* until the service's first word */

struct way {
	struct dialer *dialer;
	struct link_service service;
	struct link_address where;
	SSL_CTX *tls;
	struct link_pump pump;
	struct dial dial;
	struct resolve_wait resolving;
	struct loop_timer timer;        /* the next attempt, or the end of this one's patience */
	unsigned failures;              /* in a row */
	bool trying, joined;
	char told[LINK_CHANNEL_TEXT_MAX];       /* the last reason; "" while it is reached */
};

struct dialer {
	struct loop *loop;
	struct resolver *resolver;
	struct way ways[LINK_SERVICES_MAX];
	size_t n;
	/* Joining: */
	struct link_token token;
	const char *home, *pool;
	char request[LINK_CERT_MAX], name[LINK_NAME_MAX + 1];
	int dir;
	struct err why;
	bool done;
};

/* ---- the end of an attempt ---- */

static void
tell_away(struct way *w, enum link_message type, const char *why)
{
	OWN(buf_free) struct buf message = {0};

	if (strcmp(w->told, why) == 0)
		return;
	snprintf(w->told, sizeof(w->told), "%s", why);
	ipc_begin(&message, type);
	buf_put_str(&message, w->service.home);
	buf_put_str(&message, why);
	(void)ipc_send(LINK_CHANNEL_FD, &message, NULL, 0, NULL);
}

static void
stop(struct way *w)
{
	resolver_cancel(&w->resolving);
	if (w->trying)
		dial_drop(&w->dial);
	w->trying = false;
	pump_close(&w->pump);
	loop_cancel_timer(w->dialer->loop, &w->timer);
}

static void
fail_as(struct way *w, enum link_message type, const char *why)
{
	uint64_t pause = AGAIN_MIN_MS;

	stop(w);
	if (w->dialer->home != NULL) {
		(void)err_set(&w->dialer->why, ECONNREFUSED, "the service at %s: %.500s", w->service.address, why);
		loop_quit(w->dialer->loop);
		return;
	}
	if (w->joined)
		w->failures = 0;
	w->joined = false;
	tell_away(w, type, why);
	for (unsigned i = 0; i < w->failures && pause < AGAIN_MAX_MS; i++)
		pause *= 2;
	w->failures++;
	loop_set_timer(w->dialer->loop, &w->timer, pause < AGAIN_MAX_MS ? pause : AGAIN_MAX_MS);
}

static void
fail(struct way *w, const char *why)
{
	fail_as(w, LINK_AWAY, why);
}

/* ---- its steps ---- */

static void
over(void *arg, const char *why)
{
	fail(arg, why);
}

static void
ready(void *arg)
{
	struct way *w = arg;
	struct dialer *d = w->dialer;

	if (d->home != NULL)
		(void)pump_say(&w->pump, &(struct link_hello_message){ .type = LINK_ENROL, .secret = d->token.secret,
		               .name = d->name, .home = d->home, .pool = d->pool, .pem = d->request });
}

static void
welcome(struct way *w, size_t len)
{
	OWN(buf_free) struct buf message = {0};
	struct err err = {0};
	OWN(closep) int fd = pump_join(&w->pump, len, &err);

	if (fd < 0) {
		fail(w, err.text);
		return;
	}
	loop_cancel_timer(w->dialer->loop, &w->timer);
	w->joined = true;
	w->told[0] = '\0';
	ipc_begin(&message, LINK_SERVICE);
	buf_put_str(&message, w->service.home);
	if (ipc_send(LINK_CHANNEL_FD, &message, &fd, 1, &err) < 0)
		fail(w, err.text);
}

static void
enrolled(struct way *w, const struct link_hello_message *said)
{
	struct dialer *d = w->dialer;
	OWN(closep) int folder = openat(d->dir, LINK_JOINING, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int r = folder < 0 ? err_errno(&d->why, "cannot open the folder '" LINK_JOINING "'") :
	        link_key_certify(folder, said->pem, &d->why);

	r = r == 0 ? link_services_add(d->dir, said->home, &d->token, &d->why) : r;
	d->done = r == 0;
	loop_quit(d->loop);
}

static void
heard(void *arg)
{
	struct way *w = arg;
	struct link_hello_message said;
	size_t len;
	int r = link_hello_get(&w->pump.in, true, &said, &len);

	if (r == 0)
		return;
	if (r > 0 && said.type == LINK_REFUSED) {
		OWN(freep) char *why = strdup(said.why);

		/* A certificate is refused for this reason alone. */
		fail_as(w, LINK_REMOVED, why != NULL ? why : "it refuses this worker");
	} else if (r > 0 && said.type == LINK_WELCOME && w->dialer->home == NULL && strcmp(said.home, w->service.home) == 0) {
		welcome(w, len);
	} else if (r > 0 && said.type == LINK_ENROLLED && w->dialer->home != NULL) {
		enrolled(w, &said);
	} else {
		fail(w, "it sent something else than cloister does");
	}
}

static void
dialed(void *arg, int fd, const struct address *address, int error)
{
	struct way *w = arg;
	SSL *ssl = fd < 0 ? NULL : SSL_new(w->tls);
	const int yes = 1, idle_s = 30, lost_ms = 60000;

	(void)address;
	w->trying = false;
	if (ssl == NULL) {
		if (fd >= 0)
			close(fd);
		fail(w, fd < 0 ? strerrordesc_np(error) : "out of memory");
		return;
	}
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost_ms, sizeof(lost_ms));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	SSL_set_connect_state(ssl);
	w->pump = (struct link_pump){ .ready = ready, .heard = heard, .over = over, .arg = w };
	pump_open(&w->pump, w->dialer->loop, fd, ssl);
}

static void
resolved(void *arg, const struct address *addresses, size_t n, const char *problem)
{
	struct way *w = arg;

	if (n == 0) {
		fail(w, problem != NULL ? problem : "its name has no address");
		return;
	}
	w->trying = true;
	dial_start(&w->dial, w->dialer->loop, addresses, n, w->where.port, dialed, w);
}

static void
attempt(struct way *w)
{
	struct address a;

	loop_set_timer(w->dialer->loop, &w->timer, PATIENCE_MS);
	if (address_parse(w->where.host, &a)) {
		resolved(w, &a, 1, NULL);
		return;
	}
	w->resolving = (struct resolve_wait){ .done = resolved, .arg = w };
	resolver_ask(w->dialer->resolver, w->where.host, &w->resolving);
}

static void
timer_due(void *arg)
{
	struct way *w = arg;

	if (w->trying || w->pump.is_open || w->resolving.at != NULL)
		fail(w, "it does not answer");
	else
		attempt(w);
}

/* ---- the whole ---- */

static int
set_up(struct dialer *d, struct err *err)
{
	int r = loop_new(&d->loop, err);

	r = r == 0 ? resolver_new(&d->resolver, err) : r;
	if (r == 0)
		resolver_start(d->resolver, d->loop);
	return r;
}

static int
add_way(struct dialer *d, const struct link_service *service, bool has_key, struct err *err)
{
	struct way *w = &d->ways[d->n];
	OWN(closep) int folder = has_key ? openat(d->dir, service->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
	int r;

	if (has_key && folder < 0)
		return err_errno(err, "cannot open the folder of the service %s", service->home);
	*w = (struct way){ .dialer = d, .service = *service, .timer = { .due = timer_due, .arg = w } };
	r = link_address_parse(service->address, false, &w->where, err);
	r = r == 0 ? link_tls_worker(w->service.print, folder, &w->tls, err) : r;
	if (r == 0)
		d->n++;
	return r;
}

static int
run(struct dialer *d, const char *const *writable, struct err *err)
{
	static const char *const readable[] = { "/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/gai.conf", NULL };
	int r = link_lock_down(readable, writable, err);

	for (size_t i = 0; r == 0 && i < d->n; i++)
		attempt(&d->ways[i]);
	return r == 0 ? loop_run(d->loop, err) : r;
}

int
link_dial(struct err *err)
{
	static struct dialer d;
	struct link_service services[LINK_SERVICES_MAX];
	size_t n = 0;
	int r;

	d.dir = data_folder(LINK_SERVICES, true, err);
	if (d.dir < 0)
		return d.dir;
	r = set_up(&d, err);
	r = r == 0 ? link_services_list(d.dir, services, &n, err) : r;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_way(&d, &services[i], true, err);
	r = r == 0 ? link_watch_parent(d.loop, err) : r;
	return r == 0 ? run(&d, NULL, err) : r;
}

/* The machine's name, as far as it is one for `cloister worker list`. */
static void
find_name(char ret_name[LINK_NAME_MAX + 1])
{
	if (gethostname(ret_name, LINK_NAME_MAX) < 0)
		ret_name[0] = '\0';
	ret_name[LINK_NAME_MAX] = '\0';
	if (!link_is_name(ret_name, LINK_NAME_MAX))
		snprintf(ret_name, LINK_NAME_MAX + 1, "worker");
}

static int
prepare(struct dialer *d, struct err *err)
{
	OWN(closep) int folder = -1;
	int r = link_services_clear(d->dir, err);

	if (r == 0 && mkdirat(d->dir, LINK_JOINING, 0700) < 0)
		r = err_errno(err, "cannot make a folder for the service");
	folder = r < 0 ? -1 : openat(d->dir, LINK_JOINING, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r == 0 && folder < 0)
		r = err_errno(err, "cannot open a folder for the service");
	return r == 0 ? link_key_make(folder, d->request, err) : r;
}

int
link_join(const char *token, const char *home, const char *pool, struct err *err)
{
	static struct dialer d;
	OWN(freep) char *path = data_path(LINK_SERVICES, err);
	const char *const writable[] = { path, NULL };
	struct link_service service = {0};
	int r = path == NULL ? -ENOENT : link_token_parse(token, &d.token, err);

	if (r < 0)
		return r;
	d.dir = data_folder(LINK_SERVICES, true, err);
	if (d.dir < 0)
		return d.dir;
	if (link_services_used(d.dir, d.token.secret))
		return 0;
	d.home = home;
	d.pool = pool;
	find_name(d.name);
	snprintf(service.address, sizeof(service.address), "%s", d.token.address);
	snprintf(service.print, sizeof(service.print), "%s", d.token.print);
	r = set_up(&d, err);
	r = r == 0 ? prepare(&d, err) : r;
	r = r == 0 ? add_way(&d, &service, false, err) : r;
	r = r == 0 ? run(&d, writable, err) : r;
	if (r == 0 && !d.done) {
		*err = d.why;
		r = -d.why.code;
	}
	return r;
}

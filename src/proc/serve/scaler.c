/* scaler.c - see scaler.h. */
#include "proc/serve/scaler.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "canon/canon.h"
#include "dispatch/dispatch.h"
#include "fleet/fleet_handle.h"
#include "fleet/fleet_rows.h"
#include "fleet/fleet_scale.h"
#include "link/link_cert.h"
#include "link/link_token.h"
#include "link/link_workers.h"
#include "loop/loop.h"
#include "registry/registry.h"
#include "serve/pool.h"

#define LOOK_MS 2000
#define THREADS 2                       /* so that one engine that does not answer holds up no other */
#define SEATS_MAX 64                    /* targets */
#define COUNT_MS 60000                  /* an engine without work is asked so often */
#define TOKEN_S 3600                    /* an image may have to be fetched first */
#define TEXT_MAX (128 * 1024)           /* of a target: it goes into one message */

/* One target. */
struct seat {
	struct serve_job job;           /* first */
	struct scaler *scaler;
	struct seat *next;
	char name[REGISTRY_NAME_MAX + 1];
	bool busy, listed;
	/* What follows is the job's. */
	char hash[HASH_NAME + 1];
	struct fleet_handle *handle;    /* set under the scaler's lock, so that it can be interrupted */
	unsigned failures;
	uint64_t pause_until_ms, quiet_from_ms;         /* no worker is started; the failures are forgotten */
	uint64_t counted_ms;            /* 0: never */
	struct fleet_row row;           /* as it was put last */
	bool is_put;
};

struct scaler {
	struct serve_job job;           /* first: lists the targets */
	struct loop *loop;
	struct loop_timer due;
	struct serve_pool *pool;
	struct seat *seats;
	int folder;                     /* DATA/serve/workers; -1: no worker can join this service */
	bool listing;
	pthread_mutex_t lock;           /* protects what follows, and the handles */
	bool stopping;
	/* The job's. */
	char names[SEATS_MAX][REGISTRY_NAME_MAX + 1];
	size_t n_names;
};

static void
let_go(struct seat *s)
{
	struct fleet_handle *h;

	pthread_mutex_lock(&s->scaler->lock);
	h = TAKE(s->handle);
	pthread_mutex_unlock(&s->scaler->lock);
	fleet_handle_close(h);
}

/* ---- one target, in a thread ---- */

struct work {
	struct seat *seat;
	struct registry *reg;
	struct fleet_plan plan;
	char *text;                     /* its content */
	struct fleet_need need;
	uint64_t leased_ms;
	struct fleet_count count;
	struct err *err;
};

static void
work_free(struct work *w)
{
	fleet_plan_free(&w->plan);
	free(w->text);
}

static void
take_pool(void *arg, const char *pool, uint64_t waiting, uint64_t taken, uint64_t oldest_ms)
{
	struct work *w = arg;

	(void)oldest_ms;
	if (strcmp(pool, w->plan.pool) == 0) {
		w->need.waiting = waiting;
		w->need.taken = taken;
	}
}

/* Returns 0 if there is nothing to do here: another service scales it, or it is retired. */
static int
read_target(struct work *w)
{
	struct seat *s = w->seat;
	OWN(json_decrefp) json_t *content = NULL;
	struct registry_version version;
	char tag[FLEET_TAG_LEN + 1];
	size_t len = 0;
	int r = registry_resolve(w->reg, REGISTRY_TARGET, s->name, REGISTRY_LIVE, &version, &content, w->err);

	if (r == -ENOENT || r == -EIDRM)
		return 0;
	w->leased_ms = loop_now_ms();
	r = r == 0 ? fleet_lease_take(registry_db(w->reg), s->name, tag, w->err) : r;
	if (r <= 0)
		return r;
	r = canon_dump(content, TEXT_MAX, &w->text, &len, w->err);
	r = r == 0 ? fleet_plan_read(w->text, len, tag, &w->plan, w->err) : r;
	if (r < 0)
		return r;
	/* Another version has another engine perhaps. */
	if (strcmp(s->hash, version.hash) != 0)
		let_go(s);
	snprintf(s->hash, sizeof(s->hash), "%s", version.hash);
	w->need = (struct fleet_need){ .slots = w->plan.slots, .min = w->plan.min, .max = w->plan.max };
	r = dispatch_count_pools(w->reg, take_pool, w, w->err);
	r = r == 0 ? dispatch_count_reserves(w->reg, w->plan.pool, &w->need.reserved, NULL, w->err) : r;
	return r < 0 ? r : 1;
}

static int
open_handle(struct work *w)
{
	struct seat *s = w->seat;
	struct fleet_handle *h = NULL;
	bool stops;
	int r = s->handle != NULL ? 0 : fleet_handle_open(w->text, w->plan.tag, &h, w->err);

	if (r < 0 || h == NULL)
		return r;
	pthread_mutex_lock(&s->scaler->lock);
	stops = s->scaler->stopping;
	s->handle = stops ? NULL : h;
	pthread_mutex_unlock(&s->scaler->lock);
	if (stops)
		fleet_handle_close(h);
	return stops ? err_set(w->err, ECANCELED, "the service stops") : 0;
}

static int
make_token(struct work *w, const struct link_authority *authority, char ret_text[LINK_TOKEN_MAX])
{
	struct link_token t = {0};
	int r = link_workers_add_token(w->seat->scaler->folder, w->plan.pool, (uint64_t)time(NULL) + TOKEN_S, true, t.secret,
	                               w->err);

	if (r < 0)
		return r;
	snprintf(t.print, sizeof(t.print), "%s", authority->print);
	snprintf(t.address, sizeof(t.address), "%s", w->plan.service);
	link_token_format(&t, ret_text);
	explicit_bzero(&t, sizeof(t));
	return 0;
}

static int
make_tokens(struct work *w, char (*tokens)[LINK_TOKEN_MAX], size_t n)
{
	OWN(link_authority_free) struct link_authority authority = {0};
	struct link_address where;
	int folder = w->seat->scaler->folder, r;

	if (w->plan.service == NULL)
		return 0;
	if (folder < 0)
		return err_set(w->err, EINVAL, "its workers are to join a service, and this one lets none in: start `cloister serve "
		               "--workers ADDRESS:PORT`");
	r = link_address_parse(w->plan.service, false, &where, w->err);
	r = r == 0 ? link_authority_open(folder, &authority, w->err) : r;
	link_workers_drop_tokens(folder, (uint64_t)time(NULL));
	for (size_t i = 0; r == 0 && i < n; i++)
		r = make_token(w, &authority, tokens[i]);
	return r;
}

static int
start_some(struct work *w, size_t n)
{
	static const size_t size = FLEET_START_MAX * LINK_TOKEN_MAX;
	char (*tokens)[LINK_TOKEN_MAX];
	const char *list[FLEET_START_MAX];
	size_t done = 0;
	int r;

	n = n < FLEET_START_MAX ? n : FLEET_START_MAX;
	tokens = calloc(1, size);
	if (tokens == NULL)
		return err_set(w->err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		list[i] = tokens[i];
	r = make_tokens(w, tokens, n);
	r = r == 0 ? fleet_handle_start(w->seat->handle, false, list, n, &done, NULL, w->err) : r;
	explicit_bzero(tokens, size);
	free(tokens);
	w->count.alive += (unsigned)done;
	return r;
}

/* Counts the workers, and starts what is missing. */
static int
tend(struct work *w, unsigned want)
{
	struct seat *s = w->seat;
	int r = open_handle(w);

	r = r == 0 ? fleet_handle_count(s->handle, &w->count, w->err) : r;
	if (r < 0)
		return r;
	s->counted_ms = loop_now_ms();
	if (w->count.failed > 0)
		return err_set(w->err, ECHILD, "%s", w->count.why);
	if (w->count.alive >= want || loop_now_ms() < s->pause_until_ms ||
	    /* By the end of the next question another service may have it. */
	    loop_now_ms() - w->leased_ms > FLEET_LEASE_USE_MS)
		return 0;
	return start_some(w, want - w->count.alive);
}

/* ---- what is known of it ---- */

/* A failure is shown once, and the next try comes later each time. */
static void
take_failure(struct seat *s, const struct err *err)
{
	uint64_t pause = fleet_scale_pause_ms(++s->failures), now = loop_now_ms();

	s->pause_until_ms = now + pause;
	s->quiet_from_ms = now + 2 * pause + COUNT_MS;
	if (strcmp(s->row.error, err->text) == 0)
		return;
	fleet_say(s->row.error, sizeof(s->row.error), err->text);
	s->is_put = false;
	fprintf(stderr, "cloister: target %s: %s\n", s->name, s->row.error);
}

static void
take_success(struct seat *s)
{
	if (s->failures == 0 || loop_now_ms() < s->quiet_from_ms)
		return;
	s->failures = 0;
	s->row.error[0] = '\0';
	s->is_put = false;
	fprintf(stderr, "cloister: target %s: works again\n", s->name);
}

static void
put_row(struct work *w, unsigned want)
{
	struct seat *s = w->seat;

	if (s->is_put && s->row.workers == w->count.alive && s->row.wanted == want)
		return;
	s->row.workers = w->count.alive;
	s->row.wanted = want;
	s->is_put = fleet_row_put(registry_db(w->reg), s->name, &s->row, NULL) == 0;
}

static void
work_seat(struct serve_job *job, void *own)
{
	struct seat *s = (struct seat *)job;
	struct err err = {0};
	OWN(work_free) struct work w = { .seat = s, .reg = own, .err = &err };
	unsigned want;
	int r = read_target(&w);

	if (r == 0) {
		let_go(s);
		s->counted_ms = 0;
		s->is_put = false;
		return;
	}
	want = r < 0 ? 0 : fleet_scale_want(&w.need);
	w.count.alive = s->row.workers;
	/* An engine that failed is left alone for a while, and one that has nothing to do is asked now and then. */
	if (r > 0 && (loop_now_ms() < s->pause_until_ms || (want == 0 && s->row.workers == 0 && s->counted_ms != 0 &&
	              loop_now_ms() - s->counted_ms < COUNT_MS))) {
		put_row(&w, want);
		return;
	}
	r = r < 0 ? r : tend(&w, want);
	if (r == -ECANCELED)
		return;
	if (r < 0)
		take_failure(s, &err);
	else
		take_success(s);
	/* What has ended once answers no more. */
	if (r == -EPIPE || r == -ETIMEDOUT || r == -EBADMSG)
		let_go(s);
	if (*w.plan.tag != '\0')
		put_row(&w, want);
}

/* ---- all targets ---- */

static void
work_list(struct serve_job *job, void *own)
{
	struct scaler *sc = (struct scaler *)job;
	OWN(registry_page_free) struct registry_page page = {0};

	sc->n_names = 0;
	if (registry_list(own, REGISTRY_TARGET, REGISTRY_LIVE, "", SEATS_MAX, &page, NULL) < 0) {
		/* Those that are known stay. */
		sc->n_names = SIZE_MAX;
		return;
	}
	for (; sc->n_names < page.n; sc->n_names++)
		snprintf(sc->names[sc->n_names], sizeof(sc->names[0]), "%s", page.at[sc->n_names].name);
}

static void
seat_done(struct serve_job *job)
{
	((struct seat *)job)->busy = false;
}

static struct seat *
find_seat(struct scaler *sc, const char *name)
{
	struct seat *s = sc->seats;

	while (s != NULL && strcmp(s->name, name) != 0)
		s = s->next;
	if (s != NULL || (s = calloc(1, sizeof(*s))) == NULL)
		return s;
	s->job = (struct serve_job){ .work = work_seat, .done = seat_done };
	s->scaler = sc;
	snprintf(s->name, sizeof(s->name), "%s", name);
	s->next = sc->seats;
	sc->seats = s;
	return s;
}

static void
list_done(struct serve_job *job)
{
	struct scaler *sc = (struct scaler *)job;
	struct seat **at = &sc->seats, *s;

	sc->listing = false;
	for (s = sc->seats; s != NULL && sc->n_names != SIZE_MAX; s = s->next)
		s->listed = false;
	for (size_t i = 0; sc->n_names != SIZE_MAX && i < sc->n_names; i++)
		if ((s = find_seat(sc, sc->names[i])) != NULL)
			s->listed = true;
	while ((s = *at) != NULL) {
		if (s->busy || s->listed) {
			if (!s->busy) {
				s->busy = true;
				serve_pool_add(sc->pool, &s->job);
			}
			at = &s->next;
			continue;
		}
		*at = s->next;
		let_go(s);
		free(s);
	}
}

static void
look(void *arg)
{
	struct scaler *sc = arg;

	loop_set_timer(sc->loop, &sc->due, LOOK_MS);
	if (sc->listing)
		return;
	sc->listing = true;
	serve_pool_add(sc->pool, &sc->job);
}

/* ---- the scaler ---- */

static void *
thread_new(struct err *err)
{
	struct registry *reg = NULL;

	return registry_open(true, &reg, err) < 0 ? NULL : reg;
}

static void
thread_free(void *own)
{
	fleet_lease_drop_all(registry_db(own));
	registry_close(own);
}

int
scaler_start(struct loop *loop, int folder, bool lets_in, struct scaler **ret_scaler, struct err *err)
{
	struct scaler *sc = calloc(1, sizeof(*sc));
	int r;

	if (sc == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*sc = (struct scaler){ .job = { .work = work_list, .done = list_done }, .loop = loop, .folder = -1 };
	pthread_mutex_init(&sc->lock, NULL);
	loop_prepare_timer(&sc->due, look, sc);
	if (lets_in)
		sc->folder = openat(folder, "workers", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	r = lets_in && sc->folder < 0 ? err_errno(err, "cannot open the folder of workers") :
	    serve_pool_new(loop, THREADS, thread_new, thread_free, &sc->pool, err);
	if (r < 0) {
		scaler_stop(sc);
		return r;
	}
	loop_set_timer(loop, &sc->due, 0);
	*ret_scaler = sc;
	return 0;
}

void
scaler_stop(struct scaler *sc)
{
	struct seat *s;

	if (sc == NULL)
		return;
	loop_cancel_timer(sc->loop, &sc->due);
	pthread_mutex_lock(&sc->lock);
	sc->stopping = true;
	for (s = sc->seats; s != NULL; s = s->next)
		if (s->handle != NULL)
			fleet_handle_interrupt(s->handle);
	pthread_mutex_unlock(&sc->lock);
	serve_pool_free(sc->pool);
	while ((s = sc->seats) != NULL) {
		sc->seats = s->next;
		fleet_handle_close(s->handle);
		free(s);
	}
	close_fd(&sc->folder);
	pthread_mutex_destroy(&sc->lock);
	free(sc);
}

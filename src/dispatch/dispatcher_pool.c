/* dispatcher_pool.c - what a dispatcher does where several share the registry: takes what waits for a worker, keeps
 * its claims, and follows what others have. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "dispatch/dispatcher_parts.h"
#include "registry/registry.h"
#include "store/db.h"

#define NEWS_MAX 1024                   /* in one go */
#define ROUNDS_MAX 8
#define WAITING_MAX 64                  /* in one round */
#define SEND_MS 25
#define SEND_EVERY_MS 100               /* while there is always something to send */
#define SEND_MAX 64                     /* dispatches in one go */
#define CLAIM_MS 1000                   /* when no news of work came */
#define LEASE_SPARE_MS 10000            /* a cell is stopped so long before its claim is over */

/* Whoever shares the registry, but not this folder, can only leave a mark. */
static void
heed_cancels(struct dispatcher *dispatcher)
{
	OWN(db_finish) struct db_query q = {0};
	struct db *db = registry_db(dispatcher->reg);
	struct drive *drive;
	int r;

	r = db_ask(db, &q, NULL, "SELECT id FROM dispatches WHERE home = ? AND state < 3 AND cancel > 0", "s",
	           db_home(db));
	while (r == 0 && db_next(&q, NULL) > 0) {
		drive = dispatcher_find(dispatcher, db_text(&q, 0));
		if (drive != NULL && !drive->d.cancel)
			drive_heed_cancel(drive);
	}
}

/* How many it runs, or is about to. */
static size_t
claimed(const struct dispatcher *dispatcher)
{
	size_t n = 0;

	for (const struct drive *drive = dispatcher->drives.first; drive != NULL; drive = drive->next)
		n += drive->phase != DRIVE_OVER && drive->phase != DRIVE_AWAY;
	return n;
}

static bool
is_kept(const struct drive *drive)
{
	return drive->phase != DRIVE_OVER && drive->phase != DRIVE_AWAY && drive->phase != DRIVE_LEAVES &&
	       drive_is_claimed(drive);
}

/* ---- sending ---- */

struct parcel {
	struct drive *drives[SEND_MAX];
	struct dispatch_sending sendings[SEND_MAX];
	size_t n;
};

static void
parcel_free(struct parcel *parcel)
{
	for (size_t i = 0; i < parcel->n; i++) {
		union { const char *in; char *out; } text = { .in = parcel->sendings[i].text };

		free(text.out);
	}
}

static int
put_in(struct parcel *parcel, struct drive *drive, const struct dispatch_ending *end, struct err *err)
{
	struct dispatch_sending *s = &parcel->sendings[parcel->n];
	char *text;
	int r;

	*s = (struct dispatch_sending){ .id = drive->d.id, .runs = drive->runs, .end = end };
	r = dispatch_read_events(drive->d.id, drive->sent, &text, &s->len, err);
	if (r < 0)
		return r;
	s->text = text;
	/* Whole lines: the last one may just be written. */
	while (s->len > 0 && text[s->len - 1] != '\n')
		s->len--;
	parcel->drives[parcel->n++] = drive;
	return 0;
}

/* -ESTALE: the first was not this data folder's. */
static int
send_parcel(struct dispatcher *dispatcher, struct parcel *parcel, struct err *err)
{
	struct db *db = registry_db(dispatcher->reg);
	int r = dispatch_send(db, db_home(db), parcel->sendings, parcel->n, err);

	for (size_t i = 0; r == 0 && i < parcel->n; i++) {
		const struct dispatch_sending *s = &parcel->sendings[i];
		struct drive *drive = parcel->drives[i];

		/* What is another's will be found by the next look at all claims. */
		drive->unsent = !s->ours || s->put < s->len;
		drive->runs = drive->runs && !s->ours;
		drive->sent += s->ours ? s->put : 0;
	}
	return r == 0 && !parcel->sendings[0].ours ?
	       err_set(err, ESTALE, "dispatch %s is another worker's now", parcel->sendings[0].id) : r;
}

int
dispatcher_send(struct dispatcher *dispatcher, struct drive *drive, const struct dispatch_ending *end, struct err *err)
{
	bool more;
	int r;

	dispatcher->sent_ms = loop_now_ms();
	do {
		OWN(parcel_free) struct parcel parcel = { .n = 0 };

		r = drive == NULL ? 0 : put_in(&parcel, drive, end, err);
		for (struct drive *d = dispatcher->drives.first; r == 0 && d != NULL && parcel.n < SEND_MAX; d = d->next)
			if (d != drive && d->unsent && is_kept(d))
				(void)put_in(&parcel, d, NULL, NULL);
		if (r < 0 || parcel.n == 0)
			return r;
		r = send_parcel(dispatcher, &parcel, err);
		/* An end goes with the last of its events. */
		more = end != NULL && parcel.sendings[0].put < parcel.sendings[0].len;
	} while (r == 0 && more);
	return r;
}

/* What fails is sent again with the next round. */
static void
send_due(void *arg)
{
	struct dispatcher *dispatcher = arg;
	struct drive *drive = dispatcher->drives.first;

	dispatcher->sends = false;
	if (dispatcher_send(dispatcher, NULL, NULL, NULL) < 0)
		return;
	while (drive != NULL && !(drive->unsent && is_kept(drive)))
		drive = drive->next;
	/* There was more than goes at once. */
	if (drive != NULL)
		dispatcher_send_soon(dispatcher);
}

void
dispatcher_send_soon(struct dispatcher *dispatcher)
{
	uint64_t since = loop_now_ms() - dispatcher->sent_ms;

	if (!dispatcher->sends)
		loop_set_timer(dispatcher->loop, &dispatcher->send, since + SEND_MS < SEND_EVERY_MS ? SEND_EVERY_MS - since : SEND_MS);
	dispatcher->sends = true;
}

/* ---- claims ---- */

/* The file gets what was recorded of it so far, *ret_len bytes. */
static int
put_first_events(struct db *db, const struct dispatch_taken *taken, uint64_t *ret_len, struct err *err)
{
	OWN(closep) int folder = dispatch_folder(taken->d.id, true, err);
	OWN(closep) int fd = -1;
	struct stat st;
	int r;

	if (folder < 0)
		return folder;
	/* A claim that was lost may have left what nobody else has. */
	if (!taken->d.mine)
		(void)unlinkat(folder, DISPATCH_EVENTS_FILE, 0);
	fd = taken->events == NULL ? -1 :
	     openat(folder, DISPATCH_EVENTS_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? dispatch_mirror(db, taken->d.id, err) : write_all(fd, taken->events, strlen(taken->events), err);
	if (r == 0 && fstatat(folder, DISPATCH_EVENTS_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0)
		*ret_len = (uint64_t)st.st_size;
	return r;
}

/* Begins what was claimed just now, or lets others have it. */
static bool
take(struct dispatcher *dispatcher, struct dispatch_taken *taken)
{
	struct db *db = registry_db(dispatcher->reg);
	OWN(closep) int lock = dispatch_lock(taken->d.id, NULL);
	uint64_t sent = 0;
	int r = lock < 0 ? lock : put_first_events(db, taken, &sent, NULL);

	r = r == 0 ? dispatcher_add_claimed(dispatcher, &taken->d, sent, TAKE_FD(lock), NULL) : r;
	/* -EBUSY: another process of this folder drives it, or this one has yet to remove what it lost of it. */
	if (r < 0 && (r != -EBUSY || dispatcher_find(dispatcher, taken->d.id) != NULL))
		(void)dispatch_release_claim(db, &taken->d, NULL);
	return r == 0;
}

/* Once for each that comes first. */
static void
tell_left(struct dispatcher *dispatcher)
{
	char id[DISPATCH_ID_LEN + 1], needs[DISPATCH_NEEDS_MAX];

	if (dispatch_find_left(registry_db(dispatcher->reg), dispatcher->options.pool, id, needs, NULL) <= 0 ||
	    strcmp(id, dispatcher->left) == 0)
		return;
	memcpy(dispatcher->left, id, sizeof(id));
	fprintf(stderr, "cloister: dispatch %s needs %s, and this worker's cells have the boundary 'process': it is left to other "
	        "workers of the pool %s\n", id, needs, dispatcher->options.pool);
}

static void
claim_due(void *arg)
{
	struct dispatcher *dispatcher = arg;
	struct dispatch_taken taken[DISPATCH_CLAIMS_MAX] = {0};
	const unsigned most = dispatcher->options.concurrency;
	size_t room, asked;
	bool all = true;
	int n;

	if (dispatcher->options.held)
		return;
	do {
		room = dispatcher->draining || claimed(dispatcher) >= most ? 0 : most - claimed(dispatcher);
		asked = room < DISPATCH_CLAIMS_MAX ? room : DISPATCH_CLAIMS_MAX;
		n = asked == 0 ? 0 : dispatch_claim(registry_db(dispatcher->reg), dispatcher->options.pool, dispatcher->options.bare, most, taken, asked,
		                                     NULL);
		for (int i = 0; i < n; i++) {
			all = take(dispatcher, &taken[i]) && all;
			dispatch_taken_free(&taken[i]);
		}
	} while (all && n > 0 && (size_t)n == asked);
	if (dispatcher->options.bare && !dispatcher->draining)
		tell_left(dispatcher);
	loop_set_timer(dispatcher->loop, &dispatcher->claim, CLAIM_MS);
}

/* Goes on with what this data folder has claimed before. */
static bool
take_again(struct dispatcher *dispatcher, const char *id)
{
	OWN(closep) int lock = dispatch_lock(id, NULL);
	/* What is recorded so far comes first. */
	int r = lock < 0 ? lock : dispatch_mirror(registry_db(dispatcher->reg), id, NULL);

	return r == 0 && dispatcher_add(dispatcher, id, TAKE_FD(lock), false, NULL) == 0;
}

static void
lose_all(struct dispatcher *dispatcher)
{
	for (struct drive *drive = dispatcher->drives.first; drive != NULL; drive = drive->next)
		if (is_kept(drive))
			drive_lose(drive);
}

/* Renews the claims that are still this data folder's, and lets go of the others.  A worker goes on with those that nobody
 * drives: another one with this folder was killed, or the answer to a claim was lost. */
static int
look_at_claims(struct dispatcher *dispatcher, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	struct drive *drive;
	int r = dispatch_keep_claims(registry_db(dispatcher->reg), &q, err);

	for (drive = dispatcher->drives.first; r == 0 && drive != NULL; drive = drive->next)
		drive->kept = false;
	while (r == 0 && (r = db_next(&q, err)) > 0) {
		drive = dispatcher_find(dispatcher, db_text(&q, 0));
		if (drive == NULL && dispatcher->options.pool != NULL && !dispatcher->draining &&
		    take_again(dispatcher, db_text(&q, 0)))
			drive = dispatcher_find(dispatcher, db_text(&q, 0));
		if (drive != NULL)
			drive->kept = drive->d.claim == (uint64_t)db_int(&q, 1);
		r = 0;
	}
	for (drive = dispatcher->drives.first; r == 0 && drive != NULL; drive = drive->next)
		if (!drive->kept && is_kept(drive))
			drive_lose(drive);
	return r;
}

/* Whoever cannot renew its claims stops their cells before another machine may begin them.  This clock goes on while the machine
 * sleeps. */
static void
keep_claims(struct dispatcher *dispatcher)
{
	uint64_t now = loop_now_ms();

	if (look_at_claims(dispatcher, NULL) == 0)
		dispatcher->renewed_ms = now;
	else if (loop_now_ms() - dispatcher->renewed_ms > DISPATCH_LEASE_MS - DISPATCH_RENEW_MS - LEASE_SPARE_MS)
		lose_all(dispatcher);
}

/* ---- what others have ---- */

/* Copies what was recorded of those with news, and looks at their rows.  What fails has news still. */
static void
mirror_news(struct dispatcher *dispatcher)
{
	struct dispatch_mirrored mirrored[DISPATCH_MIRROR_MAX];
	struct drive *drive, *failed[DISPATCH_MIRROR_MAX];
	size_t n, n_failed = 0;
	int r;

	do {
		for (n = 0; n < DISPATCH_MIRROR_MAX && (drive = dispatcher_take_told(dispatcher)) != NULL; n++)
			mirrored[n] = (struct dispatch_mirrored){ .id = drive->d.id, .arg = drive };
		r = n == 0 ? 0 : dispatch_mirror_all(registry_db(dispatcher->reg), mirrored, n, NULL);
		for (size_t i = 0; i < n; i++)
			if (mirrored[i].done)
				drive_see(mirrored[i].arg, &mirrored[i].d);
			else
				failed[n_failed++] = mirrored[i].arg;
	} while (r == 0 && n == DISPATCH_MIRROR_MAX && n_failed == 0);
	while (n_failed > 0)
		dispatcher_note_news(failed[--n_failed]);
}

/* Those that a worker has, and some of those that still wait: of these, news comes when one is taken, but news may get
 * lost with a connection. */
static void
mirror_all(struct dispatcher *dispatcher)
{
	size_t i = 0, waiting = 0, first = dispatcher->looked_at;

	for (struct drive *drive = dispatcher->away.first; drive != NULL; drive = drive->next) {
		if (!drive_waits_for_worker(drive)) {
			dispatcher_note_news(drive);
		} else if (i++ >= first && waiting < WAITING_MAX) {
			waiting++;
			dispatcher_note_news(drive);
		}
	}
	dispatcher->looked_at = first + waiting >= i ? 0 : first + waiting;
	mirror_news(dispatcher);
}

/* *RET_WORK: something waits for a worker. */
static bool
take_news(struct dispatcher *dispatcher, bool *ret_work)
{
	char about[DB_ABOUT_MAX];
	struct drive *drive;
	int n = 0;

	for (; n < NEWS_MAX && db_take_news(registry_db(dispatcher->reg), about); n++) {
		drive = dispatcher_find(dispatcher, about);
		if (drive == NULL)
			*ret_work = true;
		else if (drive->phase == DRIVE_AWAY)
			dispatcher_note_news(drive);
		else if (!drive->d.cancel)
			drive_heed_cancel(drive);
	}
	mirror_news(dispatcher);
	return n > 0;
}

static void
news_came(void *arg, uint32_t events)
{
	struct dispatcher *dispatcher = arg;
	bool work = false, any = take_news(dispatcher, &work);

	(void)events;
	/* Until the connection has been made again. */
	if (db_news_fd(registry_db(dispatcher->reg)) < 0)
		loop_unwatch(dispatcher->loop, &dispatcher->news);
	/* More may come with the answers to what is asked here. */
	for (int i = 0; any && i < ROUNDS_MAX; i++) {
		if (work && dispatcher->options.pool != NULL)
			claim_due(dispatcher);
		work = false;
		any = take_news(dispatcher, &work);
	}
}

/* The descriptor is another one when the connection was lost. */
static void
watch_news(struct dispatcher *dispatcher)
{
	int fd = db_news_fd(registry_db(dispatcher->reg));

	/* Its number may be that of something else by now, which must still be watched. */
	if (fd != dispatcher->news.fd)
		dispatcher->news.fd = -1;
	loop_unwatch(dispatcher->loop, &dispatcher->news);
	dispatcher->news.events = 0;
	dispatcher->news.fd = fd;
	if (dispatcher->news.fd >= 0)
		(void)loop_watch(dispatcher->loop, &dispatcher->news, EPOLLIN, NULL);
}

void
dispatcher_look_after_pools(struct dispatcher *dispatcher)
{
	struct db *db = registry_db(dispatcher->reg);

	if (*db_home(db) == '\0')
		return;
	keep_claims(dispatcher);
	if (dispatcher->adopting || dispatcher->options.pool != NULL)
		(void)dispatch_take_back(db, &dispatcher->suspects, NULL);
	mirror_all(dispatcher);
	send_due(dispatcher);
	heed_cancels(dispatcher);
	watch_news(dispatcher);
	/* What came with the answers to these questions. */
	news_came(dispatcher, 0);
}

int
dispatcher_begin_pools(struct dispatcher *dispatcher, struct err *err)
{
	bool works = dispatcher->options.pool != NULL;
	int r = db_listen(registry_db(dispatcher->reg), works ? DB_WORK : DB_EVENTS, err);

	loop_prepare_timer(&dispatcher->claim, claim_due, dispatcher);
	loop_prepare_timer(&dispatcher->send, send_due, dispatcher);
	dispatcher->news = (struct loop_source){ .ready = news_came, .arg = dispatcher, .fd = -1 };
	dispatcher->renewed_ms = loop_now_ms();
	if (r < 0)
		return r;
	if (works)
		loop_set_timer(dispatcher->loop, &dispatcher->claim, 0);
	watch_news(dispatcher);
	return 0;
}

void
dispatcher_release(struct dispatcher *dispatcher)
{
	dispatcher->options.held = false;
	loop_set_timer(dispatcher->loop, &dispatcher->claim, 0);
}

void
dispatcher_end_pools(struct dispatcher *dispatcher)
{
	loop_cancel_timer(dispatcher->loop, &dispatcher->claim);
	loop_cancel_timer(dispatcher->loop, &dispatcher->send);
	loop_unwatch(dispatcher->loop, &dispatcher->news);
}

/* dispatcher_pool.c - what a dispatcher does where several share the registry: takes what waits for a worker, keeps
 * its claims, and follows what others have. */
#include <errno.h>
#include <sys/epoll.h>

#include "base/err.h"
#include "base/own.h"
#include "base/timing.h"
#include "dispatch/dispatcher_parts.h"
#include "registry/registry.h"
#include "store/db.h"

#define NEWS_MAX 1024                   /* in one go */
#define ROUNDS_MAX 8
#define WAITING_MAX 64                  /* in one round */
#define SEND_MS 25
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

	for (const struct drive *drive = dispatcher->drives; drive != NULL; drive = drive->next)
		n += drive->phase != DRIVE_OVER && drive->phase != DRIVE_AWAY;
	return n;
}

/* What fails is sent again with the next round. */
static void
send_due(void *arg)
{
	struct dispatcher *dispatcher = arg;

	dispatcher->sends = false;
	for (struct drive *drive = dispatcher->drives; drive != NULL; drive = drive->next)
		if (drive->unsent && drive->phase != DRIVE_OVER)
			(void)drive_upload(drive, NULL);
}

void
dispatcher_send_soon(struct dispatcher *dispatcher)
{
	if (!dispatcher->sends)
		loop_set_timer(dispatcher->loop, &dispatcher->send, SEND_MS);
	dispatcher->sends = true;
}

/* Begins what is this data folder's, or lets others have it. */
static bool
take_claimed(struct dispatcher *dispatcher, const char *id)
{
	struct db *db = registry_db(dispatcher->reg);
	OWN(closep) int lock = dispatch_lock(id, NULL);
	/* What is recorded so far comes first. */
	int r = lock < 0 ? lock : dispatch_mirror(db, id, NULL);

	r = r == 0 ? dispatcher_add(dispatcher, id, TAKE_FD(lock), false, NULL) : r;
	/* -EBUSY: another process of this folder drives it. */
	if (r < 0 && r != -EBUSY)
		(void)dispatch_release_claim(db, id, NULL);
	return r == 0;
}

static void
claim_due(void *arg)
{
	struct dispatcher *dispatcher = arg;
	struct db *db = registry_db(dispatcher->reg);
	char id[DISPATCH_ID_LEN + 1];

	while (!dispatcher->draining && claimed(dispatcher) < dispatcher->options.concurrency &&
	       dispatch_claim(db, dispatcher->options.pool, id, NULL) > 0 && take_claimed(dispatcher, id))
		;
	loop_set_timer(dispatcher->loop, &dispatcher->claim, CLAIM_MS);
}

static void
lose_all(struct dispatcher *dispatcher)
{
	for (struct drive *drive = dispatcher->drives; drive != NULL; drive = drive->next)
		if (drive->phase != DRIVE_OVER && drive_is_claimed(drive))
			drive_lose(drive);
}

/* Finds out which are still this data folder's, and lets go of the others.  A worker goes on with those that nobody
 * drives: another one with this folder was killed, or the answer to a claim was lost. */
static int
look_for_lost(struct dispatcher *dispatcher, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	struct db *db = registry_db(dispatcher->reg);
	struct drive *drive;
	int r = db_ask(db, &q, err, "SELECT id FROM dispatches WHERE home = ? AND state < 3 AND target LIKE 'pool:%'", "s",
	               db_home(db));

	for (drive = dispatcher->drives; r == 0 && drive != NULL; drive = drive->next)
		drive->kept = false;
	while (r == 0 && (r = db_next(&q, err)) > 0) {
		drive = dispatcher_find(dispatcher, db_text(&q, 0));
		if (drive == NULL && dispatcher->options.pool != NULL && !dispatcher->draining &&
		    take_claimed(dispatcher, db_text(&q, 0)))
			drive = dispatcher_find(dispatcher, db_text(&q, 0));
		if (drive != NULL)
			drive->kept = true;
		r = 0;
	}
	for (drive = dispatcher->drives; r == 0 && drive != NULL; drive = drive->next)
		if (!drive->kept && drive->phase != DRIVE_OVER && drive->phase != DRIVE_AWAY && drive_is_claimed(drive))
			drive_lose(drive);
	return r;
}

/* Whoever cannot renew its claims stops their cells before another machine may begin them. */
static void
keep_claims(struct dispatcher *dispatcher)
{
	uint64_t now = timing_now_ns();

	if (dispatch_renew_claims(registry_db(dispatcher->reg), NULL) == 0 && look_for_lost(dispatcher, NULL) == 0)
		dispatcher->renewed_ns = now;
	else if (timing_now_ns() - dispatcher->renewed_ns > (DISPATCH_LEASE_MS - LEASE_SPARE_MS) * 1000000ull)
		lose_all(dispatcher);
}

/* Those that a worker has, and some of those that still wait: of these, news comes when one is taken, but news may get
 * lost with a connection. */
static void
mirror_all(struct dispatcher *dispatcher)
{
	size_t i = 0, waiting = 0, first = dispatcher->looked_at;

	for (struct drive *drive = dispatcher->drives; drive != NULL; drive = drive->next) {
		if (drive->phase != DRIVE_AWAY)
			continue;
		if (!drive_waits_for_worker(drive)) {
			drive_mirror(drive);
		} else if (i++ >= first && waiting < WAITING_MAX) {
			waiting++;
			drive_mirror(drive);
		}
	}
	dispatcher->looked_at = first + waiting >= i ? 0 : first + waiting;
}

static bool
take_news(struct dispatcher *dispatcher)
{
	char about[DB_ABOUT_MAX];
	struct drive *drive;
	int n = 0;

	for (; n < NEWS_MAX && db_take_news(registry_db(dispatcher->reg), about); n++) {
		drive = dispatcher_find(dispatcher, about);
		if (drive != NULL && drive->phase == DRIVE_AWAY)
			drive_mirror(drive);
	}
	return n > 0;
}

static void
news_came(void *arg, uint32_t events)
{
	struct dispatcher *dispatcher = arg;
	bool any = take_news(dispatcher);

	(void)events;
	/* Until the connection has been made again. */
	if (db_news_fd(registry_db(dispatcher->reg)) < 0)
		loop_unwatch(dispatcher->loop, &dispatcher->news);
	/* More may come with the answers to what is asked here. */
	for (int i = 0; any && i < ROUNDS_MAX && dispatcher->options.pool != NULL; i++) {
		heed_cancels(dispatcher);
		claim_due(dispatcher);
		any = take_news(dispatcher);
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
		(void)dispatch_take_back(db, NULL);
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
	dispatcher->renewed_ns = timing_now_ns();
	if (r < 0)
		return r;
	if (works)
		loop_set_timer(dispatcher->loop, &dispatcher->claim, 0);
	watch_news(dispatcher);
	return 0;
}

void
dispatcher_end_pools(struct dispatcher *dispatcher)
{
	loop_cancel_timer(dispatcher->loop, &dispatcher->claim);
	loop_cancel_timer(dispatcher->loop, &dispatcher->send);
	loop_unwatch(dispatcher->loop, &dispatcher->news);
}

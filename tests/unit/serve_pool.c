/* serve_pool.c - tests of the threads: what is heavy does not keep the rest waiting. */
#include <pthread.h>
#include <time.h>

#include "base/err.h"
#include "loop/loop.h"
#include "serve/pool.h"
#include "test.h"

#define THREADS 4
#define HEAVY 6
#define PATIENCE_S 10                   /* only if it is broken */

static struct {
	struct loop *loop;
	pthread_mutex_t lock;
	pthread_cond_t go;
	bool released;
	unsigned at_work, most, n_done;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER, .go = PTHREAD_COND_INITIALIZER };

static void
work_long(struct serve_job *job, void *own)
{
	struct timespec until;

	(void)job;
	(void)own;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	pthread_mutex_lock(&all.lock);
	if (++all.at_work > all.most)
		all.most = all.at_work;
	while (!all.released && pthread_cond_timedwait(&all.go, &all.lock, &until) == 0)
		;
	all.at_work--;
	pthread_mutex_unlock(&all.lock);
}

static void
work_briefly(struct serve_job *job, void *own)
{
	(void)job;
	(void)own;
}

static void
count(struct serve_job *job)
{
	(void)job;
	if (++all.n_done == HEAVY + 1)
		loop_quit(all.loop);
}

/* The light one is told first: only then may the others end. */
static void
release(struct serve_job *job)
{
	CHECK_U64(all.n_done, 0);
	pthread_mutex_lock(&all.lock);
	all.released = true;
	pthread_cond_broadcast(&all.go);
	pthread_mutex_unlock(&all.lock);
	count(job);
}

static void *
make_own(struct err *err)
{
	(void)err;
	return &all;
}

static void
free_own(void *own)
{
	(void)own;
}

TEST(serve_pool_leaves_threads_to_the_light)
{
	struct serve_job heavy[HEAVY], light = { .work = work_briefly, .done = release };
	struct serve_pool *pool;

	CHECK_OK(loop_new(&all.loop, NULL));
	CHECK_OK(serve_pool_new(all.loop, THREADS, make_own, free_own, &pool, NULL));
	for (int i = 0; i < HEAVY; i++) {
		heavy[i] = (struct serve_job){ .work = work_long, .done = count, .heavy = true };
		serve_pool_add(pool, &heavy[i]);
	}
	serve_pool_add(pool, &light);
	CHECK_OK(loop_run(all.loop, NULL));
	CHECK_U64(all.n_done, HEAVY + 1);
	CHECK(all.most <= SERVE_HEAVY_MAX);
	serve_pool_free(pool);
	loop_freep(&all.loop);
}

/* pool.c - see pool.h. */
#include "serve/pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "loop/loop.h"

struct job_list {
	struct serve_job *first, **end;
};

struct serve_pool {
	struct loop *loop;
	struct loop_source source;      /* an eventfd: some job is done */
	void (*free_own)(void *own);
	struct worker {
		struct serve_pool *pool;
		pthread_t thread;
		void *own;
	} workers[SERVE_THREADS_MAX];
	unsigned n_owns, n_threads;
	size_t busy;                    /* used by the loop only */
	pthread_mutex_t lock;           /* protects what follows */
	pthread_cond_t more;
	struct job_list waiting, heavy, done;
	unsigned n_heavy;               /* running */
	bool ends;
};

static void
list_init(struct job_list *list)
{
	list->first = NULL;
	list->end = &list->first;
}

static void
list_add(struct job_list *list, struct serve_job *job)
{
	job->next = NULL;
	*list->end = job;
	list->end = &job->next;
}

static struct serve_job *
list_take(struct job_list *list)
{
	struct serve_job *job = list->first;

	if (job != NULL) {
		list->first = job->next;
		if (list->first == NULL)
			list->end = &list->first;
	}
	return job;
}

static struct serve_job *
next_job(struct serve_pool *pool)
{
	struct serve_job *job = pool->n_heavy < SERVE_HEAVY_MAX ? list_take(&pool->heavy) : NULL;

	pool->n_heavy += job != NULL;
	return job != NULL ? job : list_take(&pool->waiting);
}

static void *
work(void *arg)
{
	struct worker *w = arg;
	struct serve_pool *pool = w->pool;
	const uint64_t one = 1;

	pthread_mutex_lock(&pool->lock);
	while (!pool->ends) {
		struct serve_job *job = next_job(pool);

		if (job == NULL) {
			pthread_cond_wait(&pool->more, &pool->lock);
			continue;
		}
		pthread_mutex_unlock(&pool->lock);
		job->work(job, w->own);
		pthread_mutex_lock(&pool->lock);
		pool->n_heavy -= job->heavy;
		list_add(&pool->done, job);
		(void)!write(pool->source.fd, &one, sizeof(one));
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

static void
tell(void *arg, uint32_t events)
{
	struct serve_pool *pool = arg;
	struct serve_job *job, *next;
	uint64_t n;

	(void)events;
	(void)!read(pool->source.fd, &n, sizeof(n));
	pthread_mutex_lock(&pool->lock);
	job = pool->done.first;
	list_init(&pool->done);
	pthread_mutex_unlock(&pool->lock);
	for (; job != NULL; job = next) {
		next = job->next;
		pool->busy--;
		job->done(job);
	}
}

static int
start_threads(struct serve_pool *pool, unsigned n, void *(*make_own)(struct err *err),
              struct err *err)
{
	int r = 0;

	for (; pool->n_owns < n; pool->n_owns++) {
		struct worker *w = &pool->workers[pool->n_owns];

		w->pool = pool;
		w->own = make_own(err);
		if (w->own == NULL)
			return -err->code;
	}
	for (; r == 0 && pool->n_threads < n; pool->n_threads++)
		r = pthread_create(&pool->workers[pool->n_threads].thread, NULL, work,
		                   &pool->workers[pool->n_threads]);
	pool->n_threads -= r != 0;
	return r == 0 ? 0 : err_set(err, r, "cannot start threads");
}

int
serve_pool_new(struct loop *loop, unsigned n_threads, void *(*make_own)(struct err *err),
               void (*free_own)(void *own), struct serve_pool **ret_pool, struct err *err)
{
	struct serve_pool *pool = calloc(1, sizeof(*pool));
	int r;

	assert(n_threads > 0 && n_threads <= SERVE_THREADS_MAX);
	if (pool == NULL)
		return err_errno(err, "cannot start threads");
	pool->loop = loop;
	pool->free_own = free_own;
	pool->source = (struct loop_source){ .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	                                     .ready = tell, .arg = pool };
	list_init(&pool->waiting);
	list_init(&pool->heavy);
	list_init(&pool->done);
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->more, NULL);
	r = pool->source.fd < 0 ? err_errno(err, "cannot start threads") :
	    loop_watch(loop, &pool->source, EPOLLIN, err);
	r = r == 0 ? start_threads(pool, n_threads, make_own, err) : r;
	if (r < 0)
		serve_pool_free(pool);
	else
		*ret_pool = pool;
	return r;
}

void
serve_pool_add(struct serve_pool *pool, struct serve_job *job)
{
	pool->busy++;
	pthread_mutex_lock(&pool->lock);
	list_add(job->heavy ? &pool->heavy : &pool->waiting, job);
	pthread_cond_signal(&pool->more);
	pthread_mutex_unlock(&pool->lock);
}

size_t
serve_pool_busy(const struct serve_pool *pool)
{
	return pool->busy;
}

void
serve_pool_free(struct serve_pool *pool)
{
	if (pool == NULL)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->ends = true;
	pthread_cond_broadcast(&pool->more);
	pthread_mutex_unlock(&pool->lock);
	for (unsigned i = 0; i < pool->n_threads; i++)
		pthread_join(pool->workers[i].thread, NULL);
	for (unsigned i = 0; i < pool->n_owns; i++)
		pool->free_own(pool->workers[i].own);
	if (pool->source.fd >= 0) {
		loop_unwatch(pool->loop, &pool->source);
		close(pool->source.fd);
	}
	pthread_mutex_destroy(&pool->lock);
	pthread_cond_destroy(&pool->more);
	free(pool);
}

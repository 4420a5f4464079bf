/* pool.h - threads for blocking work: a thread does the work, and the loop gets the result. */
#ifndef CLOISTER_SERVE_POOL_H
#define CLOISTER_SERVE_POOL_H
#include <stdbool.h>
#include <stddef.h>

struct err;
struct loop;
struct serve_pool;                      /* opaque */

#define SERVE_THREADS_MAX 64
#define SERVE_HEAVY_MAX 2               /* running at a time, so that the rest need not wait for them */

/* Lives in its owner's structure, from serve_pool_add() until done() is called. */
struct serve_job {
	void (*work)(struct serve_job *job, void *own);   /* in a thread, with the thread's own object */
	void (*done)(struct serve_job *job);              /* in the loop */
	bool heavy;                                       /* it takes much time and memory */
	struct serve_job *next;                           /* private */
};

/* MAKE_OWN makes each thread's own object, before there are threads (NULL: failed); FREE_OWN frees
 * it when they have ended. */
int serve_pool_new(struct loop *loop, unsigned n_threads, void *(*make_own)(struct err *err),
                   void (*free_own)(void *own), struct serve_pool **ret_pool, struct err *err);
void serve_pool_add(struct serve_pool *pool, struct serve_job *job);
/* How many are waiting or running. */
size_t serve_pool_busy(const struct serve_pool *pool);
/* Waits for running jobs; no more done() is called, and waiting jobs are dropped. */
void serve_pool_free(struct serve_pool *pool);  /* NULL is fine */
#endif

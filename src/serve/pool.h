/* pool.h - threads for what blocks: the work is done in one of them, and then told in the loop. */
#ifndef CLOISTER_SERVE_POOL_H
#define CLOISTER_SERVE_POOL_H
#include <stdbool.h>
#include <stddef.h>

struct err;
struct loop;
struct serve_pool;                      /* opaque */

#define SERVE_THREADS_MAX 64
#define SERVE_HEAVY_MAX 2               /* at work at a time, so that the rest need not wait for them */

/* Lives in its owner's structure, from serve_pool_add() until done() is called. */
struct serve_job {
	void (*work)(struct serve_job *job, void *own);   /* in a thread, with what is its own */
	void (*done)(struct serve_job *job);              /* in the loop */
	bool heavy;                                       /* it takes much time and memory */
	struct serve_job *next;                           /* private */
};

/* MAKE_OWN makes what a thread calls its own, before there are threads (NULL: failed); FREE_OWN
 * takes it away when they have ended. */
int serve_pool_new(struct loop *loop, unsigned n_threads, void *(*make_own)(struct err *err),
                   void (*free_own)(void *own), struct serve_pool **ret_pool, struct err *err);
void serve_pool_add(struct serve_pool *pool, struct serve_job *job);
/* How many are waiting or at work. */
size_t serve_pool_busy(const struct serve_pool *pool);
/* Waits for what is at work; nothing more is told, and what waits is forgotten. */
void serve_pool_free(struct serve_pool *pool);  /* NULL is fine */
#endif

/* workers.h - workers on other machines, each on a stream of its own that cloister-link brings. */
#ifndef CLOISTER_SERVE_WORKERS_H
#define CLOISTER_SERVE_WORKERS_H
struct err;
struct loop;
struct registry;
struct workers;                         /* opaque */

/* Listens at ADDRESS, and goes on when cloister-link is killed. */
int workers_start(struct loop *loop, struct registry *reg, const char *address, struct workers **ret_workers,
                  struct err *err);
void workers_stop(struct workers *w);   /* NULL is fine */
#endif

/* local_parts.h - shared only by the targets whose cells are of this machine and user. */
#ifndef CLOISTER_LOCAL_PARTS_H
#define CLOISTER_LOCAL_PARTS_H
#include "target/target.h"

/* ---- local_cell.c: a cell by its folders ---- */

/* Its state entry: a descriptor, or -ENOENT. */
int local_open_entry(const char *cell);
enum target_state local_look(const char *cell);
/* A non-blocking connection to its supervisor, with a request to report the end; -ENOENT. */
int local_await(const char *cell, struct err *err);
int local_control(const char *cell, struct target_order *order, struct err *err);
int local_stream(const char *cell, enum target_stream stream);
int local_discard(const char *cell, struct err *err);

/* ---- local_link.c: cells in a loop ---- */

int local_open(struct loop *loop, struct target_place **ret_place, struct err *err);
void local_close(struct target_place *place);
int local_attach(struct target_place *place, const char *cell, const struct target_hooks *hooks,
                 struct target_link **link, struct err *err);
int local_start(struct target_link *link, const struct target_work *work, struct err *err);
int local_follow(struct target_link *link, struct err *err);
void local_detach(struct target_link *link);

/* ---- local_harvest.c ---- */

int local_harvest(const char *cell, const struct target_harvest *how, struct target_end *ret_end,
                  struct err *err);
int local_open_file(const struct target_file *file, struct err *err);

/* The functions of such a target, but for check(): the cell document names the walls. */
#define LOCAL_COMMON \
	.open = local_open, .close = local_close, .attach = local_attach, .start = local_start, \
	.follow = local_follow, .detach = local_detach, .look = local_look, .control = local_control, \
	.stream = local_stream, .harvest = local_harvest, .open_file = local_open_file, .discard = local_discard
#endif

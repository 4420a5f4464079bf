/* workers_answers.h - what passes between a command of this machine and a cell of a worker. */
#ifndef CLOISTER_SERVE_WORKERS_ANSWERS_H
#define CLOISTER_SERVE_WORKERS_ANSWERS_H
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct err;

/* A request of the command of BY, who is named in BODY if nobody is.  -EPERM: it is of no use, or must not leave this
 * machine. */
int workers_check_request(const char *by, uint32_t type, struct buf *body, size_t n_fds, struct err *err);
/* An answer from a worker about CELL, which may be hostile: BODY becomes one that commands can read.  Negative: it is
 * none. */
int workers_check_answer(const char *cell, uint32_t type, struct buf *body, size_t n_fds);
#endif

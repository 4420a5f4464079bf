/* guard.h - memory for values: never swapped, in no core dump, wiped when let go.
 *
 * A guarded buffer is pages of its own.  It does not grow: what is read into it has a
 * known maximum, and nothing is copied about. */
#ifndef CLOISTER_GUARD_H
#define CLOISTER_GUARD_H
#include <stdbool.h>
#include <stddef.h>

struct err;

#define GUARD_LOCKED_MAX (64 * 1024)    /* what is larger is no value, but many that are sealed:
                                         * it is not kept from being swapped */

struct guard {
	char *at;                       /* CAP bytes and a NUL behind LEN; NULL: nothing */
	size_t len, cap;
};

/* Room for CAP bytes, empty. */
int guard_alloc(struct guard *ret_guard, size_t cap, struct err *err);
/* The same with LEN bytes of DATA in it. */
int guard_copy(struct guard *ret_guard, const void *data, size_t len, struct err *err);
void guard_free(struct guard *g);       /* for OWN() too; nothing is fine */
/* What was in OLD is NEW's. */
struct guard guard_take(struct guard *old);

/* Read all of FD, at most the room there is; -EFBIG if there is more. */
int guard_read(struct guard *g, int fd, struct err *err);
/* Behind what is in it; there must be room.  A string is as buf.h has them: u32 length, bytes,
 * NUL. */
void guard_put(struct guard *g, const void *data, size_t len);
void guard_put_str(struct guard *g, const char *text, size_t len);
/* Without the line end that editors and `echo` put behind a value. */
void guard_chomp(struct guard *g);

/* Nobody may look into this process, and it leaves no core dump. */
int guard_process(struct err *err);
#endif

/* guard.h - memory for values: never swapped, in no core dump, wiped when freed.
 *
 * A guarded buffer has pages of its own.  It does not grow: everything read into it has a known
 * maximum, and no copies are left behind. */
#ifndef CLOISTER_GUARD_H
#define CLOISTER_GUARD_H
#include <stddef.h>

struct err;

#define GUARD_LOCKED_MAX (64 * 1024)    /* a larger buffer does not hold one value, but many sealed ones: it
                                         * may be swapped */

struct guard {
	char *at;                       /* CAP bytes and a NUL after LEN; NULL: empty */
	size_t len, cap;
};

/* Allocate an empty buffer for CAP bytes. */
int guard_alloc(struct guard *ret_guard, size_t cap, struct err *err);
/* As guard_alloc(), with a copy of LEN bytes of DATA. */
int guard_copy(struct guard *ret_guard, const void *data, size_t len, struct err *err);
void guard_free(struct guard *g);       /* for OWN() too; an empty one is fine */
/* Move the content of OLD to the result. */
struct guard guard_take(struct guard *old);

/* Read all of FD, at most the free space.  -EFBIG: there is more. */
int guard_read(struct guard *g, int fd, struct err *err);
/* Append; there must be room.  A string is as in buf.h: u32 length, bytes, NUL. */
void guard_put(struct guard *g, const void *data, size_t len);
void guard_put_str(struct guard *g, const char *text, size_t len);
/* Remove the line end that editors and `echo` put after a value. */
void guard_chomp(struct guard *g);

/* Keep other processes from reading this one's memory, and disable core dumps. */
int guard_process(struct err *err);
#endif

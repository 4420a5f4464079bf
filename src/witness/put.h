/* put.h - an act as the members of a record's event (canon/members.h).
 *
 * Pure.  Whatever bytes an act has, members_check() takes the result, and no terminal is harmed by it. */
#ifndef CLOISTER_WITNESS_PUT_H
#define CLOISTER_WITNESS_PUT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "canon/hash.h"
#include "witness/act.h"

#define PUT_MAX (62 * 1024)             /* bytes of an event; a timeline takes a little more */
#define PUT_WHY_MAX 120

/* What the witness adds to an act.  NULL or "": unknown. */
struct put_more {
	const char *grant;              /* FILE: the path of the grant that has the file */
	const unsigned char *program, *script;  /* EXEC: hashes of the files */
	const char *unhashed;           /* EXEC: why there is no hash */
	uint64_t searched;              /* EXEC: attempts to start it that found no file */
	bool counted;                   /* EXEC: has a count */
	const char *why;                /* LOST */
};

/* Appends the members to OUT, without a NUL.  RET_COUNT: where the digit of "count":1 is, from where OUT began; 0 for
 * acts that are not counted. */
int put_act(struct buf *out, const struct act *act, const struct put_more *more, size_t *ret_count);
/* The name of the record's type. */
const char *put_type(enum act_kind kind);
#endif

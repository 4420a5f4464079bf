/* inspect.h - holds request bodies until cloister-inspect has inspected them, or until they are
 * complete. */
#ifndef CLOISTER_EGRESS_INSPECT_H
#define CLOISTER_EGRESS_INSPECT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/stage.h"
#include "ipc/inspect_channel.h"
#include "ipc/mux.h"

struct courier;
struct courier_policy;
struct exchange;

#define COURIER_INSPECT_S 30
#define COURIER_HELD_MAX ((size_t)64 * 1024 * 1024)     /* of one body, whatever the rules allow */
#define COURIER_HELD_ALL ((size_t)256 * 1024 * 1024)    /* of all bodies together */
#define COURIER_LOOK_HELD ((size_t)10 * 1024 * 1024)    /* of a body that is only searched for its price or
                                                         * for credentials */

struct exchange_inspect {
	bool begun;                     /* it is known whether the body is held */
	bool holds;                     /* the body is held */
	bool judged;                    /* the result was applied */
	struct mux_stream *stream;      /* to cloister-inspect, until its result is here */
	uint32_t wanted;                /* INSPECT_RULES and others; 0: it is not asked */
	uint32_t policy;                /* the number of the policy that cloister-inspect has */
	size_t at;                      /* offset in the body */
	bool ended;
	uint32_t result;
	unsigned char *fits;            /* the inspection's result */
	size_t n_fits, held;
	/* Not cleared for each exchange: */
	char what[128];
	char pushed[INSPECT_PUSHED_MAX];        /* as in INSPECT_RESULT, or "" */
	char call[INSPECT_CALL_MAX];    /* likewise */
};

extern const struct mux_handler courier_inspect_handler;

/* Hold EX's body from now on, if it has one: CONTINUE or REFUSE. */
enum stage_answer exchange_begin_hold(struct exchange *ex);
/* As exchange_begin_hold(), and WAIT until all of it is there. */
enum stage_answer exchange_hold_all(struct exchange *ex);
/* Send P to cloister-inspect, unless it is the policy that was sent last. */
void courier_show_policy(struct courier *c, const struct courier_policy *p);
/* Bytes of a held body came. */
void exchange_hold_piece(struct exchange *ex, const unsigned char *data, size_t len);
/* The held body is complete. */
void exchange_hold_end(struct exchange *ex);
/* Whether EX goes to the tools' gateway: its body may be a call. */
bool exchange_is_for_tools(const struct exchange *ex);
/* Record what a result looks like: injection.c. */
struct events;
void exchange_injection_record(struct events *e, const struct exchange *ex);
/* Forget the inspection and its memory. */
void exchange_drop_inspect(struct exchange *ex);
#endif

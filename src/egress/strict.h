/* strict.h - lets nothing leave without a record.
 *
 * If the policy requires it, a request waits until its record is on disk.  If there is no room for
 * records, no request leaves. */
#ifndef CLOISTER_EGRESS_STRICT_H
#define CLOISTER_EGRESS_STRICT_H
#include <stdbool.h>
#include <stdint.h>

struct courier;
struct exchange;

struct exchange_strict {
	uint64_t intent;                /* the number of the record that it waits for; 0: none */
	struct exchange *next, **at;    /* list of waiting exchanges; AT is NULL if it does not wait */
};

/* Refuse EX if nothing may leave.  True: it was refused. */
bool exchange_is_halted(struct exchange *ex);
/* The records up to NUMBER are on disk. */
void courier_recorded(struct courier *c, uint64_t number);
/* Stop everything from leaving because of WHY; "" lifts the stop. */
void courier_halt(struct courier *c, const char *why);
#endif

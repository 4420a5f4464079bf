/* fleet_rows.h - which service scales a target, and what it knows of it: rows that all services of a store share.
 *
 * Times are the database's, so the machines' clocks do not matter. */
#ifndef CLOISTER_FLEET_ROWS_H
#define CLOISTER_FLEET_ROWS_H
#include "fleet/fleet.h"

struct db;

#define FLEET_LEASE_MS 120000
/* So long after fleet_lease_take() a question to the engine may begin: it is answered, or given up, before the lease is
 * over (FLEET_ANSWER_MS). */
#define FLEET_LEASE_USE_MS 30000

/* Makes this data folder the one that scales TARGET, for FLEET_LEASE_MS, unless another one does.  1: it is this one's; 0:
 * another's.  RET_TAG is the target's, the same for all. */
int fleet_lease_take(struct db *db, const char *target, char ret_tag[FLEET_TAG_LEN + 1], struct err *err);
/* The tag alone.  Makes the row if it is missing. */
int fleet_row_tag(struct db *db, const char *target, char ret_tag[FLEET_TAG_LEN + 1], struct err *err);
/* Lets another one have all of them now. */
void fleet_lease_drop_all(struct db *db);

struct fleet_row {
	unsigned workers, wanted;
	char error[FLEET_WHY_MAX];      /* "": there is none */
	uint64_t since_ms;              /* of the error */
};
/* Only of the one that has the lease. */
int fleet_row_put(struct db *db, const char *target, const struct fleet_row *row, struct err *err);
/* 0: nobody has scaled it yet. */
int fleet_row_get(struct db *db, const char *target, struct fleet_row *ret_row, struct err *err);
/* Calls EACH for the row of every target that was ever scaled, by name. */
int fleet_rows_each(struct db *db, void (*each)(void *arg, const char *target, const struct fleet_row *row), void *arg,
                    struct err *err);
/* {"workers", "wanted", "error": null or text, "since": null or milliseconds}, or null if nobody has scaled it yet.  The caller
 * owns it; NULL when out of memory. */
json_t *fleet_row_json(struct db *db, const char *target);
#endif

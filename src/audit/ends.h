/* ends.h - how a cell's timeline begins and ends. */
#ifndef CLOISTER_AUDIT_ENDS_H
#define CLOISTER_AUDIT_ENDS_H
#include <jansson.h>

struct audit_ends {
	json_t *boot, *end;             /* the records of these types, or NULL */
};

/* Of the timeline NAME in DIR.  What cannot be read is NULL. */
void audit_ends_read(struct audit_ends *ends, int dir, const char *name);
void audit_ends_free(struct audit_ends *ends);
#endif

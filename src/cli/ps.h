/* ps.h - a part of `cloister ps`. */
#ifndef CLOISTER_CLI_PS_H
#define CLOISTER_CLI_PS_H

struct cell_entry;
struct cell_record;

/* ps_events.c: makes the record of an ended cell from its events in DIR, as far as they go.  The caller frees it. */
int ps_read_events(int dir, const struct cell_entry *entry, struct cell_record *ret_record);
#endif

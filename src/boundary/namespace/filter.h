/* filter.h - the cell's system-call filters, compiled at build time.
 *
 * filter_gen.c turns the tables in filter_table.h into BPF; what is linked in is
 * bytes.  To the agent, what is unknown is absent (ENOSYS) and what is known to be
 * dangerous is forbidden (EPERM); only a foreign architecture kills.  A helper dies
 * of whatever its table does not name: there, that is a bug or an attack. */
#ifndef CLOISTER_FILTER_H
#define CLOISTER_FILTER_H

struct err;

enum filter_profile {
	FILTER_DEFAULT,         /* the agent */
	FILTER_NESTED,          /* the agent, allowed namespaces and mounts of its own */
	FILTER_NESTED_APART,    /* likewise, where no folder of the host's can be written */
	FILTER_SUPERVISOR,      /* the supervisor, once the cell runs */
	FILTER_COLLECT,         /* the collector of workspace changes */
	FILTER_GATE,            /* parses the agent's bytes */
	FILTER_COURIER,         /* decides and dials */
	FILTER_INSPECT,         /* looks into request bodies */
	FILTER_PUBLISH,         /* carries connections from the host into the cell */
	FILTER_MCP,             /* reads what orchestrating agents send */
	FILTER_AUDIT,           /* reads timelines, which agents have written in */
	FILTER_COMPARE,         /* reads files that agents wrote, to tell how they differ */
	FILTER_PROFILES
};

/* Load the filter on the calling thread; no_new_privs must be set.  Filters add up:
 * a process may do what all of those that it loaded or inherited allow. */
int filter_load(enum filter_profile profile, struct err *err);
#endif

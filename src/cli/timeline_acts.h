/* timeline_acts.h - the witness's records of a timeline: programs, files, connections, refused calls, resources.
 *
 * The agent chose every text in them: print them with text_print_safe(). */
#ifndef CLOISTER_CLI_TIMELINE_ACTS_H
#define CLOISTER_CLI_TIMELINE_ACTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct err;
struct timeline_event;

enum timeline_act {
	TIMELINE_NO_ACT, TIMELINE_RECORD, TIMELINE_EXEC, TIMELINE_EXIT, TIMELINE_FILE, TIMELINE_NET, TIMELINE_REFUSED,
	TIMELINE_DANGER, TIMELINE_CALLS, TIMELINE_RESOURCES, TIMELINE_LOST, TIMELINE_WATCH
};
enum timeline_act timeline_act(const struct timeline_event *e);

/* One line: "12 exec /usr/bin/git status", "12 refused ptrace(PTRACE_ATTACH, 1): EPERM by filter". */
void timeline_print_act(FILE *out, const struct timeline_event *e);
/* The same without the process. */
void timeline_print_deed(FILE *out, const struct timeline_event *e);

/* A member as text ("": none) or as number (0: none). */
const char *timeline_text(const struct timeline_event *e, const char *key);
uint64_t timeline_number(const struct timeline_event *e, const char *key);
bool timeline_has(const struct timeline_event *e, const char *key);

/* EXEC: the program and its arguments as one line for people, not yet safe to print.  At most MAX
 * bytes; a cut one ends in "...".  NULL: out of memory. */
char *timeline_command(const struct timeline_event *e, size_t max);
/* NET: "10.0.0.1:443", "[::1]:80", "/run/x.sock". */
char *timeline_address(const struct timeline_event *e);
/* EXIT: "ended with 0", "killed by KILL", and what it used. */
void timeline_print_exit(FILE *out, const struct timeline_event *e);
/* Memory, CPU and other totals, of RESOURCES and of the end of a cell; nothing if there are none. */
void timeline_print_used(FILE *out, const struct timeline_event *e);

#define TIMELINE_TYPES_MAX 32
/* Chosen types of events: a bit for each. */
struct timeline_types { uint32_t bits; };       /* 0: all */
/* "exec,file": LIST is the operator's.  "cell" means all of the cell's life. */
int timeline_types_parse(const char *list, struct timeline_types *ret_types, struct err *err);
bool timeline_types_have(const struct timeline_types *types, const char *type);
/* The types in their order; ends with NULL. */
extern const char *const timeline_type_names[];
#endif

/* policy_state.h - `state`: the versioned states that a cell is given, and the guards of each.
 *
 *     state: brain
 *     state: [brain, "notes:/srv/notes"]
 *     state:
 *       brain: {path: ~/memory, on_busy: branch, every: 10m, protect: [CLAUDE.md], ask: [skills],
 *               max_size: 64M, max_files: 10000, max_growth: 8M, secrets: flag, injection: ask, binary: refuse}
 *
 * Pure. */
#ifndef CLOISTER_POLICY_STATE_H
#define CLOISTER_POLICY_STATE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct node;

#define POLICY_STATES_MAX 4
#define POLICY_STATE_NAME_MAX 63
#define POLICY_STATE_PATH_MAX 255
#define POLICY_STATE_GUARDS_MAX 2047    /* bytes of all guards of a state as text */
#define POLICY_STATE_EVERY_LEAST 60000  /* ms */
#define POLICY_STATE_EVERY_MOST (30ull * 24 * 3600 * 1000)

/* What becomes of a cell whose state another cell has. */
enum policy_state_busy { POLICY_STATE_REFUSE, POLICY_STATE_READ_ONLY, POLICY_STATE_BRANCH };
extern const char *const policy_state_busy_words[];     /* in that order; ends with NULL */

struct policy_state {
	char name[POLICY_STATE_NAME_MAX + 1];
	char path[POLICY_STATE_PATH_MAX + 1];   /* absolute, or "~" or "~/..."; "": the default */
	enum policy_state_busy on_busy;
	bool quiet;                     /* a commit at each quiet moment */
	uint64_t every_ms;              /* a commit every so often; 0: none */
	/* The text of policy_guards.h. */
	char guards[POLICY_STATE_GUARDS_MAX + 1];
};

struct policy_states {
	size_t n;
	struct policy_state at[POLICY_STATES_MAX];
};

/* As state_is_name() has it: letters, digits, '-', '_' and '.', beginning with a letter or digit. */
bool policy_state_name_ok(const char *name);
/* Whether PATH is one of struct policy_state. */
bool policy_state_path_ok(const char *path);
/* Whether TEXT is guards. */
bool policy_state_guards_ok(const char *text);
/* Whether PATH is relative, without empty parts, '.', '..', ".git" and control characters: as in guards. */
bool policy_state_inner_ok(const char *path);

/* "NAME" or "NAME:PATH". */
int policy_state_parse(const char *text, struct policy_state *ret_state, struct err *err);
/* "10m", or "quiet". */
int policy_state_parse_every(const char *text, struct policy_state *state, struct err *err);
/* Read the value of `state`.  Errors begin with the place. */
int policy_states_read(const struct node *node, struct policy_states *ret_states, struct err *err);
/* The state NAME, or NULL. */
struct policy_state *policy_states_find(struct policy_states *states, const char *name);
#endif

/* server_hold.h - holds what an MCP server runs to its lock, each time before its cell starts.
 *
 * A file that no agent could write is compared where it is.  One that an agent could write is copied into a folder of
 * cloister's own, and the cell gets the copy, whose bytes are those that were compared: the file itself may change at any
 * time.  Such a file without a lock is refused. */
#ifndef CLOISTER_TOOLS_SERVER_HOLD_H
#define CLOISTER_TOOLS_SERVER_HOLD_H
#include <limits.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/err.h"
#include "canon/hash.h"
#include "policy/policy_tools.h"

#define SERVER_HOLD_SEEN 64             /* files whose hashes are remembered */
#define SERVER_HOLD_FILE_MAX (1ull << 30)
/* Where cells have the copies; the number of the word and the file's name follow. */
#define SERVER_HOLD_AT "/run/cloister/server"

struct server_hold {
	const struct policy_tools *tools;       /* borrowed, as the others */
	const char *folder, *home;      /* of the operator, for relative paths */
	char copies[PATH_MAX];          /* the folder of the copies; "": there is none yet */
	int dir;                        /* the same, locked; -1 */
	struct server_hold_seen {
		struct stat st;
		char hex[2 * HASH_LEN + 1];
	} seen[SERVER_HOLD_SEEN];       /* of files that no agent could write */
	size_t n_seen;
};
void server_hold_init(struct server_hold *h, const struct policy_tools *tools);
/* Removes the copies.  A process that is killed leaves them to the next one. */
void server_hold_end(struct server_hold *h);

/* What the cell of a server gets in place of what its entry states.  All are owned. */
struct server_held {
	char *words[POLICY_TOOLS_WORDS_MAX];    /* of its command; NULL: as the entry has it */
	char *grants[POLICY_TOOLS_WORDS_MAX];   /* "COPY:CELL:ro" */
	size_t n_grants;
	char *module;                   /* the path of the module; NULL: the entry's */
	char loose[ERR_TEXT_MAX];       /* what cannot be held, as a sentence; "": nothing */
};
/* -EUCLEAN: a file is not what was locked.  -EPERM: an agent could write one that is not locked. */
int server_hold_check(struct server_hold *h, const struct policy_tools_server *server, struct server_held *ret_held,
                      struct err *err);
void server_held_free(struct server_held *held);        /* for OWN() too */
#endif

/* accepted.h - remembers which files of projects a person has accepted, by the hashes of their contents.
 *
 * A project's profiles, and its policy if it is to start an agent, may come from a stranger or an agent. */
#ifndef CLOISTER_CLI_ACCEPTED_H
#define CLOISTER_CLI_ACCEPTED_H
#include <stdbool.h>

struct err;

#define ACCEPTED_LIST "profiles"        /* in the state folder */

/* HASH is a hash_name(). */
bool accepted_has(const char *hash);
/* Remember HASH, of the file called NAME, and record it in the operator's timeline: EVENT has HASH, and NAME as
 * MEMBER. */
int accepted_add(const char *hash, const char *name, const char *event, const char *member, struct err *err);
#endif

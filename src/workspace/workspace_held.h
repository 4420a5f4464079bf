/* workspace_held.h - what a host would run later by itself.
 * Private to src/workspace. */
#ifndef CLOISTER_WORKSPACE_HELD_H
#define CLOISTER_WORKSPACE_HELD_H
#include <stdbool.h>
#include <stddef.h>

enum held {
	HELD_NO,
	HELD_AROUND,            /* a folder that such things are looked for in: as a
	                         * folder it is fine, anything else there is not */
	HELD_YES,               /* such a thing, or beneath one */
};

/* A git directory that is not called .git, such as a bare repository. */
struct held_git {
	size_t base;                    /* where in the path the names beneath it begin */
	const struct held_git *outer;   /* another one around it, or NULL */
};

/* GIT: all such directories that PATH is beneath; NULL if none.
 * *ret_in_git: whether PATH is beneath any git directory. */
enum held held_path(const char *path, const struct held_git *git, bool *ret_in_git);

/* PATTERN, in which '*' is any run of characters within a name, against the beginning of PATH:
 * HELD_YES for what it names and all beneath it, HELD_AROUND for the folders above it. */
enum held held_match(const char *pattern, const char *path);
/* Likewise, of what counts only while it is no folder: HELD_AROUND for itself, too. */
enum held held_match_file(const char *pattern, const char *path);
#endif

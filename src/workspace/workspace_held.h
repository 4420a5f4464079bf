/* workspace_held.h - recognises files that the host would later run by itself.  Private to
 * src/workspace. */
#ifndef CLOISTER_WORKSPACE_HELD_H
#define CLOISTER_WORKSPACE_HELD_H
#include <stdbool.h>
#include <stddef.h>

enum held {
	HELD_NO,
	HELD_AROUND,            /* a folder in which programs look for such files: harmless as a folder,
	                         * not as anything else */
	HELD_YES,               /* such a file, or beneath one */
};

/* A git directory that is not called .git, such as a bare repository. */
struct held_git {
	size_t base;                    /* offset in the path of the names beneath it */
	const struct held_git *outer;   /* another one around it, or NULL */
};

/* GIT lists all such directories above PATH; NULL if none.  *ret_in_git: whether PATH is beneath
 * any git directory. */
enum held held_path(const char *path, const struct held_git *git, bool *ret_in_git);

/* Match PATTERN against the beginning of PATH; '*' is any run of characters within a name.
 * HELD_YES for the match and everything beneath it, HELD_AROUND for the folders above it. */
enum held held_match(const char *pattern, const char *path);
/* The same for a path that counts only while it is not a folder: HELD_AROUND for the match itself,
 * too. */
enum held held_match_file(const char *pattern, const char *path);
#endif

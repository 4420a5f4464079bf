/* program.h - finds a program on the host, and the files that a cell needs to run it.
 *
 * Cells have the host's /usr.  Agents are often elsewhere: in npm's prefix, in nvm's, in a virtual
 * environment of uv or pipx, or in one file beneath the home folder.  Their interpreters may be in
 * yet another place. */
#ifndef CLOISTER_PROGRAM_H
#define CLOISTER_PROGRAM_H
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

#define PROGRAM_GRANTS_MAX 16
#define PROGRAM_BINS_MAX 4

/* A file or folder that the cell needs, read only.  CELL is its path in the cell: if that leads through
 * a link, HOST is where the link leads. */
struct program_grant {
	char *host, *cell;
};

struct program {
	char *path;                     /* where it was found */
	char *run;                      /* its path in the cell: PATH, or where its links lead */
	struct program_grant grants[PROGRAM_GRANTS_MAX];
	size_t n_grants;
	char *bins[PROGRAM_BINS_MAX];   /* folders for the cell's PATH, before the usual ones */
	size_t n_bins;
};

/* Find NAME, a path or a command on this process's PATH, and what it needs.  -ENOENT if there is none.
 * The caller frees *ret_program; on failure it is empty. */
int program_find(const char *name, struct program *ret_program, struct err *err);
void program_free(struct program *p);   /* for OWN() too */

#define PROGRAM_USUAL_PATH "/usr/local/bin:/usr/bin:/bin"
/* Whether PATH is in a host folder that every cell has, roughly. */
bool program_is_usual(const char *path);
/* Find the command NAME on this process's PATH. */
bool program_search(const char *name, char ret_path[PATH_MAX]);
/* Join FOLDER and PATH, or take PATH alone if it is absolute, without dots; false if it is too
 * long. */
bool program_join(char ret_path[PATH_MAX], const char *folder, const char *path);
/* One step from PATH: a link's target, or the interpreter of a script. */
bool program_follow(const char *path, char ret_next[PATH_MAX]);
/* What to grant for an interpreter at PATH: the folder with PATH in its bin and a lib beside it, unless
 * that is too wide, or else PATH alone. */
void program_choose(const char *path, char ret_grant[PATH_MAX]);
/* What to grant for the script at PATH, which loads what is beside it: its package, or else its folder, unless that is
 * too wide, or else PATH alone. */
void program_choose_script(const char *path, char ret_grant[PATH_MAX]);
#endif

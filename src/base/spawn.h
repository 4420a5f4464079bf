/* spawn.h - starts another program, or becomes it.
 *
 * The child is made with vfork() unless SPAWN_ASIDE: nothing is copied, and an error of the child, such as a
 * program that does not exist, is returned to the caller.  It is safe in a process with threads. */
#ifndef CLOISTER_SPAWN_H
#define CLOISTER_SPAWN_H
#include <stddef.h>
#include <sys/types.h>

struct err;

#define SPAWN_FDS_MAX 72
#define SPAWN_NULL (-2)                 /* in place of a descriptor: /dev/null */

/* The descriptor FD of this process becomes AT of the program.  If FD is 0 or -1, AT stays as it is. */
struct spawn_fd {
	int fd, at;
};

enum {
	SPAWN_APART = 1,                /* a session of its own; no signal is ignored */
	SPAWN_GROUP = 2,                /* a process group of its own */
	SPAWN_DIES = 4,                 /* it is killed when this process ends */
	SPAWN_ONLY = 8,                 /* of our descriptors it has standard ones and those in FDS */
	SPAWN_COMMAND = 16,             /* PATH is a user's command: as execvp() runs it */
	/* This process goes on at once, while the child executes the program, which takes longer than a fork.  The
	 * child's errors are not returned: then it exits with 127. */
	SPAWN_ASIDE = 32,
};

struct spawn {
	char *const *argv;
	/* The program: an absolute path, or one in the folder DIR.  NULL: the helper argv[0] of
	 * cloister, wherever this build or installation has it. */
	const char *path;
	int dir;
	char *const *env;               /* NULL: that of this process */
	const char *cwd;                /* NULL: that of this process */
	const struct spawn_fd *fds;
	size_t n_fds;
	unsigned flags;
	uid_t uid;                      /* and gid, without other groups; 0: those of this process */
};

/* Starts the program and returns its pid; the caller waits for its end.  ret_pidfd may be NULL; else
 * the caller owns *ret_pidfd. */
pid_t spawn_start(const struct spawn *how, int *ret_pidfd, struct err *err);
#define SPAWN_KILLED 128
/* Waits for the end of PID: its exit status, or SPAWN_KILLED and the signal that killed it. */
int spawn_await(pid_t pid, struct err *err);
/* spawn_start() and spawn_await(). */
int spawn_run(const struct spawn *how, struct err *err);
/* Becomes the program; returns only if it cannot. */
int spawn_become(const struct spawn *how, struct err *err);

/* Gives the signal NUMBER its usual effect, also if the C library uses it itself. */
void spawn_reset_signal(int number);

/* The environment of this process with ADD ("NAME=VALUE") in place of variables of the same
 * name.  The caller frees the array, whose strings are borrowed.  NULL: out of memory. */
char **spawn_env(char *const *add);
#endif

/* init.h - the parts of cloister-init. */
#ifndef CLOISTER_INIT_H
#define CLOISTER_INIT_H
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#include "base/buf.h"
#include "canon/hash.h"
#include "confine/filter_own.h"
#include "ipc/init_channel.h"

struct err;
struct ipc_message;
struct json;
struct loop;
struct mux;
struct mux_carry_types;

/* main.c: does what a message of the supervisor asks for.  -EBADMSG: it is none of those. */
int init_take(struct ipc_message *message);

/* init_verify.c: the hashes of the programs that a process executes, one after the other.  An `env` in the first
 * line of a script executes a second one. */
struct init_verify {
	unsigned char hashes[INIT_EXECS_MAX][HASH_LEN];
	unsigned n, done;
};
bool init_verify_take(struct init_verify *v, char *const *names);       /* false: these are no hashes */
/* In the process, before it executes anything.  False: the kernel forbids it. */
bool init_verify_trace(void);
/* PID, which is traced, has stopped with the STATUS of waitpid(2).  Returns 0 if all its programs were compared: it
 * is not traced any more.  If one is another, returns an errno: PID is killed, and has not run an instruction of it. */
#define INIT_VERIFY_MORE (-1)           /* otherwise */
int init_verify_stopped(struct init_verify *v, pid_t pid, int status, bool has_executed);
/* The same for a process that could not be traced: it runs meanwhile. */
int init_verify_untraced(const struct init_verify *v, pid_t pid);

#define INIT_LAST_FD ((unsigned)INT_MAX)        /* old versions of gVisor take no number above */

/* A process to be started. */
struct init_spawn {
	uint32_t handle, flags, rows, columns;
	const char *cwd;
	char **argv, **env;
	struct init_verify verify;
	struct call_set calls;          /* taken away from it */
	/* Besides its own program, it can execute those that each of these lists has.  Each ends with NULL. */
	char **programs[INIT_PROGRAM_LISTS_MAX];
	uint32_t n_programs;
	int stdio[3];
	int tty;                        /* the slave side, or -1 */
	/* Borrowed: what the calls are taken away with, and the pass for it (filter_own.h). */
	const struct filter_own *filter;
	const uint64_t *pass;
	int own_exe;                    /* init's own executable, or -1 */
};

/* init_become.c: in the new process, executes the command.  REPORT gets an errno if that fails, or first INIT_UNTRACED if
 * the kernel forbids to trace the process.  From here on nothing of the parent may change: this may be a vfork. */
#define INIT_UNTRACED (-1)
_Noreturn void init_become(struct init_spawn *spawn, int report);
/* Opens a new terminal for the process, which has its slave side. */
int init_open_terminal(struct init_spawn *spawn, int *ret_master);
/* Opens the side of the terminal MASTER that a process gets; -1: see errno. */
int init_open_slave(int master);

/* init_exec.c: execvpe(3) with a pass for filter_own.h.  A file without a known format is not given to a shell.  Returns
 * only with an error, in errno. */
void init_exec(char *const *argv, char *const *env, const uint64_t pass[FILTER_OWN_PASS]);

/* init_programs.c: in the process, before it executes its command: from then on it executes only that, and the PROGRAMS
 * of a list.  OWN_EXE: init's own executable, if that is the command; or -1.  0, or -1 and errno: ENOTSUP without
 * Landlock of version 2. */
int init_hold_programs(const struct init_spawn *spawn, char *const *programs, int own_exe);

/* init_container.c: prepares init, whose arguments are ARGV, in a container.  Afterwards the descriptors are those
 * of init_channel.h. */
int init_start_container(char *const *argv, bool *ret_landlock, struct err *err);

/* init_own.c: whether the command ARGV is one of init's own programs. */
bool init_own_is(char *const *argv);
int init_own_main(int argc, char **argv);
/* init_files.c, init_entries.c, init_watch.c, init_dial.c: the programs.  They return 0 or an errno. */
/* A name as text, or as base64 if it is not UTF-8. */
void init_put_name(struct json *w, const char *key, const char *key_base64, const char *name);
int init_own_read(char **argv);
int init_own_write(char **argv);
int init_own_list(char **argv);
int init_own_watch(char **argv);
int init_own_dial(char **argv);
int init_own_stat(char **argv);
int init_own_tree(char **argv);
int init_own_make_folder(char **argv);
int init_own_move(char **argv);
int init_own_remove(char **argv);
/* Makes the folders above PATH that are missing.  Returns an errno. */
int init_make_parents(char *path);
/* "file", "folder", "link" and so on. */
const char *init_type_of(mode_t mode);

/* init_stream.c: the channel over one byte stream, for walls that pass no descriptors.  Before
 * init_stream_open(), messages are sent behind their length.  SSH listens at the SSH agent's socket, or is
 * -1. */
int init_stream_open(int ssh);
/* A descriptor that is readable when init_stream_turn() has something to do. */
int init_stream_fd(void);
int init_stream_turn(void);
int init_stream_send(const struct buf *message, const int *fds, size_t n_fds);
/* Sends INIT_EXITED of a process, once its output is sent. */
void init_stream_exited(uint32_t handle, const struct buf *message);
/* Kills everything else in the cell, and exits once the agent's output is sent. */
void init_stream_end(void);

/* init_fork.c: INIT_HOLD: everything stands still until the supervisor goes on.  Returns 1 in a copy of the machine, in
 * which the channel begins anew, and otherwise 0. */
int init_fork_hold(void);
/* main.c: in a copy, ends what `exec` has started: nobody waits for it.  The agent stays; its pid. */
pid_t init_forget_execs(void);

/* init_connect.c: joins connections with streams of the channel, whose frames for the ends of a direction
 * are ENDS. */
void init_connect_open(struct loop *of, struct mux *channel, const struct mux_carry_types *ends, int ssh);
int init_connect_take(struct buf *body);        /* INIT_CONNECT */
int init_accept_take(struct buf *body);         /* INIT_ACCEPT */
void init_connect_close(void);                  /* all of them */

/* init_engine.c: connects INIT_CHANNEL_FD to the supervisor, and waits until the cell is built. */
void init_await_engine(char *const *argv);
/* Sets the cell's limits, and makes the ruleset INIT_LANDLOCK_FD if the kernel has Landlock. */
int init_enter_engine(char *const *argv, bool *ret_landlock, struct err *err);
#endif

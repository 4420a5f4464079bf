/* notify.h - the parts of the source of acts that works without rights: notifications of the agent's filter.
 *
 * The filter stops a call that matters, and asks through its listener (confine/filter_notify.h).  Two processes
 * deal with that:
 * - The answerer alone reads the listener and answers: with the verdict of the agent's filter, which it computes
 *   from the numbers that the kernel gives it.  It never sees a byte of the agent's.  If it dies, the kernel
 *   refuses all such calls (ENOSYS).
 * - The reader, which is the process of the source, looks at the caller's memory and at /proc, makes an act of
 *   it, and can only say that it has looked.  If it dies, the answerer goes on alone.
 * So nothing that an agent writes can change what it may do.  A call waits for the reader as long as that lives:
 * none is missed, however many there are.
 *
 * Two things are different for an agent.  Until the answerer has received a call, some microseconds, a signal whose
 * handler is installed without SA_RESTART interrupts the call (EINTR): as long as the kernel lets nobody wait
 * otherwise.  And if a filter of the agent's own has a tracer decide about a call (SECCOMP_RET_TRACE), that tracer does
 * not see the calls which are reported: the kernel has each call decided once.
 *
 * After its lockdown the reader needs: process_vm_readv, openat (to read; O_PATH), openat2, readlinkat, newfstatat,
 * fstat, fstatfs, faccessat2, read, pread64, close, poll, pidfd_open, pidfd_getfd, getsockname, getpeername, getsockopt,
 * bind, recvfrom, sendto, clock_gettime, wait4, and ioctl with SECCOMP_IOCTL_NOTIF_ID_VALID and PIDFD_GET_INFO (but never
 * SECCOMP_IOCTL_NOTIF_SEND or _ADDFD); the loop; and /proc at its place.  It may not be in a Landlock domain: that
 * forbids to look at processes outside of it. */
#ifndef CLOISTER_WITNESS_NOTIFY_H
#define CLOISTER_WITNESS_NOTIFY_H
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "confine/filter_own.h"
#include "loop/loop.h"
#include "witness/act.h"
#include "witness/source.h"

/* ---- between the two ---- */

struct notify_call {                    /* answerer -> reader */
	uint64_t id;
	pid_t tid;                      /* as both see it */
	int error;                      /* with which it is refused; 0: it goes on */
	struct seccomp_data data;
};
struct notify_looked {                  /* reader -> answerer */
	uint64_t id;
};

/* notify_answer.c: serves LISTENER and PAIR until the filter has no process any more.  What OWN refuses is refused, too. */
_Noreturn void notify_answer(int listener, int pair, uint32_t filter, const struct filter_own *own);

/* ---- the reader ---- */

#define NOTIFY_PROCS_MAX 1024           /* processes whose end is awaited */
#define NOTIFY_PENDING_MAX 64           /* executions and connections that are to be confirmed */
#define NOTIFY_ARGS_MAX 131072          /* arguments that are counted */
#define NOTIFY_CPU_SHARE 2              /* of the time of a processor, over time: one of so many parts */
#define NOTIFY_CPU_BURST_NS INT64_C(2000000000) /* after a quiet time */

/* A process that has made a reported call. */
struct notify_proc {
	struct notify *of;
	pid_t host;                     /* 0: free */
	uint32_t pid, parent;
	uint64_t began_ns;              /* when it was first seen */
	struct loop_source died;        /* its pidfd */
	struct notify_proc *next;       /* with the same hash */
};

/* A text that was read, with its room. */
struct notify_text {
	char at[ACT_PATH_MAX];
	size_t len;
	bool cut;
};

/* The file that a path leads to. */
struct notify_file {
	struct notify_text path;
	int fd;                         /* O_PATH, or -1: there is none */
	int error;                      /* why not */
};

struct notify_seen {                    /* one call, as the reader saw it */
	struct act act;
	struct notify_text path, to, cwd;
	char argv[ACT_ARGV_MAX];
	/* EXEC: the program's file, and what ran before. */
	uint64_t dev, ino, before_dev, before_ino, before_random;
	bool is_script, is_program;     /* by the first bytes of the file */
	int socket;                     /* CONNECT: a copy, held until it is confirmed; 0: none */
	bool had_peer;                  /* CONNECT: before */
};

struct notify_pending {                 /* is to be confirmed */
	struct notify_proc *proc;       /* NULL: free */
	struct notify_seen seen;
	pid_t tid;                      /* of the caller */
	unsigned tries;
	bool settled;                   /* is reported once the next call is answered */
};

/* The processor time that the reader may use. */
struct notify_budget {
	int64_t left_ns;                /* as of AT_NS */
	uint64_t at_ns, used_ns;
};

struct notify {
	int listener, pair;
	pid_t answerer;
	unsigned level;                 /* which number of NSpid is the cell's */
	pid_t first;
	uint64_t init_dev, init_ino;    /* its program */
	struct loop *loop;
	struct witness_taker own;
	struct loop_source calls;
	struct loop_timer confirm, pause;
	struct notify_budget budget;
	struct notify_proc procs[NOTIFY_PROCS_MAX], *hash[NOTIFY_PROCS_MAX], *free;
	size_t n_procs;                 /* of PROCS; those behind were never in use, and take no memory */
	struct notify_pending *pending; /* NOTIFY_PENDING_MAX */
	size_t n_pending;
	struct notify_seen seen;        /* the call that is looked at */
	bool has_settled;
	bool doubtful;                  /* a path of the call may lead elsewhere */
	int root;                       /* of all processes, once it is open; else -1 */
	bool changes_root;              /* the filter lets them have others */
	struct call_set taken;          /* calls that the agent's policy takes away */
	bool holds_programs;            /* Landlock refuses to execute others than it lists */
	uid_t uid;                      /* the witness's: as an ordinary user, the agent's too */
};

void notify_take(struct notify *n, struct act *act);
uint64_t notify_now_ns(void);

/* notify_budget.c */
void notify_budget_begin(struct notify_budget *b);
/* How many milliseconds calls are to wait. */
uint64_t notify_budget_spend(struct notify_budget *b);

/* notify_memory.c: reads of another process's memory.  They return the bytes, or a negative errno. */
ssize_t notify_read(pid_t tid, uint64_t at, void *to, size_t len);
/* A text up to its NUL; RET->cut if it is longer, or its end cannot be read.  0 or -errno. */
int notify_read_text(pid_t tid, uint64_t at, struct notify_text *ret);
/* The arguments at AT, each with its NUL, as far as they fit; *RET_N is their number. */
int notify_read_argv(pid_t tid, uint64_t at, char to[ACT_ARGV_MAX], size_t *ret_len, uint32_t *ret_n, bool *ret_cut);

/* notify_fd.c: descriptors and links of a thread.  A path that is too long is cut to that of a folder above it. */
int notify_link(pid_t tid, const char *what, struct notify_text *ret);
int notify_fd_path(pid_t tid, int fd, struct notify_text *ret);
/* A descriptor of one's own for its file (O_PATH, if that is possible), or a copy of it.  The caller owns it. */
int notify_fd_open(pid_t tid, int fd);
int notify_fd_take(pid_t tid, int fd);
/* The path of a descriptor of one's own. */
int notify_name(int fd, struct notify_text *ret);

/* notify_path.c: where paths lead, as the cell names them. */
enum notify_follow { NOTIFY_FOLLOW, NOTIFY_NO_FOLLOW, NOTIFY_PARENT /* only the folder is looked up */ };
/* What PATH, relative to DIR, is to the process.  RET->fd is the caller's; -1 with NOTIFY_PARENT. */
void notify_resolve(struct notify *n, pid_t tid, int dir, const struct notify_text *path, enum notify_follow follow,
                    struct notify_file *ret);

/* A file without a name in any folder, of memfd_create(). */
bool notify_is_memory(const struct notify_text *path);

/* notify_procs.c */
struct notify_ids {
	pid_t host, host_parent;
	uint32_t pid;
};
int notify_read_ids(const struct notify *n, pid_t tid, struct notify_ids *ret);
/* A number of /proc/PID/stat, counted as in proc_pid_stat(5); 0: unknown. */
uint64_t notify_read_stat(pid_t host, unsigned field);
/* The arguments of its program, each with its NUL, as they are now: the bytes, or a negative errno. */
ssize_t notify_read_words(pid_t host, char *to, size_t max);
/* Whether each program that it executes gets addresses at random. */
bool notify_is_randomized(pid_t host);
/* How many numbers it has, one for each pid namespace that it is in; 0: it has gone. */
unsigned notify_read_levels(pid_t tid);
/* The text of /proc/PID/status, for fuzzing, too. */
unsigned notify_parse_levels(const char *text);
int notify_parse_status(const char *text, unsigned level, struct notify_ids *ret);
/* The process of the thread TID.  SPARE is filled instead if it is not in the table, and there is no room for
 * another one or it ENDS. */
int notify_find_proc(struct notify *n, pid_t tid, bool ends, struct notify_proc **ret, struct notify_proc *spare);
void notify_drop_proc(struct notify *n, struct notify_proc *p);

/* notify_look.c: fills n->seen with what CALL does.  False: there is nothing to report. */
bool notify_look(struct notify *n, const struct notify_call *call, struct notify_proc *p);

/* notify_confirm.c: executions and connections, after the fact. */
/* Whether a program is in memory or in a place that the agent can write: TARGET is its file, or -1. */
void notify_set_place(struct act *act, int target, const struct notify_text *path);
void notify_exec_before(struct notify_proc *p, struct notify_seen *seen, int target);
/* Keeps n->seen until it is confirmed.  TID is the caller's. */
void notify_pend(struct notify *n, struct notify_proc *p, pid_t tid);
/* The thread TID of the process makes another call, so what it did before is done. */
void notify_settle(struct notify *n, struct notify_proc *p, pid_t tid);
/* Reports it. */
void notify_report_settled(struct notify *n);
/* The process is gone: what could not be confirmed is reported as asked. */
void notify_settle_gone(struct notify *n, struct notify_proc *p);
void notify_confirm_due(void *arg);
#endif

/* act.h - what a process in a cell did, as a source reports it.
 *
 * Everything in an act may be of the agent's making: texts are bytes of any value, cut to fit.  A
 * source reports each act once; fold.h counts repeats. */
#ifndef CLOISTER_WITNESS_ACT_H
#define CLOISTER_WITNESS_ACT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ACT_PATH_MAX 4096
#define ACT_ARGV_MAX 4096               /* bytes of arguments that are kept, each with its NUL */
#define ACT_ARGS_MAX 512                /* decoded arguments of a call */
#define ACT_NR_UNKNOWN UINT32_MAX

enum act_kind {
	ACT_EXEC,                       /* a program was started in this process */
	ACT_EXIT,                       /* the process ended */
	ACT_FILE,
	ACT_NET,
	ACT_REFUSED,                    /* a call that a wall refused */
	ACT_DANGER,                     /* a call that attacks are made of, and that was let through */
	ACT_CALLS,                      /* calls of one process since the last time */
	ACT_LOST,                       /* acts that could not be reported */
	ACT_KINDS
};
enum act_file {
	ACT_WRITE, ACT_CREATE, ACT_READ, ACT_RENAME, ACT_REMOVE, ACT_LINK, ACT_MODE, ACT_OWNER, ACT_TIMES,
	ACT_FILES
};
enum act_net { ACT_CONNECT, ACT_BIND, ACT_LISTEN, ACT_ACCEPT, ACT_NETS };
enum act_by { ACT_BY_FILTER, ACT_BY_LANDLOCK, ACT_BY_KERNEL };

struct act_text {
	const char *at;                 /* not ended by a NUL */
	size_t len;
	bool cut;
};

struct act_count {
	uint32_t nr;                    /* of the call */
	uint64_t n;
};

struct act {
	enum act_kind kind;
	uint64_t time_ns;               /* CLOCK_MONOTONIC */
	uint32_t pid, parent;           /* as the cell numbers processes; parent 0: unknown */
	pid_t host_pid;                 /* of the process (not the thread), as the witness sees it; 0: unknown */
	int error;                      /* errno with which it failed; 0: it did not, or is not known */
	bool asked;                     /* from the process's memory, and so may differ from what was done */
	bool unknown;                   /* it may be about any file, address or call, whatever PATH or NR is */

	struct act_text path;           /* EXEC: of the program; FILE; NET: of a socket ("\0..." if abstract) */
	struct act_text to;             /* FILE: of RENAME and LINK */
	struct act_text argv;           /* EXEC: each with its NUL */
	uint32_t n_argv;                /* EXEC: in all */
	struct act_text cwd;            /* EXEC */
	struct act_text script;         /* EXEC: what was asked to run, if PATH is its interpreter */
	bool from_memory, from_writable;        /* EXEC */
	struct {
		uint64_t size;          /* of the program's file; 0: unknown */
		int64_t modified_ns;    /* since 1970 */
	} program;                      /* EXEC: with these, the file is found after the process has ended */

	bool signalled;                 /* EXIT: STATUS is a signal's number; REFUSED: the call ended the process */
	int status;                     /* EXIT, REFUSED */
	bool status_unknown;            /* EXIT */
	uint64_t ran_ns, cpu_ns, peak;  /* EXIT: 0: unknown; PEAK in bytes */

	enum act_file file;             /* FILE */
	enum act_net net;               /* NET */
	unsigned char address[16];      /* NET: IPv4 in the first 4 bytes */
	int family;                     /* NET: AF_INET, AF_INET6, AF_UNIX, or 0 */
	uint16_t port, local;           /* NET: 0: unknown */
	bool told;                      /* NET: whose LOCAL is, is known already */

	uint32_t nr;                    /* REFUSED, DANGER: the call; ACT_NR_UNKNOWN */
	uint64_t args[6];               /* REFUSED, DANGER: as numbers */
	struct act_text text;           /* REFUSED, DANGER: the text that its first pointer points to, if any */
	enum act_by by;                 /* REFUSED */

	const struct act_count *counts; /* CALLS */
	size_t n_counts;
	uint64_t since_ns;              /* CALLS: how long the time was */

	enum act_kind lost;             /* LOST: of what; ACT_KINDS: unknown */
	uint64_t n_lost;                /* LOST */
};
#endif

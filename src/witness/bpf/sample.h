/* sample.h - what the programs in the kernel write into a cell's ring buffer: bpf_decode.h reads it.
 *
 * A sample is a struct sample and then texts: a struct sample_text each, and its bytes.  A path is
 * the names from the file up to the cell's root, each with a NUL, because that is the order in which
 * the kernel finds them.  Also compiled for the kernel, so with plain types only. */
#ifndef CLOISTER_WITNESS_SAMPLE_H
#define CLOISTER_WITNESS_SAMPLE_H
#include <linux/types.h>

#define SAMPLE_PATH_MAX 4096            /* bytes of a path; then it is cut */
#define SAMPLE_NAME_MAX 256             /* of one name in it, with its NUL */
#define SAMPLE_TEXTS_MAX 16384          /* bytes of all texts of a sample, nearly */
#define SAMPLE_CALLS 512                /* calls that are counted: numbers below this */
#define SAMPLE_KINDS 8                  /* as enum act_kind */
#define SAMPLE_RING (512 * 1024)
#define SAMPLE_PROGRAMS 3

enum sample_kind {                      /* as enum act_kind */
	SAMPLE_EXEC, SAMPLE_EXIT, SAMPLE_FILE, SAMPLE_NET, SAMPLE_REFUSED, SAMPLE_DANGER, SAMPLE_COUNTS,
};
enum sample_act {                       /* as enum act_file and enum act_net */
	SAMPLE_WRITE, SAMPLE_CREATE, SAMPLE_READ, SAMPLE_RENAME, SAMPLE_REMOVE, SAMPLE_LINK, SAMPLE_MODE,
	SAMPLE_OWNER, SAMPLE_TIMES,
	SAMPLE_CONNECT = 0, SAMPLE_BIND, SAMPLE_LISTEN, SAMPLE_ACCEPT,
};
enum sample_by { SAMPLE_BY_FILTER, SAMPLE_BY_LSM, SAMPLE_BY_KERNEL };  /* as enum act_by */
enum {
	SAMPLE_WRITABLE = 1,            /* EXEC: a file that the process may write */
	SAMPLE_UNLINKED = 2,            /* EXEC: a file without a name */
	SAMPLE_SIGNALLED = 4,           /* EXIT */
	SAMPLE_ASKED = 8,               /* a text comes from the process's memory */
};

struct sample {
	__u8 kind, act, by, flags;
	__s32 error;                    /* 0, or an errno */
	__u64 time;                     /* CLOCK_MONOTONIC, ns */
	__u32 pid, parent;              /* in the cell */
	__u32 host_pid;                 /* as the witness sees it */
	__u32 nr;                       /* REFUSED, DANGER, FILE: the call; EXEC: arguments; COUNTS: pairs */
	union {
		__u64 args[6];          /* REFUSED, DANGER; FILE, unless it was opened */
		struct {
			__s32 status;
			__u32 unused;
			__u64 start, ran, cpu, peak;
		} exit;
		struct {
			__u16 family, port, local, unused;
			__u8 address[16];
		} net;
		struct {
			__u64 size;     /* of the program's file */
			__s64 modified; /* ns since 1970 */
		} exec;
		__u64 since;            /* COUNTS: ns */
	};
};

enum sample_what {
	/* Paths.  DIR and DIR_TO: folders to which NAME and NAME_TO are relative. */
	SAMPLE_PATH, SAMPLE_CWD, SAMPLE_DIR, SAMPLE_DIR_TO,
	/* Texts as they are. */
	SAMPLE_NAME, SAMPLE_NAME_TO, SAMPLE_ARGV, SAMPLE_SCRIPT, SAMPLE_PAIRS,
	SAMPLE_WHATS
};
enum {
	SAMPLE_CUT = 1,
	SAMPLE_OUTSIDE = 2,             /* a path that does not lead up to the cell's root */
};
struct sample_text {
	__u8 what, flags;
	__u16 len;
};
struct sample_pair {                    /* of PAIRS: calls with this number */
	__u32 nr, n;
};

/* How a call is looked at, by its number: SAMPLE_CALLS of them. */
enum sample_way {
	SAMPLE_WAY_NONE,
	SAMPLE_WAY_OPEN,                /* DIR, PATH; flags TO_DIR */
	SAMPLE_WAY_CREAT,               /* PATH; a WAY_OPEN that always writes */
	SAMPLE_WAY_NAMES,               /* DIR, PATH, and TO_DIR, TO if it has two */
	SAMPLE_WAY_SYMLINK,             /* PATH: the text; TO_DIR, TO */
	SAMPLE_WAY_FD,                  /* DIR: the file's descriptor */
	SAMPLE_WAY_EXEC,                /* DIR, PATH */
	SAMPLE_WAY_CONNECT, SAMPLE_WAY_BIND, SAMPLE_WAY_LISTEN, SAMPLE_WAY_ACCEPT,
	SAMPLE_WAY_SENDTO, SAMPLE_WAY_SENDMSG,  /* to an address that the call names */
	SAMPLE_WAY_DANGER,              /* PATH: a text, if any */
	SAMPLE_WAY_FORK, SAMPLE_WAY_CLONE, SAMPLE_WAY_CLONE3,
	SAMPLE_WAY_KILL,                /* DIR: whom, a process; TO: the signal */
	SAMPLE_WAY_TKILL,               /* the same for a thread */
};
struct sample_call {
	__u8 way, act;
	__u8 dir, path, to_dir, to;     /* which argument, from 1; 0: none */
};

/* What the programs know from the start. */
struct sample_setup {
	__u32 page_shift;               /* of maxrss */
	__u32 sigreturn;                /* the number of the call that has none when it returns */
	struct sample_call calls[SAMPLE_CALLS];
};

/* A cell, by the inode of its pid namespace, which the next cell may get as soon as this one has ended.
 * The first two members are the same in all builds: with them, any build finds out whether a cell's
 * witness is still there. */
struct sample_cell {
	__u64 owner_ns;                 /* the inode of the witness's pid namespace */
	__u32 owner;                    /* its pid there */
	__u32 ring;                     /* the number of its ring buffer, which no other ever has */
	__u16 reads;                    /* whether it wants files that are opened for reading */
	__u16 full;                     /* whether it wants calls counted */
	__u64 lost[SAMPLE_KINDS];       /* samples that found no room */
};
#endif

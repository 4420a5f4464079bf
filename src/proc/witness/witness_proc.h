/* witness_proc.h - the parts of cloister-witness. */
#ifndef CLOISTER_WITNESS_PROC_H
#define CLOISTER_WITNESS_PROC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "ipc/witness_channel.h"
#include "loop/loop.h"
#include "witness/act.h"
#include "witness/fold.h"
#include "witness/programs.h"
#include "witness/source.h"
#include "witness/watch.h"

#define WITNESS_GRANTS_MAX 64
#define WITNESS_BATCHES_MAX 8           /* messages that wait for the supervisor */
#define WITNESS_SEARCHES 16             /* processes that look for a program */
#define WITNESS_SEARCH_MS 100           /* how long an attempt waits for the next one */
#define WITNESS_GATHER_MS 10            /* how long an event waits for others, to be sent with them */

/* witness_out.c: events on their way to the supervisor. */
struct witness_batch {
	struct buf message;             /* WITNESS_EVENTS, without its number of events */
	uint32_t n;
};
struct witness_out {
	struct loop *loop;
	struct loop_source channel;     /* to the supervisor */
	struct witness_batch batches[WITNESS_BATCHES_MAX];
	size_t first, n;                /* a ring; the last one is being filled */
	struct loop_timer gather;
};

/* Attempts of a process to start a program that is not there. */
struct witness_search {
	uint32_t pid;
	uint64_t n, since_ms;           /* N is 0: free */
	char name[256];
	size_t name_len, count_at;      /* where the number is in EVENT: "1" */
	struct buf event;               /* of the last one */
};

struct witness {
	struct loop *loop;
	struct witness_cell cell;
	uint64_t total;                 /* bytes of all events */
	char **grants;
	int root;                       /* the cell's root folder, or -1 */
	const struct witness_source *source;    /* NULL: none */
	void *state;
	struct fold *fold;
	struct witness_watch *watch;    /* the policy's rules over acts; NULL: none */
	struct programs *programs;
	struct witness_search searches[WITNESS_SEARCHES];
	struct loop_timer turn;
	struct witness_out out;
	struct buf event;
	uint64_t dropped;               /* events that the supervisor was too slow for */
};

/* 0, or -ENOBUFS: too much waits. */
int witness_out_event(struct witness_out *out, const char *text, size_t len);
/* The process PID has connected from its port LOCAL.  With WAITS, this is sent however long that takes; else not if the
 * supervisor is too slow, and the connection's requests have no process. */
void witness_out_connected(struct witness_out *out, uint32_t pid, uint16_t local, bool waits);
/* Sends all that waits, and then MESSAGE, however long that takes. */
void witness_out_say(struct witness_out *out, const struct buf *message);
void witness_out_writable(struct witness_out *out);
void witness_out_free(struct witness_out *out);

/* witness_take.c: makes events of acts. */
int witness_take_open(struct witness *w);
void witness_take(void *arg, const struct act *act);
void witness_take_port(void *arg, uint32_t pid, uint16_t local);
/* WITNESS_RULES: -EBADMSG. */
int witness_take_rules(struct witness *w, struct ipc_message *message);
/* Passes on what waits for repeats. */
void witness_take_all(struct witness *w);
void witness_take_close(struct witness *w);

/* witness_search.c: takes a program that was not found; false: it is to be recorded by itself. */
bool witness_search_take(struct witness *w, const struct act *act);
/* How often the program of ACT was looked for before it was found.  They need no record any more. */
uint64_t witness_search_found(struct witness *w, const struct act *act);
/* The process does something else. */
void witness_search_flush(struct witness *w, uint32_t pid);
void witness_search_turn(struct witness *w, bool all);
/* When the turn is; UINT64_MAX: never. */
uint64_t witness_search_next(const struct witness *w);

/* witness_files.c: hashes of what was executed. */
struct witness_hashes {
	unsigned char program[HASH_LEN], script[HASH_LEN];
	bool has_program, has_script;
	const char *why;                /* why there is no program's; NULL: there is */
};
void witness_hash(struct witness *w, const struct act *act, struct witness_hashes *ret_hashes);
#endif

/* relay.h - copies bytes from one descriptor to another, never blocking the loop.
 *
 * A relay's buffer is bounded; it reads only if it has room.  Descriptors are borrowed and their
 * flags are not changed, because the open file may be shared with other processes. */
#ifndef CLOISTER_RELAY_H
#define CLOISTER_RELAY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "loop/loop.h"

struct err;

#define RELAY_BUFFER 65536
#define RELAY_HELD_MAX 128              /* bytes that a filter may hold back */
#define RELAY_IDLE_S 3600               /* without a byte of a published port's connection */

/* Shared by the relays of one connection: DUE is called once nothing has moved in any of them for RELAY_IDLE_S. */
struct relay_idle {
	struct loop *loop;
	struct loop_timer timer;
	uint64_t last_ms;
	void (*due)(void *arg);
	void *arg;
};
/* Fill in the callback first. */
void relay_idle_start(struct relay_idle *idle, struct loop *loop);
void relay_idle_stop(struct relay_idle *idle);  /* also of one that was never started */

struct relay {
	struct loop *loop;
	struct loop_source from, to;
	unsigned char *data;            /* RELAY_BUFFER bytes, while the relay runs */
	size_t start, len;
	bool from_ended;
	bool always_from, always_to;    /* regular files are always ready */
	int error;                      /* why TO accepted no more, unless EPIPE */
	bool may_block;                 /* TO lacks O_NONBLOCK */
	bool from_pipe;
	/* FROM is the terminal of this process group, or 0.  In the background, a read would stop the
	 * group: nothing is read then, and the relay looks again after a while. */
	pid_t group;
	bool is_behind;
	struct relay_idle *idle;        /* or NULL: it may be silent for ever */
	struct loop_timer again;        /* retries a relay that no event can wake */
	/* Called once: at the end of FROM, with everything copied, or when TO accepts no more.  It
	 * may free the relay. */
	void (*done)(void *arg, struct relay *relay);
	/* Replaces writing to a descriptor.  Returns how many bytes it took, or -1 and EAGAIN: then
	 * it is called again in the next round; with SINK_WAKES, after relay_flush_some() alone. */
	ssize_t (*sink)(void *arg, const unsigned char *data, size_t len);
	bool sink_wakes;
	/* Unless NULL, writes what is to be copied of the LEN bytes at IN to OUT, which begins RELAY_HELD_MAX
	 * bytes before IN, and returns its length. */
	size_t (*filter)(void *arg, const unsigned char *in, size_t len, unsigned char *out);
	void *arg, *sink_arg, *filter_arg;
};

/* FROM and TO (-1 with a sink) are borrowed until done or relay_drop(). */
int relay_start(struct relay *relay, struct loop *loop, int from, int to,
                struct err *err);
/* Copy everything that can be copied now without waiting. */
void relay_flush(struct relay *relay);
/* The same, but at most STEPS times RELAY_BUFFER: a process that writes without end is no reason to stay. */
void relay_flush_some(struct relay *relay, size_t steps);
/* Stop; no callback is called any more. */
void relay_drop(struct relay *relay);

/* Read, without ever waiting, from a pipe that others may read too; -1 and EAGAIN if it is empty. */
ssize_t relay_read_pipe(int fd, void *data, size_t len);

/* Reopen FD's terminal, pipe or device as a non-blocking description of our own; or duplicate FD if
 * that fails. */
int relay_reopen(int fd, int flags);
#endif

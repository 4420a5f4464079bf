/* dial.h - connects to the first of several addresses that answers (happy
 * eyeballs, RFC 8305). */
#ifndef CLOISTER_UPSTREAM_DIAL_H
#define CLOISTER_UPSTREAM_DIAL_H
#include <stddef.h>
#include <stdint.h>

#include "loop/loop.h"
#include "upstream/address.h"

#define DIAL_ADDRESSES_MAX 16
#define DIAL_STAGGER_MS 250             /* before the next is tried as well */

struct dial_attempt {
	struct dial *dial;
	struct loop_source source;      /* owns source.fd; -1: none */
	size_t address;
};

/* Embedded in its owner; allocates nothing. */
struct dial {
	struct loop *loop;
	struct address addresses[DIAL_ADDRESSES_MAX];
	size_t n, next;
	uint16_t port;
	struct dial_attempt attempts[DIAL_ADDRESSES_MAX];
	size_t n_attempts;              /* under way */
	struct loop_timer timer;
	int error;                      /* of the last failed attempt, a positive errno */
	/* Called once, never from within dial_start().  FD is connected to ADDRESS, and the owner
	 * closes it.  If FD is -1, ERROR is the reason. */
	void (*done)(void *arg, int fd, const struct address *address, int error);
	void *arg;
};

/* Try the addresses in this order (see address_interleave).  There is no timeout: the caller ends
 * it with dial_drop(). */
void dial_start(struct dial *d, struct loop *loop, const struct address *addresses, size_t n,
                uint16_t port,
                void (*done)(void *arg, int fd, const struct address *address, int error),
                void *arg);
/* The same with FD, which is connected already and is DIAL's now. */
void dial_start_connected(struct dial *d, struct loop *loop, int fd,
                          void (*done)(void *arg, int fd, const struct address *address, int error),
                          void *arg);
void dial_drop(struct dial *d);         /* DONE is not called any more; twice is fine */
#endif

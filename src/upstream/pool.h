/* pool.h - the connections to servers: chooses or makes one for each transfer. */
#ifndef CLOISTER_UPSTREAM_POOL_H
#define CLOISTER_UPSTREAM_POOL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop/loop.h"
#include "upstream/proxy.h"
#include "upstream/resolve.h"
#include "upstream/tls.h"
#include "upstream/transfer.h"

struct err;

#define POOL_BUCKETS 64
#define POOL_IN_SIZE (64 * 1024)        /* bytes read from a connection at once */

/* What the pool has to know of its owner.  ARG is that of pool_new(). */
struct pool_owner {
	/* Whether the bandwidth limit stops reading for now. */
	bool (*is_slowed)(void *arg);
	/* Whether more was read than could be passed on. */
	bool (*is_behind)(void *arg);
	/* Whether bytes may contain secrets: their memory is wiped. */
	bool (*has_secrets)(void *arg);
	/* Use the client certificate of this number for SSL. */
	int (*show_certificate)(void *arg, unsigned certificate, SSL *ssl, struct err *err);
	/* A new connection to CELL_NET_TOOLS_NAME, which the caller owns; negative: there are no tools. */
	int (*connect_tools)(void *arg, struct err *err);
	/* The handshake is over: forget the key. */
	void (*certificate_shown)(SSL *ssl);
	/* Call pool_round_over() when the loop's round ends. */
	void (*at_round_end)(void *arg);
	/* Call pool_tick() once a second. */
	void (*wake)(void *arg);

	/* The rules that decide which addresses T may use, opaque to the pool.  NULL: there is no
	 * memory. */
	void *(*take_rules)(const struct transfer *t);
	void (*release_rules)(void *rules);
	/* Whether T has exactly these rules. */
	bool (*has_rules)(const struct transfer *t, const void *rules);
	/* The place of the rule that denies ADDRESS, or NULL. */
	const char *(*denies)(const void *rules, const char *address, uint16_t port);
};

struct pool {
	const struct pool_owner *owner;
	void *arg;
	struct loop *loop;
	struct proxies proxies;
	struct resolver *resolver;
	struct tls tls;
	struct origin *origins[POOL_BUCKETS];
	size_t n_origins, n_upstreams, upstreams_max;
	struct upstream *raw;           /* connections of tunnels */
	struct upstream *touched, *dead;
	uint64_t now_s;
	struct buf out;                 /* bytes for a server */
	unsigned char in[POOL_IN_SIZE]; /* bytes of a server */
};

/* ENVIRONMENT is as in COURIER_START, with the operator's proxies.  PEM (may be NULL) holds more
 * certificates to trust. */
int pool_new(const struct pool_owner *owner, void *arg, char *const *environment, const char *pem,
             size_t pem_len, struct pool **ret_pool, struct err *err);
void pool_start(struct pool *pool, struct loop *loop);
void pool_free(struct pool *pool);      /* NULL is fine */

/* Put T on a connection, or in the queue for one. */
void pool_send(struct transfer *t);
/* Make a connection that is T's own, for raw bytes. */
void pool_connect(struct transfer *t);
/* Whether other transfers wait for the connection that T has or waits for. */
bool pool_is_pressed(const struct transfer *t);
/* Connections made with this certificate take no new transfers.  NOW: their current transfers end
 * too. */
void pool_forget_certificate(struct pool *pool, unsigned certificate, bool now);
/* Close connections that have been idle for long, and run timeouts.  Returns whether there is
 * anything left to watch. */
bool pool_tick(struct pool *pool);
void pool_round_over(struct pool *pool);
/* Free memory that is not needed while there are no transfers. */
void pool_rest(struct pool *pool);
/* Wipe the first LEN bytes of pool->in if they may contain secrets. */
void pool_wipe_in(struct pool *pool, size_t len);
#endif

/* transfer.h - a request and its response on the way to a server, or the bytes of a raw connection.
 *
 * The owner embeds a transfer, fills in the destination and the request, and hands it to the pool
 * (pool.h).  The pool and the connections tell the owner what happens (struct transfer_owner). */
#ifndef CLOISTER_UPSTREAM_TRANSFER_H
#define CLOISTER_UPSTREAM_TRANSFER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "http/http_head.h"
#include "ipc/egress_channel.h"

struct origin;
struct pool;
struct postgres;
struct transfer;
struct upstream;

#define TRANSFER_ANSWER_S 300           /* until the head of the response: models think long */
#define TRANSFER_RAW_IDLE_S 3600        /* without a byte of a raw connection */
#define TRANSFER_QUEUE_S 60             /* waiting for a connection, when all are in use */

/* Why a transfer failed.  All strings but NOTE are static. */
struct failure {
	uint16_t status;                /* 502 or 504; 403 if the failure is a refusal */
	const char *why;                /* as in events: "unreachable" */
	const char *error;              /* "upstream unreachable" */
	char note[EGRESS_REASON_MAX];   /* one sentence */
};

void failure_set(struct failure *f, uint16_t status, const char *why, const char *error,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

enum transfer_step {
	TRANSFER_QUEUED,                /* waits for a connection */
	TRANSFER_SENT,                  /* on a connection */
	TRANSFER_RAW,                   /* on a connection, bytes both ways */
};

struct transfer_owner {
	/* The head to send.  `expect` may be removed from it. */
	struct http_head *(*head)(struct transfer *t);
	/* Whether to send `expect`. */
	bool (*expects)(const struct transfer *t);
	void (*moved)(struct transfer *t, enum transfer_step step);
	/* LEN bytes of t->body were sent. */
	void (*took)(struct transfer *t, size_t len);
	/* A raw connection has sent all bytes of t->body. */
	void (*emptied)(struct transfer *t);

	/* A response head came.  Its fields may be changed.  False: T has failed. */
	bool (*respond)(struct transfer *t, struct http_head *head, bool has_body);
	/* Bytes of the response, or of a raw connection, came. */
	void (*give)(struct transfer *t, const void *data, size_t len);
	/* As give() without a copy: memory to read into, or NULL if there is none for now. */
	unsigned char *(*reserve)(struct transfer *t, size_t *ret_room);
	void (*commit)(struct transfer *t, size_t len);
	/* Whether all bytes go through give(), because the owner changes them, and none are kept in
	 * tables. */
	bool (*is_changed)(const struct transfer *t);
	/* Bytes that the owner keeps in another form than t->pending. */
	size_t (*kept)(const struct transfer *t);
	/* As give(), for a raw connection with is_changed().  False: these bytes cannot be passed
	 * on. */
	bool (*give_raw)(struct transfer *t, const void *data, size_t len);
	/* Bytes of a raw connection are about to be committed. */
	void (*heard)(struct transfer *t, const void *data, size_t len);
	/* The response is complete, or the server has closed its side of a raw connection. */
	void (*end)(struct transfer *t, const struct http_field *trailers, size_t n);
	void (*fail)(struct transfer *t, const struct failure *failure);
};

/* On an HTTP/2 connection. */
struct h2_stream {
	int32_t id;
	bool deferred;                  /* waits for more of the body */
	size_t unconsumed;              /* bytes of PENDING without credit to the server yet */
	uint64_t length, came;          /* of the response's body: as announced, and so far */
};

struct transfer {
	const struct transfer_owner *owner;
	struct pool *pool;
	struct transfer *queue_next;    /* in its origin's queue */
	struct transfer *conn_next;     /* on its HTTP/2 connection */
	struct origin *origin;          /* TRANSFER_QUEUED */
	struct upstream *upstream;      /* its connection; NULL: none */
	uint64_t deadline_s;            /* on the pool's clock; 0: none */

	/* The destination. */
	const char *host;
	uint16_t port;
	enum http_scheme scheme;
	uint8_t certificate;            /* the client certificate to show; 0: none */
	bool may_use_private;           /* the destination may be a private address */
	unsigned char named_bits;       /* see address_is_allowed() */
	bool h1_only;                   /* needs what HTTP/2 lacks */
	bool h2_unasked;                /* plain HTTP that needs HTTP/2: not negotiated */
	bool begins_tls;                /* a raw connection that begins with TLS */
	bool server_waits;              /* a raw connection on which the client speaks first */
	struct postgres *postgres;      /* a raw connection that begins with a login; NULL: none */

	/* The request. */
	struct http_text method;
	bool has_body, is_head, is_upgrade;
	bool came_all, sent_all;        /* the owner has put in all of it; all of it was sent */
	bool retried;                   /* it is retried once only */
	struct buf body;                /* bytes not yet sent; POS is the first of them */
	size_t held_back;               /* bytes that the owner still keeps back, though CAME_ALL */
	struct buf trailers;            /* encoded; empty if there are none */
	uint64_t sent;                  /* bytes of the body */

	/* The response. */
	uint16_t status;                /* of the last head; 0: none yet */
	bool answered, bodiless;        /* the last head was final; it has no body */
	bool server_ended;              /* raw: the server has half-closed */
	struct buf pending;             /* bytes that the owner could not pass on yet */
	struct h2_stream h2;
};

/* Whether T is on a connection that exists. */
bool transfer_is_connected(const struct transfer *t);
/* Set the deadline to SECONDS from now. */
void transfer_touch(struct transfer *t, uint64_t seconds);
/* Take as many bytes of the body as the connection takes now. */
size_t transfer_send(struct transfer *t, const void *data, size_t len);
/* t->body has more bytes, or is complete. */
void transfer_more(struct transfer *t);
/* The owner has passed on bytes of t->pending. */
void transfer_given(struct transfer *t);
/* The owner takes bytes again. */
void transfer_resume(struct transfer *t);
/* Release the connection, and the place in the queue. */
void transfer_detach(struct transfer *t);
#endif

/* serve.h - a small HTTP/1.1 server in a loop: whole requests in, answers out.
 *
 * What cloister-serve and cloister-mcp have in common; it knows nothing of what is asked.
 * A door is a listening socket, and decides who somebody is: by the peer's user on a unix
 * socket, by a token on TCP, never by what a message says.  One request of a connection is
 * dealt with at a time; what a client sends ahead waits.  Everything has a time and a maximum.
 * All of this is called from the loop's thread. */
#ifndef CLOISTER_SERVE_H
#define CLOISTER_SERVE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "http/http_head.h"

struct err;
struct loop;
struct ssl_ctx_st;
struct serve_conn;
struct serve_request;
struct serve_server;                            /* opaque, as is the connection */

#define SERVE_CONNS_MAX 256                     /* of one door */
#define SERVE_DOORS_MAX 8
#define SERVE_BODY_KEPT (1u << 20)              /* in memory; what is longer is in a file */
#define SERVE_BODY_MAX (1ull << 30)
#define SERVE_AHEAD_MAX (64 * 1024)             /* sent before the last answer was there */
#define SERVE_NAME_MAX 64
#define SERVE_TOKEN_MAX 256                     /* a token's length */

/* Seconds. */
#define SERVE_HEAD_S 15                         /* a head, from its first byte (or TLS) on */
#define SERVE_IDLE_S 75                         /* between requests */
#define SERVE_BODY_S 30                         /* without a byte of a body */
#define SERVE_BODY_ALL_S 900                    /* a whole body */
#define SERVE_WRITE_S 60                        /* without a byte of an answer being taken */
#define SERVE_LINGER_S 2

/* Bits, so that a route can name several. */
enum serve_role {
	SERVE_OPERATOR = 1, SERVE_AGENT = 2,
	SERVE_GUEST = 4,                        /* somebody's browser, and nobody is logged in there */
};

struct serve_token {
	char name[SERVE_NAME_MAX];              /* for the record */
	enum serve_role role;
	unsigned char hash[32];                 /* SHA-256 of it */
};

struct serve_door {
	int fd;                                 /* listening; the server's */
	enum serve_role role;                   /* unix: of everybody who may come in */
	bool is_tcp;
	uint16_t port;                          /* of TCP */
	bool takes_local_origin;                /* pages of this machine may ask */
	/* A token that is none of TOKENS is the handler's to judge: it finds it in the request, and
	 * answers for nothing before it has.  On a unix socket nobody has to show one. */
	bool hears_tokens;
	/* TCP, of a request that shows no token, and whose Origin is this server's own if there is one:
	 * sets its role and who it is, or has refused it (false).  NULL: it needs a token. */
	bool (*judge)(void *arg, struct serve_request *q);
	void *judge_arg;
	const char *also_called;                /* borrowed: a name besides localhost; NULL: none */
	struct ssl_ctx_st *tls;                 /* borrowed; NULL: plain */
	const struct serve_token *tokens;       /* borrowed; TCP: one of them must be shown */
	size_t n_tokens;
};

/* A body that was read whole. */
struct serve_body {
	struct buf data;                        /* up to SERVE_BODY_KEPT, or */
	int fd;                                 /* a file without a name; -1 if there is none */
	uint64_t len;
};

struct serve_request {
	const struct serve_door *door;
	enum serve_role role;
	uid_t uid;                              /* of the peer; (uid_t)-1 behind TCP */
	char who[SERVE_NAME_MAX];               /* for the record: "uid 1000" or "token NAME" */
	char token[SERVE_TOKEN_MAX + 1];        /* that was shown and nobody judged yet; else "" */
	uint64_t session;                       /* the judge's own, see serve_end_session(); 0: none */
	struct http_head head;                  /* canonical; lives as long as the request */
	char *path;                             /* without the query; escapes as they came */
	const char *query;                      /* what is behind "?", or "" */
	struct serve_body body;
	uint64_t body_max;                      /* for head() to raise; 0: no body is taken */
	bool is_head;                           /* HEAD: answered as GET, the body left out */
	bool is_gone;                           /* nobody waits for the answer any more */
	/* The handler's own; called for a stream only. */
	void *app;
	void (*writable)(struct serve_request *q);
	void (*gone)(struct serve_request *q);  /* serve_end() is still to be called */
	/* private */
	struct serve_conn *conn;
	struct buf head_data;
	struct buf extra;                       /* fields for the answer, as "name\0value\0" */
	struct serve_server *server;
	bool is_offered;                        /* head() has seen it, request() has not */
	bool is_stream, chunked;
};

/* Each request is answered exactly once, here or later, by one of the functions below that
 * say so; it is gone with that. */
struct serve_handler {
	/* The head has come.  Answer to refuse the request before its body, or set body_max. */
	void (*head)(void *arg, struct serve_request *q);
	void (*request)(void *arg, struct serve_request *q);
	/* Instead of request(): it will not come to that, and is gone after this call. */
	void (*lost)(void *arg, struct serve_request *q);
};

struct serve_stats {
	uint64_t conns, accepted, requests, refused;
	uint64_t statuses[6];                   /* by their first digit; [0] is not used */
	uint64_t streams;                       /* open ones */
};

/* SPOOL is a folder for bodies that are too long for memory (borrowed; -1: there are none). */
int serve_new(struct loop *loop, const struct serve_handler *handler, void *arg, int spool,
              struct serve_server **ret_server, struct err *err);
/* Drops all connections. */
void serve_free(struct serve_server *s);        /* NULL is fine */
/* From now on DOOR (copied) is open; its descriptor is the server's. */
int serve_open_door(struct serve_server *s, const struct serve_door *door, struct err *err);
/* No new connection, no further request on an old one; answers under way are finished.
 * DONE is called once when no connection is left (streams are ended as they are). */
void serve_stop(struct serve_server *s, void (*done)(void *arg), void *arg);
const struct serve_stats *serve_stats(const struct serve_server *s);
/* When the last connection went, by loop_now_ms(); 0 while there is one. */
uint64_t serve_idle_since(const struct serve_server *s);

/* ---- answers (serve_answer.c) ---- */

/* One more field of the answer, before it is given.  NAME is in lower case.  Answers are not to be
 * kept (cache-control), unless one of these says otherwise. */
void serve_field(struct serve_request *q, const char *name, const char *value);
/* The whole answer; TYPE NULL: there is no body.  Ends the request. */
void serve_answer(struct serve_request *q, unsigned status, const char *type, const void *body,
                  size_t len);
/* As serve_answer(), with LEN bytes of FD from its beginning; FD becomes the server's. */
void serve_answer_fd(struct serve_request *q, unsigned status, const char *type, int fd,
                     uint64_t len);
/* {"error":{"code":...,"message":...,"pointer":...}}; POINTER may be NULL.  Ends the request. */
void serve_refuse(struct serve_request *q, unsigned status, const char *code,
                  const char *pointer, const char *message);
/* The beginning of an answer whose end is not known yet. */
void serve_stream(struct serve_request *q, unsigned status, const char *type);
/* False: enough for now; go on when writable() is called.  What is given is always taken,
 * unless it is over 256 KiB or the client is gone. */
bool serve_send(struct serve_request *q, const void *data, size_t len);
/* Ends a stream; CUT: so that the client sees that it is not complete.  Ends the request. */
void serve_end(struct serve_request *q, bool cut);

/* ---- who may come in (serve_door.c) ---- */

/* Listen at a unix socket NAME in the folder DIR, for the own user and root only; what is
 * left there by one that was killed is replaced. */
int serve_listen_unix(int dir, const char *name, struct err *err);
/* ADDRESS is 127.0.0.1:PORT or [::1]:PORT (port 0: any); anything else is refused. */
int serve_listen_tcp(const char *address, uint16_t *ret_port, struct err *err);
/* Of a listening socket that somebody else opened: what it is; refused if it is no stream, or is
 * open to the network. */
int serve_check_given(int fd, bool *ret_is_tcp, uint16_t *ret_port, struct err *err);
/* The one token in the file at PATH, made if it is missing; refused if others may read it. */
int serve_token_load(const char *path, const char *name, enum serve_role role,
                     struct serve_token *ret_token, struct err *err);

/* Which of the door's tokens this is, or NULL. */
const struct serve_token *serve_token_find(const struct serve_door *door, const char *token,
                                           size_t len);
/* The streams that belong to SESSION end. */
void serve_end_session(struct serve_server *s, uint64_t session);

/* Answers 401.  Ends the request. */
void serve_refuse_token(struct serve_request *q, const char *message);

/* ---- TLS (serve_tls.c) ---- */

#define SERVE_PRINT_MAX 100
/* A server's context with this certificate and key (PEM); *ret_print is the certificate's
 * SHA-256 as openssl prints it. */
int serve_tls_load(const char *cert, const char *key, struct ssl_ctx_st **ret_tls,
                   char ret_print[SERVE_PRINT_MAX], struct err *err);
/* The same with cert.pem and key.pem in the folder DIR, self-signed and made if missing. */
int serve_tls_own(int dir, struct ssl_ctx_st **ret_tls, char ret_print[SERVE_PRINT_MAX],
                  struct err *err);
#endif

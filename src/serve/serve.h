/* serve.h - a small HTTP/1.1 server in a loop: whole requests in, responses out.
 *
 * cloister-serve and cloister-mcp share it; it knows nothing of their requests.  A door is a
 * listening socket, and decides who a client is: by the peer's user on a unix socket, by a token on
 * TCP, never by the content of a message.  A connection handles one request at a time; pipelined
 * requests wait.  Everything has a timeout and a maximum.  Call all of this from the loop's thread. */
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
#define SERVE_BODY_KEPT (1u << 20)              /* in memory; a longer body is in a file */
#define SERVE_BODY_MAX (1ull << 30)
#define SERVE_AHEAD_MAX (64 * 1024)             /* pipelined, before the last response */
#define SERVE_NAME_MAX 64
#define SERVE_TOKEN_MAX 256                     /* a token's length */

/* Timeouts in seconds. */
#define SERVE_HEAD_S 15                         /* a head, from its first byte (or TLS) on */
#define SERVE_IDLE_S 75                         /* between requests */
#define SERVE_BODY_S 30                         /* without a byte of a body */
#define SERVE_BODY_ALL_S 900                    /* a whole body */
#define SERVE_WRITE_S 60                        /* without the client taking a byte of a response */
#define SERVE_LINGER_S 2

/* Bits, so that a route can name several. */
enum serve_role {
	SERVE_OPERATOR = 1, SERVE_AGENT = 2,
	SERVE_GUEST = 4,                        /* a browser in which nobody is logged in */
};

struct serve_token {
	char name[SERVE_NAME_MAX];              /* for the record */
	enum serve_role role;
	unsigned char hash[32];                 /* SHA-256 of it */
};

struct serve_door {
	int fd;                                 /* listening; owned by the server; -1: see serve_give() */
	enum serve_role role;                   /* unix: the role of every client */
	bool is_tcp;
	uint16_t port;                          /* of TCP */
	bool takes_local_origin;                /* pages of this machine may send requests */
	/* The handler judges a token that is none of TOKENS.  It finds the token in the request,
	 * and must judge it before it answers anything.  On a unix socket no token is required. */
	bool hears_tokens;
	/* TCP, for a request without a token, whose Origin, if any, is this server's own.  Sets its
	 * role and identity, or refuses it (false).  NULL: a token is required. */
	bool (*judge)(void *arg, struct serve_request *q);
	void *judge_arg;
	/* The judge also decides on requests with an Authorization field: it is meant for another service, for which this
	 * server stands in. */
	bool judges_all;
	const char *also_called;                /* borrowed: a name besides localhost; NULL: none */
	const void *routes;                     /* borrowed: for the handler */
	/* Writes every refusal in the form that this door's clients expect, and ends the request.  NULL: serve_refuse()'s. */
	void (*refuse)(struct serve_request *q, unsigned status, const char *code, const char *message);
	/* TCP: HOST, of a request, is the name of another server, for which this one carries the bytes of the whole
	 * connection; then CARRY is called (with judge_arg) instead of the handler.  NULL: there is none. */
	bool (*is_carried)(const char *host);
	/* HOST names it, and DATA is what the client has sent so far.  Sets `received` and `gone`, and answers later: by
	 * serve_carry(), or by refusing it. */
	void (*carry)(void *arg, struct serve_request *q, const char *host, const void *data, size_t len);
	size_t body_kept;                       /* bytes of a body in memory; 0: SERVE_BODY_KEPT */
	struct ssl_ctx_st *tls;                 /* borrowed; NULL: plain */
	/* With TLS: clients without it are served too, except those that show a token. */
	bool takes_plain;
	const struct serve_token *tokens;       /* borrowed; TCP: one of them is required */
	size_t n_tokens;
};

/* A body that was read completely. */
struct serve_body {
	struct buf data;                        /* up to SERVE_BODY_KEPT, or */
	int fd;                                 /* an unnamed file; 0: none */
	uint64_t len;
};

struct serve_request {
	const struct serve_door *door;
	enum serve_role role;
	uid_t uid;                              /* of the peer; (uid_t)-1 for TCP */
	char who[SERVE_NAME_MAX];               /* for the record: "uid 1000" or "token NAME" */
	char token[SERVE_TOKEN_MAX + 1];        /* shown, and not judged yet; else "" */
	uint64_t session;                       /* set by the judge, see serve_end_session(); 0: none */
	struct http_head head;                  /* canonical; lives as long as the request */
	char *path;                             /* without the query; escapes unchanged */
	const char *query;                      /* the part after "?", or "" */
	struct serve_body body;
	uint64_t body_max;                      /* for head() to raise; 0: no body is accepted */
	bool is_tls;                            /* it came over TLS */
	bool is_head;                           /* HEAD: answered as GET, without the body */
	bool is_gone;                           /* nobody waits for the response any more */
	bool is_leaving;                        /* the client has closed its side, and may have hung up; atomic */
	/* For the handler; called for a stream only. */
	void *app;
	void (*writable)(struct serve_request *q);
	void (*gone)(struct serve_request *q);  /* serve_end() must still be called */
	/* For a connection that is carried: the client has sent DATA; LEN 0: it will send no more. */
	void (*received)(struct serve_request *q, const void *data, size_t len);
	/* private */
	struct serve_conn *conn;
	struct buf head_data;
	struct buf extra;                       /* fields of the response, as "name\0value\0" */
	struct serve_server *server;
	bool is_offered;                        /* head() has seen it, request() has not */
	bool is_stream, chunked;
};

/* Each request is answered exactly once, now or later, by one of the functions below that end it. */
struct serve_handler {
	/* The head is complete.  Answer to refuse the request before its body, or set body_max. */
	void (*head)(void *arg, struct serve_request *q);
	void (*request)(void *arg, struct serve_request *q);
	/* Called instead of request() if the request will not be completed; it is gone after this call. */
	void (*lost)(void *arg, struct serve_request *q);
};

struct serve_stats {
	uint64_t conns, accepted, requests, refused;
	uint64_t statuses[6];                   /* by their first digit; [0] is unused */
	uint64_t streams;                       /* open ones */
};

/* SPOOL is a folder for bodies that are too long for memory (borrowed; -1: none are accepted). */
int serve_new(struct loop *loop, const struct serve_handler *handler, void *arg, int spool,
              struct serve_server **ret_server, struct err *err);
/* Drops all connections. */
void serve_free(struct serve_server *s);        /* NULL is fine */
/* Opens DOOR (copied); the server owns its descriptor. */
int serve_open_door(struct serve_server *s, const struct serve_door *door, struct err *err);
/* Serves the connection FD, which is taken, at the last door that was opened: one that listens to nothing.  Its
 * clients are whoever the caller takes connections from, so their users are not checked. */
void serve_give(struct serve_server *s, int fd);
/* Accepts no new connections, and no further requests on old ones; finishes the current responses.
 * Calls DONE once no connection is left (streams are ended as they are). */
void serve_stop(struct serve_server *s, void (*done)(void *arg), void *arg);
const struct serve_stats *serve_stats(const struct serve_server *s);
/* When the last connection ended, by loop_now_ms(); 0 while there is one. */
uint64_t serve_idle_since(const struct serve_server *s);

/* The judge knows who asks, although the role is SERVE_GUEST: strangers do not push the connection out. */
void serve_know(struct serve_request *q);
/* Whether the field NAME is there.  *OUT is its value, cut to SIZE: let SIZE be more than any valid value needs. */
bool serve_read_field(const struct serve_request *q, const char *name, char *out, size_t size);

/* ---- responses (serve_answer.c) ---- */

/* Adds a field to the response, before it is sent.  NAME is in lower case.  Responses are not
 * cached (cache-control), unless such a field overrides that. */
void serve_field(struct serve_request *q, const char *name, const char *value);
/* Sends the whole response; TYPE NULL: no body.  Ends the request. */
void serve_answer(struct serve_request *q, unsigned status, const char *type, const void *body,
                  size_t len);
/* Like serve_answer(), with LEN bytes of FD from its beginning; the server owns FD. */
void serve_answer_fd(struct serve_request *q, unsigned status, const char *type, int fd,
                     uint64_t len);
/* {"error":{"code":...,"message":...,"pointer":...}}; POINTER may be NULL.  Ends the request. */
void serve_refuse(struct serve_request *q, unsigned status, const char *code,
                  const char *pointer, const char *message);
/* Begins a response whose end is not known yet. */
void serve_stream(struct serve_request *q, unsigned status, const char *type);
/* The same for a connection that is carried: no head is sent. */
void serve_carry(struct serve_request *q);
/* Ends a request that was lost before it was answered. */
void serve_drop(struct serve_request *q);
/* Whether to take more from its client. */
void serve_hear(struct serve_request *q, bool more);
/* False: enough for now; continue when writable() is called.  Data is always accepted, unless the
 * client is gone. */
bool serve_send(struct serve_request *q, const void *data, size_t len);
/* Ends a stream; CUT: in a way that shows the client that it is incomplete.  Ends the request. */
void serve_end(struct serve_request *q, bool cut);

/* ---- access (serve_door.c) ---- */

/* Listens on a unix socket NAME in the folder DIR, for the own user and root only; replaces a
 * socket that a killed process left. */
int serve_listen_unix(int dir, const char *name, struct err *err);
/* ADDRESS is 127.0.0.1:PORT or [::1]:PORT (port 0: any); anything else is refused. */
int serve_listen_tcp(const char *address, uint16_t *ret_port, struct err *err);
/* Checks a listening socket that another process opened; refuses it if it is no stream, or is open
 * to the network. */
int serve_check_given(int fd, bool *ret_is_tcp, uint16_t *ret_port, struct err *err);
/* Reads the one token in the file at PATH, created if it is missing; refuses it if others may read it. */
int serve_token_load(const char *path, const char *name, enum serve_role role,
                     struct serve_token *ret_token, struct err *err);

/* The door's token with this value, or NULL. */
const struct serve_token *serve_token_find(const struct serve_door *door, const char *token,
                                           size_t len);
/* Ends the streams that belong to SESSION. */
void serve_end_session(struct serve_server *s, uint64_t session);

/* Answers 401.  Ends the request. */
void serve_refuse_token(struct serve_request *q, const char *message);

/* ---- TLS (serve_tls.c) ---- */

#define SERVE_PRINT_MAX 100
/* A server context with this certificate and key (PEM); *ret_print is the certificate's SHA-256 as
 * openssl prints it. */
int serve_tls_load(const char *cert, const char *key, struct ssl_ctx_st **ret_tls,
                   char ret_print[SERVE_PRINT_MAX], struct err *err);
/* The same with cert.pem and key.pem in the folder DIR, self-signed and created if missing.  It is also for HOST, a name
 * below localhost that may begin with "*."; NULL: for none. */
int serve_tls_own(int dir, const char *host, struct ssl_ctx_st **ret_tls, char ret_print[SERVE_PRINT_MAX],
                  struct err *err);
#endif

/* fleet_http.h - requests of cloister-fleet to an engine: HTTP/1.1 over TLS, TCP or a Unix socket, one at a time.
 *
 * Nothing is sent again here: whoever asked tries again later. */
#ifndef CLOISTER_FLEET_HTTP_H
#define CLOISTER_FLEET_HTTP_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct err;
struct fleet_http;                      /* opaque */

#define FLEET_BODY_MAX (4u << 20)       /* of an answer */
#define FLEET_PATH_MAX 4096
#define FLEET_CONNECT_MS 5000
#define FLEET_REQUEST_MS 20000
#define FLEET_FILE_MAX (1u << 20)       /* of a certificate or key */

/* Before the lockdown. */
int fleet_http_new(struct fleet_http **ret_http, struct err *err);
void fleet_http_free(struct fleet_http *http);  /* NULL is fine */

/* Where requests go.  Before the lockdown; everything is copied. */
struct fleet_server {
	const char *url;                /* "https://HOST:PORT", "http://HOST:PORT" or "unix:///PATH" */
	const char *ca;                 /* PEM; NULL: the authorities of this machine */
	const char *cert, *key;         /* PEM of the client; NULL: none */
};
int fleet_http_to(struct fleet_http *http, const struct fleet_server *server, struct err *err);
bool fleet_http_is_tls(const struct fleet_http *http);
/* "HOST:PORT" or the path of the socket, for messages. */
const char *fleet_http_where(const struct fleet_http *http);

struct fleet_request {
	const char *method, *path;      /* with the query, escaped: "/v1.41/info" */
	const void *body;               /* NULL: none */
	size_t len;
	const char *type;               /* of the body; NULL: application/json */
	const char *const *fields;      /* lines, wiped by the caller; NULL-terminated, or NULL */
	const char *url;                /* instead of the server: a whole one, whose PATH is included; without the client's key */
	unsigned ms;                    /* 0: FLEET_REQUEST_MS */
};
/* The status and the body: NUL-terminated behind `len`.  A negative value: it was not answered. */
struct fleet_reply {
	long status;
	struct buf body;
};
void fleet_reply_free(struct fleet_reply *reply);       /* for OWN() */
int fleet_http_ask(struct fleet_http *http, const struct fleet_request *request, struct fleet_reply *ret_reply,
                   struct err *err);
/* The same with a JSON body (NULL: none; borrowed), and the answer's in *ret_json: NULL if it is none.  The caller owns it. */
int fleet_http_ask_json(struct fleet_http *http, const char *method, const char *path, json_t *body, long *ret_status,
                        json_t **ret_json, struct err *err);

/* ---- answers that do not end ---- */

struct fleet_stream;                    /* opaque */
struct fleet_stream_handler {
	/* A whole line without its end; with a NUL.  Neither may ask anything: they are called while others ask. */
	void (*line)(void *arg, const char *line, size_t len);
	/* It is over.  STATUS is that of the answer; 0: there was none, as WHY says. */
	void (*over)(void *arg, long status, const char *why);
};
/* QUESTION is borrowed until this returns.  The caller closes *ret_stream, also after it is over. */
int fleet_stream_open(struct fleet_http *http, const struct fleet_request *question, const struct fleet_stream_handler *handler,
                      void *arg, struct fleet_stream **ret_stream, struct err *err);
void fleet_stream_close(struct fleet_stream *stream);   /* NULL is fine; not from within a handler */
/* Reads streams until something has come, or MS have passed. */
void fleet_http_wait(struct fleet_http *http, unsigned ms);

/* TEXT escaped as a part of a path or query; the caller frees it; NULL when out of memory. */
char *fleet_http_escape(const char *text);
#endif

/* client.h - speaks MCP to a server over two pipes, as its client.
 *
 * The server is hostile: every wait has an end, and everything that grows a maximum. */
#ifndef CLOISTER_LOCK_CLIENT_H
#define CLOISTER_LOCK_CLIENT_H
#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "tools/lock.h"

struct err;

#define CLIENT_LINE_MAX (8u << 20)      /* of one message */
#define CLIENT_BYTES_MAX (64u << 20)    /* of all messages before an answer */
#define CLIENT_MESSAGES_MAX 10000       /* likewise */
#define CLIENT_PAGES_MAX 64             /* of tools/list */
#define CLIENT_STDERR_KEPT 2048         /* the last bytes of its standard error */
#define CLIENT_ERROR_MAX 240            /* bytes of an error that people are shown */
#define CLIENT_ASKED_MAX 1000           /* requests of the server's that are answered */

struct client {
	int in, out, errors;            /* owned; 0: closed */
	int64_t deadline;               /* io_now_ms() */
	struct buf line;
	size_t bytes, messages, asked;
	unsigned next_id;
	char said[CLIENT_STDERR_KEPT];  /* a ring */
	size_t n_said;
};
void client_init(struct client *c, int in, int out, int errors, uint64_t timeout_ms);
void client_free(struct client *c);     /* for OWN() too */
/* initialize; L gets its name and version. */
int client_greet(struct client *c, struct listing *l, struct err *err);
/* All pages of tools/list. */
int client_list(struct client *c, struct listing *l, struct err *err);
/* *ret_failed: the result says so, or it is an error.  Its text, made safe, is appended to WHY. */
int client_call(struct client *c, const char *tool, json_t *arguments, bool *ret_failed, struct buf *why, struct err *err);
/* Adds what it said on standard error last. */
int client_explain(const struct client *c, struct err *err);
#endif

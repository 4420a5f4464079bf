/* jsonrpc.h - JSON-RPC 2.0 as MCP uses it: reads one message strictly, writes one.
 *
 * Pure.  Ambiguous input is refused: a duplicate name in an object, U+0000, half a surrogate pair,
 * anything after the value; so are batches, which MCP has dropped.  A returned json_t is NULL if
 * memory ran out; every function here accepts such a NULL as a value and passes it on. */
#ifndef CLOISTER_JSONRPC_H
#define CLOISTER_JSONRPC_H
#include <jansson.h>
#include <stddef.h>

#define JSONRPC_MESSAGE_MAX (8u << 20)  /* bytes; contains the agent's whole task */
#define JSONRPC_VALUES_MAX 10000        /* values in one message; objects and arrays count */
#define JSONRPC_VALUES_BIG 100000       /* for jsonrpc_read_big() */
#define JSONRPC_ID_MAX 256              /* bytes of an id that is a string */
#define JSONRPC_METHOD_MAX 128

enum jsonrpc_code {
	JSONRPC_BAD_JSON = -32700,
	JSONRPC_BAD_REQUEST = -32600,
	JSONRPC_NO_METHOD = -32601,
	JSONRPC_BAD_PARAMS = -32602,
};

enum jsonrpc_kind { JSONRPC_REQUEST, JSONRPC_NOTIFICATION, JSONRPC_RESPONSE };

struct jsonrpc {
	enum jsonrpc_kind kind;
	json_t *root;                   /* owned: all else points into it */
	json_t *id;                     /* a string or an integer; NULL in a notification */
	const char *method;             /* NULL in a response */
	json_t *params;                 /* an object, or NULL */
};

/* 0, or -EBADMSG; then *ret_error, which the caller owns, is the response. */
int jsonrpc_read(const char *text, size_t len, struct jsonrpc *ret_message, json_t **ret_error);
/* The same for messages of servers, which have long lists. */
int jsonrpc_read_big(const char *text, size_t len, struct jsonrpc *ret_message, json_t **ret_error);
void jsonrpc_free(struct jsonrpc *message);     /* for OWN() too */

/* Take ownership of RESULT and PARAMS; ID is borrowed, and NULL if it could not be read. */
json_t *jsonrpc_result(json_t *id, json_t *result);
json_t *jsonrpc_error(json_t *id, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
json_t *jsonrpc_notification(const char *method, json_t *params);
/* On one line, without a newline; the caller frees it. */
char *jsonrpc_write(const json_t *message);
#endif

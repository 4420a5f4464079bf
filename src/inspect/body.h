/* body.h - matches a body against the rules of a policy, with one kind of matcher per file.
 *
 * If a body holds several items of a kind, EVERY decides whether each of them must fit or one is
 * enough: see policy_rule.h. */
#ifndef CLOISTER_BODY_H
#define CLOISTER_BODY_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "http/http_head.h"
#include "ipc/inspect_channel.h"
#include "policy/policy_rule.h"

struct body_regex_time;

enum body_fit {
	BODY_MISFITS,
	BODY_FITS,
	BODY_UNREADABLE,                /* not in the form that the matcher reads */
};

/* A request body, decoded. */
struct body {
	const char *data;
	size_t len;
	struct http_text method, path, content_type;
};

/* Whether one of GLOBS matches. */
bool body_glob_any(const struct policy_list *globs, const char *text, size_t len);

/* ---- body_json.c ---- */

#define BODY_JSON_MEMORY_MAX (128 * 1024 * 1024)        /* of all values together */

/* Parse strictly.  NULL: an object has a name twice, even if only case differs (some readers ignore
 * case), or bytes follow the value.  The caller owns the value (json_decref). */
json_t *body_json_parse(const char *data, size_t len);
OWN_BY(body_json_freep, json_t *, json_decref)
/* The member NAME of OBJECT, or NULL.  ODD is set if another member matches NAME only without
 * regard to case. */
const json_t *body_json_get(const json_t *object, const char *name, bool *odd);
enum body_fit body_json_fits(const json_t *root, const struct policy_body *rule, bool every);

/* The same for one pointer.  FITS, if not NULL, judges each value in place of WANT's values; NULL is
 * a value that is not there. */
typedef bool body_json_judge(void *arg, const json_t *value);
enum body_fit body_json_fits_at(const json_t *root, const struct policy_json *want, bool every, body_json_judge *fits,
                                void *arg);

/* ---- body_jsonrpc.c ---- */

enum body_fit body_jsonrpc_fits(const json_t *root, const struct policy_body *rule,
                                bool every);

/* ---- body_call.c ---- */

/* The tools' gateway shows the resource URI of a server as mcp://SERVER/URI. */
#define BODY_RESOURCE "mcp://"

struct body_call {
	enum policy_call_kind kind;     /* POLICY_CALL_OTHER: it calls nothing */
	bool permitted;                 /* OTHER: it is a response, or of a method that is known */
	const char *name;               /* in the body, but for OTHER */
	size_t n_name;
	const char *method;             /* NULL: a response */
	size_t n_method;
	const json_t *args;             /* an object, or NULL */
};
/* Read one message.  False: it is not one JSON-RPC 2.0 message, or two readers could differ. */
bool body_call_read(const json_t *root, struct body_call *ret_call);
enum body_fit body_call_fits(const json_t *root, const struct policy_call *rule, bool every, struct body_regex_time *time);
/* Describe the arguments of the call that TEXT is, as body_shape().  False: it is no call. */
bool body_call_shape(const char *text, size_t len, char ret_shape[INSPECT_SHAPE_MAX]);
/* As INSPECT_RESULT has it. */
void body_call_describe(const json_t *root, char ret_call[INSPECT_CALL_MAX]);

/* ---- body_schema.c ---- */

enum body_fit body_schema_fits(const json_t *schema, const json_t *value, struct body_regex_time *time);

/* ---- body_graphql.c ---- */

#define BODY_OPERATIONS_MAX 512
#define BODY_NESTING_MAX 256            /* nested brackets in a document */

struct body_operation {
	enum policy_graphql type;
	const char *name;               /* in the document; not NUL-terminated */
	size_t n_name;
};
struct body_operations {
	struct body_operation at[BODY_OPERATIONS_MAX];
	size_t n;
	char *form;                     /* decoded from a form or a query */
};

/* The operations that a server would run, or might run.  ROOT is the body as JSON, or NULL.  The
 * operations point into ROOT, BODY and themselves.  -EBADMSG: it is not GraphQL, or two readers
 * could differ. */
int body_graphql_read(const struct body *body, const json_t *root,
                      struct body_operations *ret_ops);
void body_graphql_free(struct body_operations *ops);    /* for OWN() too */
enum body_fit body_graphql_fits(const struct body_operations *ops,
                                const struct policy_body *rule, bool every);
/* Whether the query of the path makes this request GraphQL. */
bool body_graphql_in_query(struct http_text path);
/* Read a single document, and add its operations to *ops. */
int body_graphql_document(const char *text, size_t len, struct body_operations *ops);

/* ---- body_regex.c ---- */

#define BODY_REGEX_CPU_MS 500           /* for all rules and one body */
#define BODY_REGEX_HEAP_KIB (32 * 1024)

struct body_regex_time { uint64_t used_us; };   /* of one body; initially zero */

/* Whether one of LIST matches in DATA. */
enum body_fit body_regex_fits(const char *data, size_t len, const struct policy_list *list,
                              struct body_regex_time *time);
#endif

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
#include "policy/policy_rule.h"

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

/* ---- body_jsonrpc.c ---- */

enum body_fit body_jsonrpc_fits(const json_t *root, const struct policy_body *rule,
                                bool every);

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

/* policy_rule.h - the parts of a policy; for src/policy, src/inspect and src/vault only.
 *
 * Everything is in the policy's own memory and lives as long as the policy.  All matchers of a rule
 * must fit.  In a list, one item is enough.  An empty list is a matcher that the rule does not
 * have.
 *
 * A body may hold several items of a kind: operations of a batch, refs of a push, values under a
 * "*".  They fit an `allow` rule if every item fits.  They fit a rule that refuses (deny, ask) or
 * logs if one item fits.  So a forbidden item cannot hide among permitted ones.  For the same
 * reason, a body that cannot be parsed as the rule expects (invalid JSON, a duplicate name in one
 * object) fits no `allow` rule, and fits every rule that refuses or logs.  An empty body fits none. */
#ifndef CLOISTER_POLICY_RULE_H
#define CLOISTER_POLICY_RULE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"
#include "policy/policy_budget.h"
#include "policy/policy_consequence.h"

#define POLICY_LIST_MAX 256             /* items of any kind in one rule */
#define POLICY_TEXT_MAX 1024            /* bytes of any string in a rule */
#define POLICY_PLACE_MAX 4160           /* a path and a position in it */
#define POLICY_RULE_TEXT_MAX 512        /* longer text is cut */

enum policy_verb { POLICY_VERB_ALLOW, POLICY_VERB_DENY, POLICY_VERB_ASK, POLICY_VERB_LOG,
                   POLICY_VERBS };

struct policy_list {
	const char *const *at;          /* NUL-terminated */
	size_t n;
};

enum policy_host_kind {
	POLICY_HOST_NAME,               /* api.github.com */
	POLICY_HOST_LABEL,              /* *.github.com: exactly one more label */
	POLICY_HOST_UNDER,              /* **.github.com: one or more labels */
	POLICY_HOST_ANY,                /* *: any name, but no bare address */
	POLICY_HOST_NET,                /* an address or a range */
	POLICY_HOST_KINDS
};
struct policy_host {
	enum policy_host_kind kind;
	const char *name;               /* without "*." and "**."; "" for ANY and NET */
	unsigned char address[16];      /* NET; IPv4 as ::ffff:a.b.c.d */
	uint8_t bits;                   /* NET: prefix length, of 128 bits */
	uint16_t port;                  /* 0: see the rule's ports */
};
struct policy_ports { uint16_t first, last; };

/* Stands for a %2F that is not treated as a slash.  No path that is sent has a backslash. */
#define POLICY_ESCAPED_SLASH '\\'

/* A header, a cookie, or a parameter of the query. */
struct policy_field {
	const char *name;               /* lower case for a header */
	bool absent;                    /* must be absent */
	struct policy_list globs;       /* of its value, unless absent */
};

/* ---- bodies: evaluated by src/inspect ---- */

enum policy_value_kind { POLICY_VALUE_GLOB, POLICY_VALUE_NUMBER, POLICY_VALUE_BOOL,
                         POLICY_VALUE_NULL, POLICY_VALUE_ABSENT, POLICY_VALUES };
struct policy_value {
	enum policy_value_kind kind;
	const char *glob;               /* GLOB: matches a JSON string (policy_glob_text) */
	double number;                  /* NUMBER */
	bool truth;                     /* BOOL */
};
/* A JSON pointer (RFC 6901; "" is the whole document) and the values permitted there.  A "*"
 * between slashes stands for every array element or object member.  If there is none, the pointer
 * leads nowhere, which only ABSENT fits. */
struct policy_json {
	const char *pointer;
	const struct policy_value *values;
	size_t n_values;                /* at least one */
};

enum policy_graphql { POLICY_GRAPHQL_QUERY = 1, POLICY_GRAPHQL_MUTATION = 2,
                      POLICY_GRAPHQL_SUBSCRIPTION = 4 };

struct policy_body {
	const struct policy_json *json; /* all must fit */
	size_t n_json;
	struct policy_list regex;       /* PCRE2, UTF off; one must match anywhere in the decoded
	                                 * body */
	bool graphql;                   /* must be GraphQL (also in a GET's query), each operation */
	unsigned graphql_types;         /* of one of these types (enum policy_graphql) */
	struct policy_list graphql_names; /* and with one of these names (globs; "" is no name), if
	                                   * any */
	bool jsonrpc;                   /* must be JSON-RPC 2.0 or a batch of it, each call */
	struct policy_list jsonrpc_methods; /* with a method that fits one of these globs */
};

/* Git over HTTP.  The request's head shows fetches and requests for the refs.  The body of POST
 * /repository/git-receive-pack shows what is pushed.
 *
 *   Rule that allows: each pushed ref must fit one of PUSH.  FORCE permits moving a ref to a commit
 *     that does not descend from it, DELETE permits deleting it.  OPTIONS permits push options,
 *     which can make servers do more than move refs.
 *   Rule that refuses or logs: a pushed ref fits one of PUSH and, where FORCE, DELETE or OPTIONS is
 *     set, is forced, deleted, or pushed with options. */
struct policy_git {
	bool present;                   /* the rule matches only git requests */
	bool fetch, force, delete, options;
	struct policy_list push;        /* globs of full ref names */
	struct policy_list repos;       /* globs of "owner/name", without ".git" */
};

/* ---- calls of MCP tools: evaluated by src/inspect ----
 *
 * A rule for calls is a rule for POST requests to the tools' gateway: see policy_tools.h.  No rule
 * that allows, but for such a rule, matches requests to that host. */

#define POLICY_CALL_MAX (4 * 1024 * 1024)       /* bytes of a request's body */
#define POLICY_CALL_PATTERNS_MAX 1024           /* of one rule */
#define POLICY_SCHEMA_MAX (16 * 1024)           /* bytes of a schema, as JSON */

enum policy_call_kind {
	POLICY_CALL_TOOL,               /* tools/call: "server.tool" */
	POLICY_CALL_PROMPT,             /* prompts/get: "server.prompt" */
	POLICY_CALL_RESOURCE,           /* resources/read, subscribe and unsubscribe: "server/URI" */
	POLICY_CALL_KINDS,
	POLICY_CALL_OTHER = POLICY_CALL_KINDS,  /* any other method; no rule names one */
};
struct policy_pattern {
	enum policy_call_kind kind;
	const char *glob;               /* policy_glob() with '.', or policy_glob_path() for RESOURCE */
};
/* A condition on a call's arguments: a value, or one of the others. */
struct policy_arg {
	struct policy_json json;        /* has no values with one of these: */
	bool has_min, has_max;
	double min, max;                /* a number in this range, both included */
	const char *pattern;            /* a regular expression that matches anywhere in a text; "": none */
	const char *schema;             /* JSON Schema, of the keywords in policy_read_schema.c; "": none */
};
struct policy_call {
	bool present;                   /* the rule is for calls */
	/* Of a built-in rule: for messages that call nothing, or for requests without a message, which
	 * wait for those of servers, or end a session. */
	enum policy_call_others { POLICY_OTHERS_NONE, POLICY_OTHERS_MESSAGES, POLICY_OTHERS_BODILESS, POLICY_OTHERS } others;
	const struct policy_pattern *at;
	size_t n;                       /* 0, without OTHERS: no tool has the `annotations` */
	const struct policy_arg *args;  /* all must fit */
	size_t n_args;
	/* While it is loaded: hints that must be true, or false, in the lock. */
	unsigned hints, no_hints;
};

enum policy_upgrade {
	POLICY_UPGRADE_NO,              /* an `allow` rule does not fit upgrade requests */
	POLICY_UPGRADE_ALSO,            /* websocket: true */
	POLICY_UPGRADE_ONLY,            /* upgrade: websocket */
	POLICY_UPGRADES
};

#define POLICY_ANY_PROTOCOL (1u << POLICY_HTTP | 1u << POLICY_TCP | 1u << POLICY_TLS)
#define POLICY_SCHEME_PLAIN 1
#define POLICY_SCHEME_TLS 2

/* The approval settings of an `ask` rule.  An approver is a user's name, "uid:N" or "token:NAME". */
#define POLICY_APPROVERS_MAX 32
#define POLICY_APPROVER_MAX 128         /* bytes */
#define POLICY_APPROVALS_MAX 8
#define POLICY_TIMEOUT_MS (10 * 60 * 1000)
#define POLICY_TIMEOUT_LEAST_MS 1000
#define POLICY_TIMEOUT_MOST_MS (24 * 60 * 60 * 1000)
struct policy_ask {
	struct policy_list approvers;   /* none: any operator */
	uint32_t approvals;             /* from different approvers; at least 1 */
	uint64_t timeout_ms;
	bool freeze;                    /* the cell is frozen until there is an answer */
};

/* Why a rule does not apply to the cell.  Unless POLICY_ON, it matches nothing. */
enum policy_off { POLICY_ON, POLICY_OFF_PRINCIPAL, POLICY_OFF_CHAIN, POLICY_OFFS };

struct node;
struct policy_hook;
struct policy_rewrite;

struct policy_consequence {
	const unsigned char *narrow;    /* encoded by policy_put(); see policy_consequence_narrow() */
	size_t n_narrow;
	struct policy_list revoke;      /* names of secrets */
	bool freeze, notify;
	uint64_t key, meaning;          /* hashes: of everything; of NARROW, wherever its rules
	                                 * stand */
	const struct node *narrow_file; /* while it is read: the file to load NARROW from */
};

struct policy_rule {
	enum policy_verb verb;
	unsigned protocols;             /* bits: 1 << enum policy_protocol */
	const struct policy_host *hosts;
	size_t n_hosts;
	const struct policy_ports *ports; /* none: any */
	size_t n_ports;
	unsigned schemes;               /* POLICY_SCHEME_*; HTTP only */
	struct policy_list methods;
	struct policy_list paths;       /* globs, escapes decoded */
	bool has_query;                 /* QUERY is set; "" is no query */
	struct policy_list query;       /* globs of the whole query */
	const struct policy_field *params, *headers, *cookies;
	size_t n_params, n_headers, n_cookies;
	struct policy_list content_types; /* globs, in lower case, without parameters */
	bool grpc;                      /* PATHS are those of a gRPC service and its methods */
	enum policy_upgrade upgrade;
	struct policy_git git;
	struct policy_body body;
	struct policy_call call;
	uint64_t upload_max;            /* for rules that allow or ask; POLICY_UPLOAD_MAX by default */
	bool upload_said;
	bool secrets;                   /* apparent credentials may leave */
	bool placeholders;              /* placeholders in bodies pass unchanged */
	bool private;                   /* names may resolve to private addresses */
	struct policy_list principals;  /* globs of the cell's principal */
	struct policy_ask ask;          /* all zero, unless the rule asks */
	struct policy_list chains;      /* globs; one agent of the cell's chain must fit one */
	enum policy_off off;            /* see policy_bind() */
	const struct policy_budget *budget;     /* or NULL */
	struct policy_consequence *then;        /* or NULL */
	uint64_t price;                 /* of each request, in units of POLICY_MONEY */
	enum policy_usage usage;
	const struct policy_rewrite *rewrite;   /* or NULL; not in rules that refuse or log */
	const struct policy_hook *hook;         /* likewise */
	bool bounds_uses;               /* its requests may use only the secrets USES */
	struct policy_list uses;
	const char *reason;             /* or NULL */
	const char *place, *text;       /* see policy_rule_place(), policy_rule_text() */
};

/* Whether RULE needs the body to decide whether it matches. */
bool policy_rule_wants_body(const struct policy_rule *rule);
const struct policy_rule *policy_rule_at(const struct policy *p, size_t i);

/* Whether a request is POST /repository/git-receive-pack, however its path is spelled.  The rules
 * and the body's parser must agree on what is a push. */
bool policy_is_push(struct http_text method, struct http_text path);
/* Whether a query parameter, as written, is NAME to a lenient server: in any letter case, "name[]",
 * " name". */
bool policy_param_is_like(const char *text, size_t len, const char *name);

/* ---- policy_match.c ---- */

/* Globs.  "*" matches any run of characters except SEPARATOR, "**" any run at all.  With '\0' as
 * SEPARATOR there is none, and both are the same.  A "*" between two separators matches at least
 * one character.  A "**" between separators may match nothing, with the separator behind it.  Time
 * is bounded by the product of both lengths. */
bool policy_glob(const char *glob, const char *text, size_t len, char separator);
/* As policy_glob with '/': for paths, refs and repositories. */
bool policy_glob_path(const char *glob, const char *text, size_t len);
/* As policy_glob with no separator: for values. */
bool policy_glob_text(const char *glob, const char *text, size_t len);
#endif

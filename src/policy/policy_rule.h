/* policy_rule.h - what a policy is made of; for src/policy, src/inspect and src/vault only.
 *
 * Everything hangs in the policy's own memory and lives as long as it does.  Of each
 * matcher that a rule has, all must fit; in a list, one is enough; a list of none is a
 * matcher that the rule does not have.
 *
 * A body may hold several things of a kind: operations of a batch, refs of a push, values
 * under a "*".  They fit a rule that allows when each of them does, and a rule that
 * refuses (deny, ask) or logs when one of them does: nothing slips through in company.
 * For the same reason a body that cannot be read as what the rule speaks of (JSON that no
 * strict parser takes, a name twice in one object) fits no rule that allows, and every
 * rule that refuses or logs; an empty one fits none. */
#ifndef CLOISTER_POLICY_RULE_H
#define CLOISTER_POLICY_RULE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"
#include "policy/policy_budget.h"
#include "policy/policy_consequence.h"

#define POLICY_LIST_MAX 256             /* of anything in one rule */
#define POLICY_TEXT_MAX 1024            /* bytes of any string in a rule */
#define POLICY_PLACE_MAX 4160           /* a path and a place in it */
#define POLICY_RULE_TEXT_MAX 512        /* cut there */

enum policy_verb { POLICY_VERB_ALLOW, POLICY_VERB_DENY, POLICY_VERB_ASK, POLICY_VERB_LOG,
                   POLICY_VERBS };

struct policy_list {
	const char *const *at;          /* NUL-terminated */
	size_t n;
};

enum policy_host_kind {
	POLICY_HOST_NAME,               /* api.github.com */
	POLICY_HOST_LABEL,              /* *.github.com: one label more */
	POLICY_HOST_UNDER,              /* **.github.com: one label more, or several */
	POLICY_HOST_ANY,                /* *: any name, but no bare address */
	POLICY_HOST_NET,                /* an address, or a range of them */
	POLICY_HOST_KINDS
};
struct policy_host {
	enum policy_host_kind kind;
	const char *name;               /* without "*." and "**."; "" for ANY and NET */
	unsigned char address[16];      /* NET; IPv4 as ::ffff:a.b.c.d */
	uint8_t bits;                   /* NET: how many of its 128 bits count */
	uint16_t port;                  /* 0: the rule's ports */
};
struct policy_ports { uint16_t first, last; };

/* Headers and parameters of the query. */
/* Stands for %2F where it is not taken for a slash.  No path that is sent has a backslash. */
#define POLICY_ESCAPED_SLASH '\\'

struct policy_field {
	const char *name;               /* of a header: in lower case */
	bool absent;                    /* must not be there */
	struct policy_list globs;       /* of its value, unless absent */
};

/* ---- bodies: evaluated by src/inspect ---- */

enum policy_value_kind { POLICY_VALUE_GLOB, POLICY_VALUE_NUMBER, POLICY_VALUE_BOOL,
                         POLICY_VALUE_NULL, POLICY_VALUE_ABSENT, POLICY_VALUES };
struct policy_value {
	enum policy_value_kind kind;
	const char *glob;               /* GLOB: a JSON string that fits (policy_glob_text) */
	double number;                  /* NUMBER */
	bool truth;                     /* BOOL */
};
/* A JSON pointer (RFC 6901; "" is the whole) and what may stand there.  A "*" between
 * slashes is every element of an array or member of an object; where there is none, the
 * pointer leads nowhere, which only ABSENT fits. */
struct policy_json {
	const char *pointer;
	const struct policy_value *values;
	size_t n_values;                /* at least one */
};

enum policy_graphql { POLICY_GRAPHQL_QUERY = 1, POLICY_GRAPHQL_MUTATION = 2,
                      POLICY_GRAPHQL_SUBSCRIPTION = 4 };

struct policy_body {
	const struct policy_json *json; /* all of them */
	size_t n_json;
	struct policy_list regex;       /* PCRE2, UTF off, one found anywhere in the decoded body */
	bool graphql;                   /* is GraphQL (also in a GET's query), and each operation */
	unsigned graphql_types;         /* is of one of these types (enum policy_graphql), */
	struct policy_list graphql_names; /* and named so (globs; no name is ""), if any are said */
	bool jsonrpc;                   /* is JSON-RPC 2.0, or a batch of it, and each call's */
	struct policy_list jsonrpc_methods; /* method fits one of these globs */
};

/* Git over HTTP.  Fetching, and asking for the refs, is told by the request's head; what
 * is pushed by the body of POST /repository/git-receive-pack.  In a rule that
 *   allows: each ref that is pushed fits one of PUSH; FORCE lets a ref be moved to what
 *     does not descend from it, DELETE lets it be deleted, OPTIONS lets the push carry push
 *     options, by which servers are told to do more than move refs;
 *   refuses or logs: a ref that is pushed fits one of PUSH and, where FORCE, DELETE or
 *     OPTIONS is set, it is forced, deleted, or pushed with options, as they say. */
struct policy_git {
	bool present;                   /* the rule matches only requests of git */
	bool fetch, force, delete, options;
	struct policy_list push;        /* globs of full ref names */
	struct policy_list repos;       /* globs of "owner/name", without ".git" */
};

enum policy_upgrade {
	POLICY_UPGRADE_NO,              /* a rule that allows does not fit a request for one */
	POLICY_UPGRADE_ALSO,            /* websocket: true */
	POLICY_UPGRADE_ONLY,            /* upgrade: websocket */
	POLICY_UPGRADES
};

#define POLICY_ANY_PROTOCOL (1u << POLICY_HTTP | 1u << POLICY_TCP | 1u << POLICY_TLS)
#define POLICY_SCHEME_PLAIN 1
#define POLICY_SCHEME_TLS 2

/* Who is asked, of a rule that asks.  An approver is a user's name, "uid:N" or "token:NAME". */
#define POLICY_APPROVERS_MAX 32
#define POLICY_APPROVER_MAX 128         /* bytes */
#define POLICY_APPROVALS_MAX 8
#define POLICY_TIMEOUT_MS (10 * 60 * 1000)
#define POLICY_TIMEOUT_LEAST_MS 1000
#define POLICY_TIMEOUT_MOST_MS (24 * 60 * 60 * 1000)
struct policy_ask {
	struct policy_list approvers;   /* none: any operator */
	uint32_t approvals;             /* of different ones; at least 1 */
	uint64_t timeout_ms;
	bool freeze;                    /* the cell stands still until there is an answer */
};

/* What of a rule does not fit the cell: then it matches nothing, whatever is asked. */
enum policy_off { POLICY_ON, POLICY_OFF_PRINCIPAL, POLICY_OFF_CHAIN, POLICY_OFFS };

struct node;

struct policy_consequence {
	const unsigned char *narrow;    /* policy_put(); see policy_consequence_narrow() */
	size_t n_narrow;
	struct policy_list revoke;      /* names of secrets */
	bool freeze, notify;
	uint64_t key, meaning;          /* of all of it; of NARROW, wherever its rules stand */
	const struct node *narrow_file; /* while it is read: whose policy NARROW will be */
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
	bool has_query;                 /* QUERY is said: "" is no query */
	struct policy_list query;       /* globs of the query as a whole */
	const struct policy_field *params, *headers;
	size_t n_params, n_headers;
	struct policy_list content_types; /* globs, in lower case, without parameters */
	bool grpc;                      /* paths are those of its service and methods */
	enum policy_upgrade upgrade;
	struct policy_git git;
	struct policy_body body;
	uint64_t upload_max;            /* of a rule that allows or asks: POLICY_UPLOAD_MAX if
	                                 * nothing is said */
	bool upload_said;
	bool secrets;                   /* what looks like a credential may leave */
	bool placeholders;              /* those in bodies pass as they are */
	bool private;                   /* names may resolve to private addresses */
	struct policy_list principals;  /* globs of who the cell is for */
	struct policy_ask ask;          /* all zero, unless the rule asks */
	struct policy_list chains;      /* globs; an agent of its chain fits one */
	enum policy_off off;            /* see policy_bind() */
	const struct policy_budget *budget;     /* or NULL */
	struct policy_consequence *then;        /* or NULL */
	uint64_t price;                 /* of each request, as POLICY_MONEY counts */
	enum policy_usage usage;
	const char *reason;             /* or NULL */
	const char *place, *text;       /* see policy_rule_place(), policy_rule_text() */
};

/* Whether the body decides whether RULE matches, as far as a body can. */
bool policy_rule_wants_body(const struct policy_rule *rule);
const struct policy_rule *policy_rule_at(const struct policy *p, size_t i);

/* Whether a request is POST /repository/git-receive-pack, however its path is spelled: what
 * the rules take for a push, and what reads its body, must be the same. */
bool policy_is_push(struct http_text method, struct http_text path);
/* Whether a parameter of a query, as it was written, is NAME to a server that reads names
 * leniently: in any case, "name[]", " name". */
bool policy_param_is_like(const char *text, size_t len, const char *name);

/* ---- policy_match.c ---- */

/* Globs.  "*" is any run of characters but SEPARATOR, "**" any run at all ('\0': no
 * separator, both are the same).  A "*" between two separators is at least one character;
 * "**" followed by the separator, between separators, may be nothing at all.  Time is
 * bounded by the product of both lengths. */
bool policy_glob(const char *glob, const char *text, size_t len, char separator);
/* As policy_glob with '/': for paths, refs and repositories. */
bool policy_glob_path(const char *glob, const char *text, size_t len);
/* As policy_glob with no separator: for values. */
bool policy_glob_text(const char *glob, const char *text, size_t len);
#endif

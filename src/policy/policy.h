/* policy.h - decides whether a cell may make a request.
 *
 * Pure: no I/O but the loader's files, no clock.  A policy is immutable once loaded.  It is an
 * ordered list of rules: the first match wins, and a request that matches no rule is denied.
 *
 * A policy may lie within an outer policy, which may lie within another.  These are its layers,
 * itself first.  Each layer decides as if it were alone, and the strictest verdict counts: deny
 * before ask before allow.  Rule numbers run through all layers, the policy's own rules first. */
#ifndef CLOISTER_POLICY_H
#define CLOISTER_POLICY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/own.h"
#include "http/http_head.h"
#include "policy/policy_boundary.h"
#include "policy/policy_images.h"
#include "policy/policy_state.h"
#include "policy/policy_volume.h"

struct err;
struct node;
struct policy;                          /* opaque; defined in policy_parts.h */
struct policy_hook;

#define POLICY_RULES_MAX 4096
#define POLICY_LAYERS_MAX 16            /* itself included */
#define POLICY_GIVEN_MAX 8              /* layers when a cell starts; the rest are left for `then`
                                         * rules to add */
#define POLICY_FITS_MAX (POLICY_RULES_MAX * POLICY_LAYERS_MAX / 8) /* bytes; one bit for each rule */
#define POLICY_FILE_MAX (1024 * 1024)
#define POLICY_ENCODED_MAX (8 * 1024 * 1024)
#define POLICY_HELD_MAX (1024 * 1024)   /* bytes of a body, unless the rule sets more */
#define POLICY_INSPECTED_MAX (64 * 1024 * 1024) /* bytes of a held body, whatever rules set */
#define POLICY_UPLOAD_MAX (10 * 1024 * 1024) /* bytes of a body, unless the rule sets more */

enum policy_verdict { POLICY_DENY, POLICY_ALLOW, POLICY_ASK };

enum policy_protocol { POLICY_HTTP, POLICY_TCP, POLICY_TLS };   /* TLS: passed through */

/* A request, as far as it is known when the caller asks. */
struct policy_request {
	enum policy_protocol protocol;
	const struct http_head *head;   /* POLICY_HTTP: the complete head */
	const char *host;               /* canonical name or address, NUL-terminated */
	uint16_t port;
	/* cloister-inspect's findings: bit R is set if the body fits rule R.  NULL until the body
	 * has been inspected. */
	const unsigned char *body_fits;
	size_t n_body_fits;             /* its size in bytes */
};

/* For each layer, the rule that lets a request through, in that layer's own numbering. */
struct policy_way { int16_t rule[POLICY_LAYERS_MAX]; };

#define POLICY_NAMED_WHOLE 128          /* bits: all of an address */

struct policy_decision {
	enum policy_verdict verdict;
	/* The verdict depends on the body: inspect it and ask again.  VERDICT is that of the first
	 * rule that the body might fit. */
	bool needs_body;
	int rule;                       /* the rule that decided, or -1: none matched */
	unsigned layer;                 /* the layer of RULE, or the layer in which none matched */
	const char *reason;             /* the rule's `reason`, or NULL; borrowed */
	bool may_carry_secrets;         /* the rule permits apparent credentials */
	bool may_pass_placeholders;     /* the rule lets placeholders in bodies pass unchanged */
	bool may_use_private;           /* the rule has `private`, or names the host of this machine */
	/* The length of the prefix by which the rule names an address; of IPv4, 96 more.  A reserved
	 * range opens only to a rule for it or for a part of it, not for a network around it. */
	unsigned char named_bits;
	bool must_look;                 /* bodies must be scanned for secrets */
	uint64_t upload_max;            /* most bytes of the request body */
	uint64_t held_max;              /* most bytes of it to hold, if it must be held */
	/* With POLICY_DENY: RULE would allow the request, or ask, if the body's known length were
	 * not over its upload_max. */
	bool too_large;
	struct policy_way way;
};

/* The `log` rules that matched before the deciding rule, for the timeline. */
#define POLICY_LOGGED_LAYER 8           /* in one layer */
#define POLICY_LOGGED_MAX (POLICY_LOGGED_LAYER * POLICY_LAYERS_MAX)
struct policy_logged { int rules[POLICY_LOGGED_MAX]; size_t n; };

void policy_decide(const struct policy *p, const struct policy_request *req,
                   struct policy_decision *ret_decision, struct policy_logged *ret_logged);
/* Whether REQ goes to a DNS resolver over HTTPS or TLS.  Such requests are refused whatever the
 * rules allow, because they could resolve names that no rule mentions. */
bool policy_is_doh(const struct policy_request *req);
/* Whether REQ is a DNS query by its own content, not only by its destination. */
bool policy_asks_for_name(const struct policy_request *req);

/* Whether every layer has a rule that could match this host and either does not deny or gives a
 * reason for denying.  DNS answers depend on it.  The answer is a synthetic address of ours, and
 * no query leaves for it. */
bool policy_mentions_host(const struct policy *p, const char *host);
/* How to treat a connection before its first bytes are read. */
enum policy_route { POLICY_ROUTE_HTTP, POLICY_ROUTE_TCP, POLICY_ROUTE_TLS, POLICY_ROUTE_NONE };
/* Choose a route by host and port alone:
 *   POLICY_ROUTE_TCP   the first rule that matches is a raw TCP rule;
 *   POLICY_ROUTE_TLS   the first rule that matches passes TLS through;
 *   POLICY_ROUTE_NONE  no rule could match, the first one denies every protocol, or layers differ;
 *   POLICY_ROUTE_HTTP  otherwise.
 * NONE is best answered as HTTP too, with a 403. */
enum policy_route policy_route(const struct policy *p, const char *host, uint16_t port);

/* A name that WAY lets through resolved to ADDRESS.  Returns the rule that denies that address or
 * its range and stands before WAY's rule in the same layer, or -1. */
int policy_denies_address(const struct policy *p, const struct policy_way *way,
                          const char *address, uint16_t port);

/* A rule's position for people, "cloister.yaml:12:5", and the rule as one line of text, "allow
 * api.github.com methods [GET]".  Both are "" for -1. */
const char *policy_rule_place(const struct policy *p, int rule);
const char *policy_rule_text(const struct policy *p, int rule);
/* Whether nobody wrote the rule: see policy_add_uncalled(). */
bool policy_rule_is_built_in(const struct policy *p, int rule);
const char *policy_rule_reason(const struct policy *p, int rule);       /* or NULL */
/* The first rule at or after FROM, in the first layer, that names a port and allows both plain HTTP
 * and TLS there; -1: none.  Rules of presets are skipped: the reader cannot change them. */
int policy_rule_of_any_scheme(const struct policy *p, size_t from);
size_t policy_n_rules(const struct policy *p);          /* in all layers */
/* Whether the `headers` or `cookies` of any rule depend on the field NAME, or on a field that servers
 * may confuse with it. */
bool policy_mentions_header(const struct policy *p, struct http_text name);

/* ---- git: policy_git.c ---- */

/* The hosts that a rule of the first layer allows, or asks about, for git over HTTPS, while no rule opens
 * their SSH port.  Each is there once; borrowed. */
#define POLICY_GIT_HOSTS_MAX 16
size_t policy_git_hosts(const struct policy *p, const char *ret_hosts[POLICY_GIT_HOSTS_MAX]);
bool policy_has_git_host(const struct policy *p, const char *name);

/* ---- approvals: policy_ask.c ---- */

/* The approval settings of an `ask` rule.  Borrowed. */
struct policy_question {
	const char *const *approvers;   /* a user's name, "uid:N", "token:NAME"; none: any operator */
	size_t n_approvers;
	uint32_t approvals;             /* how many must approve, at least 1 */
	uint64_t timeout_ms;
	bool freeze;
	const char *reason;             /* or NULL */
};
/* Whether any layer has an `ask` rule. */
bool policy_asks(const struct policy *p);
/* False if RULE is not an `ask` rule. */
bool policy_question(const struct policy *p, int rule, struct policy_question *ret_question);
/* The rule by which WAY passes LAYER, numbered through all layers; -1: none. */
int policy_way_rule(const struct policy *p, const struct policy_way *way, unsigned layer);
/* Whether a request that passed by WAY may use the secret: no rule on the way has `uses` without it. */
bool policy_may_use(const struct policy *p, const struct policy_way *way, const char *secret);
/* Append RULE's meaning as bytes.  Two rules have equal bytes exactly if they mean the same,
 * wherever they stand. */
void policy_put_meaning(struct buf *b, const struct policy *p, int rule);

/* ---- loading: policy_load.c ---- */

/* The effect on a cell that sends a secret to a forbidden place.  The request is refused in any
 * case. */
enum policy_exfiltration { POLICY_EXFILTRATION_UNSAID, POLICY_EXFILTRATION_REFUSE,
                           POLICY_EXFILTRATION_FREEZE, POLICY_EXFILTRATION_KILL,
                           POLICY_EXFILTRATION_ROLLBACK, POLICY_EXFILTRATIONS };

/* The settings of a file other than its rules. */
struct policy_limits {
	uint64_t memory, disk, io;      /* 0: not set */
	uint64_t cpus_milli, pids, time_ms;
	enum policy_exfiltration exfiltration;
	struct policy_boundary boundary;
	struct policy_images images;
	struct policy_states states;
	struct policy_volumes volumes, caches;
	/* The cell's timeline.  STRICT: no request leaves before its record is on the disk. */
	enum policy_audit { POLICY_AUDIT_UNSAID, POLICY_AUDIT_BATCHED, POLICY_AUDIT_STRICT } audit;
	uint64_t audit_max;             /* bytes, after which no request leaves; 0: not set */
	/* What of the cell's processes is recorded, and what becomes of the cell if that fails. */
	enum policy_record { POLICY_RECORD_UNSAID, POLICY_RECORD_OFF, POLICY_RECORD_ACTS, POLICY_RECORD_FULL } record;
	enum policy_lost { POLICY_LOST_UNSAID, POLICY_LOST_GO_ON, POLICY_LOST_FREEZE, POLICY_LOST_KILL } record_lost;
};
/* Minimums: nothing runs with less. */
#define POLICY_MEMORY_LEAST (4ULL << 20)
#define POLICY_CPUS_MILLI_LEAST 10
#define POLICY_DISK_LEAST (64ULL << 10)
#define POLICY_IO_LEAST 4096
#define POLICY_AUDIT_LEAST (1ULL << 20) /* bounds of AUDIT_MAX */
#define POLICY_AUDIT_MOST (1ULL << 40)

/* Callbacks for the parts of a policy that src/policy does not interpret.  `secrets` is called for
 * this file and the files that it names, nearest first.  Errors begin with "file:line:column: ", as
 * all policy errors do. */
struct policy_reader {
	/* NULL: `secrets` is ignored. */
	int (*secrets)(void *arg, const struct node *node, struct err *err);
	void *arg;
	/* Whether the loader may read the file PATH, which NODE names; NULL: any file. */
	int (*file)(void *arg, const struct node *node, const char *path, struct err *err);
	/* Whether the policy may have HOOK, at NODE; NULL: it may have none.  A caller that runs hooks
	 * checks that no agent could have written them (trust_command). */
	int (*hook)(void *arg, const struct node *node, const struct policy_hook *hook,
	            struct err *err);
	/* For callers that write the policy out as one file; NULL otherwise.  `rule` gets each rule
	 * in order of precedence.  `part` gets every other part of a file except `extends`, nearest
	 * file first. */
	int (*rule)(void *arg, const struct node *rule, struct err *err);
	int (*part)(void *arg, const struct node *key, const struct node *value, struct err *err);
	/* Gets the unchanged text of the first file; may be NULL. */
	int (*text)(void *arg, const char *text, size_t len, struct err *err);
	bool may_cover;                 /* a rule that earlier rules cover is not an error */
};

/* For policy_reader.hook, in callers that only look at the policy: accepts any. */
int policy_any_hook(void *arg, const struct node *node, const struct policy_hook *hook,
                    struct err *err);

/* Load the file at PATH (relative to DIRFD) and the files that it extends and includes.  Every
 * error is one sentence that begins with "file:line:column: ".  On success the caller owns
 * *ret_policy. */
int policy_load_file(int dirfd, const char *path, const struct policy_reader *reader,
                     struct policy **ret_policy, struct policy_limits *ret_limits,
                     struct err *err);
/* As policy_load_file(), but collect all errors, not only the first. */
#define POLICY_FAULTS_MAX 20
struct policy_faults {
	struct err *list;               /* the caller's, with room for POLICY_FAULTS_MAX */
	size_t n;
	bool more;                      /* there were more errors than room */
};
int policy_load_file_all(int dirfd, const char *path, const struct policy_reader *reader,
                         struct policy **ret_policy, struct policy_faults *faults,
                         struct err *err);
/* As policy_load_file() from memory, for tests and fuzzing.  `extends` and `include` may only name
 * presets, and `secrets` is ignored. */
int policy_load_text(const char *name, const char *text, size_t len,
                     struct policy **ret_policy, struct policy_limits *ret_limits,
                     struct err *err);
/* The same, collecting all errors as policy_load_file_all() does.  READER and FAULTS may be NULL. */
int policy_load_text_all(const char *name, const char *text, size_t len,
                         const struct policy_reader *reader, struct policy **ret_policy,
                         struct policy_faults *faults, struct err *err);
/* Load from nodes of any document.  `extends` and `include` may only name presets. */
int policy_load_node(const struct node *root, const struct policy_reader *reader,
                     struct policy **ret_policy, struct policy_limits *ret_limits,
                     struct err *err);
/* Add rules in the command line's short form: "api.github.com", "GET,POST api.github.com/repos/"
 * and a glob, "db.internal:5432/tcp", "preset:npm".  They go behind the rules of *BASE, which is
 * replaced.  *BASE may be NULL, and is untouched on failure. */
int policy_add_short(struct policy **base, const char *text, struct err *err);
#define POLICY_OF_PROFILE "profile "    /* the beginning of the place of a profile's rule: its file and line follow */
/* The same; PLACE is where TEXT is from, as people are told.  NULL: the command line. */
int policy_add_short_from(struct policy **base, const char *text, const char *place, struct err *err);
/* Write the short form TEXT as one item of `egress`, on one line of YAML.  VERB is "allow" or
 * "deny".  The item is a rule, or "{include: 'preset:npm'}", which needs "allow".  WHAT names the
 * text in errors. */
int policy_put_short(struct buf *b, const char *verb, const char *what, const char *text,
                     struct err *err);
struct policy *policy_new_empty(void);  /* denies everything */

/* ---- layers, principals and chains: policy_layers.c ---- */

/* Put P within *OUTER, behind the layers that it has, and take ownership of *OUTER.  E2BIG: that
 * would be more than POLICY_LAYERS_MAX layers. */
int policy_within(struct policy *p, struct policy **outer, struct err *err);
/* The next layer around P, or NULL.  P keeps it. */
const struct policy *policy_outer(const struct policy *p);
/* Detach the next layer around P and return it.  The caller owns it. */
struct policy *policy_take_outer(struct policy *p);
size_t policy_n_own(const struct policy *p);            /* rules in its first layer */

#define POLICY_PRINCIPAL_MAX 256
#define POLICY_CHAIN_MAX 1024
/* Set the principal ("": none) and the chain of agents ("A/B/C", the nearest last; "": none) that
 * the cell runs for.  Rules in P's first layer whose `principal` or `chain` does not fit match
 * nothing.  A policy is loaded with neither. */
int policy_bind(struct policy *p, const char *principal, const char *chain, struct err *err);
/* CHAIN without its last N names: the chain of the agent N steps up. */
void policy_chain_before(const char *chain, size_t n, char ret_chain[POLICY_CHAIN_MAX + 1]);

void policy_put(struct buf *b, const struct policy *p);
/* Validates strictly: the resulting policy is as sound as a loaded one. */
int policy_get(struct buf *b, struct policy **ret_policy, struct err *err);

void policy_free(struct policy *p);     /* NULL is fine */
OWN_BY(policy_freep, struct policy *, policy_free)
#endif

/* policy.h - decides whether a cell may make a request.
 *
 * Pure: no I/O but the loader's files, no clock.  A policy is immutable once loaded.
 * An ordered list of rules, first match wins, what no rule matches is denied.
 *
 * A policy may lie within another one, and that in its own: its layers, itself first.  Each is
 * asked as if it were alone, and the strictest answer counts: deny before ask before allow.
 * Rules are numbered through all layers, the policy's own first. */
#ifndef CLOISTER_POLICY_H
#define CLOISTER_POLICY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "http/http_head.h"

struct err;
struct node;
struct policy;                          /* opaque; what is in it: policy_rule.h */

#define POLICY_RULES_MAX 4096
#define POLICY_LAYERS_MAX 16            /* itself included */
#define POLICY_GIVEN_MAX 8              /* of them, when a cell starts: some are left for what its
                                         * rules lead to */
#define POLICY_FITS_MAX (POLICY_RULES_MAX * POLICY_LAYERS_MAX / 8) /* bytes of a bit for each */
#define POLICY_FILE_MAX (1024 * 1024)
#define POLICY_ENCODED_MAX (8 * 1024 * 1024)
#define POLICY_HELD_MAX (1024 * 1024)   /* of a body, unless the rule says more */
#define POLICY_INSPECTED_MAX (64 * 1024 * 1024) /* of a body that is held, whatever rules say */
#define POLICY_UPLOAD_MAX (10 * 1024 * 1024) /* of a body, unless the rule says more */

enum policy_verdict { POLICY_DENY, POLICY_ALLOW, POLICY_ASK };

enum policy_protocol { POLICY_HTTP, POLICY_TCP, POLICY_TLS };   /* TLS: passed through */

/* What a request is, as far as it is known when the question is asked. */
struct policy_request {
	enum policy_protocol protocol;
	const struct http_head *head;   /* POLICY_HTTP: all of it */
	const char *host;               /* canonical name or address, NUL-terminated */
	uint16_t port;
	/* What cloister-inspect found in the body: bit R is set where it fits rule R.  NULL
	 * while the body has not been looked into. */
	const unsigned char *body_fits;
	size_t n_body_fits;             /* bytes of it */
};

/* By which of its rules each layer lets a request through, as the layer counts them. */
struct policy_way { int16_t rule[POLICY_LAYERS_MAX]; };

struct policy_decision {
	enum policy_verdict verdict;
	/* The answer hangs on the body: have it looked into and ask again.  VERDICT is that
	 * of the first rule that the body might fit. */
	bool needs_body;
	int rule;                       /* its index, or -1: none matched */
	unsigned layer;                 /* that RULE is of, or in which none matched */
	const char *reason;             /* the rule's `reason`, or NULL; borrowed */
	bool may_carry_secrets;         /* the rule permits what looks like a credential */
	bool may_pass_placeholders;     /* the rule lets them pass in bodies, as they are */
	bool may_use_private;           /* the rule names the address itself, or the host of
	                                 * this machine */
	bool must_look;                 /* bodies are looked into for secrets */
	uint64_t upload_max;            /* of the request body, in bytes */
	uint64_t held_max;              /* how much of it is kept, where it has to be */
	/* With POLICY_DENY: RULE would allow it, or ask, were the body's known length not over its
	 * upload_max. */
	bool too_large;
	struct policy_way way;
};

/* The rules of kind `log` that matched on the way, for the record. */
#define POLICY_LOGGED_LAYER 8           /* of one layer */
#define POLICY_LOGGED_MAX (POLICY_LOGGED_LAYER * POLICY_LAYERS_MAX)
struct policy_logged { int rules[POLICY_LOGGED_MAX]; size_t n; };

void policy_decide(const struct policy *p, const struct policy_request *req,
                   struct policy_decision *ret_decision, struct policy_logged *ret_logged);
/* Whether REQ asks a service that resolves names, over HTTPS or TLS.  That is refused whatever the
 * rules say: names could be asked for that none of them mentions. */
bool policy_is_doh(const struct policy_request *req);
/* Whether it is such a question by its own looks, and not only by whom it goes to. */
bool policy_asks_for_name(const struct policy_request *req);

/* Whether, in every layer, any rule could match this host that does not deny, or says why it
 * does (DNS answers by it; the answer is an address of ours, and nothing leaves for it). */
bool policy_mentions_host(const struct policy *p, const char *host);
/* What may be done with a connection before its first bytes are read. */
enum policy_route { POLICY_ROUTE_HTTP, POLICY_ROUTE_TCP, POLICY_ROUTE_TLS, POLICY_ROUTE_NONE };
/* By host and port alone: POLICY_ROUTE_TCP if the first rule that matches is a raw TCP
 * one, POLICY_ROUTE_TLS if it passes TLS through, HTTP otherwise; NONE if no rule of any
 * kind could match, the first denies whatever is spoken, or layers differ (HTTP answers that
 * best too, with a 403). */
enum policy_route policy_route(const struct policy *p, const char *host, uint16_t port);

/* A name that is let through by WAY led to ADDRESS: the rule in front of one of its rules, in
 * the same layer, that denies that address or its range, or -1. */
int policy_denies_address(const struct policy *p, const struct policy_way *way,
                          const char *address, uint16_t port);

/* Where a rule stands, for people: "cloister.yaml:12:5"; and the rule as one line of
 * text: "allow api.github.com methods [GET]".  "" for -1. */
const char *policy_rule_place(const struct policy *p, int rule);
const char *policy_rule_text(const struct policy *p, int rule);
const char *policy_rule_reason(const struct policy *p, int rule);       /* or NULL */
/* The first rule from FROM on, of the first layer, that names a port and lets both plain HTTP and
 * TLS through there; -1: none.  Presets are not the reader's to change. */
int policy_rule_of_any_scheme(const struct policy *p, size_t from);
size_t policy_n_rules(const struct policy *p);          /* of all layers */
/* Whether the `headers` of some rule speak of the field NAME, or of one that servers may
 * take for it. */
bool policy_mentions_header(const struct policy *p, struct http_text name);

/* ---- asking people: policy_ask.c ---- */

/* What a rule that asks says of who may answer.  Borrowed. */
struct policy_question {
	const char *const *approvers;   /* a user's name, "uid:N", "token:NAME"; none: any operator */
	size_t n_approvers;
	uint32_t approvals;             /* so many of them, at least 1 */
	uint64_t timeout_ms;
	bool freeze;
	const char *reason;             /* or NULL */
};
/* Whether any rule of any layer asks. */
bool policy_asks(const struct policy *p);
/* False: RULE does not ask. */
bool policy_question(const struct policy *p, int rule, struct policy_question *ret_question);
/* The rule by which WAY leads through the layer LAYER, counted through all of them; -1: none. */
int policy_way_rule(const struct policy *p, const struct policy_way *way, unsigned layer);
/* What RULE says, as bytes: those of another one are the same exactly if it says the same,
 * wherever it stands. */
void policy_put_meaning(struct buf *b, const struct policy *p, int rule);

/* ---- loading: policy_load.c ---- */

/* What becomes of a cell that sends a secret where it may not go; the request is refused
 * whatever is said. */
enum policy_exfiltration { POLICY_EXFILTRATION_UNSAID, POLICY_EXFILTRATION_REFUSE,
                           POLICY_EXFILTRATION_FREEZE, POLICY_EXFILTRATION_KILL,
                           POLICY_EXFILTRATIONS };

/* What the file says besides rules. */
struct policy_limits {
	uint64_t memory, disk, io;      /* 0: not said */
	uint64_t cpus_milli, pids, time_ms;
	enum policy_exfiltration exfiltration;
	/* The cell's timeline.  STRICT: no request leaves before its record is on the disk. */
	enum policy_audit { POLICY_AUDIT_UNSAID, POLICY_AUDIT_BATCHED, POLICY_AUDIT_STRICT } audit;
	uint64_t audit_max;             /* bytes, then nothing leaves any more; 0: not said */
};
/* Under which nothing runs. */
#define POLICY_MEMORY_LEAST (4ULL << 20)
#define POLICY_CPUS_MILLI_LEAST 10
#define POLICY_DISK_LEAST (64ULL << 10)
#define POLICY_IO_LEAST 4096
#define POLICY_AUDIT_LEAST (1ULL << 20) /* what AUDIT_MAX may be */
#define POLICY_AUDIT_MOST (1ULL << 40)

/* What stands in a policy and is not for src/policy to understand: `secrets`, of this file
 * and of those that it names, the nearest first.  An error begins as all of them do. */
struct policy_reader {
	/* NULL: nobody wants to know. */
	int (*secrets)(void *arg, const struct node *node, struct err *err);
	void *arg;
	/* Whether the file PATH may be read, which NODE names; NULL: all may. */
	int (*file)(void *arg, const struct node *node, const char *path, struct err *err);
	/* For who writes the policy down again as one; NULL otherwise.  Each rule, in the order
	 * in which they count; and each other part of a file but `extends`, the nearest first. */
	int (*rule)(void *arg, const struct node *rule, struct err *err);
	int (*part)(void *arg, const struct node *key, const struct node *value, struct err *err);
	/* The text of the first file, as it is; NULL: nobody wants it. */
	int (*text)(void *arg, const char *text, size_t len, struct err *err);
	bool may_cover;                 /* a rule that nothing is left for is no error */
};

/* Load the file at PATH (relative to DIRFD) with what it extends and includes.  Every
 * error is one sentence that begins with "file:line:column: ".  On success the caller
 * owns *ret_policy. */
int policy_load_file(int dirfd, const char *path, const struct policy_reader *reader,
                     struct policy **ret_policy, struct policy_limits *ret_limits,
                     struct err *err);
/* For people who mend it: all that is wrong, not only what was found first. */
#define POLICY_FAULTS_MAX 20
struct policy_faults {
	struct err *list;               /* room for POLICY_FAULTS_MAX, the caller's */
	size_t n;
	bool more;                      /* than there is room for */
};
int policy_load_file_all(int dirfd, const char *path, const struct policy_reader *reader,
                         struct policy **ret_policy, struct policy_faults *faults,
                         struct err *err);
/* The same as policy_load_file() from memory, for tests and fuzzing: `extends` and
 * `include` are errors unless they name a preset, and nobody reads `secrets`. */
int policy_load_text(const char *name, const char *text, size_t len,
                     struct policy **ret_policy, struct policy_limits *ret_limits,
                     struct err *err);
/* For people who mend it, as policy_load_file_all(); READER and FAULTS may be NULL. */
int policy_load_text_all(const char *name, const char *text, size_t len,
                         const struct policy_reader *reader, struct policy **ret_policy,
                         struct policy_faults *faults, struct err *err);
/* From nodes, which may stand in anything: `extends` and `include` name presets only. */
int policy_load_node(const struct node *root, const struct policy_reader *reader,
                     struct policy **ret_policy, struct policy_limits *ret_limits,
                     struct err *err);
/* Short forms of the command line: "api.github.com", "GET,POST api.github.com/repos/" and
 * a glob, "db.internal:5432/tcp", "preset:npm".  The rules go behind those of *BASE, which
 * is replaced; it may be NULL, and is untouched on failure. */
int policy_add_short(struct policy **base, const char *text, struct err *err);
/* The same as one item of `egress`, on one line of YAML, for VERB ("allow", "deny"): the rule, or
 * "{include: 'preset:npm'}", which only goes with "allow".  WHAT is what errors call it. */
int policy_put_short(struct buf *b, const char *verb, const char *what, const char *text,
                     struct err *err);
struct policy *policy_new_empty(void);  /* denies everything */

/* ---- layers and whom they are for: policy_layers.c ---- */

/* From now on P lies within *OUTER, behind the layers that it has; takes it.  E2BIG: these are
 * more than POLICY_LAYERS_MAX. */
int policy_within(struct policy *p, struct policy **outer, struct err *err);
/* What P alone lies within, or NULL. */
const struct policy *policy_outer(const struct policy *p);
/* The same, which is the caller's from now on: P lies within nothing any more. */
struct policy *policy_take_outer(struct policy *p);
size_t policy_n_own(const struct policy *p);            /* the rules of its first layer */

#define POLICY_PRINCIPAL_MAX 256
#define POLICY_CHAIN_MAX 1024
/* On whose behalf ("": nobody's), and through which agents ("A/B/C", the nearest last; "":
 * none): rules of P's first layer whose `principal` or `chain` does not fit match nothing.
 * As loaded, it is nobody and none. */
int policy_bind(struct policy *p, const char *principal, const char *chain, struct err *err);
/* The chain of who started the last of CHAIN: that without its last name, N times. */
void policy_chain_before(const char *chain, size_t n, char ret_chain[POLICY_CHAIN_MAX + 1]);

void policy_put(struct buf *b, const struct policy *p);
/* Strict, as for any message: what it gives is as good as loaded. */
int policy_get(struct buf *b, struct policy **ret_policy, struct err *err);

void policy_free(struct policy *p);     /* NULL is fine */
void policy_freep(struct policy **p);   /* for OWN() */
#endif

/* policy_hook.h - a rule's `hook`: the operator's own program or service that judges requests.
 *
 * Pure: no sockets, no processes.  The question and the answer are one line of JSON each, which
 * ends with a newline.  A program reads questions from standard input and writes answers to
 * standard output, one after the other.  A service does the same on each connection to its socket.
 * Each question has an id of its own, which its answer must repeat: a late or second answer is never
 * taken for that of another question.
 *
 * Fails closed: if the hook gives no valid answer in time, the request must be refused. */
#ifndef CLOISTER_POLICY_HOOK_H
#define CLOISTER_POLICY_HOOK_H
#include "policy/policy.h"
#include "policy/policy_rewrite.h"

#define POLICY_HOOK_ARGS_MAX 32
#define POLICY_HOOK_SOCKET_MAX 107      /* bytes of a path: sun_path without its NUL */
#define POLICY_HOOK_TIMEOUT_MS 5000
#define POLICY_HOOK_TIMEOUT_LEAST_MS 10
#define POLICY_HOOK_TIMEOUT_MOST_MS (60 * 1000)
#define POLICY_HOOK_BODY_MAX (1024 * 1024)      /* the most that `body` may be */
#define POLICY_HOOK_REASON_MAX 512
#define POLICY_HOOK_ANSWER_MAX (32 * 1024)      /* bytes of an answer, with its newline */
#define POLICY_HOOK_QUESTION_MAX (8 * 1024 * 1024)
#define POLICY_HOOK_ID 32               /* hex digits of an id */

struct policy_hook {
	/* One of the two. */
	const char *const *argv;        /* NULL-terminated; argv[0] is an absolute path */
	const char *socket;             /* an absolute path */
	uint64_t timeout_ms;
	uint64_t body_max;              /* bytes of the body that it gets; 0: no body.  A request with
	                                 * a larger body must be refused */
};

/* The `hook` of RULE, numbered through all layers, or NULL. */
const struct policy_hook *policy_hook_of(const struct policy *p, int rule);
/* Whether any rule of any layer has one. */
bool policy_hooks(const struct policy *p);
/* Whether both call the same program or service in the same way. */
bool policy_hook_same(const struct policy_hook *a, const struct policy_hook *b);
/* Append what HOOK calls: its program and words, or its socket.  Two hooks call the same if these
 * bytes are equal, at most POLICY_HOOK_CALL_MAX. */
#define POLICY_HOOK_CALL_MAX (40 * 1024)
void policy_hook_put_call(struct buf *b, const struct policy_hook *hook);

/* A request to judge.  Everything is borrowed; strings may be "". */
struct policy_hook_question {
	const char *id;                 /* POLICY_HOOK_ID digits in lower case, used once */
	const struct http_head *head;
	bool has_body;                  /* the hook gets the body, which may be empty */
	const char *body;
	size_t n_body;
	const char *cell, *agent, *principal;
	const char *rule, *place;       /* policy_rule_text(), policy_rule_place() */
};
/* Append the question, with its newline.  Values of headers that carry credentials are null. */
void policy_hook_put(struct buf *b, const struct policy_hook_question *question);
/* Copy the id of a question of policy_hook_put(), which begins with it.  False: TEXT is none. */
bool policy_hook_id(const void *text, size_t len, char ret_id[POLICY_HOOK_ID + 1]);

/* Why TEXT cannot be the answer to the question ID, or NULL.  Checks nothing but the id. */
const char *policy_hook_stray(const char *text, size_t len, const char *id);

struct policy_hook_answer {
	char id[POLICY_HOOK_ID + 1];    /* of the question: the caller compares it */
	enum policy_verdict verdict;
	char reason[POLICY_HOOK_REASON_MAX + 1];        /* "": none; printable UTF-8 */
	const struct policy_rewrite *rewrite;   /* NULL: none; in MEMORY */
	struct policy *memory;
};
/* Parse an answer, with or without its newline.  It is strict: an unknown or duplicate name, or a
 * rewrite in an answer that denies, is an error.  The caller owns *ret_answer
 * (policy_hook_answer_free), which is untouched on failure. */
int policy_hook_get(const char *text, size_t len, struct policy_hook_answer *ret_answer,
                    struct err *err);
void policy_hook_answer_free(struct policy_hook_answer *answer);        /* for OWN() too */
#endif

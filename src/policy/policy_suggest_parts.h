/* policy_suggest_parts.h - shared by policy_suggest.c and policy_learn.c only. */
#ifndef CLOISTER_POLICY_SUGGEST_PARTS_H
#define CLOISTER_POLICY_SUGGEST_PARTS_H
#include "policy/policy_load.h"
#include "policy/policy_suggest.h"

enum suggest_git { SUGGEST_GIT_NO, SUGGEST_GIT_MAYBE, SUGGEST_GIT_FETCH, SUGGEST_GIT_PUSH };

void suggest_put(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void suggest_put_word(struct buf *b, const char *word);         /* quoted if YAML needs it */
/* B's text, NUL-terminated; the caller owns it. */
int suggest_take(struct buf *b, char **ret_text, struct err *err);
/* Check that TEXT loads, as a WHOLE policy or as items of `egress`. */
int suggest_check(const char *text, bool whole, struct err *err);

bool suggest_can_say(const struct policy_seen *seen);
void suggest_host(const struct policy_seen *seen, char ret_text[HTTP_HOST_MAX + 16]);
/* Whether a rule for SEEN names its port; then it names the scheme too, which the second appends. */
bool suggest_names_port(const struct policy_seen *seen);
void suggest_put_scheme(struct buf *b, const struct policy_seen *seen);
enum suggest_git suggest_git(const struct policy_seen *seen,
                             char ret_repo[POLICY_TEXT_MAX + 1]);
/* A glob that matches PATH and nothing else; false if there is none. */
bool suggest_path(const char *path, char ret_glob[POLICY_TEXT_MAX + 1]);
/* GLOB with each %2F replaced by a slash; false if it has none. */
bool suggest_other_path(const char *glob, char ret_glob[POLICY_TEXT_MAX + 1]);
/* Append "push: [refs/heads/x], delete: true", as SEEN needs. */
void suggest_put_push(struct buf *b, const struct policy_seen *seen);
/* Append `private` and `body: {max}`, if SEEN needs them. */
void suggest_put_extras(struct buf *b, const struct policy_seen *seen);
/* The name of the call that SEEN is, and "tool:" or its like (RET_KIND may be NULL); NULL: none. */
const char *suggest_call(const struct policy_seen *seen, const char **ret_kind);
/* Append the call, as a rule names it, between two texts. */
void suggest_put_call(struct buf *b, const struct policy_seen *seen, const char *before, const char *behind);
#endif

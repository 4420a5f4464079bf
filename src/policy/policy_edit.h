/* policy_edit.h - shared by the files that read, write and make edits; for src/policy only. */
#ifndef CLOISTER_POLICY_EDIT_H
#define CLOISTER_POLICY_EDIT_H
#include "policy/policy_parts.h"
#include "policy/policy_rewrite.h"

/* ---- policy_rewrite_json.c ---- */

/* As policy_edit_check(), for edits of a body. */
int policy_edit_check_json(const struct policy_edit *edit, struct err *err);

/* ---- policy_edits.c: lists of edits ---- */

/* Edits that are being read.  Their texts are in P's memory. */
struct policy_edits {
	struct policy *p;
	struct policy_edit at[POLICY_EDITS_MAX];
	size_t n;
};
/* Check an edit and add it.  VALUE is "" if KIND has none.  The error has no place. */
int policy_edits_add(struct policy_edits *e, enum policy_edit_kind kind, const char *name,
                     const char *value, struct err *err);
/* The same for the host, with its port: "gateway.internal:8443". */
int policy_edits_add_host(struct policy_edits *e, const char *text, struct err *err);
/* The rewrite, in P's memory, in the order of kinds; NULL if that is full. */
const struct policy_rewrite *policy_edits_done(struct policy_edits *e);

/* The words of `query`, `headers` and `json`, each with its kind of edit. */
struct policy_edit_word {
	const char *part, *word;
	enum policy_edit_kind kind;
	bool has_value;                 /* a map of names and values, else a list of names */
};
extern const struct policy_edit_word policy_edit_words[];
extern const size_t policy_n_edit_words;
#endif

/* cell_doc.h - the cell document: one cell as canonical JSON, wherever it will run.
 *
 * It has the grants, limits and policy of the cell, blobs by their hashes, and secrets by their
 * names, never their values.  docs/cell-document.md describes every member.
 *
 * A document may come from a stranger.  The check is strict: an unknown member, a wrong type or a
 * value out of bounds is an error.  It knows only the form.  Whether a grant exists or a limit can
 * be enforced is for the process that starts the cell. */
#ifndef CLOISTER_CELL_DOC_H
#define CLOISTER_CELL_DOC_H
#include <jansson.h>
#include <stddef.h>

struct err;

#define CELL_DOC_MAX (16u << 20)        /* bytes */
#define CELL_DOC_VERSION 1

/* Parse and check TEXT, which need not be in canonical form.  The caller owns *ret_doc. */
int cell_doc_read(const char *text, size_t len, json_t **ret_doc, struct err *err);
/* Check DOC and write it in canonical form, NUL-terminated; the caller owns *ret_text. */
int cell_doc_write(json_t *doc, char **ret_text, size_t *ret_len, struct err *err);
#endif

/* definition.h - a tool's definition, as an MCP server states it in tools/list: which members are pinned,
 * their hash, their annotations, and text in them that a person does not see.
 *
 * Pure.  A definition is hostile: a server wrote it. */
#ifndef CLOISTER_TOOLS_DEFINITION_H
#define CLOISTER_TOOLS_DEFINITION_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "canon/hash.h"

struct buf;
struct err;

#define DEFINITION_NAME_MAX 128         /* bytes of a tool's name, without its server's */
#define DEFINITION_MAX (256u << 10)     /* bytes of one in canonical form */
#define DEFINITION_HIDDEN_MAX 16        /* findings for one */
#define DEFINITION_SHOWN_MAX 64         /* bytes of the place of a finding */

/* [A-Za-z0-9_./-]: what clients accept, and what needs no escape in a rule. */
bool definition_is_name(const char *name);

/* The members of TOOL that are hashed: name, title, description, inputSchema, outputSchema, annotations.  The others
 * are not: an agent must never get them.  A new object, whose values TOOL shares.  -EINVAL: it is no definition, with
 * the reason, which has nothing of the server's text but a checked name. */
int definition_pin(json_t *tool, json_t **ret_pinned, struct err *err);
/* The SHA-256 of the canonical form (canon/canon.h) of what definition_pin() leaves. */
int definition_hash(json_t *tool, char ret_hex[HASH_HEX + 1], struct err *err);

/* Annotations: see enum policy_tool_hint, whose values these are. */
enum definition_hint {
	DEFINITION_READ_ONLY = 1, DEFINITION_DESTRUCTIVE = 2, DEFINITION_IDEMPOTENT = 4, DEFINITION_OPEN_WORLD = 8,
};
struct definition_hints {
	unsigned stated, values;        /* bits; VALUES has none that is not stated */
};
struct definition_hints definition_hints(const json_t *tool);
/* Those that must be stated, given the others: destructive and idempotent mean nothing for a tool that only reads. */
unsigned definition_hints_missing(struct definition_hints hints);
/* "read_only", as in policies and locks. */
const char *definition_hint_name(unsigned hint);

/* ---- text that is hidden from people and reaches a model (definition_hidden.c) ---- */

enum definition_hidden_kind {
	DEFINITION_ZERO_WIDTH,          /* characters without a shape: ZERO WIDTH SPACE, fillers, tags ... */
	DEFINITION_BIDI,                /* that change the order of what is shown */
	DEFINITION_CONTROL,             /* escape sequences and other control characters */
	DEFINITION_COMMENT,             /* <!-- ... -->: what shows Markdown leaves it out */
	DEFINITION_PADDING,             /* so many blanks that the rest is out of sight */
};
struct definition_hidden {
	enum definition_hidden_kind kind;
	char where[DEFINITION_SHOWN_MAX];       /* the path of the string: "/description"; safe to print */
};
/* Search all strings and names of TOOL.  At most one finding of a kind for a string.  Returns how many; beyond MAX they
 * are not counted. */
size_t definition_find_hidden(const json_t *tool, struct definition_hidden *ret_hidden, size_t max);
/* The bits (1 << kind) of what is hidden in TEXT, which is UTF-8. */
unsigned definition_hidden_in(const char *text, size_t len);
/* Append TEXT for files that people read: what is hidden becomes U+FFFD. */
void definition_put_clean(struct buf *b, const char *text, size_t len);
/* "invisible characters" */
const char *definition_hidden_name(enum definition_hidden_kind kind);
#endif

/* lock.h - tools.lock.yaml: what servers' tools were when a person looked at them, and what they may do.
 *
 * Pure.  docs/tools.md explains the file.  policy/policy_tools.h has the reader of policies; this one gives the parts
 * that only `cloister tools` needs.  A lock is the operator's file; a listing is a server's, and hostile. */
#ifndef CLOISTER_TOOLS_LOCK_H
#define CLOISTER_TOOLS_LOCK_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "policy/policy_tools.h"
#include "tools/definition.h"

struct buf;
struct err;
struct node;

#define LOCK_FILE "tools.lock.yaml"
#define LOCK_MAX POLICY_TOOLS_LOCK_MAX
#define LOCK_LISTED_MAX 512             /* tools of one server */
#define LOCK_WORD_MAX 128               /* bytes of a server's own name and version */
#define LOCK_DESCRIPTION_MAX 4096       /* bytes of a description that the lock shows; its hash covers all */
#define LOCK_SCHEMA_MAX (32u << 10)     /* likewise, of a schema */
#define LOCK_FILES_MAX 16               /* that the command of a server names */
#define LOCK_EXAMPLES_MAX 16            /* of one tool */

/* ---- a listing: what a server answered to tools/list ---- */

struct listed_tool {
	json_t *pinned;                 /* owned: see definition_pin() */
	char hash[HASH_HEX + 1];
};
struct listed_file {
	char *name;                     /* owned: a word of the server's command */
	char sha256[HASH_HEX + 1];
};
struct listing {
	char server[POLICY_TOOLS_SERVER_MAX + 1];       /* its name in the policy */
	char name[LOCK_WORD_MAX + 1], version[LOCK_WORD_MAX + 1];       /* as it calls itself; printable */
	/* Of this machine: "" is not known. */
	const char *path, *sha256, *package;
	struct listed_file files[LOCK_FILES_MAX];       /* in the order of the command */
	size_t n_files;
	struct listed_tool tools[LOCK_LISTED_MAX];      /* ordered by name */
	size_t n;
};
void listing_free(struct listing *l);   /* for OWN() too; not L itself */
/* Add the tools of one page.  -EINVAL: a definition is not valid, or a name is there twice. */
int listing_add(struct listing *l, json_t *tools, struct err *err);
const struct listed_tool *listing_find(const struct listing *l, const char *tool);
void listing_set_word(char ret_word[LOCK_WORD_MAX + 1], const json_t *text);
/* The file that the lock has as NAME; NULL: the command names it no more, or it is gone. */
const struct listed_file *listing_file(const struct listing *l, const char *name);
const char *listed_name(const struct listed_tool *tool);

/* ---- a lock ---- */

struct lock {
	struct node *root;              /* NULL: there is none */
};
/* TEXT is empty if there is no file.  FILE must outlive the lock. */
int lock_read(const char *file, const char *text, size_t len, struct lock *ret_lock, struct err *err);
void lock_free(struct lock *lock);      /* for OWN() too */
/* NULL: it is not there. */
const struct node *lock_server(const struct lock *lock, const char *server);
const struct node *lock_tool(const struct lock *lock, const char *server, const char *tool);
const char *lock_hash(const struct node *tool);         /* "": none */
struct definition_hints lock_hints(const struct node *tool);
const struct node *lock_scope(const struct node *tool);
/* The map of the files of SERVER, from names to their SHA-256; NULL: the lock has none. */
const struct node *lock_files(const struct lock *lock, const char *server);
/* Example I of TOOL, a map with `arguments` and `upstream`; NULL: there are no more. */
const struct node *lock_example(const struct node *tool, size_t i);
/* The line of TOOL of SERVER, or of SERVER, or 1. */
size_t lock_line(const struct lock *lock, const char *server, const char *tool);

/* Give TOOL the member NAME, whose value is the YAML of TEXT. */
int lock_set(struct lock *lock, const char *server, const char *tool, const char *name, const char *text, size_t len,
             struct err *err);

/* The value of a node as JSON.  The caller owns it; NULL: out of memory. */
json_t *lock_node_json(const struct node *node);

/* ---- writing (lock_write.c) ---- */

/* Append the lock of all N LISTINGS, with what OLD has of other servers, and what a person wrote in it: scopes,
 * examples, and annotations.  Annotations that changed in a definition replace those. */
int lock_write(struct buf *b, const struct lock *old, const struct listing *const *listings, size_t n, struct err *err);
/* Append lines for people: what is new, gone or changed since OLD.  Returns how many tools. */
size_t lock_put_changes(struct buf *b, const struct lock *old, const struct listing *l);

enum lock_part { LOCK_TITLE = 1, LOCK_DESCRIPTION = 2, LOCK_INPUT = 4, LOCK_OUTPUT = 8, LOCK_ANNOTATIONS = 16 };
/* The parts that differ; 0 with different hashes: where the lock has too little to tell. */
unsigned lock_compare(const struct node *tool, const struct listed_tool *listed);
/* "its description and its input schema" */
void lock_put_parts(struct buf *b, unsigned parts);
#endif

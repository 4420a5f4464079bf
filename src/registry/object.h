/* object.h - parses and checks registered objects, strictly.
 *
 * YAML (files) and JSON (the API) have one parser.  An unknown key, a wrong type or a duplicate key
 * is an error.  For YAML the message begins with "file:line:column: "; for JSON its place is a
 * pointer (RFC 6901).  The result has every member of its kind. */
#ifndef CLOISTER_OBJECT_H
#define CLOISTER_OBJECT_H
#include "base/own.h"
#include "registry/registry.h"

#define OBJECT_FILES_MAX 10000          /* of one capability */
#define OBJECT_TREE_MAX (1024ull * 1024 * 1024)         /* bytes of them together */
#define OBJECT_PATH_MAX 1024            /* of one file in it */
#define OBJECT_TEXT_MAX (4 * 1024 * 1024)       /* of the canonical JSON */
#define OBJECT_FILE_MAX (1024 * 1024)   /* of a YAML file, and of JSON without files' contents */
#define OBJECT_POINTER_MAX 256

/* The file of a capability of type `wasm`. */
#define OBJECT_MODULE "module.wasm"
/* The names of files of a capability that run in the cell before the agent, in this order. */
#define OBJECT_SETUPS 2
extern const char *const object_setups[OBJECT_SETUPS];
bool object_is_setup(const char *path);

#define OBJECT_POOL_MAX 32              /* bytes of a pool's name */
#define OBJECT_WORKERS_MAX 1000         /* of one target */

struct object {
	enum registry_kind kind;
	char name[REGISTRY_NAME_MAX + 1];
	json_t *content;
	char *text;                     /* the same as canonical JSON */
	size_t len;
	char hash[HASH_NAME + 1];
};
void object_free(struct object *o);     /* NULL is fine */
OWN_BY(object_freep, struct object *, object_free)

/* Reads an agent, env, policy or target from the file PATH: YAML.  NAME, if it is not NULL, overrides the
 * name in the file.  A policy's file contains no name; the default is the file's own name without
 * ".yaml".  The caller owns *ret_object. */
int object_read_file(enum registry_kind kind, const char *path, const char *name,
                     struct object **ret_object, struct err *err);
/* Reads a capability from a folder with a capability.yaml in it.  The next registry_put() makes its
 * files blobs of R. */
int object_read_folder(struct registry *r, const char *path, const char *name,
                       struct object **ret_object, struct err *err);
/* Reads an object as the API has it.  A capability's files, with their contents, become blobs of R
 * as above; otherwise R may be NULL.  On failure ret_pointer has the place, or is "". */
int object_read_json(struct registry *r, enum registry_kind kind, json_t *said,
                     struct object **ret_object, char ret_pointer[OBJECT_POINTER_MAX],
                     struct err *err);
/* Reads TEXT, an object's canonical content as the registry has it.  -EBADMSG: it is not what a registration makes.  That a
 * capability's blobs exist is for registry_put(). */
int object_read_canonical(enum registry_kind kind, const char *text, size_t len, struct object **ret_object, struct err *err);
#endif

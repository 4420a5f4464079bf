/* object_parts.h - shared only by the files that read objects. */
#ifndef CLOISTER_OBJECT_PARTS_H
#define CLOISTER_OBJECT_PARTS_H
#include "policy/policy_yaml.h"
#include "registry/object.h"

/* ---- object_node.c ---- */

/* The file name in errors for nodes that were made from JSON.  Such a node's line is the number of
 * its value, in document order: object_find_pointer() translates it to a pointer. */
extern const char object_json_file[];

/* JSON as nodes, for the parsers of policies and secrets; the caller owns *ret_root. */
int object_to_nodes(json_t *value, struct node **ret_root, struct err *err);
/* For an error from a parser of such nodes: moves the place from ERR to ret_pointer. */
void object_find_pointer(json_t *value, char ret_pointer[OBJECT_POINTER_MAX], struct err *err);

/* A node as equivalent JSON; the caller owns *ret_value.  Refuses a number that may be meant as
 * text, such as 1.10. */
int object_from_node(const struct node *node, json_t **ret_value, struct err *err);
/* The text of a scalar; in JSON only a string is one.  The error calls it WHAT. */
int object_read_text(const struct node *node, const char *what, size_t max, const char **ret_text,
                     struct err *err);

/* ---- object_policy.c ---- */

/* Reads a policy from the file PATH, or from NODE if that is not NULL, and writes it as one that
 * names no other files; the caller owns *ret_document. */
int object_read_policy(const char *path, const struct node *node, json_t **ret_document,
                       struct err *err);
/* Rules, secrets and limits of another object, any of which may be NULL, as in a policy.  Checks
 * them and puts them into *ret_document as `egress`, `secrets` and `limits`. */
int object_read_grants(const struct node *at, const struct node *rules, const struct node *secrets,
                       const struct node *limits, json_t **ret_document, struct err *err);

/* ---- object_read.c ---- */

#define OBJECT_TARGET_MAX REGISTRY_NAME_MAX     /* "pool:" and a name, or that of a registered target */

/* The object at NODE; FILES (of a capability, or NULL) is borrowed.  NAME, if it is not NULL, is its name. */
int object_read_node(enum registry_kind kind, const struct node *node, const char *name,
                     json_t *files, struct object **ret_object, struct err *err);

/* ---- object_target.c ---- */

/* What a target has besides the members that every object has: its engine, bounds, and so on.  NAME as above.  The
 * caller owns *ret_members. */
int object_read_target(const struct node *node, const char *name, json_t **ret_members, struct err *err);

/* ---- object_root.c ---- */

/* The `root` of an agent: "host", "none", "minimal", {"image": ...}, {"capability": ...}, or null for
 * the default.  The caller owns *ret_value. */
int object_read_root(const struct node *node, json_t **ret_value, struct err *err);

/* ---- object.c ---- */

/* Makes an object of CONTENT, and takes ownership of it. */
int object_new(enum registry_kind kind, json_t *content, struct object **ret_object,
               struct err *err);

/* ---- object_files.c ---- */

#define OBJECT_ABOUT "capability.yaml"  /* describes a capability; not one of its files */

/* Whether PATH is allowed for a capability's file. */
int object_check_path(const char *path, struct err *err);

/* The files of a capability while they are collected. */
struct object_files {
	json_t *list;                   /* the caller owns it: an array */
	uint64_t size;                  /* of all of them */
};
/* Stores the data of FD, or DATA of LEN bytes if FD is -1, as a blob, and adds it as a file. */
int object_add_file(struct registry *r, struct object_files *files, const char *path, int fd,
                    const void *data, size_t len, bool executable, struct err *err);
/* Sorts them by path.  -EEXIST if a path occurs twice, or is both a file and a folder. */
int object_sort_files(struct object_files *files, struct err *err);
#endif

/* object_parts.h - between the files that read objects; for them only. */
#ifndef CLOISTER_OBJECT_PARTS_H
#define CLOISTER_OBJECT_PARTS_H
#include "policy/policy_yaml.h"
#include "registry/object.h"

/* ---- object_node.c ---- */

/* What errors call the file of nodes that were made of JSON.  Such a node's line is the number
 * of its value, counted as they stand: object_find_pointer() knows where that is. */
extern const char object_json_file[];

/* JSON as nodes, for the readers of policies and secrets; the caller owns *ret_root. */
int object_to_nodes(json_t *value, struct node **ret_root, struct err *err);
/* The error of a reader that was given such nodes: takes its place out of ERR. */
void object_find_pointer(json_t *value, char ret_pointer[OBJECT_POINTER_MAX], struct err *err);

/* A node as JSON that is read as the same: the caller owns *ret_value.  Refused is a number
 * that could be meant as text, 1.10. */
int object_from_node(const struct node *node, json_t **ret_value, struct err *err);
/* The text of a scalar; in JSON only a string is one.  WHAT it is called in the error. */
int object_read_text(const struct node *node, const char *what, size_t max, const char **ret_text,
                     struct err *err);

/* ---- object_policy.c ---- */

/* A policy from the file PATH, or from NODE if that is not NULL, written down again as one that
 * names no other files; the caller owns *ret_document. */
int object_read_policy(const char *path, const struct node *node, json_t **ret_document,
                       struct err *err);
/* Rules, secrets and limits of another object, any of which may be NULL, as in a policy:
 * checked, and *ret_document has `egress`, `secrets` and `limits` of them. */
int object_read_grants(const struct node *at, const struct node *rules, const struct node *secrets,
                       const struct node *limits, json_t **ret_document, struct err *err);

/* ---- object_read.c ---- */

/* The object at NODE; FILES (of a capability, or NULL) is borrowed.  NAME, if it is not NULL,
 * is what it is called. */
int object_read_node(enum registry_kind kind, const struct node *node, const char *name,
                     json_t *files, struct object **ret_object, struct err *err);

/* ---- object.c ---- */

/* CONTENT, which is taken over, as an object. */
int object_new(enum registry_kind kind, json_t *content, struct object **ret_object,
               struct err *err);

/* ---- object_files.c ---- */

#define OBJECT_SETUP "setup.sh"         /* run in the cell before the agent */
#define OBJECT_ABOUT "capability.yaml"  /* what is said of a capability; none of its files */

/* Whether PATH may be that of a capability's file. */
int object_check_path(const char *path, struct err *err);

/* The files of a capability as they are gathered. */
struct object_files {
	json_t *list;                   /* the caller's: an array */
	uint64_t size;                  /* of all of them */
};
/* Keep what FD gives, or DATA of LEN bytes if FD is -1, as a blob and file of it. */
int object_add_file(struct registry *r, struct object_files *files, const char *path, int fd,
                    const void *data, size_t len, bool executable, struct err *err);
/* Sort them by path; -EEXIST if one is there twice, or a file where there is a folder. */
int object_sort_files(struct object_files *files, struct err *err);
#endif

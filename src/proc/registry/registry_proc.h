/* registry_proc.h - between the files of cloister-registry; for them only. */
#ifndef CLOISTER_REGISTRY_PROC_H
#define CLOISTER_REGISTRY_PROC_H
#include <stdio.h>

#include "base/args.h"
#include "registry/registry.h"

/* A command: what it returns is its exit status, or negative, with ERR said. */
typedef int registry_command(const struct args *args, struct err *err);

registry_command cmd_objects;           /* objects.c: capability, agent, env, policy */

/* ---- objects_text.c: for people, on standard output ---- */

/* A list: one line each, in columns; of one NAME its versions, otherwise names. */
void objects_print_page(const struct registry_page *page, bool history);
void objects_print_one(const struct registry_version *v, json_t *content);
int objects_print_diff(json_t *diff, struct err *err);
/* VALUE as canonical JSON, and nothing else. */
int objects_print_canonical(json_t *value, struct err *err);
/* The same on a line; takes it over. */
int objects_print_json(json_t *value, struct err *err);
#endif

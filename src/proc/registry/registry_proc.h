/* registry_proc.h - shared only by the files of cloister-registry. */
#ifndef CLOISTER_REGISTRY_PROC_H
#define CLOISTER_REGISTRY_PROC_H

#include "base/args.h"
#include "registry/registry.h"

/* A command: returns its exit status, or negative with ERR set. */
typedef int registry_command(const struct args *args, struct err *err);

registry_command cmd_objects;           /* objects.c: capability, agent, env, policy */
registry_command cmd_assign;            /* objects.c */
registry_command cmd_doctor;            /* doctor_target.c: `cloister doctor`, with --target or for its line about the store */
registry_command cmd_store;             /* store.c */

/* ---- doctor_store.c ---- */

int doctor_store(struct err *err);

/* ---- objects_text.c: for people, on standard output ---- */

/* Prints a list: one line each, in columns; the versions of one NAME, or else names. */
void objects_print_page(const struct registry_page *page, bool history);
void objects_print_one(const struct registry_version *v, json_t *content);
/* What the service knows of a target; prints nothing if that is nothing. */
void objects_print_status(const json_t *status);
int objects_print_diff(json_t *diff, struct err *err);
/* Prints VALUE as canonical JSON, and nothing else. */
int objects_print_canonical(json_t *value, struct err *err);
/* The same on a line; takes ownership. */
int objects_print_json(json_t *value, struct err *err);
#endif

/* dispatch_proc.h - the parts of cloister-dispatch. */
#ifndef CLOISTER_DISPATCH_PROC_H
#define CLOISTER_DISPATCH_PROC_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/tell.h"
#include "dispatch/dispatch.h"

#define PROC_TIMED_OUT 124
#define PROC_CANCELLED 130
#define PROC_LOOK_MS 2000               /* between a follower's checks for a driver */

struct err;

/* The parsed command line. */
struct said {
	const char *envs[DISPATCH_ENVS_MAX];
	size_t n_envs;
	const char *capabilities[DISPATCH_CAPABILITIES_MAX], *secrets[DISPATCH_SECRETS_MAX];
	size_t n_capabilities, n_secrets;
	const char *image, *record;     /* NULL: not given */
	const char *input, *principal, *target, *key, *state, *to, *parent;
	uint64_t retries, timeout_ms, limit, grace_ms, older_ms, keep;
	bool detach, dry_run, json, follow, errors;
	char **words;                   /* the rest */
	size_t n_words;
};

int proc_failf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A status for the shell: the agent's own if it finished. */
int proc_status(enum dispatch_state state, int exit_code);

/* ---- main.c ---- */

unsigned proc_concurrency(void);
/* In the background: drives ID (NULL: none), and all dispatches without a driver, until they are
 * over.  No registry may be open.  Returns the pid, or negative. */
int proc_drive_behind(const char *id, struct err *err);

/* ---- dispatch_new.c ---- */

int proc_dispatch(const struct said *said);

/* ---- dispatch_look.c ---- */

int proc_list(const struct said *said);
int proc_show(const struct said *said);
int proc_events(const struct said *said);
int proc_output(const struct said *said);
int proc_cancel(const struct said *said);
/* Cancels all: a part of `cloister kill --all`. */
int proc_cancel_all(void);

/* ---- prune.c ---- */

int proc_prune(const struct said *said);

/* ---- worker.c ---- */

struct args;
int proc_worker(const struct args *args);

/* ---- dispatch_files.c ---- */

int proc_files(const struct said *said);

/* ---- dispatch_print.c ---- */

/* Prints the resolution for people: on standard error, or to OUT if it was all they asked for. */
void proc_print_resolved(FILE *out, const json_t *resolved);
/* As canonical JSON, on a line; takes ownership. */
int proc_print_json(json_t *value, struct err *err);
/* Copies all of FD to OUT; an agent's text is made safe for a terminal. */
int proc_copy_out(int fd, FILE *out, struct err *err);
/* Reads the events of a dispatch as they come. */
struct follower {
	int fd;
	char *text;                     /* an incomplete line */
	size_t len, cap;
	bool json, quiet;
	bool over;                      /* dispatch.finished has come, with: */
	int status;
	uint64_t shown[2];              /* bytes of each stream */
	bool cut[2];
	json_t *refused;                /* cell.refused, until it is shown */
};
int proc_follow(struct follower *f, struct err *err);
void proc_follower_free(struct follower *f);    /* for OWN() too */
#endif

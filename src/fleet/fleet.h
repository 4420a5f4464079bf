/* fleet.h - engines on other machines that start workers, and nothing else: the dispatches, their order and their results
 * are the database's.
 *
 * To add an engine:
 *   1. a file fleet_NAME.c with a `const struct fleet fleet_NAME`, declared below; its row in the table of fleet.c
 *   2. its keys in the table of registry/object_target.c
 *   3. docs/targets.md, and a test with the real engine
 * Its functions run in cloister-fleet, which has one target and one question at a time.  open() is called before the
 * process locks itself down: all variables and files are read there, and names of what stays readable are added to
 * `readable`.  After it there are only requests: fleet_http.h.  Answers come from the engine and are hostile: bounds
 * are checked, and no text of it is printed but through fleet_say().
 *
 * An engine knows its workers by two labels, so a service that starts anew finds them, and those of another store are
 * left alone.  Nothing secret is in labels, names or command lines: values of `secrets` are the engine's own.  The token
 * by which a worker joins is good for that worker alone and for a short time, so it may be a plain variable. */
#ifndef CLOISTER_FLEET_H
#define CLOISTER_FLEET_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"

struct err;
struct fleet_http;                      /* fleet_http.h */

#define FLEET_LABEL "io.cloister.fleet" /* the target's tag: hexadecimal digits, of one store's target alone */
#define FLEET_LABEL_TARGET "io.cloister.target"         /* its name, for people */
#define FLEET_TAG_LEN 16
#define FLEET_ID_MAX 512                /* of a worker, as its engine names it, with the NUL */
#define FLEET_WHY_MAX 512               /* a sentence, with the NUL */
#define FLEET_WORDS_MAX 16
#define FLEET_READABLE_MAX 8
#define FLEET_FINDINGS_MAX 16

/* ---- a target: fleet_plan.c ---- */

/* What a registered target says; texts are CONTENT's. */
struct fleet_plan {
	json_t *content;
	const char *name, *engine, *pool;
	const char *image, *service;    /* NULL: none */
	const char *idle;               /* as `cloister worker --idle` takes it */
	const char *boundary;           /* of its workers' cells; NULL: their own default */
	char tag[FLEET_TAG_LEN + 1];
	unsigned min, max, slots;
	char slots_text[12];
	bool once;
	uint64_t cpus, memory;          /* thousandths, bytes; 0: no limit */
	const json_t *env, *secrets;    /* of texts: variables, and names of the engine's secrets for variables */
	const json_t *own;              /* the engine's own member */
};
/* The content of a registered target, which was checked when it was registered.  The caller frees *ret_plan. */
int fleet_plan_read(const char *text, size_t len, const char *tag, struct fleet_plan *ret_plan, struct err *err);
void fleet_plan_free(struct fleet_plan *plan);  /* for OWN() too */

/* The own member's text NAME; NULL if it is missing. */
const char *fleet_own_text(const struct fleet_plan *plan, const char *name);
bool fleet_own_truth(const struct fleet_plan *plan, const char *name);

/* What a worker is to be. */
struct fleet_job {
	char token[600];                /* to join the service with; "": it joins none */
	bool tries;                     /* a probe: it says whether it could work, and exits */
	char name[64];                  /* unique: "cloister-NAME-RANDOM", letters, digits and '-' */
};
/* The arguments of `cloister worker`, which are the container's.  WORDS are borrowed from PLAN; returns their number. */
size_t fleet_job_words(const struct fleet_plan *plan, const struct fleet_job *job, const char *words[FLEET_WORDS_MAX]);
/* The same as a list, which the caller owns; NULL when out of memory. */
json_t *fleet_job_word_list(const struct fleet_plan *plan, const struct fleet_job *job);
/* Its plain variables, as an object of texts that the caller owns; NULL when out of memory. */
json_t *fleet_job_env(const struct fleet_plan *plan, const struct fleet_job *job);

/* ---- an engine ---- */

struct fleet_place {
	const struct fleet_plan *plan;
	struct fleet_http *http;        /* the engine's own file sets it up: fleet_http_to() */
	void *own;                      /* the engine's; close() frees it */
	/* Set by open(): NULL-terminated, absolute, the engine's or of static storage. */
	const char *readable[FLEET_READABLE_MAX + 1];
};

struct fleet_count {
	unsigned alive;                 /* starting or running; those that have ended are removed, or not counted */
	unsigned failed;                /* that have ended with an error since the last count */
	char why[FLEET_WHY_MAX];        /* why the last of these failed, or why those that start do not run; "": none */
};

enum fleet_level { FLEET_GOOD, FLEET_NOTE, FLEET_MISSING };
/* What check() finds: sentences. */
struct fleet_findings {
	struct fleet_finding {
		enum fleet_level level;
		char text[FLEET_WHY_MAX];
	} at[FLEET_FINDINGS_MAX];
	size_t n;
};
void fleet_find(struct fleet_findings *findings, enum fleet_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* How a probe ended. */
struct fleet_outcome {
	bool ended;
	int status;                     /* its exit status; -1: not known */
	char text[FLEET_WHY_MAX];       /* the last line that it printed, or why it did not start; "": not known */
};

struct fleet {
	const char *name;
	/* Reads variables and files, and sets the requests up.  On failure close() is not called. */
	int (*open)(struct fleet_place *place, struct err *err);
	void (*close)(struct fleet_place *place);
	/* Asks the engine whether a worker could be started there.  A failure is a finding too: of the engine itself. */
	int (*check)(struct fleet_place *place, struct fleet_findings *findings, struct err *err);
	/* Starts one worker.  Its labels are set before it exists, so that it is counted whatever happens. */
	int (*start)(struct fleet_place *place, const struct fleet_job *job, char ret_id[FLEET_ID_MAX], struct err *err);
	int (*count)(struct fleet_place *place, struct fleet_count *ret_count, struct err *err);
	int (*look)(struct fleet_place *place, const char *id, struct fleet_outcome *ret_outcome, struct err *err);
	/* Ends the worker, and removes what is left of it.  -ENOENT: there is none. */
	int (*stop)(struct fleet_place *place, const char *id, struct err *err);
};
extern const struct fleet fleet_docker, fleet_swarm, fleet_kubernetes, fleet_ecs;

/* The engine NAME; NULL: this build has none of that name.  Only cloister-fleet links it, and with it libcurl. */
const struct fleet *fleet_engine(const char *name);

/* TEXT of an engine as a part of a sentence: printable ASCII, one line, at most SIZE with its NUL.  Returns TO. */
char *fleet_say(char *to, size_t size, const char *text);
#endif

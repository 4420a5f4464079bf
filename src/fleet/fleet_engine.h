/* fleet_engine.h - the Docker Engine API, for the engines `docker` and `swarm`. */
#ifndef CLOISTER_FLEET_ENGINE_H
#define CLOISTER_FLEET_ENGINE_H
#include "fleet/fleet.h"
#include "fleet/fleet_http.h"

#define ENGINE_USER "10001"             /* of the workers' image */
#define ENGINE_SECRETS "/run/secrets"   /* in a worker's container */
#define ENGINE_PIDS 4096

/* In `own` of the place. */
struct engine {
	unsigned api;                   /* 41 for 1.41; 0: not asked yet */
	char *seccomp;                  /* the profile's text; NULL: the engine's own */
};
int engine_open(struct fleet_place *place, struct err *err);
void engine_close(struct fleet_place *place);

/* Asks for PATH behind the version.  *RET_JSON, which the caller owns, is the answer of a status below 300 (NULL: none);
 * other statuses fail with the engine's message: -ENOENT for 404, -EBUSY for 409. */
int fleet_engine_ask(struct fleet_place *place, const char *method, const char *path, json_t *body, json_t **ret_json,
               struct err *err);
/* "NAME=VALUE" of a worker's variables, with those of secrets in files: a list that the caller owns. */
json_t *engine_env(const struct fleet_plan *plan, const struct fleet_job *job);
/* The labels that a worker is found by; probes have others, so that they are not counted. */
json_t *engine_labels(const struct fleet_plan *plan, bool tries);
/* "?filters=..." for these labels; the caller frees it. */
char *engine_filter(const char *key, const char *name, const char *value);
/* The last line of what a container or service has printed, for people. */
void engine_last_line(struct fleet_place *place, const char *what, const char *id, char ret_text[FLEET_WHY_MAX]);
/* Whether the engine and its rules let a worker's cells run, as far as it says. */
int engine_check(struct fleet_place *place, json_t **ret_info, struct fleet_findings *findings, struct err *err);

/* A text or number of an answer; "" and 0 if it is missing. */
const char *engine_text(const json_t *object, const char *name);
int64_t engine_number(const json_t *object, const char *name);
#endif

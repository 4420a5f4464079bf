/* plan.h - plans: everything that `cloister rebuild` needs to make a running set again, as one signed text.
 *
 * A plan is a DSSE envelope (audit/envelope.h) around canonical JSON, docs/rebuild.md has its members.  It names objects,
 * states, volumes and runs, and everything by its SHA-256.  Contents of files are beside it, in a folder of files that are
 * named by their SHA-256 (plan_files.h).  It has the names of secrets, never their values.
 *
 * A plan may be a stranger's.  The check is strict: an unknown member, a wrong type, a name twice or a value out of bounds
 * is an error.  It knows only the form.  Pure but for memory. */
#ifndef CLOISTER_PLAN_H
#define CLOISTER_PLAN_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/key.h"
#include "canon/hash.h"
#include "registry/registry.h"
#include "state/state.h"
#include "volume/volume.h"

struct buf;
struct err;

#define PLAN_TYPE "application/vnd.cloister.plan+json"
#define PLAN_VERSION 1
#define PLAN_MAX ((size_t)64 << 20)     /* bytes of the JSON */
#define PLAN_ENVELOPE_MAX (2 * PLAN_MAX)
#define PLAN_OBJECTS_MAX 10000
#define PLAN_STATES_MAX 1000
#define PLAN_RUNS_MAX 256
#define PLAN_SECRETS_MAX 10000
#define PLAN_SECRET_MAX 128             /* bytes of a secret's name */
#define PLAN_RUN_NAME_MAX 64
#define PLAN_RESTART_MAX 24

struct plan_object {
	enum registry_kind kind;
	char name[REGISTRY_NAME_MAX + 1];
	const char *hash;               /* "sha256:..." of TEXT */
	const char *text;               /* canonical content */
	bool newest;                    /* the bare name refers to it */
};
struct plan_ref {
	const char *ref;                /* "refs/heads/main" */
	const char *commit;             /* where it was */
	const char *files;              /* the SHA-256 of the listing of its files */
};
struct plan_state {
	const char *name;
	struct state_limits limits;
	struct plan_ref *refs;          /* sorted; one is refs/heads/main */
	size_t n_refs;
};
struct plan_snapshot {
	const char *label, *files;
};
struct plan_volume {
	const char *name, *files;
	uint64_t size, ttl_ms;
	struct plan_snapshot snapshots[VOLUME_SNAPSHOTS_MAX];   /* in the order in which they were made */
	size_t n_snapshots;
};
struct plan_run {
	const char *name;
	const char *restart;            /* the value of --restart; "": without one */
	const char *document;           /* canonical */
	const char *hash;               /* of DOCUMENT */
};
struct plan {
	json_t *root;                   /* has all texts */
	struct plan_object *objects;    /* in the order in which they are to be registered */
	struct plan_state *states;
	struct plan_volume *volumes;
	struct plan_run *runs;
	const char **secrets;
	size_t n_objects, n_states, n_volumes, n_runs, n_secrets;
};
void plan_free(struct plan *plan);      /* for OWN() too */
/* Read the JSON of a plan.  The caller frees *ret_plan. */
int plan_read(const char *text, size_t len, struct plan *ret_plan, struct err *err);
/* The same from its envelope, which KEY must have signed. */
int plan_open(const char *text, size_t len, const unsigned char key[AUDIT_KEY], struct plan *ret_plan, struct err *err);
/* The key that the envelope names: nothing proves it yet. */
bool plan_find_key(const char *text, size_t len, unsigned char ret_key[AUDIT_KEY]);
/* Writes ROOT, which must be a plan, as an envelope. */
int plan_seal(json_t *root, const struct audit_key *key, struct buf *ret_envelope, struct err *err);
#endif

/* operator.h - `cloister operator`: serves the objects of agent-sandbox with sandboxes of the service.
 *
 * A Sandbox is one dispatch, whose idempotency key is the Sandbox' uid.  A SandboxClaim has one Sandbox, of its own name.  A
 * SandboxWarmPool is a reserve of slots.
 * Everything that is known is in the server's objects and in the service, so that an operator that starts anew goes on.
 * What users write into objects is hostile: the id of a dispatch in an annotation counts only if that dispatch has the
 * Sandbox as its principal. */
#ifndef CLOISTER_PROC_FLEET_OPERATOR_H
#define CLOISTER_PROC_FLEET_OPERATOR_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "fleet/kube_watch.h"

#define OP_OBJECTS_MAX 8192             /* of one kind */
#define OP_OBJECT_MAX (16 * 1024)       /* bytes of one, without what nobody here reads */
#define OP_BUCKETS 4096
#define OP_EVENTS_MAX 4096              /* that wait */
#define OP_ID_MAX 32                    /* of a dispatch */
#define OP_UID_MAX 63
#define OP_WHY_MAX 512
#define OP_REPLICAS_MAX 10000           /* of a pool: more slots no service has */
#define OP_POOLS_MAX 32                 /* of a namespace that are kept warm */
#define OP_GHOSTS_MAX 8192
#define OP_POOL_LABEL "cloister.io/warm-pool"   /* no pod has it: autoscalers want a selector */
#define OP_FINALIZER "cloister.io/sandbox"
#define OP_AGENT "cloister.io/agent"    /* annotations: the agent of a template or Sandbox */
#define OP_DISPATCH "cloister.io/dispatch"
#define OP_GROUP "agents.x-k8s.io"
#define OP_EXTENSIONS "extensions.agents.x-k8s.io"
#define OP_VERSION "v1beta1"
#define OP_NEVER UINT64_MAX

enum op_kind { OP_SANDBOX, OP_CLAIM, OP_TEMPLATE, OP_POOL, OP_KINDS };

struct op_object {
	struct op_object *next;
	enum op_kind kind;
	char *key;                      /* "NAMESPACE/NAME" */
	json_t *json;                   /* as the server has it, without spec.podTemplate and what nobody here reads of metadata */
	char *refused;                  /* why its podTemplate asks for more than an agent has; NULL: it does not */
	bool seen;
	uint64_t due_ms;                /* when it is looked at; OP_NEVER: when it changes */
	unsigned failures;
	/* Of a Sandbox: what is known of its dispatch; "": nothing. */
	char id[OP_ID_MAX + 1];
	bool started, over;
	/* Of a SandboxWarmPool: the slots that it has, the generation that was written last, and why it has none. */
	unsigned reserved;
	json_int_t observed;
	char why[OP_WHY_MAX];
};

/* How a dispatch is. */
struct op_dispatch {
	char state[16], reason[256], principal[512];
	int exit_code;
};

struct op {
	struct fleet_http *engine;
	int channel;                    /* to the keeper */
	struct kube kube;
	char scope[96];                 /* "" or "/namespaces/NAME" */
	struct op_kind_state {
		struct op *op;
		enum op_kind kind;
		struct kube_watch watch;
		struct op_object *buckets[OP_BUCKETS];
		size_t n;
		bool too_many;
	} kinds[OP_KINDS];
	/* The Lease. */
	char lease[256], leases[200], me[96], others[160];
	uint64_t seen_ms, renewed_ms, lease_due_ms;
	bool leads;
	/* An object is being looked at: what the server says of objects meanwhile waits. */
	bool looks;
	struct op_event *events, **events_end;
	size_t n_events;
	size_t turn;                    /* where the next round begins: each object gets its turn */
	uint32_t seed;                  /* so that nobody can choose a bucket */
	struct op_ghost *ghosts;
	size_t n_ghosts;
	uint64_t ghosts_due_ms;
};

/* ---- operator_objects.c ---- */

void op_objects_begin(struct op *op);
/* Forgets everything, and follows nothing. */
void op_objects_end(struct op *op);
/* Follows all kinds.  Failures are printed, and tried again. */
void op_objects_tend(struct op *op, uint64_t now_ms);
/* Looks at those that it is time for; returns when the next one is to be looked at. */
uint64_t op_objects_look(struct op *op, uint64_t now_ms);
struct op_object *op_find(struct op *op, enum op_kind kind, const char *namespace, const char *name);
/* The server's answer to a change: OBJECT is borrowed. */
void op_take(struct op *op, enum op_kind kind, json_t *object);
/* The path of O; the caller frees it; NULL when out of memory. */
char *op_path(const struct op *op, enum op_kind kind, const char *namespace, const char *name, const char *sub);
const char *op_annotation(const struct op_object *o, const char *name);
const char *op_meta(const struct op_object *o, const char *name);
bool op_is_deleted(const struct op_object *o);
/* Changes O by a merge patch, unless it has changed since; of its status with SUB "/status". */
int op_patch(struct op *op, struct op_object *o, const char *sub, json_t *patch, struct err *err);
int op_delete(struct op *op, enum op_kind kind, const char *namespace, const char *name, const char *uid, const char *how,
              struct err *err);

/* ---- operator_spec.c: pure ---- */

/* Whether SPEC of a Sandbox or template asks for nothing that the registered AGENT ("": not known) decides about; -EPERM. */
int op_spec_check(const json_t *spec, const char *agent, struct err *err);
/* The time in TEXT, in milliseconds since 1970; 0: it is none. */
uint64_t op_time_parse(const char *text);
void op_time_put(uint64_t ms, bool micro, char ret_text[40]);

/* ---- operator_status.c ---- */

struct op_condition {
	const char *type, *status, *reason, *message;
};
/* O has these conditions from now on; NAME: of its Sandbox, for a claim.  -EEXIST: O has changed meanwhile. */
int op_set_status(struct op *op, struct op_object *o, const struct op_condition *conditions, size_t n, const char *sandbox,
                  struct err *err);

/* ---- operator_service.c ---- */

/* Makes the dispatch of a Sandbox, or finds it; -EINVAL and others: the service refuses, as ERR says. */
int op_service_dispatch(struct op *op, const char *agent, const char *uid, const char *principal, char ret_id[OP_ID_MAX + 1],
                        struct err *err);
/* -ENOENT: there is none. */
int op_service_look(struct op *op, const char *id, struct op_dispatch *ret_dispatch, struct err *err);
int op_service_has_started(struct op *op, const char *id, bool *ret_has, struct err *err);
int op_service_cancel(struct op *op, const char *id, struct err *err);
/* Reserves SLOTS for AGENT, for a minute; 0 releases them, and AGENT may be NULL.  *RET_READY of *RET_SLOTS can be used now. */
int op_service_reserve(struct op *op, const char *agent, const char *uid, unsigned slots, unsigned *ret_slots, unsigned *ret_ready,
                       struct err *err);

/* ---- operator_ghost.c ---- */

/* O goes, or has gone, without the operator's doing: what the service has of it will go, too. */
void op_ghost_add(struct op *op, const struct op_object *o);
void op_ghosts_tend(struct op *op, uint64_t now_ms, uint64_t until_ms);
void op_ghosts_forget(struct op *op);

/* ---- one object: they set when it is looked at again ---- */

int op_sandbox_look(struct op *op, struct op_object *o, uint64_t now_ms, struct err *err);
int op_claim_look(struct op *op, struct op_object *o, uint64_t now_ms, struct err *err);
int op_pool_look(struct op *op, struct op_object *o, uint64_t now_ms, struct err *err);

/* ---- operator_lease.c ---- */

int op_lease_begin(struct op *op, struct err *err);
/* Takes or renews the Lease, if it is time; sets op->leads. */
void op_lease_tend(struct op *op, uint64_t now_ms);
void op_lease_release(struct op *op);

/* ---- operator.c ---- */

/* A connection to the service, which the caller closes. */
int operator_dial(int channel);

/* `cloister operator`, with its ARGV. */
int operator_run(int argc, char **argv);
#endif

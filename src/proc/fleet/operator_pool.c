/* operator_pool.c - see operator.h: a SandboxWarmPool, which is a reserve of slots at the service.
 *
 * The service drops a reserve that nobody renews, so nothing has to be undone after an operator that was killed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "fleet/fleet.h"
#include "proc/fleet/operator.h"

#define READY_MS 10000                  /* how often a pool is looked at that has what it wants: a reserve lasts a minute */
#define BEGINS_MS 2000                  /* and one that has not */

/* How many replicas O wants; one if it does not say so. */
static unsigned
wanted(const struct op_object *o)
{
	const json_t *said = kube_at(o->json, "spec", "replicas", NULL);
	json_int_t n = json_is_integer(said) ? json_integer_value(said) : 1;

	return n < 0 ? 0 : n > OP_REPLICAS_MAX ? OP_REPLICAS_MAX : (unsigned)n;
}

/* Whether its namespace has as many others with a reserve as it may: the service has few for all. */
static bool
are_too_many(const struct op *op, const struct op_object *o)
{
	const size_t len = strcspn(o->key, "/") + 1;
	size_t n = 0;

	for (size_t i = 0; i < OP_BUCKETS; i++)
		for (const struct op_object *other = op->kinds[OP_POOL].buckets[i]; other != NULL; other = other->next)
			n += other != o && other->reserved > 0 && strncmp(other->key, o->key, len) == 0;
	return n >= OP_POOLS_MAX;
}

/* The agent of its template; -EPERM: it is for none. */
static int
find_agent(struct op *op, const struct op_object *o, const char **ret_agent, struct err *err)
{
	const char *name = kube_text(o->json, "spec", "sandboxTemplateRef", "name");
	const struct op_object *template = op_find(op, OP_TEMPLATE, op_meta(o, "namespace"), name);
	char text[64];

	if (template == NULL)
		return err_set(err, EPERM, "there is no SandboxTemplate '%s'", fleet_say(text, sizeof(text), name));
	if (template->refused != NULL)
		return err_set(err, EPERM, "its template: %s", template->refused);
	*ret_agent = op_annotation(template, OP_AGENT);
	if (**ret_agent == '\0')
		return err_set(err, EPERM, "the annotation '" OP_AGENT "' of the template names a registered agent, and is missing");
	if (o->reserved == 0 && are_too_many(op, o))
		return err_set(err, EPERM, "%d other pools of its namespace are kept warm, which is the maximum", OP_POOLS_MAX);
	return 0;
}

/* A SandboxWarmPool has no conditions, so this is for whoever runs the operator: once. */
static void
say(struct op_object *o, const char *why)
{
	if (strncmp(o->why, why, OP_WHY_MAX - 1) == 0)
		return;
	snprintf(o->why, sizeof(o->why), "%.*s", OP_WHY_MAX - 1, why);
	if (*why != '\0')
		fprintf(stderr, "cloister: SandboxWarmPool %s is not kept warm: %s\n", o->key, why);
}

static json_int_t
number_of(const struct op_object *o, const char *name)
{
	return json_integer_value(kube_at(o->json, "status", name, NULL));
}

/* A server with an older definition does not keep the generation: it is not written again and again. */
static int
put_status(struct op *op, struct op_object *o, unsigned slots, unsigned ready, struct err *err)
{
	json_int_t generation = json_integer_value(kube_at(o->json, "metadata", "generation", NULL));
	OWN(freep) char *selector = str_format(OP_POOL_LABEL "=%s", op_meta(o, "uid"));
	OWN(json_decrefp) json_t *patch = NULL;

	if (selector == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (number_of(o, "replicas") == slots && number_of(o, "readyReplicas") == ready &&
	    strcmp(kube_text(o->json, "status", "selector", NULL), selector) == 0 &&
	    (number_of(o, "observedGeneration") == generation || o->observed == generation))
		return 0;
	patch = json_pack("{s:{s:i, s:i, s:s, s:I}}", "status", "replicas", (int)slots, "readyReplicas", (int)ready, "selector", selector,
	                  "observedGeneration", generation);
	if (patch == NULL)
		return err_set(err, ENOMEM, "out of memory");
	o->observed = generation;
	return op_patch(op, o, "/status", patch, err);
}

int
op_pool_look(struct op *op, struct op_object *o, uint64_t now_ms, struct err *err)
{
	unsigned want = op_is_deleted(o) ? 0 : wanted(o), slots = 0, ready = 0;
	const char *agent = NULL;
	struct err why = {0};
	int r = want > 0 ? find_agent(op, o, &agent, &why) : 0;

	if (r < 0)
		want = 0;
	if (want > 0 || o->reserved > 0)
		r = op_service_reserve(op, agent, op_meta(o, "uid"), want, &slots, &ready, r < 0 ? NULL : &why) < 0 ? -EAGAIN : r;
	/* Without an answer it may be there until it is over. */
	o->reserved = r == -EAGAIN && o->reserved > 0 ? o->reserved : slots;
	say(o, why.text);
	o->due_ms = want == 0 && r == 0 ? OP_NEVER : now_ms + (ready == want ? READY_MS : BEGINS_MS);
	return op_is_deleted(o) ? 0 : put_status(op, o, slots, ready, err);
}

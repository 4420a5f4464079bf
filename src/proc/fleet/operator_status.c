/* operator_status.c - see operator.h: conditions, as upstream's controller sets them. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/fleet/operator.h"

static bool
is_same(const json_t *has, const struct op_condition *c, json_int_t generation)
{
	return has != NULL && strcmp(kube_text(has, "status", NULL, NULL), c->status) == 0 &&
	       strcmp(kube_text(has, "reason", NULL, NULL), c->reason) == 0 &&
	       strcmp(kube_text(has, "message", NULL, NULL), c->message) == 0 &&
	       json_integer_value(json_object_get(has, "observedGeneration")) == generation;
}

static json_t *
make(const json_t *has, const struct op_condition *c, json_int_t generation)
{
	const char *since = kube_text(has, "lastTransitionTime", NULL, NULL);
	char now[40];

	op_time_put((uint64_t)time(NULL) * 1000, false, now);
	if (*since == '\0' || strcmp(kube_text(has, "status", NULL, NULL), c->status) != 0)
		since = now;
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I}", "type", c->type, "status", c->status, "reason", c->reason, "message",
	                 c->message, "lastTransitionTime", since, "observedGeneration", generation);
}

int
op_set_status(struct op *op, struct op_object *o, const struct op_condition *conditions, size_t n, const char *sandbox,
              struct err *err)
{
	const json_t *list = kube_at(o->json, "status", "conditions", NULL);
	json_int_t generation = json_integer_value(kube_at(o->json, "metadata", "generation", NULL));
	bool same = json_array_size(list) == n &&
	            (sandbox == NULL || strcmp(kube_text(o->json, "status", "sandbox", "name"), sandbox) == 0);
	OWN(json_decrefp) json_t *made = json_array(), *patch = NULL;

	for (size_t i = 0; i < n; i++) {
		const json_t *has = kube_condition(o->json, conditions[i].type);

		same = same && is_same(has, &conditions[i], generation);
		json_array_append_new(made, make(has, &conditions[i], generation));
	}
	if (same)
		return 0;
	patch = json_pack("{s:{s:O}}", "status", "conditions", made);
	if (patch == NULL || json_array_size(made) != n)
		return err_set(err, ENOMEM, "out of memory");
	if (sandbox != NULL)
		json_object_set_new(json_object_get(patch, "status"), "sandbox", json_pack("{s:s}", "name", sandbox));
	return op_patch(op, o, "/status", patch, err);
}

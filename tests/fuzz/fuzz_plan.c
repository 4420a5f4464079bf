/* fuzz_plan.c - bytes that may be a plan: what is read has names that lead nowhere else, and nobody's signature opens one. */
#include <assert.h>
#include <string.h>

#include "audit/envelope.h"
#include "base/buf.h"
#include "base/err.h"
#include "fuzz.h"
#include "plan/plan.h"

static void
check(const struct plan *plan)
{
	for (size_t i = 0; i < plan->n_objects; i++)
		assert(registry_name_ok(plan->objects[i].name) && plan->objects[i].kind < REGISTRY_KINDS);
	for (size_t i = 0; i < plan->n_states; i++) {
		assert(state_is_name(plan->states[i].name));
		for (size_t k = 0; k < plan->states[i].n_refs; k++)
			assert(strlen(plan->states[i].refs[k].files) == STATE_SUM && strchr(plan->states[i].refs[k].files, '/') == NULL);
	}
	for (size_t i = 0; i < plan->n_volumes; i++) {
		assert(volume_name_ok(plan->volumes[i].name) && strlen(plan->volumes[i].files) == HASH_HEX);
		assert(i == 0 || strcmp(plan->volumes[i - 1].name, plan->volumes[i].name) < 0);
	}
	for (size_t i = 0; i < plan->n_runs; i++)
		assert(plan->runs[i].name[0] != '-' && strchr(plan->runs[i].name, '/') == NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned char seed[AUDIT_KEY] = "a key that has signed one thing";
	OWN(plan_free) struct plan plan = {0}, again = {0};
	OWN(buf_free) struct buf b = BUF(PLAN_ENVELOPE_MAX);
	struct audit_key key;
	struct err err = {0};
	int r = plan_read((const char *)data, size, &plan, &err);

	assert((r == 0) == (err.text[0] == '\0') && r == -err.code);
	audit_key_from_seed(seed, &key);
	assert(plan_open((const char *)data, size, key.public, &again, NULL) < 0);
	if (r < 0)
		return 0;
	check(&plan);
	audit_envelope_put(&b, PLAN_TYPE, data, size, &key);
	assert(plan_open((const char *)b.data, b.len, key.public, &again, NULL) == 0);
	assert(again.n_objects == plan.n_objects && again.n_states == plan.n_states);
	return 0;
}

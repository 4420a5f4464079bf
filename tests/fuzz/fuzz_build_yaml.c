/* fuzz_build_yaml.c - builds as YAML: each word of a plan means itself. */
#include <assert.h>
#include <errno.h>

#include "base/err.h"
#include "fuzz.h"
#include "image/build_plan.h"
#include "image/build_words.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(build_plan_freep) struct build_plan *plan = NULL;
	OWN(build_vars_free) struct build_vars vars = {0};
	struct err err = {0};
	int r = build_plan_yaml("fuzz", (const char *)data, size, &plan, &err);

	assert((r == 0) == (err.text[0] == '\0') && r == -err.code);
	if (r < 0)
		return 0;
	assert(plan->n_stages == 1);
	for (size_t i = 0; i < plan->stages[0].n_steps; i++) {
		const struct build_step *step = &plan->stages[0].steps[i];

		if (step->kind != BUILD_ENV && step->kind != BUILD_LABEL)
			continue;
		assert(step->n_words % 2 == 0);
		for (size_t w = 0; w < step->n_words; w++) {
			OWN(freep) char *text = NULL;

			r = build_word_expand(step->words[w], plan->escape, &vars, NULL, &text, &err);
			assert(r == 0 || r == -E2BIG);
		}
	}
	return 0;
}

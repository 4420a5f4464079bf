/* fuzz_dockerfile.c - Dockerfiles: what parses is bounded, and its words can be replaced or refused. */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "fuzz.h"
#include "image/build_plan.h"
#include "image/build_words.h"

static void
expand(const struct build_plan *plan, const struct build_step *step)
{
	OWN(build_vars_free) struct build_vars vars = {0};

	(void)build_vars_set(&vars, "A", "a value");
	for (size_t i = 0; i < step->n_words; i++) {
		OWN(freep) char *text = NULL;
		struct err err = {0};
		int r = build_word_expand(step->words[i], plan->escape, &vars, NULL, &text, &err);

		assert((r == 0) == (err.text[0] == '\0') && r == -err.code);
		assert(r < 0 || strlen(text) < BUILD_TEXT_MAX);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(build_plan_freep) struct build_plan *plan = NULL;
	struct err err = {0};
	int r = build_plan_dockerfile("fuzz", (const char *)data, size, &plan, &err);

	assert((r == 0) == (err.text[0] == '\0') && r == -err.code);
	if (r < 0)
		return 0;
	assert(plan->n_stages > 0 && plan->n_stages <= BUILD_STAGES_MAX);
	for (size_t i = 0; i < plan->n_globals; i++)
		assert(plan->globals[i].kind == BUILD_ARG);
	for (size_t i = 0; i < plan->n_stages; i++)
		for (size_t n = 0; n < plan->stages[i].n_steps; n++)
			expand(plan, &plan->stages[i].steps[n]);
	return 0;
}

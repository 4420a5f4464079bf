/* build_plan.c - see build_plan.h. */
#include "image/build_plan.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"

const char *const build_kind_names[] = {
	[BUILD_ADD] = "ADD", [BUILD_ARG] = "ARG", [BUILD_CMD] = "CMD", [BUILD_COPY] = "COPY",
	[BUILD_ENTRYPOINT] = "ENTRYPOINT", [BUILD_ENV] = "ENV", [BUILD_EXPOSE] = "EXPOSE", [BUILD_LABEL] = "LABEL",
	[BUILD_RUN] = "RUN", [BUILD_USER] = "USER", [BUILD_WORKDIR] = "WORKDIR",
	NULL
};

static void
step_free(struct build_step *step)
{
	for (size_t i = 0; i < step->n_words; i++)
		free(step->words[i]);
	free(step->words);
	free(step->text);
	free(step->from);
	free(step->chown);
	free(step->chmod);
}

static void
steps_free(struct build_step *steps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		step_free(&steps[i]);
	free(steps);
}

void
build_plan_free(struct build_plan *plan)
{
	if (plan == NULL)
		return;
	for (size_t i = 0; i < plan->n_stages; i++) {
		steps_free(plan->stages[i].steps, plan->stages[i].n_steps);
		free(plan->stages[i].base);
		free(plan->stages[i].name);
		free(plan->stages[i].platform);
	}
	free(plan->stages);
	steps_free(plan->globals, plan->n_globals);
	free(plan);
}

static size_t
count_steps(const struct build_plan *plan)
{
	size_t n = plan->n_globals;

	for (size_t i = 0; i < plan->n_stages; i++)
		n += plan->stages[i].n_steps;
	return n;
}

struct build_stage *
build_plan_add_stage(struct build_plan *plan, unsigned line, const char *base)
{
	struct build_stage *more;

	if (plan->n_stages >= BUILD_STAGES_MAX)
		return NULL;
	more = reallocarray(plan->stages, plan->n_stages + 1, sizeof(*more));
	if (more == NULL)
		return NULL;
	plan->stages = more;
	more[plan->n_stages] = (struct build_stage){ .line = line, .base = strdup(base) };
	if (more[plan->n_stages].base == NULL)
		return NULL;
	return &more[plan->n_stages++];
}

struct build_step *
build_plan_add_step(struct build_plan *plan, struct build_stage *stage, enum build_kind kind, unsigned line,
                    const char *text)
{
	struct build_step **list = stage == NULL ? &plan->globals : &stage->steps, *more;
	size_t *n = stage == NULL ? &plan->n_globals : &stage->n_steps;

	if (count_steps(plan) >= BUILD_STEPS_MAX)
		return NULL;
	more = reallocarray(*list, *n + 1, sizeof(*more));
	if (more == NULL)
		return NULL;
	*list = more;
	more[*n] = (struct build_step){ .kind = kind, .line = line, .text = strdup(text) };
	if (more[*n].text == NULL)
		return NULL;
	return &more[(*n)++];
}

bool
build_step_add_word(struct build_step *step, const char *word, size_t len)
{
	char **more = step->n_words >= BUILD_WORDS_MAX ? NULL :
	              reallocarray(step->words, step->n_words + 1, sizeof(*more));

	if (more == NULL)
		return false;
	step->words = more;
	more[step->n_words] = strndup(word, len);
	if (more[step->n_words] == NULL)
		return false;
	step->n_words++;
	return true;
}

int
build_plan_find(const struct build_plan *plan, const char *word, size_t n)
{
	uint64_t number;

	/* A later stage hides an earlier one of the same name. */
	for (size_t i = n; i-- > 0;)
		if (plan->stages[i].name != NULL && strcasecmp(plan->stages[i].name, word) == 0)
			return (int)i;
	if (n > 0 && num_parse_count(word, 0, n - 1, &number, NULL) == 0)
		return (int)number;
	return -1;
}

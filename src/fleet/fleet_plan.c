/* fleet_plan.c - what a registered target says, and what its workers are told: without any engine. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "fleet/fleet.h"
#include "fleet/fleet_worker.h"
#include "policy/policy_boundary.h"

/* ---- a target ---- */

static const char *
text_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static unsigned
count_of(const json_t *object, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(object, name));

	return n > 0 && n < UINT16_MAX ? (unsigned)n : 0;
}

/* Where nothing can have namespaces. */
static bool
is_fargate(const struct fleet_plan *p)
{
	const char *type = text_of(p->own, "launchType");

	return strcmp(p->engine, "ecs") == 0 && (type == NULL || strcmp(type, "FARGATE") == 0);
}

int
fleet_plan_read(const char *text, size_t len, const char *tag, struct fleet_plan *ret_plan, struct err *err)
{
	OWN(fleet_plan_free) struct fleet_plan p = { .content = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL) };
	const json_t *workers = json_object_get(p.content, "workers");
	const char *cpus = text_of(p.content, "cpus"), *memory = text_of(p.content, "memory");

	p.name = text_of(p.content, "name");
	p.engine = text_of(p.content, "engine");
	p.pool = text_of(p.content, "pool");
	p.image = text_of(p.content, "image");
	p.service = text_of(p.content, "service");
	p.idle = text_of(p.content, "idle");
	p.min = count_of(workers, "min");
	p.max = count_of(workers, "max");
	p.slots = count_of(p.content, "slots");
	snprintf(p.slots_text, sizeof(p.slots_text), "%u", p.slots);
	p.once = json_is_true(json_object_get(p.content, "once"));
	p.env = json_object_get(p.content, "env");
	p.secrets = json_object_get(p.content, "secrets");
	if (p.name == NULL || p.engine == NULL || p.pool == NULL || p.idle == NULL || p.max == 0 || p.slots == 0 ||
	    strlen(tag) != FLEET_TAG_LEN || (cpus != NULL && num_parse_milli(cpus, &p.cpus, NULL) < 0) ||
	    (memory != NULL && num_parse_size(memory, &p.memory, NULL) < 0))
		return err_set(err, EINVAL, "this is no target");
	snprintf(p.tag, sizeof(p.tag), "%s", tag);
	p.own = json_object_get(p.content, p.engine);
	p.boundary = text_of(p.content, "boundary");
	if (p.boundary == NULL && is_fargate(&p))
		p.boundary = BOUNDARY_PROCESS;
	*ret_plan = p;
	p.content = NULL;
	return 0;
}

void
fleet_plan_free(struct fleet_plan *plan)
{
	json_decref(plan->content);
	plan->content = NULL;
}

const char *
fleet_own_text(const struct fleet_plan *plan, const char *name)
{
	return text_of(plan->own, name);
}

bool
fleet_own_truth(const struct fleet_plan *plan, const char *name)
{
	return json_is_true(json_object_get(plan->own, name));
}

size_t
fleet_job_words(const struct fleet_plan *plan, const struct fleet_job *job, const char *words[FLEET_WORDS_MAX])
{
	size_t n = 0;

	words[n++] = "--pool";
	words[n++] = plan->pool;
	if (plan->boundary != NULL) {
		words[n++] = "--boundary";
		words[n++] = plan->boundary;
	}
	if (job->tries) {
		words[n++] = "--try";
		return n;
	}
	words[n++] = "--idle";
	words[n++] = plan->idle;
	if (plan->once) {
		words[n++] = "--once";
	} else {
		words[n++] = "--slots";
		words[n++] = plan->slots_text;
	}
	return n;
}

json_t *
fleet_job_word_list(const struct fleet_plan *plan, const struct fleet_job *job)
{
	const char *words[FLEET_WORDS_MAX];
	size_t n = fleet_job_words(plan, job, words);
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(list, json_string(words[i]));
	return list;
}

json_t *
fleet_job_env(const struct fleet_plan *plan, const struct fleet_job *job)
{
	json_t *env = plan->env != NULL ? json_copy((json_t *)(uintptr_t)plan->env) : json_object();

	if (env != NULL && *job->token != '\0' && json_object_set_new(env, FLEET_JOIN, json_string(job->token)) < 0) {
		json_decref(env);
		return NULL;
	}
	return env;
}

/* ---- sentences ---- */

char *
fleet_say(char *to, size_t size, const char *text)
{
	size_t n = 0;

	for (; *text != '\0' && n + 1 < size; text++) {
		bool plain = *text > ' ' && *text <= '~';

		/* One blank for each run of others. */
		if (plain || (n > 0 && to[n - 1] != ' '))
			to[n++] = plain ? *text : ' ';
	}
	while (n > 0 && to[n - 1] == ' ')
		n--;
	to[n] = '\0';
	return to;
}

void
fleet_find(struct fleet_findings *f, enum fleet_level level, const char *fmt, ...)
{
	va_list ap;

	if (f->n == FLEET_FINDINGS_MAX)
		return;
	f->at[f->n].level = level;
	va_start(ap, fmt);
	(void)vsnprintf(f->at[f->n].text, sizeof(f->at[f->n].text), fmt, ap);
	va_end(ap);
	f->n++;
}

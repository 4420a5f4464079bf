/* findings.c - see findings.h. */
#include "boundary/findings.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "boundary/place.h"

struct finding *
findings_add(struct findings *f, const char *name, enum finding_state state, const char *fmt, ...)
{
	struct finding *finding = &f->at[f->n];
	va_list args;

	assert(f->n < FINDINGS_MAX);
	f->n++;
	*finding = (struct finding){ .name = name, .state = state };
	va_start(args, fmt);
	vsnprintf(finding->found, sizeof(finding->found), fmt, args);
	va_end(args);
	return finding;
}

void
findings_advise(struct finding *finding, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(finding->todo, sizeof(finding->todo), fmt, args);
	va_end(args);
}

const struct finding *
findings_obstacle(const struct findings *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->at[i].needed && f->at[i].state == FINDING_MISSING)
			return &f->at[i];
	return NULL;
}

const char *
findings_container_advice(const char *otherwise)
{
	struct place_signs signs;
	const struct place *place;

	place_look(&signs);
	place = place_recognise(&signs);
	return place != NULL && place->is_container ? place->fix : otherwise;
}

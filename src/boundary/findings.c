/* findings.c - see findings.h. */
#include "boundary/findings.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
	/* Files of Podman and Docker, and the variable that systemd asks containers to set. */
	if (access("/run/.containerenv", F_OK) != 0 && access("/.dockerenv", F_OK) != 0 &&
	    getenv("container") == NULL)
		return otherwise;
	return "start this container with `--security-opt seccomp=unconfined --security-opt unmask=ALL` "
	       "(Podman) or `--security-opt seccomp=unconfined --security-opt systempaths=unconfined` (Docker)";
}

/* run_boundary.c - --boundary: which boundary a cell gets on this machine. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "cli/run.h"
#include "policy/policy.h"

int
run_set_boundary(struct run *run, const char *text, const char *by, struct err *err)
{
	run->boundary_by = by;
	return policy_boundary_parse(text, &run->boundary, err);
}

static int
note_weaker(struct run *run, const char *name, const struct err *why, struct err *err)
{
	if (!run->spec.quiet && isatty(STDERR_FILENO))
		fprintf(stderr, "cloister: the cell has the boundary '%s': %s\n", name, why->text);
	run->spec.weaker = strdup(why->text);
	return run->spec.weaker == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

int
run_finish_boundary(struct run *run, struct err *err)
{
	const char *name;
	struct err why = {0};
	int r;

	/* A document may be for another machine. */
	if (run->print_doc)
		return policy_boundary_check(&run->boundary, run->boundary_by, &run->demanded, err);
	if (run->boundary.is_set && !run->boundary.strongest &&
	    strcmp(policy_boundary_names[run->boundary.least], BOUNDARY_OCI) == 0 && run_runtime_is_sandbox(run))
		(void)policy_boundary_parse(BOUNDARY_GVISOR, &run->boundary, NULL);
	r = policy_boundary_resolve(&run->boundary, run->boundary_by, &run->demanded, run_can_vm, run, &name, &why);
	if (r < 0) {
		*err = why;
		return r;
	}
	if (strcmp(name, BOUNDARY_DEFAULT) != 0)
		snprintf(run->spec.boundary, sizeof(run->spec.boundary), "%s", name);
	if (r > 0)
		r = note_weaker(run, name, &why, err);
	return r < 0 ? r : run_finish_runtime(run, err);
}

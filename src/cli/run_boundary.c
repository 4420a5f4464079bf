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
	struct policy_boundary b;
	int r = policy_boundary_parse(text, &b, err);

	if (r < 0)
		return r;
	memcpy(b.runtime, run->boundary.runtime, sizeof(b.runtime));
	run->boundary = b;
	run->boundary_by = by;
	return 0;
}

static int
note_weaker(struct run *run, const char *name, const struct err *why, struct err *err)
{
	if (!run->spec.quiet && isatty(STDERR_FILENO))
		fprintf(stderr, "cloister: the cell has the boundary '%s': %s\n", name, why->text);
	run->spec.weaker = strdup(why->text);
	return run->spec.weaker == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

/* Before the boundaries are compared, so that the error names the option that asks for the runtime. */
static int
check_runtime(const struct run *run, struct err *err)
{
	const char *runtime;

	return run->boundary.least != run->demanded.least ? 0 :
	       policy_boundary_runtime(&run->boundary, run->runtime_by, &run->demanded,
	                               policy_boundary_names[run->demanded.least], &runtime, err);
}

int
run_finish_boundary(struct run *run, struct err *err)
{
	const char *name, *runtime;
	struct err why = {0};
	int r;

	/* A document may be for another machine. */
	if (run->print_doc && !policy_boundary_has_runtime(&run->boundary) && (r = run_refuse_runtime(run, err)) < 0)
		return r;
	if (run->print_doc)
		return policy_boundary_check(&run->boundary, run->boundary_by, &run->demanded, err);
	if (run->boundary.is_set && !run->boundary.strongest &&
	    strcmp(policy_boundary_names[run->boundary.least], BOUNDARY_OCI) == 0 && run_runtime_is_sandbox(run))
		(void)run_set_boundary(run, BOUNDARY_GVISOR, run->boundary_by, NULL);
	r = check_runtime(run, &why);
	if (r == 0)
		r = policy_boundary_resolve(&run->boundary, run->boundary_by, &run->demanded, run_can_vm, run, &name,
		                            &why);
	if (r < 0) {
		*err = why;
		return r;
	}
	if (strcmp(name, BOUNDARY_DEFAULT) != 0)
		snprintf(run->spec.boundary, sizeof(run->spec.boundary), "%s", name);
	if (r > 0)
		r = note_weaker(run, name, &why, err);
	r = r < 0 ? r : policy_boundary_runtime(&run->boundary, run->runtime_by, &run->demanded, name, &runtime, err);
	return r < 0 ? r : run_finish_runtime(run, runtime, err);
}

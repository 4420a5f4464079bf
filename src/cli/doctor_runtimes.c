/* doctor_runtimes.c - which OCI runtimes are installed, and which of them can carry a cell. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "boundary/findings.h"
#include "cell/cell_try.h"
#include "cli/doctor.h"
#include "cli/run.h"

void
doctor_runtimes(struct findings *f)
{
	char path[PATH_MAX], version[RUN_VERSION_MAX], why[CELL_TRY_WHY_MAX];
	bool any = false;

	for (size_t i = 0; run_runtimes[i] != NULL; i++) {
		if (!run_find_runtime(run_runtimes[i], path))
			continue;
		any = true;
		run_ask_version(path, version);
		if (version[0] == '\0')
			snprintf(version, sizeof(version), "%.100s", path);
		if (cell_try(run_runtimes[i], why) == 0)
			findings_add(f, run_runtimes[i], FINDING_OK, "%s carries a cell, for --boundary %s", version,
			             strcmp(run_runtimes[i], "runsc") == 0 ? "gvisor" : "oci");
		else
			findings_add(f, run_runtimes[i], FINDING_LIMITED, "%s cannot carry a cell: %.300s", version, why);
	}
	if (!any)
		findings_advise(findings_add(f, "OCI runtimes", FINDING_MISSING, "none is installed"),
		                "install crun, runc or runsc for --boundary oci");
}

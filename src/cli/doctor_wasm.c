/* doctor_wasm.c - whether the engine for WASI modules is installed. */
#include "base/own.h"
#include "base/spawn.h"
#include "boundary/findings.h"
#include "cli/doctor.h"

void
doctor_wasm(struct findings *f)
{
	int status = spawn_run(&(struct spawn){ .argv = (char *[]){ (char[]){ "cloister-wasm" }, (char[]){ "--check" }, NULL },
		.n_fds = 2, .fds = (struct spawn_fd[]){ { SPAWN_NULL, STDOUT_FILENO }, { SPAWN_NULL, STDERR_FILENO } },
		.flags = SPAWN_DIES }, NULL);

	if (status == 0)
		findings_add(f, "wasm", FINDING_OK, "the engine for WASI modules as tools is installed");
	else
		findings_advise(findings_add(f, "wasm", FINDING_MISSING, "the engine for WASI modules as tools is not installed"),
		                "install libjavascriptcoregtk-4.1-0, if you use them");
}

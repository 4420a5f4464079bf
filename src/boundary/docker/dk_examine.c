/* dk_examine.c - the container engine of this machine, for `cloister doctor`. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/docker/dk.h"
#include "boundary/findings.h"

int
dk_able(bool emulated, struct err *err)
{
	OWN(freep) char *socket = NULL;
	int r = engine_find(&socket, err);

	(void)emulated;
	return r < 0 ? r : engine_check_owner(socket, err);
}

void
dk_examine(struct findings *f)
{
	static const char what[] = "container engine";
	OWN(freep) char *socket = NULL;
	struct engine_about about;
	struct err err = {0};

	if (engine_find(&socket, &err) < 0 || engine_check_owner(socket, &err) < 0 ||
	    engine_describe(socket, &about, &err) < 0)
		findings_advise(findings_add(f, what, FINDING_MISSING, "%s", err.text), "only --boundary docker needs one");
	else
		findings_add(f, what, FINDING_OK, "%s %s%s at %s, for --boundary docker", about.name, about.version,
		             about.rootless ? ", rootless," : "", socket);
}

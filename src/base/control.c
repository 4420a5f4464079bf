/* control.c - the mutant build's switches; see control.h. */
#include "base/control.h"

#ifdef CLOISTER_MUTANT
#include <stdlib.h>
#include <string.h>

int
control_is_on(const char *name)
{
	const char *off = getenv("CLOISTER_OFF");
	size_t len = strlen(name);

	while (off != NULL && *off != '\0') {
		if (strncmp(off, name, len) == 0 && (off[len] == ',' || off[len] == '\0'))
			return 0;
		off = strchr(off, ',');
		if (off != NULL)
			off++;
	}
	return 1;
}
#else
/* ISO C requires a translation unit to hold something. */
extern int control_always_on;
#endif

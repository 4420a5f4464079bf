/* profile_files.c - the profiles that come with cloister: share/profiles, included at build time. */
#include <stdio.h>
#include <string.h>

#include "profile/profile.h"
#include "profile_files.h"

const struct profile_file *
profile_find_file(const char *name)
{
	char file[PROFILE_NAME_MAX + sizeof(".yaml")];

	if (!profile_name_ok(name))
		return NULL;
	snprintf(file, sizeof(file), "%s.yaml", name);
	for (const struct profile_file *f = profile_files; f->file != NULL; f++)
		if (strcmp(f->file, file) == 0)
			return f;
	return NULL;
}

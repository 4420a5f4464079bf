/* profile_trust.c - which projects' profiles a person has accepted. */
#include "cli/accepted.h"
#include "cli/profile.h"

bool
profile_cli_is_trusted(const struct profile_found *f)
{
	return f->origin != PROFILE_PROJECT || accepted_has(f->hash);
}

int
profile_cli_trust(const struct profile_found *f, struct err *err)
{
	return accepted_add(f->hash, f->name, "profile.trusted", "profile", err);
}

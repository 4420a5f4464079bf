/* trust_own.c - finds cloister's own folders. */
#include <stdlib.h>
#include <string.h>

#include "base/data.h"
#include "base/own.h"
#include "base/tree.h"
#include "trust/trust.h"

void
trust_own_free(struct trust_own *own)
{
	for (size_t i = 0; i < TRUST_OWN; i++)
		free(TAKE(own->at[i]));
}

void
trust_own_find(struct trust_own *ret_own)
{
	OWN(freep) char *runtime = data_runtime_path(NULL), *data = data_top(NULL);
	OWN(freep) char *state = data_state_path(NULL);

	ret_own->at[0] = runtime == NULL ? NULL : realpath(runtime, NULL);
	ret_own->at[1] = data == NULL ? NULL : realpath(data, NULL);
	ret_own->at[2] = state == NULL ? NULL : realpath(state, NULL);
}

/* What agents keep between runs is theirs. */
static bool
is_agents(const struct trust_own *own, const char *path)
{
	return own->at[1] != NULL && tree_is_beneath(path, own->at[1]) &&
	       tree_is_beneath(path + strlen(own->at[1]), "/" DATA_HOMES);
}

bool
trust_own_covers(const struct trust_own *own, const char *path)
{
	if (is_agents(own, path))
		return false;
	for (size_t i = 0; i < TRUST_OWN; i++)
		if (own->at[i] != NULL && tree_is_beneath(path, own->at[i]))
			return true;
	return false;
}

bool
trust_own_is_in(const struct trust_own *own, const char *path)
{
	for (size_t i = 0; i < TRUST_OWN; i++)
		if (own->at[i] != NULL && tree_is_beneath(own->at[i], path))
			return true;
	return false;
}

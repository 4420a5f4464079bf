/* keyless.c - see keyless.h. */
#include "store/keyless.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

/* Which variables hold the keys to the place that another one names. */
static const struct keys {
	const char *place;
	const char *const *names;
} places[] = {
	{ "CLOISTER_STORE", (const char *const[]){ "CLOISTER_STORE", "PGPASSWORD", NULL } },
	{ "CLOISTER_BLOBS", (const char *const[]){ "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
	                                           "AWS_CONTAINER_AUTHORIZATION_TOKEN", NULL } },
};

static bool
is_named(const struct keys *keys)
{
	const char *place = getenv(keys->place);

	return place != NULL && *place != '\0';
}

static bool
holds_key(const char *variable)
{
	size_t len = strcspn(variable, "=");

	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		for (const char *const *name = places[i].names; is_named(&places[i]) && *name != NULL; name++)
			if (strlen(*name) == len && memcmp(*name, variable, len) == 0)
				return true;
	return false;
}

int
keyless_env(char ***ret_env, struct err *err)
{
	size_t n = 0, m = 0;
	char **env;

	*ret_env = NULL;
	if (!is_named(&places[0]) && !is_named(&places[1]))
		return 0;
	while (environ[n] != NULL)
		n++;
	env = calloc(n + 1, sizeof(*env));
	if (env == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		if (!holds_key(environ[i]))
			env[m++] = environ[i];
	*ret_env = env;
	return 0;
}

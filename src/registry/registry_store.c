/* registry_store.c - where the database is: CLOISTER_STORE, or --store of a program that runs for long. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "registry/registry.h"
#include "store/store_url.h"

const char *
registry_store(void)
{
	const char *store = getenv(REGISTRY_STORE);

	return store == NULL || *store == '\0' ? NULL : store;
}

int
registry_check_store(const char *store, struct err *err)
{
	if (strncmp(store, "postgres://", 11) == 0 || strncmp(store, "postgresql://", 13) == 0)
		return 0;
	return err_set(err, EINVAL, "this is no store: write postgres://USER@HOST/DATABASE, or leave it out for SQLite");
}

int
registry_check_given_store(const char *option, const char *url, struct err *err)
{
	if (store_url_has_password(url))
		return err_set(err, EINVAL, "%s: every user of this machine can read a password on a command line: "
		               "write it into ~/.pgpass or the variable PGPASSWORD", option);
	return registry_check_store(url, err) < 0 ? err_wrap(err, "%s", option) : store_url_check(url, err);
}

int
registry_use_store(const char *url, struct err *err)
{
	int r = url == NULL ? 0 : registry_check_given_store("--store", url, err);

	if (r < 0 || url == NULL)
		return r;
	return setenv(REGISTRY_STORE, url, 1) < 0 ? err_errno(err, "cannot set a variable") : 0;
}

/* pq.c - see pq.h. */
#include "store/pq.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

static struct pq loaded;

static const struct {
	const char *name;
	void *at;
} functions[] = {
	{ "PQconnectdbParams", &loaded.connect },
	{ "PQreset", &loaded.reset },
	{ "PQfinish", &loaded.finish },
	{ "PQstatus", &loaded.status },
	{ "PQerrorMessage", &loaded.error },
	{ "PQconninfoParse", &loaded.parse },
	{ "PQconninfoFree", &loaded.free_options },
	{ "PQsocket", &loaded.socket },
	{ "PQconsumeInput", &loaded.read },
	{ "PQnotifies", &loaded.notice },
	{ "PQsendQuery", &loaded.send },
	{ "PQisBusy", &loaded.is_busy },
	{ "PQgetResult", &loaded.result },
	{ "PQsendPrepare", &loaded.prepare },
	{ "PQsendQueryPrepared", &loaded.send_prepared },
	{ "PQsendQueryParams", &loaded.send_with },
	{ "PQresultStatus", &loaded.result_status },
	{ "PQresultErrorField", &loaded.result_error },
	{ "PQcmdStatus", &loaded.command },
	{ "PQcmdTuples", &loaded.changed },
	{ "PQntuples", &loaded.rows },
	{ "PQgetvalue", &loaded.value },
	{ "PQgetisnull", &loaded.is_null },
	{ "PQclear", &loaded.clear },
	{ "PQsetNoticeProcessor", &loaded.on_notice },
	{ "PQfreemem", &loaded.free_text },
};

int
pq_load(const struct pq **ret_pq, struct err *err)
{
	static void *library;
	void *found;

	if (library == NULL) {
		library = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
		if (library == NULL)
			return err_set(err, ENOENT, "a registry in Postgres needs the package libpq5: install it");
		for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
			found = dlsym(library, functions[i].name);
			if (found == NULL)
				return err_set(err, ENOENT, "libpq has no %s", functions[i].name);
			memcpy(functions[i].at, &found, sizeof(found));
		}
	}
	*ret_pq = &loaded;
	return 0;
}

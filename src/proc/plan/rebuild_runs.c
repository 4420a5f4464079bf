/* rebuild_runs.c - lists the secrets that are missing, and starts the cells of a plan. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/data.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "proc/plan/plan_proc.h"

#define RUN "run"
#define DOCUMENT "run."                 /* and the name, of files in DATA/rebuild */
#define DOCUMENT_END ".json"

/* ---- secrets ---- */

static bool
has(const json_t *list, const char *name)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
		if (strcmp(json_string_value(item), name) == 0)
			return true;
	return false;
}

int
rebuild_secrets(struct rebuild *b, struct err *err)
{
	OWN(json_decrefp) json_t *here = json_array();
	int r = b->plan.n_secrets == 0 ? 0 : collect_secrets(here, err);

	for (size_t i = 0; r == 0 && i < b->plan.n_secrets; i++) {
		const char *name = b->plan.secrets[i];
		OWN(freep) char *todo = str_format("add it: cloister secret add %s", name);

		r = has(here, name) ? rebuild_note(b, "secret", name, ITEM_SAME, NULL, err) :
		                      rebuild_note(b, "secret", name, ITEM_MISSING, todo, err);
	}
	return r;
}

/* ---- runs ---- */

static const json_t *
find(const json_t *list, const char *name)
{
	const json_t *run;
	size_t i;

	json_array_foreach(list, i, run)
		if (strcmp(json_string_value(json_object_get(run, "name")), name) == 0)
			return run;
	return NULL;
}

static bool
is_same(const json_t *here, const struct plan_run *run)
{
	return strcmp(json_string_value(json_object_get(here, "hash")), run->hash) == 0 &&
	       strcmp(json_string_value(json_object_get(here, "restart")), run->restart) == 0;
}

/* The document stays: each cell of the series is made of it. */
static int
start(const struct rebuild *b, const struct plan_run *run, struct err *err)
{
	OWN(freep) char *file = str_format(DOCUMENT "%s" DOCUMENT_END, run->name), *top = data_path("rebuild", err), *path = NULL, *restart = NULL;
	int r;

	path = file == NULL || top == NULL ? NULL : str_format("%s/%s", top, file);
	restart = str_format("--restart%s%s", *run->restart != '\0' ? "=" : "", run->restart);
	if (path == NULL || restart == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = create_file_at(b->journal, file, 0600, run->document, err);
	return r < 0 ? r : child_run(NULL, (char *[]){ (char[]){ "run" }, (char[]){ "-d" }, (char[]){ "--name" },
	                                               (char *)(uintptr_t)run->name, restart, (char[]){ "--doc" }, path, NULL },
	                             0, NULL, NULL, err);
}

static int
rebuild_run(struct rebuild *b, const json_t *all, const struct plan_run *run, struct err *err)
{
	const json_t *here = find(all, run->name);
	struct err why = {0};
	int r = 0;

	if (here != NULL && is_same(here, run))
		return rebuild_note(b, RUN, run->name, ITEM_SAME, NULL, err);
	if (here != NULL && !b->replace)
		return rebuild_note(b, RUN, run->name, ITEM_DIFFERS, "--replace stops it, and starts the plan's", err);
	if (b->dry)
		return rebuild_note(b, RUN, run->name, here != NULL ? ITEM_DIFFERS : ITEM_ABSENT, NULL, err);
	if (here != NULL)
		r = child_run(NULL, (char *[]){ (char[]){ "stop" }, (char *)(uintptr_t)run->name, NULL }, 0, NULL, NULL, &why);
	r = r == 0 ? start(b, run, &why) : r;
	return rebuild_note(b, RUN, run->name, r < 0 ? ITEM_FAILED : here != NULL ? ITEM_REPLACED : ITEM_MADE, r < 0 ? why.text : NULL,
	                    err);
}

static bool
is_planned(const struct plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->n_runs; i++)
		if (strcmp(plan->runs[i].name, name) == 0)
			return true;
	return false;
}

/* The documents of runs that neither run nor are in the plan. */
static void
forget_documents(const struct rebuild *b, const json_t *here)
{
	OWN(closedirp) DIR *list = tree_list(b->journal);
	const size_t head = strlen(DOCUMENT), tail = strlen(DOCUMENT_END);
	char name[PLAN_RUN_NAME_MAX + 1];

	for (const struct dirent *d; list != NULL && (d = readdir(list)) != NULL;) {
		const size_t len = strlen(d->d_name);

		if (len <= head + tail || len - head - tail > PLAN_RUN_NAME_MAX || strncmp(d->d_name, DOCUMENT, head) != 0)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(len - head - tail), d->d_name + head);
		if (find(here, name) == NULL && !is_planned(&b->plan, name))
			(void)unlinkat(b->journal, d->d_name, 0);
	}
}

int
rebuild_runs(struct rebuild *b, struct err *err)
{
	OWN(json_decrefp) json_t *here = json_array();
	int r = collect_runs(here, false, err);

	for (size_t i = 0; r == 0 && i < b->plan.n_runs; i++)
		r = rebuild_run(b, here, &b->plan.runs[i], err);
	if (r == 0 && !b->dry)
		forget_documents(b, here);
	return r;
}

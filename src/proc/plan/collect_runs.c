/* collect_runs.c - the cells that are started again, as documents, and the names of secrets. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "canon/canon.h"
#include "cell/cell_dirs.h"
#include "cell/cell_doc.h"
#include "cell/cell_series.h"
#include "proc/plan/plan_proc.h"

#define SECRETS_TEXT_MAX (16u << 20)
#define WORDS_MAX 4000
#define BY_HASH 12                      /* digits in the name of a run without one */

static int
compare_members(const void *a, const void *b)
{
	return strcmp(json_string_value(json_object_get(*(json_t *const *)a, "name")),
	              json_string_value(json_object_get(*(json_t *const *)b, "name")));
}

static int
compare_texts(const void *a, const void *b)
{
	return strcmp(json_string_value(*(json_t *const *)a), json_string_value(*(json_t *const *)b));
}

static int
sort(json_t *list, int (*compare)(const void *a, const void *b), struct err *err)
{
	const size_t n = json_array_size(list);
	OWN(freep) json_t **items = calloc(n + 1, sizeof(*items));

	if (items == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		items[i] = json_incref(json_array_get(list, i));
	qsort(items, n, sizeof(*items), compare);
	for (size_t i = 0; i < n; i++)
		json_array_set_new(list, i, items[i]);
	return 0;
}

/* ---- runs ---- */

/* The words of the command line, behind "run" and "--print-doc". */
static int
split(const struct buf *b, const char **ret_restart, const char **ret_folder, char *words[WORDS_MAX + 3], struct err *err)
{
	char *at = (char *)b->data, *end = at + b->len;
	size_t n = 0;

	*ret_restart = at;
	at += strlen(at) + 1;
	*ret_folder = at < end ? at : "/";
	at += at < end ? strlen(at) + 1 : 0;
	words[n++] = (char *)(uintptr_t)"run";
	words[n++] = (char *)(uintptr_t)"--print-doc";
	for (; at < end; at += strlen(at) + 1) {
		if (n == WORDS_MAX + 2)
			return err_set(err, E2BIG, "its command line has over %d words", WORDS_MAX);
		words[n++] = at;
	}
	words[n] = NULL;
	return 0;
}

static int
add_run(json_t *list, const char *name, const char *restart, const char *document, struct err *err)
{
	unsigned char digest[HASH_LEN];
	char hash[HASH_NAME + 1], own[PLAN_RUN_NAME_MAX];
	json_t *run;

	hash_of(document, strlen(document), digest);
	hash_name(digest, hash);
	snprintf(own, sizeof(own), "run-%.*s", BY_HASH, hash + strlen(HASH_PREFIX));
	run = json_pack("{s:s,s:s,s:s,s:s}", "document", document, "hash", hash, "name", *name != '\0' ? name : own, "restart",
	                restart);
	return json_array_append_new(list, run) < 0 ? err_set(err, ENOMEM, "out of memory") : 0;
}

static int
collect_run(json_t *list, int runtime, const struct cell_series *series, bool all, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(CELL_SERIES_WORDS_MAX);
	OWN(freep) char **words = calloc(WORDS_MAX + 3, sizeof(*words)), *document = NULL;
	const char *restart = "", *folder = "/", *shown = series->name[0] != '\0' ? series->name : series->id;
	size_t len;
	int r = words == NULL ? err_set(err, ENOMEM, "out of memory") : cell_series_described(runtime, series->id, &b, err);

	if (r == -ENOENT && all) {
		fprintf(stderr, "cloister: the cell '%s' is not in the plan, because a command in the foreground starts it again\n", shown);
		return 0;
	}
	r = r == 0 ? split(&b, &restart, &folder, words, err) : r;
	r = r == 0 ? child_run(folder, words, CELL_DOC_MAX, &document, &len, err) : r;
	/* It is another one than the plan's, whatever it is. */
	if (r < 0 && !all)
		return add_run(list, shown, "", "", err);
	if (r < 0)
		return err_wrap(err, "the cell '%s' cannot be in a plan", shown);
	document[strcspn(document, "\n")] = '\0';
	return add_run(list, series->name, restart, document, err);
}

int
collect_runs(json_t *list, bool all, struct err *err)
{
	OWN(freep) struct cell_series *series = calloc(CELL_SERIES_MAX, sizeof(*series));
	OWN(closep) int runtime = cell_runtime_open(err);
	size_t n;
	int r = 0;

	if (runtime < 0 || series == NULL)
		return runtime < 0 ? runtime : err_set(err, ENOMEM, "out of memory");
	n = cell_series_list(runtime, series);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = collect_run(list, runtime, &series[i], all, err);
	return r == 0 ? sort(list, compare_members, err) : r;
}

/* ---- secrets ---- */

int
collect_secrets(json_t *list, struct err *err)
{
	char *words[] = { (char[]){ "secret" }, (char[]){ "list" }, (char[]){ "--json" }, NULL };
	OWN(json_decrefp) json_t *all = NULL;
	OWN(freep) char *text = NULL;
	const json_t *secret;
	size_t len, i;
	int r = child_run(NULL, words, SECRETS_TEXT_MAX, &text, &len, err);

	r = r == 0 ? canon_read(text, len, &all, err) : r;
	if (r < 0)
		return err_wrap(err, "cannot list secrets");
	json_array_foreach(all, i, secret)
		if (json_array_append(list, json_object_get(secret, "name")) < 0)
			return err_set(err, EPROTO, "cannot read the list of secrets");
	return sort(list, compare_texts, err);
}

/* doctor_target.c - `cloister doctor --target NAME`: asks the engine of a target what a worker would lack there, and has it
 * start one that only tries. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "canon/canon.h"
#include "fleet/fleet_handle.h"
#include "fleet/fleet_rows.h"
#include "fleet/fleet_worker.h"
#include "proc/registry/registry_proc.h"

#define TEXT_MAX (128 * 1024)
#define PROBE_MS 120000                 /* an image may have to be fetched first */
#define PROBE_LOOK_MS 300

static const char *const levels[] = { [FLEET_GOOD] = "ok", [FLEET_NOTE] = "limited", [FLEET_MISSING] = "missing" };

static int
open_target(const char *name, struct fleet_handle **ret_handle, struct err *err)
{
	OWN(registry_closep) struct registry *r = NULL;
	OWN(json_decrefp) json_t *content = NULL;
	OWN(freep) char *text = NULL;
	struct registry_version version;
	char tag[FLEET_TAG_LEN + 1];
	size_t len;
	int n = registry_open(false, &r, err);

	if (n == -ENOENT)
		return err_set(err, ENOENT, "there is no target '%.64s': nothing is registered yet", name);
	n = n == 0 ? registry_resolve(r, REGISTRY_TARGET, name, REGISTRY_LIVE, &version, &content, err) : n;
	n = n == 0 ? fleet_row_tag(registry_db(r), version.name, tag, err) : n;
	n = n == 0 ? canon_dump(content, TEXT_MAX, &text, &len, err) : n;
	return n < 0 ? n : fleet_handle_open(text, tag, ret_handle, err);
}

static void
judge_probe(const struct fleet_outcome *o, struct fleet_findings *f)
{
	const char *text = *o->text != '\0' ? o->text : "it does not say why";

	if (!o->ended)
		fleet_find(f, FLEET_MISSING, "a worker that was to try has not ended after %d s: %.400s", PROBE_MS / 1000,
		           *o->text != '\0' ? o->text : "the engine has not started it, or it hangs");
	else if (o->status == 0)
		fleet_find(f, FLEET_GOOD, "a worker there runs cells, and reaches the registry");
	else if (o->status == FLEET_WORKER_NO_CELLS)
		fleet_find(f, FLEET_MISSING, "a worker there cannot run cells: %.400s", text);
	else if (o->status == FLEET_WORKER_NO_STORE)
		fleet_find(f, FLEET_MISSING, "a worker there cannot reach the registry: %.400s", text);
	else if (o->status > 0)
		fleet_find(f, FLEET_MISSING, "a worker there ends with %d: %.400s", o->status, text);
	else
		fleet_find(f, FLEET_MISSING, "a worker cannot start there: %.400s", text);
}

static void
probe(struct fleet_handle *h, struct fleet_findings *f)
{
	const struct timespec pause = { .tv_nsec = PROBE_LOOK_MS * 1000000L };
	int64_t until = io_now_ms() + PROBE_MS;
	struct fleet_outcome outcome = { .status = -1 };
	char ids[1][FLEET_ID_MAX];
	struct err err = {0};
	size_t n = 0;
	int r = fleet_handle_start(h, true, (const char *const[]){ "" }, 1, &n, ids, &err);

	while (r == 0 && (r = fleet_handle_look(h, ids[0], &outcome, &err)) == 0 && !outcome.ended && io_now_ms() < until)
		(void)nanosleep(&pause, NULL);
	if (r < 0)
		fleet_find(f, FLEET_MISSING, "%s", err.text);
	else
		judge_probe(&outcome, f);
	if (n == 1)
		(void)fleet_handle_stop(h, ids[0], NULL);
}

/* ---- showing it ---- */

static int
print_json(const char *name, const struct fleet_findings *f, bool can_run, struct err *err)
{
	json_t *checks = json_array();

	for (size_t i = 0; i < f->n; i++)
		(void)json_array_append_new(checks, json_pack("{s:s, s:s}", "state", levels[f->at[i].level], "found", f->at[i].text));
	return objects_print_json(json_pack("{s:s, s:b, s:o}", "target", name, "can_run", can_run, "checks", checks), err);
}

static int
doctor_target(const struct args *args, struct err *err)
{
	OWN(fleet_handle_closep) struct fleet_handle *h = NULL;
	OWN(freep) struct fleet_findings *f = calloc(1, sizeof(*f));
	const char *name = args_get(args, "target");
	bool can_run = true;
	int r = f == NULL ? err_set(err, ENOMEM, "out of memory") : args->n_words > 0 || name == NULL ?
	        err_set(err, EINVAL, "'doctor' takes no argument") : open_target(name, &h, err);

	/* Only what concerns the target itself is an error of the command. */
	if (r < 0 && (f == NULL || r == -ENOENT || r == -EINVAL || r == -EIDRM))
		return r;
	if (r < 0)
		fleet_find(f, FLEET_MISSING, "%s", err->text);
	r = r == 0 ? fleet_handle_check(h, f, err) : 0;
	/* An engine that cannot be reached is said so once. */
	if (r < 0)
		fleet_find(f, FLEET_MISSING, "%s", err->text);
	else if (h != NULL && f->n > 0 && f->at[0].level == FLEET_GOOD)
		probe(h, f);
	for (size_t i = 0; i < f->n; i++)
		can_run = can_run && f->at[i].level != FLEET_MISSING;
	if (args_get(args, "json") != NULL) {
		r = print_json(name, f, can_run, err);
		return r < 0 ? r : can_run ? 0 : 1;
	}
	for (size_t i = 0; i < f->n; i++)
		printf("%-8s %s\n", levels[f->at[i].level], f->at[i].text);
	printf("\nWorkers can%s run there.\n", can_run ? "" : "not");
	return can_run ? 0 : 1;
}

int
cmd_doctor(const struct args *args, struct err *err)
{
	return args_get(args, "store") != NULL ? doctor_store(err) : doctor_target(args, err);
}

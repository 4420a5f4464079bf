/* store.c - `cloister store copy`: takes the registry and its blobs to another place. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/data.h"
#include "base/err.h"
#include "base/file_lock.h"
#include "base/num.h"
#include "base/own.h"
#include "base/progress.h"
#include "proc/registry/registry_proc.h"
#include "store/s3_place.h"

/* A service that runs would go on with what is copied.  This one keeps others from starting. */
static int
lock_service(int *ret_lock, struct err *err)
{
	OWN(closep) int folder = data_folder("serve", true, err);
	pid_t owner = 0;
	int lock = folder < 0 ? folder : file_lock(folder, "lock", &owner, err);

	if (lock == -EBUSY)
		return err_set(err, EBUSY, "the service runs, as process %d: stop it first", (int)owner);
	if (lock < 0)
		return lock;
	*ret_lock = lock;
	return 0;
}

static void
show(const char *what, uint64_t done, uint64_t total)
{
	progress_begin(what);
	progress_show(done, total);
}

/* ---- what was done ---- */

static void
print_copied(const struct registry_copying *how, const struct registry_copied *copied)
{
	char size[NUM_TEXT_MAX];

	for (size_t i = 0; i < copied->n_tables; i++)
		printf("%-12s %8" PRIu64 " %s\n", copied->tables[i].table, copied->tables[i].rows,
		       copied->tables[i].rows == 1 ? "row" : "rows");
	if (how->blobs != NULL)
		printf("%-12s %8" PRIu64 ", %s\n", "blobs", copied->n_blobs, num_format_size(size, copied->blob_bytes));
	puts("All of it was read back and compared. The old place is as it was.");
	if (how->store != NULL && strcmp(how->store, REGISTRY_SQLITE) == 0)
		puts("Use it: without --store, and without " REGISTRY_STORE ".");
	else if (how->store != NULL)
		printf("Use it: --store '%s', or " REGISTRY_STORE ".\n", how->store);
	if (how->blobs != NULL && strcmp(how->blobs, REGISTRY_FOLDER) == 0)
		puts("Use it: without --blobs, and without " S3_VARIABLE ".");
	else if (how->blobs != NULL)
		printf("Use it: --blobs '%s', or " S3_VARIABLE ".\n", how->blobs);
}

static json_t *
copied_json(const struct registry_copying *how, const struct registry_copied *copied)
{
	json_t *tables = json_array();

	for (size_t i = 0; i < copied->n_tables; i++) {
		char name[HASH_NAME + 1];

		hash_name(copied->tables[i].hash, name);
		if (json_array_append_new(tables, json_pack("{s:s, s:I, s:s}", "table", copied->tables[i].table, "rows",
		                                            (json_int_t)copied->tables[i].rows, "sha256", name)) < 0) {
			json_decref(tables);
			return NULL;
		}
	}
	if (how->blobs == NULL)
		return json_pack("{s:o, s:n}", "tables", tables, "blobs");
	return json_pack("{s:o, s:{s:I, s:I}}", "tables", tables, "blobs", "n", (json_int_t)copied->n_blobs, "bytes",
	                 (json_int_t)copied->blob_bytes);
}

static int
print_json(const struct registry_copying *how, const struct registry_copied *copied, struct err *err)
{
	json_t *told = copied_json(how, copied);

	return told == NULL ? err_set(err, ENOMEM, "out of memory") : objects_print_json(told, err);
}

/* ---- */

static int
check_places(const struct registry_copying *how, struct err *err)
{
	struct s3_place place;
	int r = 0;

	if (how->store == NULL && how->blobs == NULL)
		return err_set(err, EINVAL, "where to? Use --to postgres://USER@HOST/DATABASE, or --to-blobs s3://BUCKET/PREFIX, or "
		               "both");
	if (how->store != NULL && strcmp(how->store, REGISTRY_SQLITE) != 0)
		r = registry_check_given_store("--to", how->store, err);
	if (r == 0 && how->blobs != NULL && strcmp(how->blobs, REGISTRY_FOLDER) != 0 &&
	    (r = s3_place_parse(how->blobs, environ, &place, err)) < 0)
		err_wrap(err, "--to-blobs '%s'", how->blobs);
	return r;
}

static int
copy(const struct args *args, struct err *err)
{
	const struct registry_copying how = { .store = args_get(args, "to"), .blobs = args_get(args, "to-blobs"),
		.show = show };
	OWN(registry_closep) struct registry *reg = NULL;
	OWN(closep) int lock = -1;
	struct registry_copied copied;
	int r = check_places(&how, err);

	r = r == 0 ? lock_service(&lock, err) : r;
	r = r == 0 ? registry_open(true, &reg, err) : r;
	r = r == 0 ? registry_copy(reg, &how, &copied, err) : r;
	progress_end();
	if (r < 0)
		return err_wrap(err, "cannot copy the registry");
	if (args_get(args, "json") != NULL)
		return print_json(&how, &copied, err);
	print_copied(&how, &copied);
	return 0;
}

int
cmd_store(const struct args *args, struct err *err)
{
	if (args->n_words != 1 || strcmp(args->words[0], "copy") != 0)
		return err_set(err, EINVAL, "write 'cloister store copy [--to STORE] [--to-blobs PLACE]'");
	return copy(args, err);
}

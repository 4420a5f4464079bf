/* vm.c - `cloister vm`: the templates that virtual machines start from, and the disks that they have as a root. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/data.h"
#include "base/err.h"
#include "base/json.h"
#include "base/num.h"
#include "base/own.h"
#include "boundary/boundary.h"
#include "cell/cell_warm.h"
#include "cli/cli.h"
#include "cli/run.h"
#include "vm/disk.h"
#include "vm/template.h"
#include "vm/vmcache.h"

#define SHORT 12                        /* digits of a name that are shown */
#define RUN_ARGS_MAX 16
#define MIB (UINT64_C(1) << 20)

struct request {
	const char *memory, *cpus, *kernel, *accel;
	bool all, json;
};

const struct cli_option cli_vm_options[] = {
	{ "memory", 'm', "SIZE", "template, wait: the memory of the virtual machine", CLI_TEXT(struct request, memory) },
	{ "cpus", 0, "N", "template, wait: its processors", CLI_TEXT(struct request, cpus) },
	{ "vm-kernel", 0, "FILE", "template, wait: its kernel", CLI_TEXT(struct request, kernel) },
	{ "vm-accel", 0, "NAME", "template, wait: kvm, or tcg for tests", CLI_TEXT(struct request, accel) },
	{ "all", 'a', NULL, "remove: all templates and disks", CLI_FLAG(struct request, all) },
	{ "json", 0, NULL, "list: print JSON for programs", CLI_FLAG(struct request, json) },
	{0}
};

/* The guest's memory comes first in the file, and is larger than the rest. */
static uint64_t
memory_of(const struct template *t)
{
	return (uint64_t)t->st.st_size / MIB * MIB;
}

/* What is kept in the folder, and the machines that wait. */
struct kept {
	int folder;                     /* -1: none */
	struct template *templates;
	struct vmcache_entry *disks;
	size_t n_templates, n_disks;
	struct cell_warm waiting[CELL_WARM_MAX];
	size_t n_waiting;
};

/* Those that were made from a template. */
static uint64_t
waiting_of(const struct kept *kept, const struct template *t)
{
	uint64_t n = 0;

	for (size_t i = 0; i < kept->n_waiting; i++)
		n += strncmp(kept->waiting[i].label, t->hash, CELL_WARM_LABEL) == 0;
	return n;
}

static void
kept_free(struct kept *k)
{
	closep(&k->folder);
	free(k->templates);
	free(k->disks);
}

static int
look(struct kept *k, struct err *err)
{
	int r;

	k->folder = data_folder(TEMPLATE_FOLDER, false, NULL);
	r = template_list(k->folder, &k->templates, &k->n_templates, err);
	return r < 0 ? r : vmcache_list(k->folder, DISK_PREFIX, &k->disks, &k->n_disks, err);
}

static void
print_json(const struct kept *kept)
{
	const struct template *list = kept->templates;

	struct json w = { .out = stdout };

	json_open(&w, NULL, '[');
	for (size_t i = 0; i < kept->n_templates; i++) {
		json_open(&w, NULL, '{');
		json_str(&w, "template", list[i].hash);
		json_u64(&w, "memory", memory_of(&list[i]));
		json_u64(&w, "disk", (uint64_t)list[i].st.st_blocks * 512);
		json_u64(&w, "used", (uint64_t)list[i].st.st_atime);
		json_u64(&w, "waiting", waiting_of(kept, &list[i]));
		json_close(&w, '}');
	}
	for (size_t i = 0; i < kept->n_disks; i++) {
		json_open(&w, NULL, '{');
		json_str(&w, "root", kept->disks[i].hash);
		json_u64(&w, "disk", kept->disks[i].size);
		json_u64(&w, "used", (uint64_t)kept->disks[i].used);
		json_close(&w, '}');
	}
	json_close(&w, ']');
	putchar('\n');
}

static void
print_line(const char *hash, const char *memory, uint64_t size, const char *waiting, time_t last)
{
	char disk[NUM_TEXT_MAX], used[32];
	struct tm tm;

	localtime_r(&last, &tm);
	strftime(used, sizeof(used), "%Y-%m-%d %H:%M:%S", &tm);
	printf("%.*s  %8s  %8s  %7s  %s\n", SHORT, hash, memory, num_format_size(disk, size), waiting, used);
}

static void
print_list(const struct kept *kept)
{
	char memory[NUM_TEXT_MAX], waiting[24];

	if (kept->n_templates > 0)
		printf("%-*s  %8s  %8s  %7s  %s\n", SHORT, "TEMPLATE", "MEMORY", "DISK", "WAITING", "LAST USED");
	for (size_t i = 0; i < kept->n_templates; i++) {
		const struct template *t = &kept->templates[i];

		snprintf(waiting, sizeof(waiting), "%llu", (unsigned long long)waiting_of(kept, t));
		print_line(t->hash, num_format_size(memory, memory_of(t)), (uint64_t)t->st.st_blocks * 512, waiting,
		           t->st.st_atime);
	}
	if (kept->n_disks > 0)
		printf("%-*s  %8s  %8s  %7s  %s\n", SHORT, "ROOT", "", "DISK", "", "LAST USED");
	for (size_t i = 0; i < kept->n_disks; i++)
		print_line(kept->disks[i].hash, "", kept->disks[i].size, "", kept->disks[i].used);
}

static int
vm_list(const struct request *request, struct err *err)
{
	OWN(kept_free) struct kept kept = { .folder = -1 };
	OWN(closep) int warm = cell_warm_folder(false, NULL);
	int r = look(&kept, err);

	if (r < 0)
		return r;
	kept.n_waiting = cell_warm_list(warm, kept.waiting);
	if (request->json)
		print_json(&kept);
	else if (kept.n_templates + kept.n_disks > 0)
		print_list(&kept);
	else
		fputs("there are no templates: `cloister vm template` makes one, and so does the first cell\n", stderr);
	return 0;
}

static bool
is_meant(const char *hash, const char *word)
{
	return word[0] != '\0' && strncmp(hash, word, strlen(word)) == 0;
}

static int
remove_one(const struct kept *k, const char *word, struct err *err)
{
	const struct template *template = NULL;
	const struct vmcache_entry *disk = NULL;
	size_t n = 0;

	for (size_t i = 0; i < k->n_templates; i++)
		if (is_meant(k->templates[i].hash, word) && ++n > 0)
			template = &k->templates[i];
	for (size_t i = 0; i < k->n_disks; i++)
		if (is_meant(k->disks[i].hash, word) && ++n > 0)
			disk = &k->disks[i];
	if (n > 1)
		return err_set(err, EINVAL, "more than one template or disk begins with '%s': give more digits", word);
	if (n == 0)
		return err_set(err, ENOENT, "there is no template '%s' and no such disk: see `cloister vm list`", word);
	return template != NULL ? template_remove(k->folder, template, err) :
	       vmcache_remove(k->folder, DISK_PREFIX, disk, err);
}

/* Cells that run have copies of templates, and hold their disks open. */
static int
vm_remove(const struct request *request, char **words, int n_words, struct err *err)
{
	OWN(kept_free) struct kept kept = { .folder = -1 };
	int r = look(&kept, err);

	if (r == 0 && (n_words == 0) != request->all)
		return err_set(err, EINVAL, "name the templates and disks to remove, or use --all");
	for (size_t i = 0; r == 0 && request->all && i < kept.n_templates; i++)
		r = template_remove(kept.folder, &kept.templates[i], err);
	for (size_t i = 0; r == 0 && request->all && i < kept.n_disks; i++)
		r = vmcache_remove(kept.folder, DISK_PREFIX, &kept.disks[i], err);
	for (int i = 0; r == 0 && i < n_words; i++)
		r = remove_one(&kept, words[i], err);
	return r;
}

/* The words of a `run` that has such a machine; returns how many. */
static int
describe_run(const struct request *request, const char *argv[RUN_ARGS_MAX])
{
	const struct { const char *option, *value; } given[] = {
		{ "--memory", request->memory }, { "--cpus", request->cpus }, { "--vm-kernel", request->kernel },
		{ "--vm-accel", request->accel },
	};
	static const char *const first[] = { "run", "--boundary", BOUNDARY_MICROVM, "--no-policy" };
	int n = (int)ARRAY_LEN(first);

	memcpy(argv, first, sizeof(first));
	for (size_t i = 0; i < ARRAY_LEN(given); i++)
		if (given[i].value != NULL) {
			argv[n++] = given[i].option;
			argv[n++] = given[i].value;
		}
	argv[n++] = "--";
	argv[n++] = "true";
	return n;
}

/* The first cell of a shape makes its template. */
static int
vm_template(const struct request *request)
{
	const char *argv[RUN_ARGS_MAX];
	int n = describe_run(request, argv);

	return cmd_run(n, (char **)(uintptr_t)argv);
}

/* A supervisor that waits for a dispatch, until its standard input ends. */
static int
vm_wait(const struct request *request, struct err *err)
{
	OWN(run_free) struct run run = {0};
	const char *argv[RUN_ARGS_MAX];
	int n = describe_run(request, argv), r = run_describe(n, (char **)(uintptr_t)argv, &run, err);

	/* Like most cells, which have a network. */
	run.spec.has_policy = true;
	return r < 0 ? r : run_wait(&run, err);
}

int
cmd_vm(int argc, char **argv)
{
	struct request request = {0};
	struct err err = {0};
	int rest, r = cli_parse(cli_vm_options, argc, argv, true, NULL, &request, &rest, &err);
	const char *verb = r < 0 || rest >= argc ? "" : argv[rest];

	if (r == 0 && strcmp(verb, "list") == 0 && rest + 1 == argc)
		r = vm_list(&request, &err);
	else if (r == 0 && strcmp(verb, "remove") == 0)
		r = vm_remove(&request, argv + rest + 1, argc - rest - 1, &err);
	else if (r == 0 && strcmp(verb, "template") == 0 && rest + 1 == argc)
		return vm_template(&request);
	else if (r == 0 && strcmp(verb, "wait") == 0 && rest + 1 == argc)
		r = vm_wait(&request, &err);
	else if (r == 0)
		r = err_set(&err, EINVAL, "say what to do: template, list, remove or wait (see `cloister help vm`)");
	return r < 0 ? cli_fail(&err) : r;
}

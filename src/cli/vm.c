/* vm.c - `cloister vm`: the templates that virtual machines start from. */
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
#include "cli/cli.h"
#include "vm/template.h"

#define SHORT 12                        /* digits of a name that are shown */
#define RUN_ARGS_MAX 16
#define MIB (UINT64_C(1) << 20)

struct request {
	const char *memory, *cpus, *kernel, *accel;
	bool all, json;
};

const struct cli_option cli_vm_options[] = {
	{ "memory", 'm', "SIZE", "template: the memory of the virtual machine", CLI_TEXT(struct request, memory) },
	{ "cpus", 0, "N", "template: its processors", CLI_TEXT(struct request, cpus) },
	{ "vm-kernel", 0, "FILE", "template: its kernel", CLI_TEXT(struct request, kernel) },
	{ "vm-accel", 0, "NAME", "template: kvm, or tcg for tests", CLI_TEXT(struct request, accel) },
	{ "all", 'a', NULL, "remove: all templates", CLI_FLAG(struct request, all) },
	{ "json", 0, NULL, "list: print JSON for programs", CLI_FLAG(struct request, json) },
	{0}
};

/* The guest's memory comes first in the file, and is larger than the rest. */
static uint64_t
memory_of(const struct template *t)
{
	return (uint64_t)t->st.st_size / MIB * MIB;
}

static void
print_json(const struct template *list, size_t n)
{
	struct json w = { .out = stdout };

	json_open(&w, NULL, '[');
	for (size_t i = 0; i < n; i++) {
		json_open(&w, NULL, '{');
		json_str(&w, "template", list[i].hash);
		json_u64(&w, "memory", memory_of(&list[i]));
		json_u64(&w, "disk", (uint64_t)list[i].st.st_blocks * 512);
		json_u64(&w, "used", (uint64_t)list[i].st.st_atime);
		json_close(&w, '}');
	}
	json_close(&w, ']');
	putchar('\n');
}

static void
print_list(const struct template *list, size_t n)
{
	char memory[NUM_TEXT_MAX], disk[NUM_TEXT_MAX], used[32];
	struct tm tm;

	printf("%-*s  %8s  %8s  %s\n", SHORT, "TEMPLATE", "MEMORY", "DISK", "LAST USED");
	for (size_t i = 0; i < n; i++) {
		localtime_r(&list[i].st.st_atime, &tm);
		strftime(used, sizeof(used), "%Y-%m-%d %H:%M:%S", &tm);
		printf("%.*s  %8s  %8s  %s\n", SHORT, list[i].hash, num_format_size(memory, memory_of(&list[i])),
		       num_format_size(disk, (uint64_t)list[i].st.st_blocks * 512), used);
	}
}

static int
vm_list(const struct request *request, struct err *err)
{
	OWN(closep) int folder = data_folder(TEMPLATE_FOLDER, false, NULL);
	OWN(freep) struct template *list = NULL;
	size_t n;
	int r = template_list(folder, &list, &n, err);

	if (r < 0)
		return r;
	if (request->json)
		print_json(list, n);
	else if (n > 0)
		print_list(list, n);
	else
		fputs("there are no templates: `cloister vm template` makes one, and so does the first cell\n", stderr);
	return 0;
}

static int
remove_one(int folder, const struct template *list, size_t n, const char *word, struct err *err)
{
	const struct template *found = NULL;

	for (size_t i = 0; i < n; i++) {
		if (word[0] == '\0' || strncmp(list[i].hash, word, strlen(word)) != 0)
			continue;
		if (found != NULL)
			return err_set(err, EINVAL, "more than one template begins with '%s': give more digits", word);
		found = &list[i];
	}
	if (found == NULL)
		return err_set(err, ENOENT, "there is no template '%s': see `cloister vm list`", word);
	return template_remove(folder, found, err);
}

/* Cells that run have copies. */
static int
vm_remove(const struct request *request, char **words, int n_words, struct err *err)
{
	OWN(closep) int folder = data_folder(TEMPLATE_FOLDER, false, NULL);
	OWN(freep) struct template *list = NULL;
	size_t n;
	int r = template_list(folder, &list, &n, err);

	if (r == 0 && (n_words == 0) != request->all)
		return err_set(err, EINVAL, "name the templates to remove, or use --all");
	for (size_t i = 0; r == 0 && request->all && i < n; i++)
		r = template_remove(folder, &list[i], err);
	for (int i = 0; r == 0 && i < n_words; i++)
		r = remove_one(folder, list, n, words[i], err);
	return r;
}

/* The first cell of a shape makes its template. */
static int
vm_template(const struct request *request)
{
	const struct { const char *option, *value; } given[] = {
		{ "--memory", request->memory }, { "--cpus", request->cpus }, { "--vm-kernel", request->kernel },
		{ "--vm-accel", request->accel },
	};
	const char *argv[RUN_ARGS_MAX] = { "run", "--boundary", BOUNDARY_MICROVM };
	int n = 3;

	for (size_t i = 0; i < ARRAY_LEN(given); i++)
		if (given[i].value != NULL) {
			argv[n++] = given[i].option;
			argv[n++] = given[i].value;
		}
	argv[n++] = "--";
	argv[n++] = "true";
	return cmd_run(n, (char **)(uintptr_t)argv);
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
	else if (r == 0)
		r = err_set(&err, EINVAL, "say what to do: template, list or remove (see `cloister help vm`)");
	return r < 0 ? cli_fail(&err) : r;
}

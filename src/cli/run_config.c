/* run_config.c - takes over what the configuration of an image asks for: its command, variables, working folder
 * and user.  Whoever made the image wrote it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/run.h"
#include "inspect/inspect.h"
#include "vault/catalogue.h"

#define ACCOUNTS_MAX (1u << 20)         /* bytes of an image's /etc/passwd */
#define NAME_MAX_SHOWN 40
#define IDS 65536                       /* that files in the store have */

static const json_t *
member(const struct run *run, const char *name)
{
	return json_object_get(run->image_config, name);
}

/* ---- the command ---- */

struct words {
	char **at;
	size_t n;
};

static int
add_word(struct words *w, const char *word, struct err *err)
{
	if (w->n == CELL_ARGS_MAX)
		return err_set(err, E2BIG, "the command has more than %d words", CELL_ARGS_MAX);
	w->at[w->n] = strdup(word);
	return w->at[w->n++] == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

static int
add_list(struct words *w, const json_t *list, struct err *err)
{
	const json_t *word;
	size_t i;
	int r = 0;

	json_array_foreach(list, i, word)
		if (json_is_string(word) && (r = add_word(w, json_string_value(word), err)) < 0)
			break;
	return r;
}

/* As other tools do: words of the command line take the place of Cmd, and --entrypoint that of both. */
static int
use_command(struct run *run, struct err *err)
{
	OWN(strv_freep) char **all = calloc(CELL_ARGS_MAX + 1, sizeof(*all));
	struct words w = { .at = all };
	int r = all == NULL ? err_set(err, ENOMEM, "out of memory") : 0;

	/* A document has the whole command. */
	if (r < 0 || run->doc != NULL)
		return r;
	if (run->entrypoint == NULL)
		r = add_list(&w, member(run, "Entrypoint"), err);
	else if (run->entrypoint[0] != '\0')
		r = add_word(&w, run->entrypoint, err);
	if (run->spec.argv == NULL && run->entrypoint == NULL)
		r = r == 0 ? add_list(&w, member(run, "Cmd"), err) : r;
	for (char **word = run->spec.argv; r == 0 && word != NULL && *word != NULL; word++)
		r = add_word(&w, *word, err);
	if (r == 0 && w.n == 0)
		r = err_set(err, EINVAL, "it has no command of its own: cloister run --image IMAGE -- CMD...");
	if (r < 0)
		return r;
	strv_free(run->spec.argv);
	run->spec.argv = TAKE(all);
	return 0;
}

/* ---- variables ---- */

/* The kind of key that the variable "NAME=VALUE" holds, or NULL. */
static const char *
kind_of_key(const char *entry)
{
	OWN(freep) char *name = strndup(entry, strcspn(entry, "="));
	const char *value = strchr(entry, '=') + 1;
	const struct catalogue_entry *known = name == NULL ? NULL : catalogue_find(name);
	struct secrets_scan *scan = calloc(1, sizeof(*scan));
	const char *kind = scan == NULL ? NULL : secrets_find(scan, entry, strlen(entry));

	free(scan);
	if (kind != NULL || known == NULL || value[0] == '\0' || value[0] == '/')
		return kind;
	return known->title;
}

static void
warn_of_key(const struct run *run, const char *entry)
{
	/* In a build, it would be repeated with each step. */
	const char *kind = run->spec.quiet || run->spec.image.build ? NULL : kind_of_key(entry);
	size_t len = strcspn(entry, "=");

	if (kind == NULL)
		return;
	fputs("cloister: the image sets ", stderr);
	text_print_safe(stderr, entry, len < NAME_MAX_SHOWN ? len : NAME_MAX_SHOWN, false);
	fprintf(stderr, " to what looks like a secret (%s): the cell gets it, and so does everybody who has the image\n",
	        kind);
}

int
run_put_image_env(const struct run *run, int (*put)(void *arg, const char *entry), void *arg, struct err *err)
{
	const json_t *list = member(run, "Env"), *item;
	size_t i;

	if (json_array_size(list) > RUN_IMAGE_VARIABLES_MAX)
		return err_set(err, E2BIG, "the image has more than %d variables", RUN_IMAGE_VARIABLES_MAX);
	json_array_foreach(list, i, item) {
		const char *entry = json_string_value(item);

		if (entry == NULL || entry[0] == '=' || strchr(entry, '=') == NULL)
			continue;
		warn_of_key(run, entry);
		if (put(arg, entry) < 0)
			return err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

/* ---- the working folder ---- */

static int
use_folder(struct run *run, struct err *err)
{
	const char *folder = json_string_value(member(run, "WorkingDir"));
	char *copy;

	/* A workspace goes before. */
	if (folder == NULL || folder[0] == '\0' || run->has_workspace)
		return 0;
	if (folder[0] != '/' || strlen(folder) >= PATH_MAX)
		return err_set(err, EINVAL, "its working folder '%.200s' is no absolute path", folder);
	copy = strdup(folder);
	if (copy == NULL)
		return err_set(err, ENOMEM, "out of memory");
	free(run->spec.cwd);
	run->spec.cwd = copy;
	return 0;
}

/* ---- the user ---- */

/* The text of FILE in the topmost layer that has it; NULL if none has. */
static char *
read_accounts(const struct run *run, const char *file)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
	                        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
	char *const *layers = run->spec.engine != NULL ? run->engine_layers : run->spec.image.layers;
	char *text = NULL;

	for (size_t i = strv_len(layers); i-- > 0 && text == NULL;) {
		OWN(closep) int layer = open(layers[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
		OWN(closep) int fd = layer < 0 ? -1 : (int)syscall(SYS_openat2, layer, file, &how, sizeof(how));
		struct stat st;
		size_t len;

		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
			(void)read_whole(fd, ACCOUNTS_MAX, &text, &len, NULL);
	}
	return text;
}

/* In the line of NAME, "NAME:x:ID:GROUP:...". */
static bool
find_account(char *text, const char *name, uint64_t *ret_id, uint64_t *ret_group)
{
	char *at;

	for (char *line = strtok_r(text, "\n", &at); line != NULL; line = strtok_r(NULL, "\n", &at)) {
		char *fields[4] = { NULL };

		for (size_t i = 0; i < ARRAY_LEN(fields); i++)
			fields[i] = strsep(&line, ":");
		if (fields[0] == NULL || strcmp(fields[0], name) != 0 || fields[2] == NULL ||
		    num_parse_count(fields[2], 0, UINT32_MAX, ret_id, NULL) < 0)
			continue;
		if (ret_group != NULL && (fields[3] == NULL ||
		    num_parse_count(fields[3], 0, UINT32_MAX, ret_group, NULL) < 0))
			*ret_group = 0;
		return true;
	}
	return false;
}

/* NAME is a number or in FILE. */
static int
find_id(const struct run *run, const char *file, const char *name, uint64_t *ret_id, uint64_t *ret_group,
        struct err *err)
{
	OWN(freep) char *text = NULL;

	if (num_parse_count(name, 0, UINT32_MAX, ret_id, NULL) == 0)
		return 0;
	text = read_accounts(run, file);
	if (text != NULL && find_account(text, name, ret_id, ret_group))
		return 0;
	return err_set(err, ENOENT, "its user or group '%.80s' is not in its /%s", name, file);
}

/* Ids that the store does not keep have become 0 there. */
static uint32_t
stored_id(uint64_t id)
{
	return id < IDS ? (uint32_t)id : 0;
}

static int
use_user(struct run *run, struct err *err)
{
	const char *given = json_string_value(member(run, "User"));
	OWN(freep) char *user = strdup(given != NULL && given[0] != '\0' ? given : "0");
	char *group = user == NULL ? NULL : strchr(user, ':');
	uint64_t uid = 0, gid = 0;
	int r;

	if (user == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (group != NULL)
		*group++ = '\0';
	r = find_id(run, "etc/passwd", user, &uid, &gid, err);
	if (r == 0 && group != NULL && group[0] != '\0')
		r = find_id(run, "etc/group", group, &gid, NULL, err);
	run->spec.image.uid = stored_id(uid);
	run->spec.image.gid = stored_id(gid);
	/* In a container, root's group may be the machine's. */
	if (run->spec.engine != NULL && run->spec.image.gid == 0)
		run->spec.image.gid = run->spec.image.uid;
	return r;
}

int
run_use_config(struct run *run, struct err *err)
{
	int r = use_command(run, err);

	if (r == 0)
		r = use_folder(run, err);
	return r == 0 ? use_user(run, err) : r;
}

/* ---- ports ---- */

void
run_hint_ports(const struct run *run)
{
	json_t *ports = (json_t *)(uintptr_t)member(run, "ExposedPorts");
	const char *name;
	json_t *value;

	if (run->spec.n_ports > 0)
		return;
	json_object_foreach(ports, name, value) {
		OWN(freep) char *number = strndup(name, strcspn(name, "/"));
		uint64_t port;

		(void)value;
		if (number == NULL || num_parse_count(number, 1, UINT16_MAX, &port, NULL) < 0 ||
		    (strchr(name, '/') != NULL && strcmp(strchr(name, '/'), "/tcp") != 0))
			continue;
		fprintf(stderr, "cloister: the image listens on port %s: --publish %s makes it reachable from this machine\n",
		        number, number);
		return;
	}
}

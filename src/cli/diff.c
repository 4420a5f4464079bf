/* diff.c - `cloister diff`: what a cell changed in its workspace. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/own.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/changes.h"
#include "cli/cli.h"

enum { OPT_NAMES, OPT_JSON };

const struct cli_option cli_diff_options[] = {
	{ "name-status", 0, NULL, "only which files changed", OPT_NAMES },
	{ "json", 0, NULL, "only which files changed, for programs", OPT_JSON },
	{0}
};

struct diff {
	bool names, json, colour;
	struct json out;
	size_t shown, held, hidden;
};

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct diff *diff = arg;

	(void)value;
	(void)err;
	if (option->id == OPT_NAMES)
		diff->names = true;
	else
		diff->json = true;
	return 0;
}

static const char *
kind_letter(const struct workspace_change *change)
{
	return change->kind == WORKSPACE_ADDED ? "A" : change->kind == WORKSPACE_DELETED ? "D" : "M";
}

static const char *
type_name(mode_t mode)
{
	return S_ISDIR(mode) ? "folder" : S_ISLNK(mode) ? "link" : "file";
}

static void
show_json(struct diff *diff, const struct changes_part *part,
          const struct workspace_change *change)
{
	static const char *const kinds[] = { "added", "modified", "deleted" };
	char mode[8];

	json_open(&diff->out, NULL, '{');
	json_str(&diff->out, "workspace", part->grant->host);
	json_str(&diff->out, "path", change->path);
	json_str(&diff->out, "change", kinds[change->kind]);
	json_str(&diff->out, "type", type_name(change->type));
	snprintf(mode, sizeof(mode), "%04o", change->mode & 07777u);
	json_str(&diff->out, "mode", change->mode != 0 ? mode : NULL);
	json_u64(&diff->out, "size", change->size);
	json_bool(&diff->out, "held", change->held);
	json_close(&diff->out, '}');
}

static void
show_name(const struct changes_part *part, const struct workspace_change *change)
{
	printf("%s ", kind_letter(change));
	changes_print_path(stdout, part, change->path);
	if (S_ISDIR(change->type))
		putchar('/');
	if (change->held)
		printf("  (held back: it would run on this machine)");
	putchar('\n');
}

/* Not shown must not look like nothing there, nor keep what comes behind it from being shown. */
static void
show_hidden(struct diff *diff, const char *why)
{
	printf("  (contents not shown: %s)\n", why);
	diff->hidden++;
}

static void
show_link(struct diff *diff, int folder, const char *path, char sign)
{
	char target[4096];
	ssize_t n = readlinkat(folder, path, target, sizeof(target));

	if (n < 0) {
		show_hidden(diff, strerrordesc_np(errno));
		return;
	}
	printf("%c-> ", sign);
	text_print_safe(stdout, target, (size_t)n, false);
	putchar('\n');
}

static bool
needs_quotes(const char *path)
{
	uint32_t code;
	size_t n;

	for (size_t len = strlen(path); len > 0; path += n, len -= n) {
		n = utf8_next(path, len, &code);
		if (n == 0 || utf8_is_control(code) || code == '"' || code == '\\')
			return true;
	}
	return false;
}

/* What a patch calls PATH: as git writes it and reads it again, so that a name has no say over the
 * lines of the patch. */
static char *
make_label(const char *side, const char *path)
{
	OWN(buf_free) struct buf b = {0};
	char octal[5];

	if (!needs_quotes(path))
		return str_format("%s/%s", side, path);
	buf_init(&b, 8 + 4 * strlen(path));
	buf_put(&b, "\"", 1);
	buf_put(&b, side, 1);
	buf_put(&b, "/", 1);
	for (; *path != '\0'; path++) {
		const unsigned char c = (unsigned char)*path;

		snprintf(octal, sizeof(octal), c == '"' || c == '\\' ? "\\%c" : "\\%03o", c);
		if (c < ' ' || c > '~' || c == '"' || c == '\\')
			buf_put(&b, octal, strlen(octal));
		else
			buf_put(&b, path, 1);
	}
	buf_put(&b, "\"", 2);
	return buf_failed(&b) ? NULL : (char *)TAKE(b.data);
}

static int
show_text(struct diff *diff, const struct changes_part *part,
          const struct workspace_change *change, struct err *err)
{
	OWN(closep) int old = -1, new = -1;
	OWN(freep) char *old_label = make_label("a", change->path);
	OWN(freep) char *new_label = make_label("b", change->path);
	char why[64];
	int r;

	if (S_ISREG(change->old_mode))
		old = workspace_open(part->ws.real, change->path, NULL);
	if (S_ISREG(change->mode))
		new = workspace_open(part->ws.changes, change->path, NULL);
	if (old_label == NULL || new_label == NULL)
		return err_errno(err, "cannot show a change");
	if ((S_ISREG(change->old_mode) && old < 0) || (S_ISREG(change->mode) && new < 0)) {
		show_hidden(diff, strerrordesc_np(old < 0 && S_ISREG(change->old_mode) ? -old : -new));
		return 0;
	}
	r = diff_print_text(old, new, old < 0 ? "/dev/null" : old_label,
	                    new < 0 ? "/dev/null" : new_label, diff->colour, err);
	if (r != -E2BIG)
		return r;
	snprintf(why, sizeof(why), "%llu bytes that diff could not compare",
	         (unsigned long long)change->size);
	show_hidden(diff, why);
	return 0;
}

static int
show_one(struct diff *diff, const struct changes_part *part,
         const struct workspace_change *change, struct err *err)
{
	if (diff->colour)
		fputs("\033[1m", stdout);
	show_name(part, change);
	if (diff->colour)
		fputs("\033[m", stdout);
	if (change->kind == WORKSPACE_MODIFIED && change->old_mode != change->mode)
		printf("  mode %04o -> %04o\n", change->old_mode & 07777u, change->mode & 07777u);
	if (change->mode_only)
		return 0;
	if (S_ISLNK(change->old_mode))
		show_link(diff, part->ws.real, change->path, '-');
	if (S_ISLNK(change->mode))
		show_link(diff, part->ws.changes, change->path, '+');
	if (S_ISREG(change->old_mode) || S_ISREG(change->mode))
		return show_text(diff, part, change, err);
	return 0;
}

/* Of a folder that is one no more, each file goes. */
static int
show_beneath(struct diff *diff, const struct changes_part *part,
             const struct workspace_change *folder, struct err *err)
{
	OWN(workspace_changes_freep) struct workspace_change *list = NULL;
	struct err why = {0};
	size_t n = 0;
	int r = 0;

	if (workspace_list_folder(part->ws.real, folder->path, &list, &n, &why) < 0) {
		fputs("  (what was in it is not shown: ", stdout);
		text_print_safe(stdout, why.text, strlen(why.text), false);
		fputs(")\n", stdout);
		diff->hidden++;
	}
	for (size_t i = 0; r == 0 && i < n; i++) {
		OWN(freep) char *path = str_format("%s/%s", folder->path, list[i].path);
		const struct workspace_change gone = {
			.path = path, .kind = WORKSPACE_DELETED, .type = list[i].type,
			.old_mode = list[i].mode, .held = folder->held,
		};

		if (path == NULL)
			return err_errno(err, "cannot show a change");
		if (!S_ISDIR(list[i].type))
			r = show_one(diff, part, &gone, err);
	}
	return r;
}

static int
show_patch(struct diff *diff, const struct changes_part *part,
           const struct workspace_change *change, struct err *err)
{
	int r = show_one(diff, part, change, err);

	return r == 0 && S_ISDIR(change->old_mode) && !S_ISDIR(change->mode) ?
	       show_beneath(diff, part, change, err) : r;
}

static bool
is_chosen(char *const *paths, const char *path)
{
	if (paths == NULL)
		return true;
	for (; *paths != NULL; paths++) {
		size_t len = strlen(*paths);

		while (len > 1 && (*paths)[len - 1] == '/')
			len--;
		if (strcmp(*paths, ".") == 0 ||
		    (strncmp(*paths, path, len) == 0 && (path[len] == '/' || path[len] == '\0')))
			return true;
	}
	return false;
}

static int
show_part(struct diff *diff, const struct changes *changes, const struct changes_part *part,
          char *const *paths, struct err *err)
{
	OWN(workspace_changes_freep) struct workspace_change *list = NULL;
	OWN(strv_freep) char **chosen = NULL;
	size_t n;
	int r;

	r = changes_paths_in(changes, part, paths, &chosen, err);
	if (r == 0)
		r = workspace_list(&part->ws, &list, &n, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (!is_chosen(chosen, list[i].path))
			continue;
		diff->shown++;
		diff->held += list[i].held;
		if (diff->json)
			show_json(diff, part, &list[i]);
		else if (diff->names)
			show_name(part, &list[i]);
		else
			r = show_patch(diff, part, &list[i], err);
	}
	return r;
}

int
cmd_diff(int argc, char **argv)
{
	OWN(changes_free) struct changes changes = { .state_dir = -1 };
	struct diff diff = { .out = { .out = stdout }, .colour = text_wants_colour(stdout) };
	struct err err = {0};
	int rest, r;

	if (cli_parse(cli_diff_options, argc, argv, true, take_option, &diff, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest == argc)
		return cli_failf("which cell? cloister diff [OPTION...] CELL [PATH...]");
	r = changes_open(argv[rest], &changes, &err);
	if (r == 0)
		r = changes_check_paths(&changes, argv + rest + 1, &err);
	if (r == 0 && diff.json)
		json_open(&diff.out, NULL, '[');
	for (size_t i = 0; r == 0 && i < changes.n_parts; i++)
		r = show_part(&diff, &changes, &changes.parts[i], argv + rest + 1, &err);
	if (r == 0 && diff.json) {
		json_close(&diff.out, ']');
		putchar('\n');
	}
	fflush(stdout);
	changes_warn(&changes);
	if (r == 0 && changes.record.incomplete[0] != '\0')
		return cli_failf("these are not all changes: %s", changes.record.incomplete);
	if (r == 0 && diff.hidden > 0)
		return cli_failf("%zu files could not be shown: look at them in a cell", diff.hidden);
	if (r == 0 && diff.shown == 0 && argv[rest + 1] != NULL)
		r = err_set(&err, ENOENT, "cell %s changed nothing at '%s'", argv[rest],
		            argv[rest + 1]);
	else if (r == 0)
		changes_tell_rest(&changes, diff.shown == 0 && !diff.json);
	return r < 0 ? cli_fail(&err) : 0;
}

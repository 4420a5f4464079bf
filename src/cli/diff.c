/* diff.c - `cloister diff`: prints the changes of a cell to its workspace. */
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

struct diff {
	bool names, json, sizes, colour;
	bool told_unseen;               /* printed the note that commits are not shown */
	const char *cell;
	struct json out;
	struct diff_stat stat;
	struct diff_reader reader;
	struct diff_renames renames;    /* of the part that is shown */
	size_t shown, hidden;
	uint64_t as_of_ns;              /* the cell still runs, and this is when its changes were read; else 0 */
};

const struct cli_option cli_diff_options[] = {
	{ "stat", 0, NULL, "only show the size of each change", CLI_FLAG(struct diff, sizes) },
	{ "name-status", 0, NULL, "only list the changed files", CLI_FLAG(struct diff, names) },
	{ "json", 0, NULL, "list the changed files as JSON for programs", CLI_FLAG(struct diff, json) },
	{0}
};

static const char *
kind_letter(const struct workspace_change *change)
{
	return change->from != NULL ? "R" : change->kind == WORKSPACE_ADDED ? "A" : change->kind == WORKSPACE_DELETED ? "D" : "M";
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
	json_bool(&diff->out, "changed_here", change->newer);
	json_str(&diff->out, "renamed_from", change->from);
	if (diff->as_of_ns != 0)
		json_u64(&diff->out, "as_of", diff->as_of_ns / 1000000000);
	json_close(&diff->out, '}');
}

static void
show_name(const struct changes_part *part, const struct workspace_change *change, enum diff_here here)
{
	printf("%s ", kind_letter(change));
	if (change->from != NULL) {
		changes_print_path(stdout, part, change->from);
		fputs(" -> ", stdout);
	}
	changes_print_path(stdout, part, change->path);
	if (S_ISDIR(change->type))
		putchar('/');
	if (change->held)
		printf("  (held back: it would run on this machine)");
	printf("%s\n", diff_here_text(here));
}

/* A file that cannot be shown must be visible as such, and must not keep later ones from being shown. */
static void
show_hidden(struct diff *diff, const char *why)
{
	printf("  (contents not shown: %s)\n", why);
	diff->hidden++;
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

/* The name of PATH in a patch, quoted as git does, so that a name cannot forge lines of the patch. */
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
			buf_put_text(&b, octal);
		else
			buf_put(&b, path, 1);
	}
	buf_put(&b, "\"", 2);
	return buf_failed(&b) ? NULL : (char *)TAKE(b.data);
}

static int
show_text(struct diff *diff, const struct workspace_change *change, const struct diff_files *files,
          struct err *err)
{
	OWN(freep) char *old_label = make_label("a", change->from != NULL ? change->from : change->path);
	OWN(freep) char *new_label = make_label("b", change->path);
	char why[64];
	int r;

	if (old_label == NULL || new_label == NULL)
		return err_errno(err, "cannot show a change");
	if (files->why != 0) {
		show_hidden(diff, strerrordesc_np(files->why));
		return 0;
	}
	r = diff_print_text(&diff->reader, files->old, files->new, files->old < 0 ? "/dev/null" : old_label,
	                    files->new < 0 ? "/dev/null" : new_label, diff->colour, err);
	if (r != -E2BIG)
		return r;
	snprintf(why, sizeof(why), "%llu bytes that could not be compared",
	         (unsigned long long)change->size);
	show_hidden(diff, why);
	return 0;
}

static int
show_one(struct diff *diff, const struct changes_part *part,
         const struct workspace_change *change, struct err *err)
{
	OWN(diff_files_close) struct diff_files files = { -1, -1, DIFF_HERE_NOT, 0 };
	int r = diff_open(&diff->reader, part, change, &files, err);

	if (r < 0)
		return r;
	if (diff->colour)
		fputs("\033[1m", stdout);
	show_name(part, change, files.here);
	if (diff->colour)
		fputs("\033[m", stdout);
	diff->hidden += changes_print_inode(part, change);
	if (change->mode_only)
		return 0;
	if (S_ISREG(change->old_mode) || S_ISREG(change->mode))
		return show_text(diff, change, &files, err);
	return 0;
}

static int
show_file(struct diff *diff, const struct changes_part *part, const struct workspace_change *change,
          bool more, struct err *err)
{
	return diff->sizes ? diff_stat_add(&diff->stat, &diff->reader, part, change, more, err) :
	       show_one(diff, part, change, err);
}

static void
show_not_listed(struct diff *diff, const struct err *why)
{
	fputs("  (its contents are not shown: ", stdout);
	text_print_safe(stdout, why->text, strlen(why->text), false);
	fputs(")\n", stdout);
	diff->hidden++;
}

/* If a folder is replaced by something else, each of its files is deleted. */
static int
show_beneath(struct diff *diff, const struct changes_part *part,
             const struct workspace_change *folder, struct err *err)
{
	OWN(workspace_changes_freep) struct workspace_change *list = NULL;
	struct err why = {0};
	size_t n = 0;
	int r = workspace_list_folder(part->ws.real, folder->path, &list, &n, &why);

	if (!diff->sizes || n == 0 || !S_ISDIR(folder->type))
		r = show_file(diff, part, folder, n > 0, err);
	if (why.code != 0)
		show_not_listed(diff, &why);
	for (size_t i = 0; r == 0 && i < n; i++) {
		OWN(freep) char *path = str_format("%s/%s", folder->path, list[i].path);
		const struct workspace_change gone = {
			.path = path, .kind = WORKSPACE_DELETED, .type = list[i].type,
			.old_mode = list[i].mode, .held = folder->held,
		};

		if (path == NULL)
			return err_errno(err, "cannot show a change");
		if (!S_ISDIR(list[i].type) && !diff_is_renamed(&diff->renames, path))
			r = show_file(diff, part, &gone, false, err);
	}
	return r;
}

/* MORE: it contains other changes. */
static int
show_contents(struct diff *diff, const struct changes_part *part, const struct workspace_change *change,
              bool more, struct err *err)
{
	return S_ISDIR(change->old_mode) && !S_ISDIR(change->mode) ?
	       show_beneath(diff, part, change, err) : show_file(diff, part, change, more, err);
}

static bool
is_at_or_beneath(const char *path, const char *folder, size_t len)
{
	return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
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
		if (strcmp(*paths, ".") == 0 || is_at_or_beneath(path, *paths, len))
			return true;
	}
	return false;
}

/* Whether PATH names a git directory, or something in one. */
static bool
is_in_git(const char *path)
{
	for (; *path != '\0'; path += strcspn(path, "/"), path += *path == '/')
		if (is_at_or_beneath(path, ".git", 4))
			return true;
	return false;
}

/* A git directory is shown file by file if it, or a part of it, was named.  The same holds for the
 * directories of worktrees and submodules in it. */
static bool
is_named(const struct changes_part *part, char *const *paths, const struct workspace_git *sum)
{
	size_t len = strlen(sum->path);

	if (part->ws.git_dir)
		return paths != NULL;
	for (; paths != NULL && *paths != NULL; paths++) {
		size_t n = strlen(*paths);

		while (n > 1 && (*paths)[n - 1] == '/')
			n--;
		if (is_in_git(*paths) && (is_at_or_beneath(sum->path, *paths, n) ||
		                          is_at_or_beneath(*paths, sum->path, len - 1)))
			return true;
	}
	return false;
}

struct part_list {
	struct workspace_change *list;
	size_t n;
	struct workspace_git *sums;
	size_t n_sums;
	bool said[WORKSPACE_GIT_DIRS_MAX];
};

static void
part_list_free(struct part_list *l)
{
	workspace_changes_free(l->list);
	workspace_git_free(l->sums, l->n_sums);
}

static int
show_change(struct diff *diff, const struct changes_part *part, struct part_list *l, size_t i,
            char *const *chosen, struct err *err)
{
	const struct workspace_change *change = &l->list[i], *next = &l->list[i + 1];
	const struct workspace_git *sum = change->summed > 0 ? &l->sums[change->summed - 1] : NULL;
	size_t len = strlen(change->path);

	if (diff->json) {
		show_json(diff, part, change);
		return 0;
	}
	if (diff->names) {
		show_name(part, change, change->newer ? DIFF_HERE_CHANGED : DIFF_HERE_NOT);
		return 0;
	}
	if (sum == NULL || is_named(part, chosen, sum))
		return show_contents(diff, part, change, next->path != NULL && strncmp(next->path, change->path, len) == 0 &&
		                     next->path[len] == '/', err);
	if (!l->said[change->summed - 1])
		diff_print_git(part, sum, diff->cell, diff->colour, &diff->told_unseen);
	l->said[change->summed - 1] = true;
	return 0;
}

static int
show_part(struct diff *diff, const struct changes *changes, const struct changes_part *part,
          char *const *paths, struct err *err)
{
	OWN(part_list_free) struct part_list l = {0};
	OWN(strv_freep) char **chosen = NULL;
	int r;

	r = changes_paths_in(changes, part, paths, &chosen, err);
	if (r == 0)
		r = workspace_list(&part->ws, &l.list, &l.n, err);
	if (r == 0 && !diff->json && !diff->names)
		r = workspace_git_sum(&part->ws, l.list, l.n, &l.sums, &l.n_sums, err);
	diff_renames_free(&diff->renames);
	if (r == 0)
		r = diff_renames_find(&diff->renames, &diff->reader, part, l.list, l.n, err);
	for (size_t i = 0; r == 0 && i < l.n; i++) {
		if (!is_chosen(chosen, l.list[i].path) ||
		    (!diff->json && S_ISREG(l.list[i].type) && l.list[i].kind == WORKSPACE_DELETED &&
		     diff_is_renamed(&diff->renames, l.list[i].path)))
			continue;
		diff->shown++;
		r = show_change(diff, part, &l, i, chosen, err);
	}
	return r;
}

static int
show_all(struct diff *diff, struct changes *changes, char *const *paths, struct err *err)
{
	int r = changes_check_paths(changes, paths, err);

	if (r == 0 && diff->json)
		json_open(&diff->out, NULL, '[');
	for (size_t i = 0; r == 0 && i < changes->n_parts; i++)
		r = show_part(diff, changes, &changes->parts[i], paths, err);
	if (r == 0 && diff->json) {
		json_close(&diff->out, ']');
		putchar('\n');
	}
	if (r == 0 && diff->sizes)
		diff_stat_print(&diff->stat, diff->colour);
	diff->hidden += diff->stat.hidden;
	fflush(stdout);
	return r;
}

static void
diff_free(struct diff *diff)
{
	diff_stat_free(&diff->stat);
	diff_renames_free(&diff->renames);
	diff_reader_close(&diff->reader);
}

int
cmd_diff(int argc, char **argv)
{
	OWN(changes_free) struct changes changes = {0};
	OWN(diff_free) struct diff diff = { .out = { .out = stdout }, .colour = text_wants_colour(stdout) };
	struct err err = {0};
	int rest, r;

	if (cli_parse(cli_diff_options, argc, argv, true, NULL, &diff, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest == argc)
		return cli_failf("no cell is given: cloister diff [OPTION...] CELL [PATH...]");
	if (diff.sizes && (diff.names || diff.json))
		return cli_failf("--stat cannot be combined with --name-status or --json");
	diff.cell = argv[rest];
	r = changes_open(argv[rest], &changes, &err);
	if (r == -EBUSY)
		r = changes_open_now(argv[rest], &changes, &err);
	if (r == 0 && changes.now[0] != '\0')
		changes_tell_now(diff.names || diff.json ? stderr : stdout, &changes);
	diff.as_of_ns = changes.now_ns;
	if (r == 0)
		r = show_all(&diff, &changes, argv + rest + 1, &err);
	changes_warn(&changes);
	if (r == 0 && changes.record.incomplete[0] != '\0')
		return cli_failf("some changes are missing here: %s", changes.record.incomplete);
	if (r == 0 && diff.hidden > 0)
		return cli_failf("%zu file%s could not be shown: look at them in a cell", diff.hidden,
		                 diff.hidden == 1 ? "" : "s");
	if (r == 0 && diff.shown == 0 && argv[rest + 1] != NULL)
		r = err_set(&err, ENOENT, "cell %s changed nothing at '%s'%s", argv[rest], argv[rest + 1],
		            argv[rest + 1][0] == '/' ? "" : ": paths are relative to its workspace");
	else if (r == 0)
		changes_tell_rest(&changes, diff.shown == 0 && !diff.json);
	return r < 0 ? cli_fail(&err) : 0;
}

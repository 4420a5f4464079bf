/* changes.c - see changes.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data.h"
#include "base/err.h"
#include "base/own.h"
#include "base/text.h"
#include "base/tree.h"
#include "base/utf8.h"
#include "cli/changes.h"
#include "cli/cli.h"
#include "cli/timeline.h"
#include "trust/trust.h"

struct holding {
	struct changes_part *part;
	struct err *err;
};

static int
hold_one(void *arg, const char *path)
{
	const struct holding *h = arg;

	return workspace_named_add(&h->part->named, h->part->ws.real, path, h->err);
}

/* Holds back files that were once trusted as the operator's and will be used again, and the links
 * by which cloister finds its own folders. */
static int
hold_believed(struct changes_part *part, struct err *err)
{
	OWN(freep) char *data = data_top(NULL), *state = data_state_path(NULL);
	OWN(freep) char *runtime = data_runtime_path(NULL);
	const char *own[] = { data, state, runtime };
	struct holding h = { .part = part, .err = err };
	int r = trust_each_believed(hold_one, &h);

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(own); i++)
		r = own[i] == NULL ? 0 : hold_one(&h, own[i]);
	return r;
}

/* The next cell will have the files that set this cell's rules. */
static int
hold_sources(const struct cell_spec *spec, struct changes_part *part, struct err *err)
{
	int r = 0;

	for (char **source = spec->sources; r == 0 && source != NULL && *source != NULL; source++)
		r = workspace_named_add(&part->named, part->ws.real, *source, err);
	return r < 0 ? r : hold_believed(part, err);
}

/* Opens the overlay of GRANT, if it has changes. */
static int
open_part(struct changes *changes, size_t grant, struct err *err)
{
	struct changes_part *part = &changes->parts[changes->n_parts];
	const struct cell_grant *g = &changes->record.spec.grants[grant];
	char name[48];
	bool main = true;

	snprintf(name, sizeof(name), "%.20s/%zu", changes->now[0] != '\0' ? changes->now : CELL_CHANGES, grant);
	part->ws.changes = openat(changes->state_dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (part->ws.changes < 0)
		return errno == ENOENT ? 0 : err_errno(err, "cannot open the changes");
	for (size_t i = 0; i < changes->n_parts; i++)
		main = main && !changes->parts[i].main;
	part->grant = g;
	part->main = main && g->workspace && !g->git_dir;
	part->volume = !g->workspace;
	part->ws.git_dir = g->git_dir;
	part->ws.since_ns = (int64_t)changes->record.started_ns;
	snprintf(name, sizeof(name), CELL_BASE "/%zu", grant);
	part->ws.base = openat(changes->state_dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	part->ws.real = tree_open_resolved(g->host);
	changes->n_parts++;
	if (part->ws.real == -ELOOP)
		return err_set(err, ELOOP, "the path of the workspace '%s' now has a link that was not "
		               "there when the cell started: it is no longer the same folder", g->host);
	if (part->ws.real < 0)
		return err_set(err, -part->ws.real, "cannot open the workspace '%s': %s", g->host,
		               strerrordesc_np(-part->ws.real));
	return hold_sources(&changes->record.spec, part, err);
}

int
changes_open_parts(struct changes *changes, struct changes *ret_changes, struct err *err)
{
	const struct cell_spec *spec = &changes->record.spec;
	int r = 0;

	for (size_t i = 0; r == 0 && i < spec->n_grants; i++)
		if (spec->grants[i].access == CELL_OVERLAY)
			r = open_part(changes, i, err);
	if (r < 0)
		return r;
	*ret_changes = *changes;
	/* The record's grants, to which the parts point, did not move. */
	*changes = (struct changes){0};
	for (size_t i = 0; i < ret_changes->n_parts; i++)
		ret_changes->parts[i].ws.named = &ret_changes->parts[i].named;
	return 0;
}

static int
no_overlay(const char *word, struct err *err)
{
	return err_set(err, ENOENT, "cell '%s' had no overlay workspace (`cloister run -w DIR`), so it "
	               "has no kept changes", word);
}

static bool
has_overlay(const struct timeline_event *boot)
{
	json_t *grant;
	size_t i;

	json_array_foreach(json_object_get(json_object_get(boot->json, "grant"), "grants"), i, grant) {
		const char *access = json_string_value(json_object_get(grant, "access"));

		if (access != NULL && strcmp(access, "overlay") == 0)
			return true;
	}
	return false;
}

/* For a cell of which only a timeline is kept.  0 if the timeline records that it changed nothing;
 * otherwise the changes have been applied or discarded since. */
static int
open_unchanged(const char *word, struct cell_entry *ret_entry, struct err *err)
{
	OWN(timeline_close) struct timeline t = {0};
	bool is_bare = false, is_unchanged = false;
	struct timeline_event e;

	if (timeline_open(word, &t, NULL) < 0)
		return -ENOENT;
	while (timeline_next(&t, &e, NULL) > 0) {
		if (strcmp(e.type, "cell.boot") == 0)
			is_bare = !has_overlay(&e);
		else if (strcmp(e.type, "cell.end") == 0)
			is_unchanged = json_is_false(json_object_get(e.json, "changed"));
		timeline_event_free(&e);
	}
	*ret_entry = t.entry;
	return is_unchanged ? 0 : is_bare ? no_overlay(word, err) : -ENOENT;
}

int
changes_open(const char *word, struct changes *ret_changes, struct err *err)
{
	OWN(changes_free) struct changes changes = {0};
	const struct cell_spec *spec = &changes.record.spec;
	int r;

	r = cli_open_record(word, &changes.entry, &changes.state_dir, &changes.record, err);
	if (r == 0 && !cell_spec_has_overlay(spec))
		r = no_overlay(word, err);
	else if (r == -ENOENT)
		r = open_unchanged(word, &changes.entry, err);
	return r < 0 ? r : changes_open_parts(&changes, ret_changes, err);
}

void
changes_free(struct changes *changes)
{
	for (size_t i = 0; i < changes->n_parts; i++) {
		close_fd(&changes->parts[i].ws.changes);
		close_fd(&changes->parts[i].ws.real);
		close_fd(&changes->parts[i].ws.base);
		workspace_named_free(&changes->parts[i].named);
	}
	if (changes->now[0] != '\0')
		changes_remove_now(changes);
	close_fd(&changes->state_dir);
	cell_record_free(&changes->record);
	*changes = (struct changes){0};
}

/* How paths of PART begin.  A state's files are in a folder of cloister's, where nobody looks for them. */
static const char *
place_of(const struct changes_part *part)
{
	return part->grant->state ? part->grant->cell : part->grant->host;
}

/* PATH relative to PART, or NULL if it is not in it. */
static const char *
path_in(const struct changes_part *part, const char *path)
{
	const char *place = place_of(part);
	size_t len = strlen(place);

	if (path[0] != '/')
		return part->main ? path : NULL;
	if (strncmp(path, place, len) != 0 || (path[len] != '/' && path[len] != '\0'))
		return NULL;
	path += len;
	while (*path == '/')
		path++;
	return *path == '\0' ? "." : path;
}

int
changes_paths_in(const struct changes *changes, const struct changes_part *part,
                 char *const *paths, char ***ret_paths, struct err *err)
{
	OWN(strv_freep) char **list = NULL;
	size_t n = 0;

	(void)changes;
	*ret_paths = NULL;
	if (paths[0] == NULL)
		return 0;
	list = calloc(strv_len(paths) + 1, sizeof(*list));
	if (list == NULL)
		return err_errno(err, "cannot select the paths");
	for (; *paths != NULL; paths++) {
		const char *inside = path_in(part, *paths);

		if (inside == NULL)
			continue;
		list[n] = strdup(inside);
		if (list[n++] == NULL)
			return err_errno(err, "cannot select the paths");
	}
	*ret_paths = TAKE(list);
	return 0;
}

int
changes_check_paths(const struct changes *changes, char *const *paths, struct err *err)
{
	if (*paths != NULL && changes->n_parts == 0)
		return err_set(err, ENOENT, "cell %s changed nothing at '%s'", changes->entry.id, *paths);
	for (; *paths != NULL; paths++) {
		bool found = false;

		for (size_t i = 0; i < changes->n_parts && **paths != '\0'; i++)
			found = found || path_in(&changes->parts[i], *paths) != NULL;
		if (!found)
			return err_set(err, ENOENT, "'%s' is not in a workspace of cell %s: give paths "
			               "as `cloister diff` shows them", *paths, changes->entry.id);
	}
	return 0;
}

void
changes_tell_rest(const struct changes *changes, bool is_none)
{
	uint64_t left_out = 0;

	for (size_t i = 0; i < changes->record.spec.n_grants; i++)
		left_out += changes->record.left_out[i];
	if (left_out > 0)
		fprintf(stderr, "cloister: of the changes, %llu %s left out: devices, sockets, FIFOs, "
		        "or files too large for the disk\n", (unsigned long long)left_out,
		        left_out == 1 ? "was" : "were");
	else if (is_none && isatty(STDERR_FILENO))
		fputs("cloister: nothing was changed\n", stderr);
}

void
changes_warn(const struct changes *changes)
{
	for (size_t i = 0; i < changes->n_parts; i++)
		if (changes->parts[i].named.why.code != 0)
			fprintf(stderr, "cloister: some commands of git's configuration may not be "
			        "held back: %s\n",
			        changes->parts[i].named.why.text);
}

static size_t
print_link(int folder, const char *path, char sign)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(folder, path, target, sizeof(target));

	if (n < 0) {
		printf("  (contents not shown: %s)\n", strerrordesc_np(errno));
		return 1;
	}
	printf("%c-> ", sign);
	text_print_safe(stdout, target, (size_t)n, false);
	putchar('\n');
	return 0;
}

size_t
changes_print_inode(const struct changes_part *part, const struct workspace_change *change)
{
	size_t hidden = 0;

	if (change->old_mode != 0 && change->mode != 0 && change->old_mode != change->mode)
		printf("  mode %04o -> %04o\n", change->old_mode & 07777u, change->mode & 07777u);
	else if (change->old_mode == 0 && S_ISREG(change->mode) && (change->mode & 0111) != 0)
		printf("  mode %04o\n", change->mode & 07777u);
	if (S_ISLNK(change->old_mode) && !change->mode_only)
		hidden += print_link(part->ws.real, change->path, '-');
	if (S_ISLNK(change->mode) && !change->mode_only)
		hidden += print_link(part->ws.changes, change->path, '+');
	return hidden;
}

void
changes_print_path(FILE *out, const struct changes_part *part, const char *path)
{
	if (!part->main) {
		text_print_safe(out, place_of(part), strlen(place_of(part)), false);
		fputc('/', out);
	}
	text_print_safe(out, path, strlen(path), false);
}

static void
print_quoted(FILE *out, const char *s, size_t len, bool plainly)
{
	for (size_t i = 0; i < len; i++) {
		const unsigned char c = (unsigned char)s[i];

		if (plainly && c == '\'')
			fputs("'\\''", out);
		else if (plainly || (c >= ' ' && c < 0x7f && c != '\'' && c != '\\'))
			fputc(c, out);
		else
			fprintf(out, "\\%03o", c);
	}
}

static bool
is_printable(const char *s, size_t len)
{
	uint32_t code;
	size_t n;

	for (; len > 0; s += n, len -= n) {
		n = utf8_next(s, len, &code);
		if (n == 0 || utf8_is_control(code))
			return false;
	}
	return true;
}

void
changes_print_word(FILE *out, const struct changes_part *part, const char *path, size_t len)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._/+=@";
	const char *folder = part->main ? "" : place_of(part);
	size_t n = strlen(folder);
	bool bare = n + len > 0 && strspn(folder, plain) == n && strspn(path, plain) >= len;
	bool plainly = is_printable(folder, n) && is_printable(path, len);

	/* Characters that a terminal must not get are escaped in shell syntax. */
	fputs(bare ? "" : plainly ? "'" : "$'", out);
	print_quoted(out, folder, n, plainly);
	fputs(part->main ? "" : "/", out);
	print_quoted(out, path, len, plainly);
	fputs(bare ? "" : "'", out);
}

int
changes_open_files(const struct changes_part *part, const struct workspace_change *change, int *ret_old,
                   int *ret_new)
{
	OWN(closep) int old = -1, new = -1;

	const char *before = change->from != NULL ? change->from : change->path;

	if (S_ISREG(change->old_mode) && (old = workspace_open(part->ws.real, before, NULL)) < 0)
		return old;
	if (S_ISREG(change->mode) && (new = workspace_open(part->ws.changes, change->path, NULL)) < 0)
		return new;
	*ret_old = TAKE_FD(old);
	*ret_new = TAKE_FD(new);
	return 0;
}

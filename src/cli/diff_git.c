/* diff_git.c - summarises changes to git directories for people. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/changes.h"

#define REFS_SHOWN 20
#define ID_SHOWN 12             /* of an id: too many for an agent to forge two that look alike */

static void
print_value(const char *value)
{
	size_t len = strlen(value);

	text_print_safe(stdout, value, strncmp(value, "refs/", 5) == 0 || len < ID_SHOWN ? len : ID_SHOWN,
	                false);
}

static void
print_ref(const struct changes_part *part, const struct workspace_git *sum,
          const struct workspace_git_ref *ref)
{
	fputs("git: ", stdout);
	changes_print_path(stdout, part, sum->path);
	text_print_safe(stdout, ref->name, strlen(ref->name), false);
	putchar(' ');
	if (ref->old != NULL)
		print_value(ref->old);
	else
		fputs("(new)", stdout);
	fputs(" -> ", stdout);
	if (ref->new != NULL)
		print_value(ref->new);
	else
		fputs("(deleted)", stdout);
	if (ref->steps > 0)
		printf(", %zu step%s by its log", ref->steps, ref->steps == 1 ? "" : "s");
	putchar('\n');
}

static void
print_count(const char **between, size_t n, const char *what, const char *done)
{
	if (n == 0)
		return;
	printf("%s%zu %s%s %s", *between, n, what, n == 1 ? "" : "s", done);
	*between = ", ";
}

static void
print_counts(const struct changes_part *part, const struct workspace_git *sum, const char *cell)
{
	static const char *const done[] = { "added", "changed", "deleted" };
	const char *between = "";
	size_t len = strlen(sum->path);

	fputs("git: ", stdout);
	for (size_t i = 0; i < 3; i++)
		print_count(&between, sum->objects[i], "object", done[i]);
	for (size_t i = 0; i < 3; i++)
		print_count(&between, sum->packs[i], "pack", done[i]);
	print_count(&between, sum->others, "other file", "of its own");
	if (*between == '\0' && sum->n_refs == 0)
		fputs("folders only", stdout);
	printf("%s`cloister diff %s ", *between == '\0' && sum->n_refs > 0 ? "" : "; ", cell);
	changes_print_word(stdout, part, sum->path, len > 0 ? len - 1 : 0);
	fputs("` names each\n", stdout);
}

void
diff_print_git(const struct changes_part *part, const struct workspace_git *sum, const char *cell,
               bool colour, bool *told_unseen)
{
	size_t objects = 0;

	for (size_t i = 0; i < 3; i++)
		objects += sum->objects[i] + sum->packs[i];
	if (colour)
		fputs("\033[1m", stdout);
	for (size_t i = 0; i < sum->n_refs && i < REFS_SHOWN; i++)
		print_ref(part, sum, &sum->refs[i]);
	if (sum->n_refs > REFS_SHOWN)
		printf("git: and %zu more refs\n", sum->n_refs - REFS_SHOWN);
	print_counts(part, sum, cell);
	if (colour)
		fputs("\033[m", stdout);
	if (*told_unseen || (sum->n_refs == 0 && objects == 0 && !sum->index))
		return;
	*told_unseen = true;
	fputs("git: commits and staged changes are not shown: see `git log -p` and `git diff --cached` in "
	      "a cell before it ends, or here after apply\n", stdout);
}

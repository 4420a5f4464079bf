/* run_tools.c - `run --tools`, and what a cell whose policy has tools gets. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/exe.h"
#include "base/io.h"
#include "base/own.h"
#include "cli/policy.h"
#include "cli/run.h"
#include "policy/policy.h"
#include "policy/policy_tools.h"
#include "policy/policy_yaml.h"
#include "tools/server_run.h"
#include "trust/trust.h"

/* ---- the file: a part of a policy ---- */

static bool
is_any_of(const char *word, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(word, words[i]) == 0)
			return true;
	return false;
}

/* Whether NODE is a word, or a list of words, that all pass. */
static bool
all_words(const struct node *node, bool (*passes)(const char *word))
{
	if (node == NULL || node->kind == NODE_SCALAR)
		return node != NULL && passes(node->text);
	for (size_t i = 0; i < node->n; i++)
		if (node->kind != NODE_LIST || !all_words(node->items[i], passes))
			return false;
	return node->n > 0;
}

static bool
is_preset(const char *word)
{
	return strncmp(word, "preset:", 7) == 0;
}

static int
check_rule(const struct node *rule, struct err *err)
{
	static const char *const verbs[] = { "allow", "deny", "ask", "log" };

	for (size_t i = 0; rule->kind == NODE_MAP && i < ARRAY_LEN(verbs); i++)
		if (all_words(node_get(rule, verbs[i]), policy_asked_is_call))
			return 0;
	return node_err(err, rule, "a file of --tools has rules for tools only, such as {allow: tool:github.get_*}: give the "
	                "policy that has this rule with -p");
}

static int
check_root(const struct node *root, struct err *err)
{
	static const char *const keys[] = { "version", "tools", "egress", "extends" };
	const struct node *rules, *extends;
	int r = 0;

	if (root->kind != NODE_MAP)
		return node_err(err, root, "a file of --tools is a map with `version`, `tools` and `egress`");
	for (size_t i = 0; i < root->n; i++)
		if (!is_any_of(root->items[i]->text, keys, ARRAY_LEN(keys)))
			return node_err(err, root->items[i], "a file of --tools has only `version`, `tools`, `egress` and `extends`: give "
			                "the policy that has `%.64s` with -p", root->items[i]->text);
	extends = node_get(root, "extends");
	if (extends != NULL && !all_words(extends, is_preset))
		return node_err(err, extends, "a file of --tools extends presets only: give other policies with -p");
	rules = node_get(root, "egress");
	for (size_t i = 0; r == 0 && rules != NULL && rules->kind == NODE_LIST && i < rules->n; i++)
		r = check_rule(rules->items[i], err);
	return r;
}

static int
check_file(const char *file, struct err *err)
{
	OWN(node_freep) struct node *root = NULL;
	OWN(freep) char *text = NULL;
	size_t len;
	int r = trust_read(TRUST_POLICY, file, POLICY_FILE_MAX, &text, &len, err);

	r = r < 0 ? err_wrap(err, "--tools") : node_parse(file, text, len, &root, err);
	return r < 0 ? r : check_root(root, err);
}

/* One that is found has other rights than one that is named, so they are not put together. */
static int
check_found(const struct run *run, const char *file, struct err *err)
{
	OWN(freep) char *where = realpath(run_find_project(run), NULL);
	unsigned up = 0;
	OWN(closep) int folder = where == NULL ? -1 : policy_cli_find(where, POLICY_CLI_FILE, &up);

	if (folder < 0)
		return 0;
	for (unsigned i = 0; i < up; i++)
		*strrchr(where, '/') = '\0';
	return err_set(err, EINVAL, "--tools '%s' does not say whether %s/" POLICY_CLI_FILE " is used, too: name it with -p, or "
	               "name another policy", file, where);
}

/* ---- the policy ---- */

/* A path in a list of YAML. */
static int
put_path(struct buf *b, const struct run *run, const char *file, struct err *err)
{
	OWN(freep) char *path = realpath(file, NULL);
	int r = path == NULL ? err_errno(err, "cannot read '%s'", file) : trust_path(TRUST_POLICY, file, err);

	(void)run;
	if (r == 0 && (strpbrk(path, "'\n") != NULL))
		r = err_set(err, EINVAL, "'%s' cannot be read: its path has a quote", file);
	buf_put_text(b, b->len > 0 && b->data[b->len - 1] == '\'' ? ", '" : "'");
	buf_put_text(b, path != NULL ? path : "");
	buf_put_text(b, "'");
	return r;
}

int
run_tools_policy(const struct run *run, char **ret_path, int *ret_fd, struct err *err)
{
	OWN(buf_free) struct buf text = BUF(2 * PATH_MAX + 128);
	OWN(closep) int fd = memfd_create("tools", MFD_CLOEXEC);
	int r;

	/* A cell that learns has servers, but no policy besides. */
	if (run->no_policy && !run->learn)
		return err_set(err, EINVAL, "--no-policy and --tools cannot be combined: remove one");
	buf_put_text(&text, "version: 1\nextends: [");
	r = check_file(run->tools_file, err);
	if (r == 0 && run->policy_file == NULL && !run->learn)
		r = check_found(run, run->tools_file, err);
	r = r < 0 ? r : put_path(&text, run, run->tools_file, err);
	if (r == 0 && run->policy_file != NULL)
		r = put_path(&text, run, run->policy_file, err);
	buf_put_text(&text, "]\n");
	if (r == 0 && (fd < 0 || buf_failed(&text) || fchmod(fd, 0600) < 0))
		r = err_errno(err, "cannot make a memory file");
	r = r < 0 ? r : write_all(fd, text.data, text.len, err);
	if (r < 0)
		return r;
	*ret_path = str_format("/proc/self/fd/%d", fd);
	if (*ret_path == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* VS Code reads its user's servers from these: on a desktop, and where it serves a browser or another machine. */
static const char *const editor_files[] = { ".config/Code/User/mcp.json", ".vscode-server/data/User/mcp.json" };

/* An agent with a profile gets words or variables, and may keep these folders. */
static int
tell_editors(struct run *run, struct err *err)
{
	for (size_t i = 0; run->agent == NULL && i < ARRAY_LEN(editor_files); i++) {
		struct cell_file *file = &run->spec.files[run->spec.n_files];

		if (run->spec.n_files == CELL_FILES_MAX)
			return err_set(err, E2BIG, "the cell has more than %d files", CELL_FILES_MAX);
		run->spec.n_files++;
		file->path = strdup(editor_files[i]);
		file->text = strdup("{\"servers\": {\"cloister\": {\"type\": \"http\", \"url\": \"" POLICY_TOOLS_URL "\"}}}\n");
		if (file->path == NULL || file->text == NULL)
			return err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

/* With an image or a folder of programs, too: it is static. */
int
run_finish_tools(struct run *run, struct err *err)
{
	char helper[PATH_MAX];
	OWN(freep) char *volume = NULL;
	int r;

	if (!run->spec.has_tools || run->print_doc)
		return 0;
	r = exe_find_helper("cloister-stdio", helper, err);
	if (r < 0)
		return r;
	volume = str_format("%s:" SERVER_RUN_STDIO ":ro", helper);
	r = volume == NULL ? err_set(err, ENOMEM, "out of memory") : run_add_volume(run, volume, err);
	return r < 0 ? r : tell_editors(run, err);
}

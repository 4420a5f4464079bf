/* run_agent_login.c - gives an agent a login that the operator has on this machine, without its tokens.
 *
 * The agent's own file of the host stays outside: cloister-vault reads the token from it, and reads it again before
 * the token ends.  The cell has a file of the same form, with a placeholder. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "cli/run.h"
#include "cli/run_agent.h"
#include "policy/policy_yaml.h"
#include "vault/secret_wants.h"
#include "workspace/workspace_tree.h"

#define DEFINITION_MAX (PROFILE_TEXT_MAX * 2)

bool
run_agent_find_login(struct run_agent *a)
{
	const struct profile_login *login = &a->found->profile->login;
	const char *home = getenv("HOME");

	if (a->login != NULL)
		return true;
	if (login->file == NULL || home == NULL || home[0] != '/')
		return false;
	a->login = str_format("%s/%s", home, login->file);
	if (a->login != NULL && access(a->login, R_OK) == 0)
		return true;
	free(TAKE(a->login));
	return false;
}

/* {CLAUDE_LOGIN: {like: claude-login, from: 'file:/home/me/.claude/.credentials.json'}} */
static int
define(struct run *run, const struct run_agent *a, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(DEFINITION_MAX);
	OWN(node_freep) struct node *root = NULL;
	OWN(freep) char *from = str_format("file:%s", a->login);
	const char *secret = a->found->profile->login.secret, *expires = a->found->profile->login.expires;
	int r;

	if (from == NULL)
		return err_set(err, ENOMEM, "out of memory");
	buf_put_text(&b, "{");
	node_put_quoted(&b, secret, strlen(secret));
	buf_put_text(&b, ": {like: ");
	node_put_quoted(&b, secret, strlen(secret));
	buf_put_text(&b, ", from: ");
	node_put_quoted(&b, from, strlen(from));
	if (expires != NULL) {
		buf_put_text(&b, ", expires: ");
		node_put_quoted(&b, expires, strlen(expires));
	}
	buf_put_text(&b, "}}");
	r = buf_failed(&b) ? err_set(err, E2BIG, "the path of the login is too long") :
	    node_parse("login", (const char *)b.data, b.len, &root, err);
	r = r == 0 ? secret_wants_read(&run->wants, root, err) : r;
	return r < 0 ? err_wrap(err, "cannot use the login in '%s'", a->login) : 0;
}

int
run_agent_use_login(struct run *run, const struct run_agent *a, struct err *err)
{
	const struct profile_login *login = &a->found->profile->login;
	int r = a->login == NULL ? 0 : define(run, a, err);

	for (size_t i = 0; r == 0 && a->login != NULL && login->allow != NULL && login->allow[i] != NULL; i++)
		r = run_add_allow_of(run, login->allow[i], a->found->file, login->allow_lines[i], err);
	for (char **env = login->env; r == 0 && a->login != NULL && env != NULL && *env != NULL; env++)
		r = run_add_env(run, *env, NULL, err);
	return r;
}

/* ---- files in the folders that the agent keeps ---- */

/* The kept folder that the file at PATH is in, or NULL. */
static const char *
find_keep(const struct profile *p, const char *path)
{
	for (char **keep = p->keep; keep != NULL && *keep != NULL; keep++)
		if (tree_is_beneath(path, *keep) && strcmp(path, *keep) != 0)
			return *keep;
	return NULL;
}

/* Renames NEW to NAME, at once unless a folder is in the way. */
static int
put_in_place(int folder, const char *new, const char *name, struct err *err)
{
	int r = renameat(folder, new, folder, name);

	if (r < 0 && errno == EISDIR && wtree_remove(folder, name, NULL, err) == 0)
		r = renameat(folder, new, folder, name);
	return r < 0 ? err_errno(err, "cannot write '%s' for the agent", name) : 0;
}

/* Replaces whatever the agent has put there. */
static int
write_kept(int project, const struct cell_file *file, struct err *err)
{
	const char *slash = strrchr(file->path, '/');
	OWN(freep) char *above = strndup(file->path, (size_t)(slash - file->path)), *new = str_format("%s.new", slash + 1);
	OWN(closep) int folder = above == NULL || new == NULL ? err_set(err, ENOMEM, "out of memory") :
	                         run_agent_make_folder(project, above, err);
	OWN(closep) int fd = -1;
	int r;

	if (folder < 0)
		return folder;
	if (wtree_remove(folder, new, NULL, err) < 0)
		return err_wrap(err, "cannot write '%s' for the agent", file->path);
	fd = openat(folder, new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = fd < 0 ? err_errno(err, "cannot write '%s' for the agent", file->path) :
	    write_all(fd, file->text, strlen(file->text), err);
	return r < 0 ? r : put_in_place(folder, new, slash + 1, err);
}

static void
forget(struct cell_spec *spec, size_t i)
{
	free(spec->files[i].path);
	free(spec->files[i].text);
	spec->files[i] = spec->files[--spec->n_files];
	spec->files[spec->n_files] = (struct cell_file){0};
}

int
run_agent_place_files(struct run *run, struct err *err)
{
	OWN(freep) char *place = NULL;
	OWN(closep) int project = -1;
	int r = 0;

	for (size_t i = run->spec.n_files; run->agent != NULL && r == 0 && i-- > 0;) {
		if (find_keep(run->agent->found->profile, run->spec.files[i].path) == NULL)
			continue;
		if (project < 0)
			r = project = run_agent_open_kept(run->agent, &place, err);
		r = r < 0 ? r : write_kept(project, &run->spec.files[i], err);
		if (r == 0)
			forget(&run->spec, i);
	}
	return r < 0 ? r : 0;
}

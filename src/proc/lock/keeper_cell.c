/* keeper_cell.c - starts a server in a cell, and ends it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/exe.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/words.h"
#include "proc/lock/lock_proc.h"
#include "tools/server_run.h"
#include "tools/server_wasm.h"

#define GRACE_MS 1000                   /* for a server whose input was closed */
#define KILL_MS 20000                   /* for a killed cell to be tidied up */
#define POLL_MS 5

/* A file cannot be an overlay, so it is shown read-only: a write is refused, and recorded all the same. */
static void
add_path(struct words *w, const char *path, const char *mode)
{
	struct stat st;

	if (stat(path, &st) == 0)
		words_add(w, str_format("--volume=%s:%s:%s", path, path, S_ISDIR(st.st_mode) ? mode : "ro"));
}

static int
add_paths(struct words *w, const struct keeper *k, const struct policy_list *paths, const char *mode, const char *but,
          struct err *err)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < paths->n; i++) {
		int r = policy_tools_path(paths->at[i], k->folder, k->home, path, sizeof(path), err);

		if (r < 0)
			return r;
		if (strcmp(path, but) != 0)
			add_path(w, path, mode);
	}
	return 0;
}

static void
add_variables(struct words *w, const struct cell_wish *wish)
{
	for (size_t i = 0; i < wish->server->env.n; i++)
		words_add(w, str_format("--env=%s", wish->server->env.at[i]));
	if (!wish->has_secrets)
		server_run_stand_ins(wish->server, w);
}

/* The folder in which the server works: the server's own, or an empty one. */
static int
add_folder(struct words *w, const struct keeper *k, const struct cell_wish *wish, char ret_folder[PATH_MAX],
           struct err *err)
{
	const char *folder = wish->server->folder;
	int r = 0;

	if (folder != NULL)
		r = policy_tools_path(folder, k->folder, k->home, ret_folder, PATH_MAX, err);
	else if (snprintf(ret_folder, PATH_MAX, "%s/work", k->temporary) >= PATH_MAX)
		r = err_set(err, ENAMETOOLONG, "the name of the temporary folder is too long");
	else if (mkdir(ret_folder, 0755) < 0 && errno != EEXIST)
		r = err_errno(err, "cannot make a temporary folder");
	if (r == 0)
		words_add(w, str_format("--workspace=%s:overlay", ret_folder));
	return r;
}

/* The cell reaches the server through the gate, as its own policy and this one rule have it. */
static int
add_bridge(struct words *w, const struct policy_tools_server *server, struct err *err)
{
	OWN(freep) char *grant = server_run_bridge_grant(err), *rule = server_run_bridge_rule(server);

	if (grant == NULL)
		return -ENOENT;
	words_add(w, str_format("--volume=%s", grant));
	words_add(w, rule != NULL ? str_format("--allow=%s", rule) : NULL);
	return 0;
}

static int
describe(struct words *w, const struct keeper *k, const struct cell_wish *wish, const char *id, const char *policy,
         struct err *err)
{
	const char *allow, *mode = wish->observes ? "overlay" : "ro";
	char folder[PATH_MAX];
	size_t at = 0;
	int r;

	words_add(w, strdup("cloister"));
	words_add(w, strdup("run"));
	words_add(w, strdup("--quiet"));
	words_add(w, strdup("--no-tty"));
	words_add(w, strdup("--keep"));
	words_add(w, str_format("--id=%s", id));
	words_add(w, str_format("--policy=%s", policy));
	if (wish->ca != NULL)
		words_add(w, str_format("--ca=%s", wish->ca));
	if (wish->server->image != NULL)
		words_add(w, str_format("--image=%s", wish->server->image));
	while (wish->allows && (allow = args_next(k->args, "allow", &at)) != NULL)
		words_add(w, str_format("--allow=%s", allow));
	r = wish->server->url != NULL ? add_bridge(w, wish->server, err) : 0;
	r = r < 0 ? r : add_folder(w, k, wish, folder, err);
	r = r == 0 ? add_paths(w, k, &wish->server->read, mode, folder, err) : r;
	r = r == 0 ? add_paths(w, k, &wish->server->write, "overlay", folder, err) : r;
	if (r == 0 && wish->writable != NULL)
		r = add_paths(w, k, wish->writable, "overlay", folder, err);
	add_variables(w, wish);
	if (r == 0 && wish->server->wasm != NULL)
		return server_wasm_words(wish->server, k->folder, k->home, NULL, w, err);
	words_add(w, strdup("--"));
	if (wish->server->url != NULL) {
		words_add(w, strdup(SERVER_RUN_STDIO));
		words_add(w, strdup(wish->server->url));
		words_add(w, server_run_token(wish->server->name, "_TOKEN"));
	}
	for (size_t i = 0; i < wish->server->n_command; i++)
		words_add(w, strdup(wish->server->command[i]));
	return r < 0 ? r : w->failed ? err_set(err, E2BIG, "the command is too long") : 0;
}

static int
write_policy(const struct keeper *k, const char *text, char ret_path[PATH_MAX], struct err *err)
{
	if (snprintf(ret_path, PATH_MAX, "%s/policy.yaml", k->temporary) >= PATH_MAX)
		return err_set(err, ENAMETOOLONG, "the name of the temporary folder is too long");
	return create_file_at(AT_FDCWD, ret_path, 0600, text, err);
}

/* A policy that was found may be a stranger's, and send secrets to hosts of its own. */
static int
check_secrets(const struct keeper *k, const struct cell_wish *wish, struct err *err)
{
	if (!wish->has_secrets || args_get(k->args, "policy") != NULL || !keeper_policy_has(wish->server, "secrets"))
		return 0;
	return err_set(err, EPERM, "it would use secrets as '%s' says, which may come with the project: look at the file, "
	               "and name it with `-p %s`", k->file, k->file);
}

static int
make_pipes(int ours[3], int theirs[3], struct err *err)
{
	for (int i = 0; i < 3; i++) {
		int ends[2];

		if (pipe2(ends, O_CLOEXEC) < 0)
			return err_errno(err, "cannot make a pipe");
		/* Its output, its input, its standard error. */
		ours[i] = i == 1 ? ends[1] : ends[0];
		theirs[i] = i == 1 ? ends[0] : ends[1];
	}
	return 0;
}

int
cell_begin(struct keeper *k, const struct cell_wish *wish, struct server_cell *ret_cell, struct err *err)
{
	OWN(words_free) struct words words = {0};
	char policy[PATH_MAX], program[PATH_MAX];
	struct server_cell cell = {0};
	int theirs[3] = {0}, r;

	r = check_secrets(k, wish, err);
	r = r == 0 ? cell_make_id(cell.id, err) : r;
	r = r == 0 ? write_policy(k, wish->policy, policy, err) : r;
	r = r == 0 ? describe(&words, k, wish, cell.id, policy, err) : r;
	r = r == 0 ? exe_find_cloister(program, err) : r;
	r = r == 0 ? make_pipes(cell.fds, theirs, err) : r;
	if (r == 0) {
		cell.pid = spawn_start(&(struct spawn){ .argv = words.list, .path = program, .n_fds = 3,
			.fds = (struct spawn_fd[]){ { theirs[1], STDIN_FILENO }, { theirs[0], STDOUT_FILENO },
			                            { theirs[2], STDERR_FILENO } }, .flags = SPAWN_DIES | SPAWN_GROUP }, NULL, err);
		r = cell.pid < 0 ? (int)cell.pid : 0;
	}
	for (int i = 0; i < 3; i++) {
		close_fd(&theirs[i]);
		if (r < 0)
			close_fd(&cell.fds[i]);
	}
	if (r == 0)
		*ret_cell = cell;
	return r;
}

pid_t
cell_run_cloister(char *const *argv, int *ret_out, struct err *err)
{
	char program[PATH_MAX];
	int ends[2] = { -1, -1 };
	pid_t pid;
	int r = exe_find_cloister(program, err);

	if (r < 0)
		return r;
	if (ret_out != NULL && pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	pid = spawn_start(&(struct spawn){ .argv = argv, .path = program, .n_fds = 3, .fds = (struct spawn_fd[]){
		{ SPAWN_NULL, STDIN_FILENO }, { ret_out != NULL ? ends[1] : SPAWN_NULL, STDOUT_FILENO },
		{ SPAWN_NULL, STDERR_FILENO } }, .flags = SPAWN_DIES }, NULL, err);
	if (ret_out != NULL)
		close(ends[1]);
	if (ret_out != NULL && pid < 0)
		close(ends[0]);
	else if (ret_out != NULL)
		*ret_out = ends[0];
	return pid;
}

static void
run_on(const char *verb, const char *id)
{
	char *argv[] = { (char *)(uintptr_t)"cloister", (char *)(uintptr_t)verb, (char *)(uintptr_t)id, NULL };
	pid_t pid = cell_run_cloister(argv, NULL, NULL);

	if (pid > 0)
		(void)spawn_await(pid, NULL);
}

static bool
has_ended(pid_t pid, int64_t timeout_ms)
{
	const int64_t deadline = io_now_ms() + timeout_ms;

	do {
		if (waitpid(pid, NULL, WNOHANG) != 0)
			return true;
		usleep(POLL_MS * 1000);
	} while (io_now_ms() < deadline);
	return false;
}

void
cell_finish(struct keeper *k, struct server_cell *cell)
{
	(void)k;
	for (int i = 0; i < 3; i++)
		close_fd(&cell->fds[i]);
	if (cell->pid <= 0)
		return;
	if (!has_ended(cell->pid, GRACE_MS)) {
		run_on("kill", cell->id);
		if (!has_ended(cell->pid, KILL_MS)) {
			(void)kill(cell->pid, SIGKILL);
			(void)waitpid(cell->pid, NULL, 0);
		}
	}
	cell->pid = 0;
}

void
cell_forget(const struct server_cell *cell)
{
	run_on("discard", cell->id);
}

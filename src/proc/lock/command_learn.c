/* command_learn.c - `cloister tools learn`: proposes the scopes of tools from calls that a script makes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/spawn.h"
#include "base/text.h"
#include "ipc/ipc.h"
#include "ipc/lock_channel.h"
#include "proc/lock/lock_proc.h"
#include "tools/scope.h"

/* Everything public is let through, as for `cloister learn`. */
static const char everything[] = "version: 1\nrecord: {level: acts}\negress:\n  - allow: '*'\n";

struct lesson {
	struct keeper *k;
	const struct policy_tools_server *server;
	struct buf calls;               /* str tool, str arguments, ... */
	size_t n;
	size_t n_failed;                /* tools whose scope stays, as a call of them failed */
};

static void
lesson_free(struct lesson *l)
{
	buf_free(&l->calls);
}

/* ---- the script ---- */

static int
hear_script(struct lesson *l, int fd, struct err *err)
{
	OWN(buf_free) struct buf b;
	uint64_t n = 0;
	int r;

	ipc_begin(&b, LOCK_SCRIPT);
	r = keeper_ask(l->k, &b, &fd, 1, LOCK_START_MS * 10, &l->calls, &n, err);
	l->n = (size_t)n;
	return r < 0 ? r : n == 0 ? err_set(err, EINVAL, "the script made no calls: it prints lines such as {\"tool\": "
	                                    "\"get_issue\", \"arguments\": {\"number\": 1}}") : 0;
}

static int
run_script(struct lesson *l, char *const *argv, struct err *err)
{
	OWN(closep) int from = -1;
	int ends[2], r, status;
	pid_t pid;

	if (argv[0] == NULL)
		return hear_script(l, STDIN_FILENO, err);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	from = ends[0];
	pid = spawn_start(&(struct spawn){ .argv = argv, .path = argv[0], .n_fds = 1,
		.fds = (struct spawn_fd[]){ { ends[1], STDOUT_FILENO } }, .flags = SPAWN_DIES | SPAWN_COMMAND }, NULL, err);
	close(ends[1]);
	if (pid < 0)
		return (int)pid;
	r = hear_script(l, from, err);
	close(TAKE_FD(from));
	status = spawn_await(pid, NULL);
	return r < 0 ? r : status != 0 ? err_set(err, EIO, "the script failed with status %d", status) : 0;
}

/* ---- calls ---- */

static int
ask_call(const struct lesson *l, const char *tool, const char *arguments, const struct server_cell *cell, struct buf *why,
         uint64_t *ret_failed, struct err *err)
{
	OWN(buf_free) struct buf b;

	ipc_begin(&b, LOCK_CALL);
	buf_put_str(&b, l->server->name);
	buf_put_str(&b, tool);
	buf_put_u32(&b, 0);
	buf_put_str(&b, arguments);
	buf_put_str(&b, l->k->folder);
	buf_put_str(&b, l->k->home);
	buf_put_u64(&b, l->server->timeout_ms);
	return keeper_ask(l->k, &b, cell->fds, 3, LOCK_START_MS + (int64_t)l->server->timeout_ms, why, ret_failed, err);
}

static void
tell_failed(const struct lesson *l, const char *tool, const struct buf *why)
{
	fprintf(stderr, "cloister: %s.%s: a call got the error '", l->server->name, tool);
	text_print_safe(stderr, (const char *)why->data, why->len, false);
	fputs("': its scope is not changed\n", stderr);
}

static int
call(const struct lesson *l, const char *tool, const char *arguments, bool *ret_failed, struct err *err)
{
	OWN(buf_free) struct buf why = BUF(LOCK_CHUNK_MAX);
	const struct cell_wish wish = { .server = l->server, .observes = true, .has_secrets = true, .allows = true,
	                                .policy = *l->server->policy != '\0' ? l->server->policy : everything };
	struct server_cell cell;
	uint64_t failed = 0;
	int r = cell_begin(l->k, &wish, &cell, err), observed;

	if (r < 0)
		return r;
	r = ask_call(l, tool, arguments, &cell, &why, &failed, err);
	cell_finish(l->k, &cell);
	observed = keeper_observe(l->k, &cell, false, r == 0 ? err : NULL);
	cell_forget(&cell);
	*ret_failed = failed != 0;
	if (failed)
		tell_failed(l, tool, &why);
	return r < 0 ? err_wrap(err, "%s.%s", l->server->name, tool) : observed;
}

static int
propose(const struct lesson *l, const char *tool, const char *arguments, struct err *err)
{
	OWN(buf_free) struct buf b, scope = BUF(LOCK_MAX);
	int r;

	ipc_begin(&b, LOCK_PROPOSE);
	buf_put_str(&b, l->server->name);
	buf_put_str(&b, tool);
	buf_put_str(&b, arguments);
	r = keeper_ask(l->k, &b, NULL, 0, 0, &scope, NULL, err);
	if (r < 0)
		return r;
	printf("%s.%s: scope: ", l->server->name, tool);
	text_print_safe(stdout, (const char *)scope.data, scope.len, false);
	putchar('\n');
	return 0;
}

/* All calls of the tool of call number FIRST, unless they were made before. */
static int
learn_tool(struct lesson *l, size_t first, struct err *err)
{
	struct buf calls;
	const char *tool, *arguments, *wanted = NULL, *example = NULL;
	bool has_failed = false;
	int r = 0;

	buf_init_borrowed(&calls, l->calls.data, l->calls.len);
	for (size_t i = 0; i < l->n && r == 0 && !has_failed; i++) {
		if (buf_get_str(&calls, &tool) < 0 || buf_get_str(&calls, &arguments) < 0)
			return err_set(err, EBADMSG, "the calls are not valid");
		if (i < first)
			continue;
		if (i == first) {
			wanted = tool;
			example = arguments;
		}
		if (strcmp(tool, wanted) == 0)
			r = call(l, tool, arguments, &has_failed, err);
	}
	l->n_failed += has_failed;
	return r < 0 || wanted == NULL || has_failed ? r : propose(l, wanted, example, err);
}

/* Whether call number N is the first of its tool, which is *ret_tool. */
static bool
is_first(const struct lesson *l, size_t n, const char **ret_tool)
{
	const char *tools[LOCK_LISTED_MAX];
	struct buf calls;
	size_t known = 0;
	const char *arguments;

	buf_init_borrowed(&calls, l->calls.data, l->calls.len);
	for (size_t i = 0; i <= n && known < ARRAY_LEN(tools); i++) {
		bool seen = false;

		if (buf_get_str(&calls, ret_tool) < 0 || buf_get_str(&calls, &arguments) < 0)
			return false;
		for (size_t k = 0; k < known; k++)
			seen |= strcmp(tools[k], *ret_tool) == 0;
		if (i == n)
			return !seen;
		if (!seen)
			tools[known++] = *ret_tool;
	}
	return false;
}

static int
learn_all(struct lesson *l, size_t *ret_learned, struct err *err)
{
	const char *tool;
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->n; i++) {
		if (!is_first(l, i, &tool))
			continue;
		n++;
		r = lock_tool(&l->k->lock, l->server->name, tool) != NULL ? learn_tool(l, i, err) :
		    err_set(err, ENOENT, "the lock has no tool '%s' of '%s': run `cloister tools lock` first", tool, l->server->name);
	}
	*ret_learned = n - l->n_failed;
	return r;
}

int
command_learn(const struct args *args, struct err *err)
{
	struct args own = *args;
	OWN(keeper_close) struct keeper k;
	OWN(lesson_free) struct lesson l = { .k = &k, .calls = BUF(LOCK_MAX) };
	OWN(buf_free) struct buf b = {0}, text = BUF(LOCK_MAX);
	char *server[] = { args->words[0], NULL };
	size_t n = 0;
	int r;

	own.words = server;
	own.n_words = 1;
	r = keeper_open(&k, &own, err);
	if (r < 0)
		return r;
	l.server = policy_tools_server(k.tools, server[0], strlen(server[0]));
	r = run_script(&l, args->words + 1, err);
	r = r == 0 ? learn_all(&l, &n, err) : r;
	if (r < 0 || n == 0 || args_get(args, "dry-run") != NULL)
		return r < 0 ? r : l.n_failed > 0;
	ipc_begin(&b, LOCK_TEXT);
	r = keeper_ask(&k, &b, NULL, 0, 0, &text, NULL, err);
	r = r == 0 ? keeper_write(k.lock_path, text.data, text.len, err) : r;
	if (r < 0)
		return r;
	printf("%s has %s now: narrow %s, then run `cloister tools check`\n", k.lock_path, n == 1 ? "this scope" : "these scopes",
	       n == 1 ? "it" : "them");
	return l.n_failed > 0;
}

/* build_run.c - RUN: a cell whose root is the image so far, and whose changes become a layer.
 *
 * The cell is one of `cloister run`, with the operator's policy and limits, and has a timeline. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/exe.h"
#include "base/io.h"
#include "base/spawn.h"
#include "base/words.h"
#include "cell/cell_dirs.h"
#include "cell/cell_net.h"
#include "cell/cell_spec.h"
#include "proc/build/build.h"

#define LAYER_FD 3
#define TIMELINE_MAX (512ULL << 20)
#define OWN_FOLDER CELL_NET_BUILD

/* Files that package managers read.  They are in the cell only. */
static const struct own_file {
	const char *name, *variable, *text;
	const char *alone;              /* what follows without a network, where trying again is useless */
} own_files[] = {
	{ "apt.conf", "APT_CONFIG", "APT::Sandbox::User \"root\";\n"
	  "Acquire::https::CAInfo \"" OWN_FOLDER CELL_NET_BUNDLE "\";\n", "Acquire::Retries \"0\";\n" },
	{ "wgetrc", "WGETRC", "ca_certificate = " OWN_FOLDER CELL_NET_BUNDLE "\n", "tries = 1\n" },
};

/* ---- the command line ---- */

static void
add_options(struct words *w, const struct build *b)
{
	static const char *const repeated[] = { "allow", "secret", "ca", "memory", "disk", "cpus", "time", "pids" };
	const char *policy = args_get(b->options, "policy");

	words_add(w, policy != NULL ? str_format("--policy=%s", policy) : strdup("--no-policy"));
	for (size_t i = 0; i < ARRAY_LEN(repeated); i++) {
		const char *value;
		size_t at = 0;

		while ((value = args_next(b->options, repeated[i], &at)) != NULL)
			words_add(w, str_format("--%s=%s", repeated[i], value));
	}
}

/* A name has its folder in /home. */
static char *
home_of(const struct state *state)
{
	const char *user = state_text(state, "User");
	const size_t len = strcspn(user, ":");

	if (len == 0 || strncmp(user, "root", len) == 0 || strncmp(user, "0", len) == 0)
		return strdup("HOME=/root");
	return user[strspn(user, "0123456789")] == ':' || user[strspn(user, "0123456789")] == '\0' ? strdup("HOME=/") :
	       str_format("HOME=/home/%.*s", (int)len, user);
}

static void
add_variables(struct words *w, const struct build *b, const struct state *state)
{
	for (size_t i = 0; i < ARRAY_LEN(own_files); i++) {
		words_add(w, str_format("--volume=%s/%s:" OWN_FOLDER "/%s:ro", b->temporary, own_files[i].name, own_files[i].name));
		words_add(w, str_format("--env=%s=" OWN_FOLDER "/%s", own_files[i].variable, own_files[i].name));
	}
	words_add(w, str_format("--env=SOURCE_DATE_EPOCH=%lld", (long long)state->epoch));
	words_add(w, strdup("--env"));
	words_add(w, home_of(state));
	for (size_t i = 0; i < state->args.n; i++)
		if (build_vars_get(&state->env, state->args.list[i].name) == NULL)
			words_add(w, str_format("--env=%s=%s", state->args.list[i].name, state->args.list[i].value));
}

static int
describe(struct words *w, const struct build *b, const struct state *state, const struct build_step *step,
         const char *image, const char *id, struct err *err)
{
	words_add(w, strdup("cloister"));
	words_add(w, strdup("run"));
	words_add(w, strdup("--no-tty"));
	words_add(w, strdup("--root"));
	words_add(w, strdup("--boundary=namespace"));
	words_add(w, strdup("--entrypoint="));
	words_add(w, str_format("--image=%s", image));
	words_add(w, str_format("--id=%s", id));
	words_add(w, str_format("--layer=%d:%lld", LAYER_FD, (long long)state->epoch));
	add_options(w, b);
	add_variables(w, b, state);
	words_add(w, strdup("--"));
	if (!step->exec) {
		words_add(w, strdup("/bin/sh"));
		words_add(w, strdup("-c"));
	}
	for (size_t i = 0; i < step->n_words; i++)
		words_add(w, strdup(step->words[i]));
	return w->failed ? err_set(err, E2BIG, "the command is too long") : 0;
}

/* ---- the cell ---- */

static int
write_own_files(const struct build *b, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(own_files); i++) {
		OWN(freep) char *path = str_format("%s/%s", b->temporary, own_files[i].name);
		OWN(freep) char *text = str_format("%s%s", own_files[i].text, b->has_policy ? "" : own_files[i].alone);

		r = path == NULL || text == NULL ? err_set(err, ENOMEM, "out of memory") :
		    create_file_at(AT_FDCWD, path, 0644, text, err);
	}
	return r;
}

static int
run_cell(struct build *b, char *const *argv, struct layer_made *ret_made, struct err *err)
{
	char program[PATH_MAX];
	struct err why = {0};
	int ends[2], status, r = exe_find_cloister(program, err);
	pid_t pid;

	if (r < 0)
		return r;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot create a pipe");
	pid = spawn_start(&(struct spawn){ .argv = argv, .path = program, .fds = (struct spawn_fd[]){ { SPAWN_NULL, 0 },
		{ STDERR_FILENO, STDOUT_FILENO }, { ends[1], LAYER_FD } }, .n_fds = 3, .flags = SPAWN_DIES }, NULL, err);
	close(ends[1]);
	r = pid < 0 ? (int)pid : build_take_layer(b, ends[0], ret_made, &why);
	close(ends[0]);
	if (pid < 0)
		return r;
	status = spawn_await(pid, err);
	/* The cell fails then, because nobody takes the rest. */
	if (r == -EFBIG)
		return err_set(err, EFBIG, "%s", why.text);
	if (status != 0)
		return status < 0 ? status : err_set(err, EIO, "the command failed with status %d", status);
	return r < 0 ? err_set(err, -r, "%s", why.text) : 0;
}

/* The hash of the last record of a cell's timeline, as docs/audit-format.md defines it. */
static int
find_end(const char *id, char ret_hash[HASH_NAME + 1], struct err *err)
{
	OWN(closep) int state = cell_state_open(false, err), ended = state < 0 ? -1 : cell_ended_open(state);
	OWN(freep) char *path = str_format("%s./" CELL_EVENTS, id), *text = NULL;
	unsigned char hash[HASH_LEN];
	struct hash h;
	char *line;
	size_t len;
	int r = path == NULL || ended < 0 ? -ENOENT : read_file_at(ended, path, TIMELINE_MAX, &text, &len, NULL);

	if (r < 0 || len == 0)
		return err_set(err, ENOENT, "the cell %s has no timeline", id);
	text[len - 1] = '\0';
	line = strrchr(text, '\n');
	line = line != NULL ? line + 1 : text;
	hash_begin(&h);
	hash_add(&h, "", 1);
	hash_add(&h, line, strlen(line));
	hash_end(&h, hash);
	hash_name(hash, ret_hash);
	return 0;
}

/* Without a timeline there was no cell, so the command is not to blame. */
static void
explain_start(const struct build *b, const char *id, struct err *err)
{
	const char *policy = args_get(b->options, "policy");
	char hash[HASH_NAME + 1];

	if (find_end(id, hash, NULL) == -ENOENT)
		(void)err_set(err, EIO, "no cell could be started for the command%s%s%s: the line above says why",
		              policy != NULL ? ", with the policy '" : "", policy != NULL ? policy : "", policy != NULL ? "'" : "");
}

static int
run_step(struct build *b, const struct state *state, const struct build_step *step, struct layer_made *ret_made,
         struct err *err)
{
	OWN(words_free) struct words words = {0};
	struct image_descriptor d = {0};
	char id[CELL_ID_LEN + 1];
	json_t *folders = NULL;
	int r = json_array_size(state->layers) == 0 ?
	        err_set(err, EINVAL, "there is nothing to run in an empty image: COPY a program first") :
	        state_folders(b, state, &folders, err);

	json_decref(folders);
	if (r == 0)
		r = state_store(b, state, &d, err);
	if (r < 0)
		return r;
	r = cell_make_id(id, err);
	if (r == 0)
		r = describe(&words, b, state, step, d.digest, id, err);
	if (r == 0)
		r = run_cell(b, words.list, ret_made, err);
	if (r == -EIO)
		explain_start(b, id, err);
	if (r == 0)
		r = find_end(id, ret_made->timeline, err);
	memcpy(ret_made->cell, id, sizeof(id));
	return r;
}

/* Everything that the layer depends on. */
static void
key_of(const struct build *b, const struct state *state, const struct build_step *step, unsigned char ret_key[HASH_LEN])
{
	struct hash h;

	hash_begin(&h);
	hash_add(&h, state->chain, HASH_LEN);
	hash_add(&h, b->policy, HASH_LEN);
	hash_add(&h, &state->epoch, sizeof(state->epoch));
	hash_add(&h, &step->exec, sizeof(step->exec));
	for (size_t i = 0; i < step->n_words; i++)
		hash_add(&h, step->words[i], strlen(step->words[i]) + 1);
	for (size_t v = 0; v < 2; v++) {
		const struct build_vars *vars = v == 0 ? &state->env : &state->args;

		hash_add(&h, "", 1);
		for (size_t i = 0; i < vars->n; i++) {
			hash_add(&h, vars->list[i].name, strlen(vars->list[i].name) + 1);
			hash_add(&h, vars->list[i].value, strlen(vars->list[i].value) + 1);
		}
	}
	hash_add(&h, state_text(state, "User"), strlen(state_text(state, "User")) + 1);
	hash_add(&h, state_text(state, "WorkingDir"), strlen(state_text(state, "WorkingDir")) + 1);
	hash_end(&h, ret_key);
}

int
build_run(struct build *b, struct state *state, const struct build_step *step, struct err *err)
{
	unsigned char key[HASH_LEN];
	struct layer_made made = {0};
	char name[HASH_NAME + 1];
	int r;

	key_of(b, state, step, key);
	hash_name(key, name);
	if (build_cached(b, key, &made) == 0) {
		build_tell(b, step, "cached", &made);
	} else {
		build_tell(b, step, "", NULL);
		r = write_own_files(b, err);
		if (r == 0)
			r = run_step(b, state, step, &made, err);
		if (r < 0)
			return r;
		build_remember(b, key, &made);
		build_tell(b, step, made.empty ? "nothing changed" : "done", &made);
	}
	state_chain(state, name);
	return state_add(b, state, step, &made, err);
}

/* build_copy.c - COPY and ADD: cloister-layer reads the files and writes the layer. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/spawn.h"
#include "image/ignore.h"
#include "proc/build/build.h"

#define RESULT_MAX 1024
enum { REQUEST_FD = 3, OUT_FD = 4, RESULT_FD = 5, FOLDER_FD = 3 };

/* ---- cloister-layer ---- */

static int
write_request(const json_t *request, struct err *err)
{
	OWN(freep) char *text = json_dumps(request, JSON_COMPACT);
	OWN(closep) int fd = memfd_create("request", MFD_CLOEXEC);

	if (text == NULL || fd < 0 || write_all(fd, text, strlen(text), err) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_set(err, EINVAL, "a path is not UTF-8");
	return TAKE_FD(fd);
}

static int
start(const json_t *request, int *ret_out, int *ret_result, pid_t *ret_pid, struct err *err)
{
	OWN(closep) int fd = write_request(request, err);
	int out[2] = { -1, -1 }, result[2] = { -1, -1 };
	pid_t pid;

	if (fd < 0)
		return fd;
	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(result, O_CLOEXEC) < 0) {
		closep(&out[0]);
		closep(&out[1]);
		return err_errno(err, "cannot create a pipe");
	}
	pid = spawn_start(&(struct spawn){ .argv = (char *[]){ (char[]){ "cloister-layer" }, (char[]){ "--copy" }, NULL },
		.fds = (struct spawn_fd[]){ { fd, REQUEST_FD }, { out[1], OUT_FD }, { result[1], RESULT_FD } }, .n_fds = 3,
		.flags = SPAWN_DIES | SPAWN_ONLY }, NULL, err);
	close(out[1]);
	close(result[1]);
	*ret_out = out[0];
	*ret_result = result[0];
	*ret_pid = pid;
	return pid < 0 ? (int)pid : 0;
}

/* Its one line: "ok ENTRIES", or an error. */
static int
read_result(int fd, uint64_t *ret_entries, struct err *err)
{
	OWN(freep) char *line = NULL;
	char *text;

	if (read_open(fd, "cloister-layer", RESULT_MAX, &line, NULL, NULL) < 0)
		return err_set(err, EIO, "cannot read the result of cloister-layer");
	line[strcspn(line, "\n")] = '\0';
	if (strncmp(line, "ok ", 3) == 0) {
		*ret_entries = strtoull(line + 3, NULL, 10);
		return 0;
	}
	if (strncmp(line, "err ", 4) != 0)
		return err_set(err, EIO, "cloister-layer died");
	text = line + 4 + strspn(line + 4, "0123456789");
	return err_set(err, EINVAL, "%s", text + strspn(text, " "));
}

static int
copy_bytes(int from, int to, struct err *err)
{
	char chunk[65536];
	ssize_t n = 1;
	int r = 0;

	while (r == 0 && n > 0) {
		n = read(from, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			return err_errno(err, "cannot read the output of cloister-layer");
		else
			r = write_all(to, chunk, (size_t)n, err);
	}
	return r;
}

/* Writes the output of REQUEST to FILE, or if that is negative, makes a layer of it. */
static int
ask(struct build *b, const json_t *request, int file, struct layer_made *ret_made, uint64_t *ret_entries,
    struct err *err)
{
	OWN(closep) int out = -1, result = -1;
	struct err why = {0};
	pid_t pid = -1;
	int taken, status, r = start(request, &out, &result, &pid, err);

	if (r < 0)
		return r;
	taken = file < 0 ? build_take_layer(b, out, ret_made, &why) : copy_bytes(out, file, &why);
	/* If it still writes, it ends. */
	closep(&out);
	out = -1;
	r = read_result(result, ret_entries, err);
	status = spawn_await(pid, NULL);
	/* It fails then, because nobody takes the rest. */
	if (r < 0 && taken != -EFBIG)
		return r;
	if (taken < 0)
		return err_set(err, -taken, "%s", why.text);
	return status == 0 ? 0 : err_set(err, EIO, "cloister-layer failed");
}

/* ---- requests ---- */

static json_t *
new_request(const struct state *state, json_t *lower, const char *to)
{
	return json_pack("{s:o, s:s, s:I, s:b, s:[]}", "lower", lower, "to", to, "epoch", (json_int_t)state->epoch, "owners",
	                 geteuid() == 0, "paths");
}

static void
use_context(const struct build *b, json_t *request)
{
	json_object_set_new(request, "source", json_pack("[s]", b->context));
	json_object_set_new(request, "plain", json_true());
	if (b->ignore != NULL)
		json_object_set_new(request, "ignore", json_string(b->ignore));
}

/* Another stage, or an image. */
static int
use_from(struct build *b, size_t stage, const struct state *state, const char *word, json_t *request, struct err *err)
{
	OWN(state_freep) struct state *loaded = NULL;
	OWN(freep) char *from = NULL;
	json_t *folders = NULL;
	int earlier, r = build_expand(b, state, word, &from, err);

	if (r < 0)
		return r;
	earlier = build_plan_find(b->plan, from, stage);
	if (earlier < 0)
		r = build_load(b, from, &loaded, err);
	if (r == 0)
		r = state_folders(b, earlier >= 0 ? b->states[earlier] : loaded, &folders, err);
	return r < 0 ? r : json_object_set_new(request, "source", folders) < 0 ? -ENOMEM : 0;
}

/* Finishes a step that made a layer. */
static int
take(struct build *b, struct state *state, const struct build_step *step, const struct layer_made *made, struct err *err)
{
	state_chain(state, made->empty ? "" : made->diff_id);
	build_tell(b, step, made->empty ? "nothing changed" : "", made);
	return state_add(b, state, step, made, err);
}

int
build_make_folder(struct build *b, struct state *state, const struct build_step *step, const char *path, struct err *err)
{
	struct layer_made made = {0};
	json_t *lower = NULL, *request;
	uint64_t entries;
	int r = state_folders(b, state, &lower, err);

	if (r < 0)
		return r;
	request = new_request(state, lower, path);
	r = request == NULL ? err_set(err, EINVAL, "a path is not UTF-8") : ask(b, request, -1, &made, &entries, err);
	json_decref(request);
	if (r < 0)
		return r;
	state_chain(state, made.empty ? "" : made.diff_id);
	return state_add(b, state, step, &made, err);
}

/* ---- archives ---- */

static bool
is_archive(int fd)
{
	static const struct { size_t at; const char *bytes; size_t n; } kinds[] = {
		{ 0, "\x1f\x8b", 2 }, { 0, "\x28\xb5\x2f\xfd", 4 }, { 257, "ustar", 5 },
	};
	char head[512];
	ssize_t n = pread(fd, head, sizeof(head), 0);

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (n >= (ssize_t)(kinds[i].at + kinds[i].n) && memcmp(head + kinds[i].at, kinds[i].bytes, kinds[i].n) == 0)
			return true;
	return false;
}

/* Into the folder at PATH, which is made. */
static int
unpack(int file, const char *path, struct err *err)
{
	char program[] = "cloister-unpack", option[] = "--diff-id", any[] = "any", owners[] = "--owners", keep[] = "keep",
	     mine[] = "mine";
	OWN(closep) int folder = -1;
	int status;

	if (mkdir(path, 0755) < 0 || (folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
	    lseek(file, 0, SEEK_SET) < 0)
		return err_errno(err, "cannot make a folder for the archive");
	status = spawn_run(&(struct spawn){ .argv = (char *[]){ program, option, any, owners, geteuid() == 0 ? keep : mine,
		NULL }, .fds = (struct spawn_fd[]){ { file, STDIN_FILENO }, { SPAWN_NULL, STDOUT_FILENO }, { folder, FOLDER_FD } },
		.n_fds = 3, .flags = SPAWN_DIES | SPAWN_ONLY }, err);
	return status < 0 ? status : status > 0 ? err_set(err, EINVAL, "the archive cannot be unpacked") : 0;
}

/* If PATH of the context is an archive, REQUEST copies what is in it. */
static int
use_archive(struct build *b, json_t *request, const char *path, struct err *err)
{
	OWN(freep) char *name = str_format("%s/archive-%zu", b->temporary, b->step), *folder = NULL;
	OWN(closep) int file = name == NULL ? -1 : open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	uint64_t entries;
	json_t *raw = json_deep_copy(request);
	int r;

	folder = name == NULL ? NULL : str_format("%s.d", name);
	if (file < 0 || raw == NULL || folder == NULL) {
		json_decref(raw);
		return err_errno(err, "cannot make a temporary file");
	}
	json_object_set_new(raw, "raw", json_true());
	json_object_set_new(raw, "paths", json_pack("[s]", path));
	r = ask(b, raw, file, NULL, &entries, err);
	json_decref(raw);
	if (r < 0 || entries == 0 || !is_archive(file))
		return r;
	r = unpack(file, folder, err);
	if (r < 0)
		return r;
	json_object_set_new(request, "source", json_pack("[s]", folder));
	json_object_del(request, "ignore");
	json_object_del(request, "plain");
	json_object_set_new(request, "paths", json_pack("[s]", "."));
	return json_object_set_new(request, "literal", json_true());
}

static bool
is_address(const char *word)
{
	return strstr(word, "://") != NULL || strncmp(word, "git@", 4) == 0;
}

/* ---- the steps ---- */

/* Sources into REQUEST, and the target, which the caller owns. */
static int
read_words(const struct build *b, const struct state *state, const struct build_step *step, json_t *paths,
           char **ret_to, struct err *err)
{
	const char *folder = state_text(state, "WorkingDir");
	int r = 0;

	for (size_t i = 0; r == 0 && i < step->n_words; i++) {
		OWN(freep) char *word = NULL;

		r = build_expand(b, state, step->words[i], &word, err);
		if (r < 0)
			return r;
		if (i + 1 == step->n_words) {
			*ret_to = word[0] == '/' ? TAKE(word) : str_format("%s/%s", folder, word);
			return *ret_to == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
		}
		if (is_address(word))
			return err_set(err, ENOTSUP, "'%s': only files of the build context can be added: use RUN with a policy to "
			               "download", word);
		if (json_array_append_new(paths, json_string(word)) < 0)
			return err_set(err, EINVAL, "a path is not UTF-8");
	}
	return r;
}

static int
set_options(const struct build *b, const struct state *state, const struct build_step *step, json_t *request,
            struct err *err)
{
	const struct { const char *name, *word; } options[] = { { "chown", step->chown }, { "chmod", step->chmod } };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(options); i++) {
		OWN(freep) char *value = NULL;

		if (options[i].word == NULL)
			continue;
		r = build_expand(b, state, options[i].word, &value, err);
		if (r == 0)
			json_object_set_new(request, options[i].name, json_string(value));
	}
	return r;
}

int
build_copy(struct build *b, size_t stage, struct state *state, const struct build_step *step, struct err *err)
{
	OWN(freep) char *to = NULL;
	struct layer_made made = {0};
	json_t *lower = NULL, *request = NULL, *paths = json_array();
	uint64_t entries;
	int r = read_words(b, state, step, paths, &to, err);

	if (r == 0)
		r = state_folders(b, state, &lower, err);
	if (r == 0)
		request = new_request(state, lower, to);
	if (r == 0 && request == NULL)
		r = err_set(err, EINVAL, "a path is not UTF-8");
	if (r == 0 && step->from == NULL)
		use_context(b, request);
	else if (r == 0)
		r = use_from(b, stage, state, step->from, request, err);
	if (r == 0)
		r = set_options(b, state, step, request, err);
	if (r == 0) {
		json_object_set(request, "paths", paths);
		if (step->kind == BUILD_ADD && json_array_size(paths) == 1 &&
		    !ignore_is_pattern(json_string_value(json_array_get(paths, 0))))
			r = use_archive(b, request, json_string_value(json_array_get(paths, 0)), err);
	}
	if (r == 0)
		r = ask(b, request, -1, &made, &entries, err);
	json_decref(request);
	json_decref(paths);
	return r < 0 ? r : take(b, state, step, &made, err);
}

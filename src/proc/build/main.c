/* main.c - cloister-build: makes an image from a Dockerfile, or from a small YAML file.
 *
 * The operator runs it.  A stranger may have written the file and the build context.  So it runs nothing of them itself:
 * commands run in cells (build_run.c), and cloister-layer reads files (build_copy.c). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/tell.h"
#include "base/text.h"
#include "base/tree.h"
#include "image/ignore.h"
#include "image/ref.h"
#include "proc/build/build.h"

#define TEXT_SHOWN 100

/* ---- progress ---- */

void
build_tell(struct build *b, const struct build_step *step, const char *how, const struct layer_made *made)
{
	struct json w = { .out = stdout };

	if (b->json) {
		json_open(&w, NULL, '{');
		json_u64(&w, "step", b->step);
		json_u64(&w, "of", b->n_steps);
		json_str(&w, "instruction", step->text);
		json_str(&w, "state", how[0] != '\0' ? how : made != NULL ? "done" : "begun");
		if (made != NULL && !made->empty)
			json_str(&w, "diff_id", made->diff_id);
		if (made != NULL && made->cell[0] != '\0') {
			json_str(&w, "cell", made->cell);
			json_str(&w, "timeline", made->timeline);
		}
		json_close(&w, '}');
		fputc('\n', stdout);
		fflush(stdout);
		return;
	}
	if (strcmp(how, "done") == 0)
		return;
	fprintf(stderr, "[%zu/%zu] ", b->step, b->n_steps);
	text_print_safe(stderr, step->text, strnlen(step->text, TEXT_SHOWN), false);
	fprintf(stderr, "%s%s%s%s\n", strlen(step->text) > TEXT_SHOWN ? "..." : "", how[0] != '\0' ? " (" : "", how,
	        how[0] != '\0' ? ")" : "");
}

/* ---- time ---- */

int64_t
build_time(const char *text)
{
	struct tm tm = {0};

	return strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) == NULL ? 0 : (int64_t)timegm(&tm);
}

void
build_time_text(int64_t seconds, char ret_text[32])
{
	const time_t t = (time_t)seconds;
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(ret_text, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

/* ---- what is given ---- */

static int
open_context(struct build *b, const char *word, struct err *err)
{
	struct stat st;

	b->context = realpath(word, NULL);
	if (b->context == NULL || stat(b->context, &st) < 0)
		return err_errno(err, "cannot open the build context '%s'", word);
	return S_ISDIR(st.st_mode) ? 0 : err_set(err, ENOTDIR, "the build context '%s' is not a folder", word);
}

static bool
is_yaml(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot != NULL && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

/* -f, or what the context has. */
static int
find_file(struct build *b, struct err *err)
{
	static const char *const names[] = { "Dockerfile", "Containerfile", "image.yaml" };
	const char *given = args_get(b->options, "file");

	if (given != NULL) {
		b->file = strdup(given);
		return b->file == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		free(b->file);
		b->file = str_format("%s/%s", b->context, names[i]);
		if (b->file != NULL && access(b->file, F_OK) == 0)
			return 0;
	}
	return err_set(err, ENOENT, "'%s' has no Dockerfile and no image.yaml: name the file with -f", b->context);
}

static int
read_plan(struct build *b, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len;
	int r = find_file(b, err);

	if (r == 0)
		r = read_file_at(AT_FDCWD, b->file, BUILD_FILE_MAX, &text, &len, err);
	if (r < 0)
		return r;
	return (is_yaml(b->file) ? build_plan_yaml : build_plan_dockerfile)(b->file, text, len, &b->plan, err);
}

/* Of the Dockerfile, or of the context. */
static int
read_ignore(struct build *b, struct err *err)
{
	OWN(freep) char *own = str_format("%s.dockerignore", b->file), *usual = str_format("%s/.dockerignore", b->context);
	const char *path = own != NULL && access(own, F_OK) == 0 ? own : usual;

	if (path == NULL || access(path, F_OK) < 0)
		return 0;
	return read_file_at(AT_FDCWD, path, IGNORE_FILE_MAX, &b->ignore, NULL, err);
}

static int
take_arguments(struct build *b, struct err *err)
{
	const char *value;
	size_t at = 0;

	while ((value = args_next(b->options, "build-arg", &at)) != NULL) {
		const char *equals = strchr(value, '=');
		OWN(freep) char *name = strndup(value, strcspn(value, "="));
		const char *text = equals != NULL ? equals + 1 : name == NULL ? NULL : getenv(name);

		if (name == NULL || !build_var_name_ok(name, strlen(name)))
			return err_set(err, EINVAL, "--build-arg '%s' is not NAME=VALUE", value);
		if (text != NULL && !build_vars_set(&b->given, name, text))
			return err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

static bool
declares(const struct build_step *step, const char *name)
{
	for (size_t i = 0; step->kind == BUILD_ARG && i < step->n_words; i++)
		if (strncmp(step->words[i], name, strlen(name)) == 0 && strchr("=", step->words[i][strlen(name)]) != NULL)
			return true;
	return false;
}

static bool
has_arg(const struct build_plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->n_globals; i++)
		if (declares(&plan->globals[i], name))
			return true;
	for (size_t i = 0; i < plan->n_stages; i++)
		for (size_t n = 0; n < plan->stages[i].n_steps; n++)
			if (declares(&plan->stages[i].steps[n], name))
				return true;
	return false;
}

static void
warn_of_unused(const struct build *b)
{
	for (size_t i = 0; i < b->given.n; i++)
		if (!has_arg(b->plan, b->given.list[i].name))
			fprintf(stderr, "cloister: %s has no ARG %s: --build-arg %s does nothing\n", b->file, b->given.list[i].name,
			        b->given.list[i].name);
}

/* ARG before the first FROM, and those that each build knows. */
static int
take_globals(struct build *b, struct err *err)
{
	OWN(freep) char *platform = str_format("linux/%s", image_architecture());
	const struct { const char *name, *value; } known[] = {
		{ "BUILDPLATFORM", platform }, { "TARGETPLATFORM", platform }, { "BUILDOS", "linux" }, { "TARGETOS", "linux" },
		{ "BUILDARCH", image_architecture() }, { "TARGETARCH", image_architecture() },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (platform == NULL || !build_vars_set(&b->globals, known[i].name, known[i].value))
			return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < b->plan->n_globals; i++)
		for (size_t w = 0; w < b->plan->globals[i].n_words; w++) {
			const char *word = b->plan->globals[i].words[w], *equals = strchr(word, '=');
			OWN(freep) char *name = strndup(word, strcspn(word, "=")), *text = NULL;
			const char *value = name == NULL ? NULL : build_vars_get(&b->given, name);
			int r = 0;

			if (value == NULL && equals != NULL) {
				r = build_word_expand(equals + 1, b->plan->escape, &b->globals, NULL, &text, err);
				value = text;
			}
			if (r < 0)
				return err_wrap(err, "%s:%u", b->file, b->plan->globals[i].line);
			if (value != NULL && !build_vars_set(&b->globals, name, value))
				return err_set(err, ENOMEM, "out of memory");
		}
	return 0;
}

/* Before the first package is asked for, which would fail later, and for a reason of the package manager's. */
static int
check_packages(const struct build *b, struct err *err)
{
	return b->plan->packages == 0 || b->has_policy ? 0 :
	       err_set(err, EINVAL, "%s:%u: packages come over the network, which this build has none of: allow their hosts "
	               "with --allow HOST, --allow preset:NAME or --policy FILE", b->file, b->plan->packages);
}

/* ---- stages ---- */

static void
need(struct build *b, const char *word, size_t before)
{
	OWN(freep) char *text = NULL;
	int stage = -1;

	if (build_word_expand(word, b->plan->escape, &b->globals, NULL, &text, NULL) == 0)
		stage = build_plan_find(b->plan, text, before);
	if (stage >= 0)
		b->needed[stage] = true;
}

/* Those that lead to TARGET. */
static void
find_needed(struct build *b, size_t target)
{
	b->needed[target] = true;
	for (size_t i = target + 1; i-- > 0;) {
		const struct build_stage *s = &b->plan->stages[i];

		if (!b->needed[i])
			continue;
		need(b, s->base, i);
		for (size_t n = 0; n < s->n_steps; n++)
			if (s->steps[n].from != NULL)
				need(b, s->steps[n].from, i);
		b->n_steps += s->n_steps;
	}
}

static int
choose_target(struct build *b, size_t *ret_target, struct err *err)
{
	const char *name = args_get(b->options, "target");
	int stage = name == NULL ? (int)b->plan->n_stages - 1 : build_plan_find(b->plan, name, b->plan->n_stages);

	if (stage < 0)
		return err_set(err, ENOENT, "%s: there is no stage '%s'", b->file, name);
	*ret_target = (size_t)stage;
	b->needed = calloc(b->plan->n_stages, sizeof(*b->needed));
	b->states = calloc(b->plan->n_stages, sizeof(struct state *));
	if (b->needed == NULL || b->states == NULL)
		return err_set(err, ENOMEM, "out of memory");
	find_needed(b, *ret_target);
	return 0;
}

static int
build_stage(struct build *b, size_t i, struct err *err)
{
	const struct build_stage *s = &b->plan->stages[i];
	OWN(state_freep) struct state *state = NULL;
	int r = build_from(b, i, &state, err);

	if (r < 0)
		return err_wrap(err, "%s:%u", b->file, s->line);
	for (size_t n = 0; r == 0 && n < s->n_steps; n++)
		r = build_step(b, i, state, &s->steps[n], err);
	if (r == 0)
		b->states[i] = TAKE(state);
	return r;
}

/* ---- the result ---- */

static int
finish(struct build *b, const struct state *state, struct err *err)
{
	struct image_descriptor d = {0};
	OWN(freep) struct image_name *name = calloc(1, sizeof(*name));
	const char *tag = args_get(b->options, "tag");
	struct json w = { .out = stdout };
	json_t *folders = NULL;
	int r = name == NULL ? err_set(err, ENOMEM, "out of memory") : tag == NULL ? 0 :
	        image_name_parse_new(tag, name, err);

	if (r == 0 && json_array_size(state->layers) == 0)
		r = err_set(err, EINVAL, "the image would be empty");
	if (r == 0)
		r = state_folders(b, state, &folders, err);
	json_decref(folders);
	if (r == 0)
		r = state_store(b, state, &d, err);
	d.name = tag == NULL ? NULL : name->full;
	if (r == 0)
		r = store_set(b->store, &d, err);
	if (r < 0)
		return r;
	if (b->json) {
		json_open(&w, NULL, '{');
		json_str(&w, "digest", d.digest);
		json_str(&w, "name", d.name);
		json_close(&w, '}');
		fputc('\n', stdout);
	} else {
		printf("%s\n", d.digest);
	}
	return 0;
}

/* Outside of the data folder, of which nothing can be granted to a cell. */
static int
make_temporary(struct build *b, struct err *err)
{
	const char *folder = getenv("TMPDIR");

	b->temporary = str_format("%s/cloister-build-XXXXXX", folder != NULL && folder[0] == '/' ? folder : "/tmp");
	if (b->temporary == NULL || mkdtemp(b->temporary) == NULL)
		return err_errno(err, "cannot make a temporary folder");
	return 0;
}

static void
build_close(struct build *b)
{
	OWN(closep) int fd = b->temporary == NULL ? -1 : open(b->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0 && tree_empty(fd, NULL) == 0)
		(void)rmdir(b->temporary);
	for (size_t i = 0; b->states != NULL && i < b->plan->n_stages; i++)
		state_free(b->states[i]);
	free(b->states);
	free(b->needed);
	build_vars_free(&b->given);
	build_vars_free(&b->globals);
	build_plan_free(b->plan);
	store_close(b->store);
	free(b->context);
	free(b->ignore);
	free(b->file);
	free(b->temporary);
}

static int
prepare(struct build *b, size_t *ret_target, struct err *err)
{
	int r = open_context(b, b->options->words[0], err);

	if (r == 0)
		r = read_plan(b, err);
	if (r == 0)
		r = read_ignore(b, err);
	if (r == 0)
		r = take_arguments(b, err);
	if (r == 0)
		warn_of_unused(b);
	if (r == 0)
		r = take_globals(b, err);
	if (r == 0)
		r = build_read_policy(b, err);
	if (r == 0)
		r = check_packages(b, err);
	if (r == 0)
		r = choose_target(b, ret_target, err);
	if (r == 0)
		r = store_open(true, &b->store, err);
	return r < 0 ? r : make_temporary(b, err);
}

static int
run(const struct args *args, struct err *err)
{
	OWN(build_close) struct build b = { .options = args, .json = args_get(args, "json") != NULL,
		.no_cache = args_get(args, "no-cache") != NULL };
	OWN(closep) int adding = -1;
	size_t target = 0;
	int r;

	if (args->n_words != 1)
		return err_set(err, EINVAL, "give one folder, the build context: cloister image build [OPTION...] FOLDER");
	r = prepare(&b, &target, err);
	if (r == 0)
		r = adding = store_adding(b.store, err);
	for (size_t i = 0; r >= 0 && i <= target; i++)
		if (b.needed[i])
			r = build_stage(&b, i, err);
	return r < 0 ? r : finish(&b, b.states[target], err);
}

static volatile sig_atomic_t interrupted;

static void
go_on(int number)
{
	(void)number;
	interrupted = 1;
}

/* A terminal interrupts the running cell too, whose end ends the build.  Programs that are started have the usual
 * effect of the signal again. */
static void
outlive_interrupts(void)
{
	const struct sigaction action = { .sa_handler = go_on, .sa_flags = SA_RESTART };

	(void)sigaction(SIGINT, &action, NULL);
}

/* The last line for programs. */
static void
tell_failed(const struct args *args, const struct err *err)
{
	struct json w = { .out = stdout };

	if (args_get(args, "json") == NULL)
		return;
	json_open(&w, NULL, '{');
	json_str(&w, "error", err->text);
	json_close(&w, '}');
	fputc('\n', stdout);
}

int
main(int argc, char **argv)
{
	struct err err = {0};
	struct args args = {0};
	int status;

	outlive_interrupts();
	if (!args_parse(argc, argv, &args))
		status = err_set(&err, EINVAL, "cloister-build is started by cloister only");
	else
		status = run(&args, &err);
	if (status < 0 && interrupted)
		(void)err_set(&err, EINTR, "interrupted: the build is not done, and left nothing but its cache");
	if (status < 0)
		tell_failed(&args, &err);
	if (status >= 0 && (fflush(stdout) != 0 || ferror(stdout)))
		status = err_set(&err, EIO, "cannot write all of the output");
	return status < 0 ? tell_error(&err) : status;
}

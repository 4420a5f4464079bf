/* build_steps.c - the steps that change only the configuration, and the table of all. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "proc/build/build.h"

static int
no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

/* ENV goes before ARG. */
int
build_expand(const struct build *b, const struct state *state, const char *word, char **ret_text, struct err *err)
{
	return build_word_expand(word, b->plan->escape, &state->env, &state->args, ret_text, err);
}

typedef int do_step(struct build *b, size_t stage, struct state *state, const struct build_step *step, struct err *err);

/* The values are all found before the first is set. */
static int
do_env(struct build *b, size_t stage, struct state *state, const struct build_step *step, struct err *err)
{
	OWN(build_vars_free) struct build_vars found = {0};
	int r = 0;

	(void)stage;
	for (size_t i = 0; r == 0 && i + 1 < step->n_words; i += 2) {
		OWN(freep) char *name = NULL, *value = NULL;

		r = build_expand(b, state, step->words[i], &name, err);
		if (r == 0)
			r = build_expand(b, state, step->words[i + 1], &value, err);
		if (r == 0 && !build_vars_set(&found, name, value))
			r = no_memory(err);
	}
	for (size_t i = 0; r == 0 && i < found.n; i++)
		if (!build_vars_set(&state->env, found.list[i].name, found.list[i].value))
			r = no_memory(err);
	return r < 0 ? r : state_add(b, state, step, NULL, err);
}

static int
do_label(struct build *b, size_t stage, struct state *state, const struct build_step *step, struct err *err)
{
	json_t *labels = json_object_get(state_config(state), "Labels");
	int r = 0;

	(void)stage;
	if (!json_is_object(labels)) {
		labels = json_object();
		if (json_object_set_new(state_config(state), "Labels", labels) < 0)
			return no_memory(err);
	}
	for (size_t i = 0; r == 0 && i + 1 < step->n_words; i += 2) {
		OWN(freep) char *name = NULL, *value = NULL;

		r = build_expand(b, state, step->words[i], &name, err);
		if (r == 0)
			r = build_expand(b, state, step->words[i + 1], &value, err);
		if (r == 0 && json_object_set_new(labels, name, json_string(value)) < 0)
			r = err_set(err, EINVAL, "a label is not UTF-8");
	}
	return r < 0 ? r : state_add(b, state, step, NULL, err);
}

/* The operator's value, the default, or that of an ARG before the first FROM. */
static int
set_arg(struct build *b, struct state *state, const char *word, struct err *err)
{
	const char *equals = strchr(word, '='), *value;
	OWN(freep) char *name = strndup(word, strcspn(word, "=")), *expanded = NULL;
	int r = 0;

	if (name == NULL)
		return no_memory(err);
	value = build_vars_get(&b->given, name);
	if (value == NULL && equals != NULL) {
		r = build_expand(b, state, equals + 1, &expanded, err);
		value = expanded;
	}
	if (r == 0 && value == NULL)
		value = build_vars_get(&b->globals, name);
	return r < 0 || value == NULL || build_vars_set(&state->args, name, value) ? r : no_memory(err);
}

static int
do_arg(struct build *b, size_t stage, struct state *state, const struct build_step *step, struct err *err)
{
	int r = 0;

	(void)stage;
	for (size_t i = 0; r == 0 && i < step->n_words; i++)
		r = set_arg(b, state, step->words[i], err);
	return r < 0 ? r : state_add(b, state, step, NULL, err);
}

/* A text is for the shell. */
static json_t *
command_of(const struct build_step *step)
{
	json_t *list = json_array();

	if (!step->exec) {
		json_array_append_new(list, json_string("/bin/sh"));
		json_array_append_new(list, json_string("-c"));
	}
	for (size_t i = 0; i < step->n_words; i++)
		if (json_array_append_new(list, json_string(step->words[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static int
do_command(struct build *b, size_t stage, struct state *state, const struct build_step *step, struct err *err)
{
	const bool cmd = step->kind == BUILD_CMD;
	json_t *command = command_of(step);

	(void)stage;
	if (command == NULL)
		return err_set(err, EINVAL, "the command is not UTF-8");
	if (json_object_set_new(state_config(state), cmd ? "Cmd" : "Entrypoint", command) < 0)
		return no_memory(err);
	/* The words of the base's CMD were meant for another program. */
	if (!cmd && !state->has_cmd)
		(void)json_object_del(state_config(state), "Cmd");
	state->has_cmd = state->has_cmd || cmd;
	return state_add(b, state, step, NULL, err);
}

static int
add_port(json_t *ports, const char *word, struct err *err)
{
	const char *slash = strchr(word, '/');
	OWN(freep) char *number = strndup(word, strcspn(word, "/")), *port = NULL;
	uint64_t value;

	if (number == NULL || num_parse_count(number, 1, UINT16_MAX, &value, NULL) < 0 ||
	    (slash != NULL && strcmp(slash, "/tcp") != 0 && strcmp(slash, "/udp") != 0))
		return err_set(err, EINVAL, "'%s' is not a port, such as 80 or 53/udp", word);
	port = str_format("%s%s", word, slash == NULL ? "/tcp" : "");
	return port == NULL || json_object_set_new(ports, port, json_object()) < 0 ? no_memory(err) : 0;
}

static int
do_expose(struct build *b, size_t stage, struct state *state, const struct build_step *step, struct err *err)
{
	json_t *ports = json_object_get(state_config(state), "ExposedPorts");
	int r = 0;

	(void)stage;
	if (!json_is_object(ports)) {
		ports = json_object();
		if (json_object_set_new(state_config(state), "ExposedPorts", ports) < 0)
			return no_memory(err);
	}
	for (size_t i = 0; r == 0 && i < step->n_words; i++) {
		OWN(freep) char *word = NULL;

		r = build_expand(b, state, step->words[i], &word, err);
		if (r == 0)
			r = add_port(ports, word, err);
	}
	return r < 0 ? r : state_add(b, state, step, NULL, err);
}

static int
do_user(struct build *b, size_t stage, struct state *state, const struct build_step *step, struct err *err)
{
	OWN(freep) char *user = NULL;
	int r = build_expand(b, state, step->words[0], &user, err);

	(void)stage;
	if (r == 0 && user[0] == '\0')
		r = err_set(err, EINVAL, "USER is empty, with its variables replaced");
	if (r == 0)
		r = state_set_text(state, "User", user, err);
	return r < 0 ? r : state_add(b, state, step, NULL, err);
}

static int
do_workdir(struct build *b, size_t stage, struct state *state, const struct build_step *step, struct err *err)
{
	OWN(freep) char *word = NULL, *path = NULL;
	const char *now = state_text(state, "WorkingDir");
	int r = build_expand(b, state, step->words[0], &word, err);

	(void)stage;
	if (r < 0)
		return r;
	path = word[0] == '/' ? strdup(word) : str_format("%s/%s", strcmp(now, "/") == 0 ? "" : now, word);
	if (path == NULL)
		return no_memory(err);
	for (size_t len = strlen(path); len > 1 && path[len - 1] == '/'; len--)
		path[len - 1] = '\0';
	r = state_set_text(state, "WorkingDir", path, err);
	return r < 0 ? r : build_make_folder(b, state, step, path, err);
}

static int
do_run(struct build *b, size_t stage, struct state *state, const struct build_step *step, struct err *err)
{
	(void)stage;
	return build_run(b, state, step, err);
}

static do_step *const steps[] = {
	[BUILD_ADD] = build_copy, [BUILD_ARG] = do_arg, [BUILD_CMD] = do_command, [BUILD_COPY] = build_copy,
	[BUILD_ENTRYPOINT] = do_command, [BUILD_ENV] = do_env, [BUILD_EXPOSE] = do_expose, [BUILD_LABEL] = do_label,
	[BUILD_RUN] = do_run, [BUILD_USER] = do_user, [BUILD_WORKDIR] = do_workdir,
};

/* The others report what they do themselves. */
static bool
is_quick(enum build_kind kind)
{
	return kind != BUILD_RUN && kind != BUILD_COPY && kind != BUILD_ADD;
}

int
build_step(struct build *b, size_t stage, struct state *state, const struct build_step *step, struct err *err)
{
	int r;

	b->step++;
	if (is_quick(step->kind))
		build_tell(b, step, "", NULL);
	r = steps[step->kind](b, stage, state, step, err);
	if (r < 0)
		return err_wrap(err, "%s:%u", b->file, step->line);
	if (is_quick(step->kind))
		build_tell(b, step, "done", NULL);
	return 0;
}

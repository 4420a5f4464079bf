/* api_exec.c - commands in a sandbox: their streams, and requests that send them input and signals. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/own.h"
#include "proc/serve/exec_stream.h"
#include "proc/serve/sandbox.h"

#define TIMEOUT_MAX_MS (7ull * 24 * 3600 * 1000)

/* ---- beginning ---- */

static const struct api_member members[] = {
	{ "command", API_TEXTS, true }, { "env", API_ANY, false }, { "cwd", API_TEXT, false },
	{ "input", API_TEXT, false }, { "input_base64", API_TEXT, false }, { "stdin", API_TRUTH, false },
	{ "timeout", API_TEXT, false }, { "tty", API_ANY, false }, {0}
};

struct asked {
	char *argv[CELL_ARGS_MAX + 1];
	char **env;
	struct inside_order order;
};

static void
asked_free(struct asked *a)
{
	strv_free(a->env);
}

static int
wrong(struct api_call *c, const char *member, const char *text)
{
	return api_body_wrong(c, member, api_fail_with(c, 400, "invalid", "%s", text));
}

static int
read_command(struct api_call *c, struct asked *a)
{
	const json_t *words = api_body_get(c, "command"), *word;
	size_t i;

	if (json_array_size(words) == 0 || json_array_size(words) > CELL_ARGS_MAX)
		return wrong(c, "command", "'command' has at least one word, the program");
	json_array_foreach (words, i, word)
		a->argv[i] = (char *)(uintptr_t)json_string_value(word);
	a->order.argv = a->argv;
	return 0;
}

static int
read_env(struct api_call *c, struct asked *a)
{
	json_t *env = (json_t *)(uintptr_t)api_body_get(c, "env"), *value;
	const char *name;
	size_t n = 0;

	if (json_is_null(env))
		return 0;
	if (!json_is_object(env) || json_object_size(env) > CELL_ARGS_MAX / 2)
		return wrong(c, "env", "'env' must be an object: {\"NAME\": \"value\"}");
	a->env = calloc(json_object_size(env) + 1, sizeof(char *));
	json_object_foreach (env, name, value) {
		if (!json_is_string(value) || name[0] == '\0' || strchr(name, '=') != NULL)
			return wrong(c, "env", "'env' must be an object: {\"NAME\": \"value\"}");
		if (a->env == NULL || asprintf(&a->env[n], "%s=%s", name, json_string_value(value)) < 0)
			return api_fail_with(c, 503, "unavailable", "out of memory");
		n++;
	}
	a->order.env = a->env;
	return 0;
}

static bool
is_size(const json_t *n)
{
	return json_is_integer(n) && json_integer_value(n) >= 1 && json_integer_value(n) <= EXEC_SIZE_MAX;
}

static int
read_terminal(struct api_call *c, struct asked *a)
{
	const json_t *tty = api_body_get(c, "tty");
	const json_t *rows = json_object_get(tty, "rows"), *columns = json_object_get(tty, "columns");

	if (json_is_null(tty))
		return 0;
	if (json_object_size(tty) != 2 || !is_size(rows) || !is_size(columns))
		return wrong(c, "tty", "'tty' must be an object: {\"rows\": 24, \"columns\": 80}");
	a->order.tty = true;
	a->order.rows = (unsigned)json_integer_value(rows);
	a->order.columns = (unsigned)json_integer_value(columns);
	return 0;
}

static int
read_rest(struct api_call *c, struct asked *a)
{
	const char *timeout = json_string_value(api_body_get(c, "timeout"));
	uint64_t ms;

	a->order.cwd = json_string_value(api_body_get(c, "cwd"));
	if (a->order.cwd != NULL && (a->order.cwd[0] != '/' || strlen(a->order.cwd) >= PATH_MAX))
		return wrong(c, "cwd", "'cwd' must be an absolute path in the cell");
	if (timeout != NULL && (num_parse_duration(timeout, &ms, &c->err) < 0 || ms > TIMEOUT_MAX_MS))
		return wrong(c, "timeout", "'timeout' must be a time such as 30s, a week at most");
	return 0;
}

/* The input, in C->text until the command runs. */
static int
read_input(struct api_call *c)
{
	const void *data = NULL;
	void *owned = NULL;
	int r = api_body_bytes(c, "input", "input_base64", &data, &c->text_len, &owned);

	c->text = owned;
	if (r < 0 || owned != NULL || c->text_len == 0)
		return r;
	c->text = malloc(c->text_len);
	if (c->text == NULL)
		return api_fail_with(c, 503, "unavailable", "out of memory");
	memcpy(c->text, data, c->text_len);
	return 0;
}

int
api_sandbox_exec(struct api_call *c)
{
	OWN(asked_free) struct asked a = {0};

	if (api_body_check(c, members) < 0 || read_command(c, &a) < 0 || read_env(c, &a) < 0 ||
	    read_terminal(c, &a) < 0 || read_rest(c, &a) < 0 || read_input(c) < 0)
		return -EIO;
	return sandbox_run(c, &a.order);
}

void
api_sandbox_exec_begin(struct api_call *c)
{
	struct exec_stream *e = exec_stream_new(c, EXEC_COMMAND);

	if (e != NULL)
		exec_stream_start(e);
}

/* ---- requests to a running command ---- */

int
api_sandbox_use(struct api_call *c)
{
	char cell[CELL_ID_LEN + 1];

	return sandbox_find(c, cell);
}

void
api_sandbox_input_begin(struct api_call *c)
{
	struct exec_stream *e = exec_stream_find(c, EXEC_COMMAND);
	bool end;

	if (e != NULL && api_query_bool(c, "end", false, &end) == 0)
		exec_stream_feed(e, c, end);
}

static const struct {
	const char *name;
	int number;
} signals[] = {
	{ "HUP", SIGHUP }, { "INT", SIGINT }, { "QUIT", SIGQUIT }, { "KILL", SIGKILL }, { "TERM", SIGTERM },
	{ "USR1", SIGUSR1 }, { "USR2", SIGUSR2 }, { "STOP", SIGSTOP }, { "CONT", SIGCONT },
};

static int
find_signal(const struct api_call *c)
{
	const char *name = json_string_value(api_body_get(c, "signal"));

	for (size_t i = 0; name != NULL && i < ARRAY_LEN(signals); i++)
		if (strcmp(signals[i].name, name) == 0)
			return signals[i].number;
	return 0;
}

int
api_sandbox_signal(struct api_call *c)
{
	static const struct api_member ones[] = { { "signal", API_TEXT, true }, {0} };

	if (api_body_check(c, ones) < 0)
		return -EIO;
	if (find_signal(c) == 0)
		return wrong(c, "signal", "'signal' must be HUP, INT, QUIT, KILL, TERM, USR1, USR2, STOP or CONT");
	return api_sandbox_use(c);
}

void
api_sandbox_signal_begin(struct api_call *c)
{
	struct exec_stream *e = exec_stream_find(c, EXEC_COMMAND);

	if (e == NULL)
		return;
	inside_signal(e->inside, find_signal(c));
	api_answer(c);
}

int
api_exec_read_size(struct api_call *c)
{
	static const struct api_member ones[] = { { "rows", API_NUMBER, true }, { "columns", API_NUMBER, true }, {0} };

	if (api_body_check(c, ones) < 0)
		return -EIO;
	if (!is_size(api_body_get(c, "rows")) || !is_size(api_body_get(c, "columns")))
		return wrong(c, "rows", "'rows' and 'columns' must be numbers up to 1000");
	return 0;
}

void
api_exec_resize(struct api_call *c, enum exec_kind kind)
{
	struct exec_stream *e = exec_stream_find(c, kind);

	if (e == NULL)
		return;
	inside_resize(e->inside, (unsigned)json_integer_value(api_body_get(c, "rows")),
	              (unsigned)json_integer_value(api_body_get(c, "columns")));
	api_answer(c);
}

int
api_sandbox_resize(struct api_call *c)
{
	return api_exec_read_size(c) < 0 ? -EIO : api_sandbox_use(c);
}

void
api_sandbox_resize_begin(struct api_call *c)
{
	api_exec_resize(c, EXEC_COMMAND);
}

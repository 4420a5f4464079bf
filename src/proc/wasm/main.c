/* main.c - cloister-wasm: see wasm.h.
 *
 *   cloister-wasm MODULE TOOLS FOLDER [PATH...]
 *   cloister-wasm --check                      whether the engine is installed: exits 0
 *
 * TOOLS is a file as a server answers tools/list: then MODULE is a command that is run for each call.  With "-", MODULE
 * speaks MCP itself.  FOLDER is the working folder, or "-"; the module can open files beneath it and the PATHs. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "confine/landlock.h"
#include "proc/wasm/wasm.h"

#define MESSAGE_MAX (8u << 20)          /* bytes of one message */
#define TOOLS_MAX (1u << 20)            /* bytes of TOOLS */
#define NO_METHOD (-32601)
#define BAD_PARAMS (-32602)

static struct buf module;
static json_t *tools;                   /* TOOLS; NULL: the module speaks itself */
static const char *const *paths;

/* ---- answers ---- */

/* Takes ANSWER, whose member KEY becomes VALUE. */
static void
answer(const json_t *id, const char *key, json_t *value)
{
	OWN(json_decrefp) json_t *message = json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, key, value);
	OWN(freep) char *text = message != NULL ? json_dumps(message, JSON_COMPACT) : NULL;

	if (text == NULL || write_all(STDOUT_FILENO, text, strlen(text), NULL) < 0 ||
	    write_all(STDOUT_FILENO, "\n", 1, NULL) < 0)
		exit(1);
}

static void
answer_error(const json_t *id, int code, const char *why)
{
	answer(id, "error", json_pack("{s:i, s:s}", "code", code, "message", why));
}

static void
answer_begin(const json_t *id, const json_t *params)
{
	const char *version = json_string_value(json_object_get(params, "protocolVersion"));
	const char *name = json_string_value(json_object_get(tools, "name"));
	const char *own = json_string_value(json_object_get(tools, "version"));

	answer(id, "result", json_pack("{s:s, s:{s:{}}, s:{s:s, s:s}}", "protocolVersion", version != NULL ? version :
		"2025-06-18", "capabilities", "tools", "serverInfo", "name", name != NULL ? name : "wasm", "version",
		own != NULL ? own : "0"));
}

/* ---- a call ---- */

static const json_t *
tool_named(const char *name)
{
	size_t i;
	const json_t *tool;

	json_array_foreach(json_object_get(tools, "tools"), i, tool) {
		const char *own = json_string_value(json_object_get(tool, "name"));

		if (own != NULL && name != NULL && strcmp(own, name) == 0)
			return tool;
	}
	return NULL;
}

static json_t *
text_result(const char *text, size_t len, bool fails)
{
	json_t *content = json_pack("{s:[{s:s, s:o}]}", "content", "type", "text", "text", json_stringn(len > 0 ? text : "", len));

	if (content == NULL)
		return text_result("the module printed bytes that are no UTF-8", strlen("the module printed bytes that are no UTF-8"),
		                   true);
	if (fails)
		json_object_set_new(content, "isError", json_true());
	return content;
}

/* A tool with an output schema prints an object, which is its result in two forms. */
static json_t *
result_of(const json_t *tool, const struct buf *output, int status)
{
	json_t *result = text_result((char *)output->data, output->len, status != 0), *object;

	if (status == 0 && json_object_get(tool, "outputSchema") != NULL) {
		object = json_loadb((char *)output->data, output->len, 0, NULL);
		if (json_is_object(object))
			json_object_set_new(result, "structuredContent", object);
		else
			json_decref(object);
	}
	return result;
}

static void
call(const json_t *id, const json_t *params)
{
	const char *name = json_string_value(json_object_get(params, "name"));
	const json_t *tool = tool_named(name), *given = json_object_get(params, "arguments");
	OWN(freep) char *arguments = given != NULL ? json_dumps(given, JSON_COMPACT) : strdup("{}");
	OWN(buf_free) struct buf input = BUF(MESSAGE_MAX + 1), output = BUF(WASM_OUTPUT_MAX);
	struct err err = {0};
	int status = 0, r;

	if (tool == NULL || arguments == NULL) {
		answer_error(id, BAD_PARAMS, "there is no such tool");
		return;
	}
	buf_put_text(&input, arguments);
	wasm_files_begin(&input, &output, paths);
	r = wasm_engine_run(&module, (const char *[]){ "module", name, NULL }, &status, &err);
	if (buf_failed(&output))
		err_set(&err, EFBIG, "the module printed more than %u MiB", WASM_OUTPUT_MAX >> 20);
	if (r < 0 || buf_failed(&output))
		answer(id, "result", text_result(err.text, strlen(err.text), true));
	else
		answer(id, "result", result_of(tool, &output, status));
}

static void
take(const char *line, size_t len)
{
	OWN(json_decrefp) json_t *message = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	const char *method = json_string_value(json_object_get(message, "method"));
	const json_t *id = json_object_get(message, "id"), *params = json_object_get(message, "params");

	if (method == NULL || id == NULL)
		return;
	if (strcmp(method, "initialize") == 0)
		answer_begin(id, params);
	else if (strcmp(method, "tools/list") == 0)
		answer(id, "result", json_pack("{s:O}", "tools", json_object_get(tools, "tools")));
	else if (strcmp(method, "tools/call") == 0)
		call(id, params);
	else if (strcmp(method, "ping") == 0)
		answer(id, "result", json_object());
	else
		answer_error(id, NO_METHOD, "a WASM module has tools only");
}

static int
serve(struct err *err)
{
	OWN(freep) char *line = NULL;
	size_t size = 0;
	ssize_t n;

	while ((n = getline(&line, &size, stdin)) > 0) {
		if ((size_t)n > MESSAGE_MAX)
			return err_set(err, EMSGSIZE, "a message is over %u MiB", MESSAGE_MAX >> 20);
		take(line, (size_t)n);
	}
	return 0;
}

/* ---- the start ---- */

static int
read_tools(const char *path, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len;
	int r = read_file_at(AT_FDCWD, path, TOOLS_MAX, &text, &len, err);

	if (r < 0)
		return r;
	tools = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	return json_is_array(json_object_get(tools, "tools")) ? 0 :
	       err_set(err, EINVAL, "the tools of the module are not {\"tools\": [...]}");
}

/* Nothing but the module's files is left for what breaks out of the engine. */
static int
confine(struct err *err)
{
	OWN(closep) int rules = -1;
	int r;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "cannot forbid new privileges");
	/* Where the cell grants a path read-only, it stays so. */
	r = landlock_make_reader(paths, paths, false, true, &rules, err);
	return r < 0 ? r : landlock_enforce(rules, err);
}

static int
run(char **argv, int *ret_status, struct err *err)
{
	bool speaks = strcmp(argv[2], "-") == 0;
	int r = wasm_module_read(argv[1], &module, err);

	r = r < 0 || speaks ? r : read_tools(argv[2], err);
	r = r < 0 ? r : wasm_engine_load(err);
	r = r < 0 ? r : confine(err);
	if (r < 0 || !speaks)
		return r < 0 ? r : serve(err);
	wasm_files_begin(NULL, NULL, paths);
	return wasm_engine_run(&module, (const char *[]){ "module", NULL }, ret_status, err);
}

int
main(int argc, char **argv)
{
	struct err err = {0};
	int status = 0;

	if (argc == 2 && strcmp(argv[1], "--check") == 0)
		_exit(wasm_engine_load(&err) < 0);
	if (argc < 4) {
		fprintf(stderr, "cloister-wasm is started by cloister only\n");
		return 125;
	}
	signal(SIGPIPE, SIG_IGN);
	paths = (const char *const *)&argv[3];
	if (run(argv, &status, &err) < 0) {
		fprintf(stderr, "cloister-wasm: %s\n", err.text);
		status = 1;
	}
	fflush(stdout);
	/* The engine's threads have nothing to finish. */
	_exit(status);
}

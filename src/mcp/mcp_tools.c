/* mcp_tools.c - the tools: their names, descriptions, arguments and results.
 *
 * Run-time verbs only, all of them in the list of tests/scenario/test_agent_verbs.py. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "canon/canon.h"
#include "mcp/mcp_parts.h"

#define ID "\"id\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":64," \
	"\"description\":\"The dispatch, as the tool dispatch named it\"}"
#define PAGE "\"offset\":{\"type\":\"integer\",\"minimum\":0,\"description\":\"The first byte that is " \
	"wanted; next_offset of the answer before\"},\"max_bytes\":{\"type\":\"integer\",\"minimum\":1," \
	"\"maximum\":262144,\"default\":65536}"
#define BYTES "\"text\":{\"type\":\"string\"},\"base64\":{\"type\":\"string\",\"description\":" \
	"\"Instead of text, where it is none\"},\"offset\":{\"type\":\"integer\"},\"next_offset\":" \
	"{\"type\":\"integer\",\"description\":\"There is more from here on\"}"
#define FILES "\"files\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{" \
	"\"path\":{\"type\":\"string\"},\"size\":{\"type\":\"integer\"},\"hash\":{\"type\":\"string\"}}," \
	"\"required\":[\"path\"]}},\"files_truncated\":{\"type\":\"boolean\"}"
#define STATE "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\"},\"state\":{\"type\":" \
	"\"string\",\"enum\":[\"queued\",\"starting\",\"running\",\"finished\",\"failed\"," \
	"\"cancelled\",\"timed_out\"]},\"agent\":{\"type\":\"string\"},\"hash\":{\"type\":" \
	"\"string\",\"description\":\"Of the agent's version\"},\"exit_code\":{\"type\":" \
	"\"integer\",\"description\":\"Of the agent, once it is finished\"},\"reason\":{\"type\":" \
	"\"string\",\"description\":\"Why it did not finish\"},\"attempts\":{\"type\":\"integer\"}," \
	"\"stdout\":{\"type\":\"string\"},\"stdout_truncated\":{\"type\":\"boolean\"}," \
	"\"stderr\":{\"type\":\"string\"},\"stderr_truncated\":{\"type\":\"boolean\"}," FILES "}," \
	"\"required\":[\"id\",\"state\"]}"

const struct mcp_tool mcp_tools[] = {
	{ .name = "list_agents", .title = "List agents",
	  .description = "The agents that can be dispatched, by name.",
	  .input = "{\"type\":\"object\",\"properties\":{\"after\":{\"type\":\"string\",\"maxLength\":160,"
	           "\"description\":\"Go on behind this name: next of the answer before\"},\"limit\":{"
	           "\"type\":\"integer\",\"minimum\":1,\"maximum\":500,\"default\":100}},"
	           "\"additionalProperties\":false}",
	  .output = "{\"type\":\"object\",\"properties\":{\"agents\":{\"type\":\"array\",\"items\":{"
	            "\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"hash\":{"
	            "\"type\":\"string\"},\"description\":{\"type\":\"string\"}},\"required\":[\"name\"]}},"
	            "\"next\":{\"type\":\"string\"}},\"required\":[\"agents\"]}",
	  .reads_only = true, .repeats = true, .step = mcp_step_agents },
	{ .name = "dispatch", .title = "Dispatch an agent",
	  .description = "Run an agent in a fresh sandbox. It reads the task from its standard input; "
	                 "what it prints and the files that it puts in /out are its result. Waits for the "
	                 "end and gives the output, unless wait is false: then status, output and "
	                 "result_files tell later. Cancelling the request cancels the dispatch.",
	  .input = "{\"type\":\"object\",\"properties\":{\"agent\":{\"type\":\"string\",\"minLength\":1,"
	           "\"maxLength\":160,\"description\":\"Its name, or NAME@sha256:HASH for one version\"},"
	           "\"input\":{\"type\":\"string\",\"maxLength\":4194304,\"description\":\"The task: its "
	           "standard input\"},\"env\":{\"type\":\"array\",\"maxItems\":16,\"items\":{\"type\":"
	           "\"string\",\"minLength\":1,\"maxLength\":160},\"description\":\"Names of registered sets "
	           "of environment variables\"},\"timeout_seconds\":{\"type\":\"integer\",\"minimum\":1,"
	           "\"maximum\":604800},\"retries\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":10},"
	           "\"idempotency_key\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":255,"
	           "\"description\":\"A second dispatch with the same key is the first one again\"},"
	           "\"wait\":{\"type\":\"boolean\",\"default\":true}},\"required\":[\"agent\"],"
	           "\"additionalProperties\":false}",
	  .output = STATE, .step = mcp_step_dispatch },
	{ .name = "status", .title = "Status of a dispatch",
	  .description = "Where a dispatch is, and how it ended.",
	  .input = "{\"type\":\"object\",\"properties\":{" ID "},\"required\":[\"id\"],"
	           "\"additionalProperties\":false}",
	  .output = STATE, .reads_only = true, .repeats = true, .step = mcp_step_status },
	{ .name = "output", .title = "Output of a dispatch",
	  .description = "What an agent printed; while it runs, what there is so far.",
	  .input = "{\"type\":\"object\",\"properties\":{" ID ",\"stream\":{\"type\":\"string\",\"enum\":["
	           "\"stdout\",\"stderr\"],\"default\":\"stdout\"}," PAGE "},\"required\":[\"id\"],"
	           "\"additionalProperties\":false}",
	  .output = "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\"},\"stream\":{"
	            "\"type\":\"string\"}," BYTES "},\"required\":[\"id\",\"stream\",\"offset\"]}",
	  .reads_only = true, .repeats = true, .step = mcp_step_output },
	{ .name = "result_files", .title = "Files of a dispatch",
	  .description = "The files that an agent left in /out: a list of them, or with path what is in "
	                 "one.",
	  .input = "{\"type\":\"object\",\"properties\":{" ID ",\"path\":{\"type\":\"string\",\"minLength\":1,"
	           "\"maxLength\":2048,\"description\":\"As the list has it; without it, the list\"},"
	           PAGE "},\"required\":[\"id\"],\"additionalProperties\":false}",
	  .output = "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\"},\"path\":{"
	            "\"type\":\"string\"}," FILES "," BYTES "},\"required\":[\"id\"]}",
	  .reads_only = true, .repeats = true, .step = mcp_step_files },
	{ .name = "cancel", .title = "Cancel a dispatch",
	  .description = "End a dispatch. Its sandbox is told to stop, and killed if it does not.",
	  .input = "{\"type\":\"object\",\"properties\":{" ID "},\"required\":[\"id\"],"
	           "\"additionalProperties\":false}",
	  .output = STATE, .destroys = true, .repeats = true, .step = mcp_step_cancel },
	{0}
};

const struct mcp_tool *
mcp_tool_find(const char *name)
{
	for (const struct mcp_tool *tool = mcp_tools; tool->name != NULL; tool++)
		if (strcmp(tool->name, name) == 0)
			return tool;
	return NULL;
}

static json_t *
parse(const char *schema)
{
	json_t *root = NULL;

	/* It is our own text: only memory can be missing. */
	if (canon_read(schema, strlen(schema), &root, NULL) == -EINVAL)
		abort();
	return root;
}

json_t *
mcp_tool_input(const struct mcp_tool *tool)
{
	return parse(tool->input);
}

json_t *
mcp_tools_list(void)
{
	json_t *list = json_array();

	for (const struct mcp_tool *tool = mcp_tools; tool->name != NULL; tool++)
		if (json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o, s:o, s:{s:b, s:b, s:b, s:b}}",
			"name", tool->name, "title", tool->title, "description", tool->description,
			"inputSchema", parse(tool->input), "outputSchema", parse(tool->output),
			"annotations", "readOnlyHint", tool->reads_only, "destructiveHint", tool->destroys,
			"idempotentHint", tool->repeats,
			/* Agents reach whatever their policies permit. */
			"openWorldHint", tool->step == mcp_step_dispatch)) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

/* mcp_parts.h - shared by the files of mcp/. */
#ifndef CLOISTER_MCP_PARTS_H
#define CLOISTER_MCP_PARTS_H
#include "mcp/mcp.h"

/* ---- mcp_tools.c ---- */

struct mcp_tool {
	const char *name, *title, *description;
	const char *input, *output;             /* JSON Schema, in the subset of mcp_schema.c */
	bool reads_only, destroys, repeats;     /* annotations: repeats = idempotent */
	/* The next step; the first call has ANSWER NULL. */
	enum mcp_next (*step)(struct mcp_call *call, const struct mcp_answer *answer);
};
extern const struct mcp_tool mcp_tools[];       /* ends with a NULL name */
const struct mcp_tool *mcp_tool_find(const char *name);
/* The result of tools/list. */
json_t *mcp_tools_list(void);
/* The schema of a tool's arguments. */
json_t *mcp_tool_input(const struct mcp_tool *tool);

/* ---- mcp_schema.c ---- */

/* Checks VALUE against SCHEMA; the message has the place of the fault. */
int mcp_schema_check(const json_t *schema, const json_t *value, const char *where, struct err *err);

/* ---- mcp_steps.c: the steps of each tool ---- */

enum mcp_next mcp_step_agents(struct mcp_call *call, const struct mcp_answer *answer);
enum mcp_next mcp_step_dispatch(struct mcp_call *call, const struct mcp_answer *answer);
enum mcp_next mcp_step_status(struct mcp_call *call, const struct mcp_answer *answer);
enum mcp_next mcp_step_output(struct mcp_call *call, const struct mcp_answer *answer);
enum mcp_next mcp_step_files(struct mcp_call *call, const struct mcp_answer *answer);
enum mcp_next mcp_step_cancel(struct mcp_call *call, const struct mcp_answer *answer);

/* ---- mcp_call.c ---- */

/* TOKEN may be NULL.  NULL: out of memory. */
struct mcp_call *mcp_call_new(const struct mcp_config *config, struct mcp_peer *peer,
                              const struct mcp_tool *tool, json_t *id, json_t *token,
                              json_t *args, bool modern);
struct mcp_call *mcp_call_find(const struct mcp_peer *peer, const json_t *id);
/* The tool fails: the model reads this sentence. */
enum mcp_next mcp_call_fail(struct mcp_call *call, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Requests METHOD of a path: each %s is escaped as one segment. */
enum mcp_next mcp_call_get(struct mcp_call *call, size_t max, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
enum mcp_next mcp_call_post(struct mcp_call *call, json_t *body, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- mcp_text.c ---- */

/* Escapes TEXT as one segment of a path, or as a query's value. */
char *mcp_escape(const char *text, char *out, size_t size);
/* Bytes as {"text"} if they are text, else as {"base64"}; *ret_used is LEN, or a little less if the
 * last character was cut. */
int mcp_put_bytes(json_t *into, const char *data, size_t len, bool is_cut, size_t *ret_used);
/* As text in any case: invalid bytes become U+FFFD. */
json_t *mcp_text(const char *data, size_t len);
/* Decodes `=?base64?...?=` of an HTTP field in place; false: it is malformed. */
bool mcp_field_decode(char *value);
#endif

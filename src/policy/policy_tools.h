/* policy_tools.h - a policy's `tools`: the MCP servers that the agent reaches, and the lock of their tools.
 *
 * Pure.  The gateway starts the servers and hides tools; rules (`allow: tool:github.get_*`) decide on calls.
 * Everything is in the policy's own memory and lives as long as the policy. */
#ifndef CLOISTER_POLICY_TOOLS_H
#define CLOISTER_POLICY_TOOLS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy_rule.h"

struct buf;
struct err;
struct node;

/* The host, port and path at which the agent reaches the gateway, in plain HTTP. */
#define POLICY_TOOLS_HOST "tools.cloister.internal"
#define POLICY_TOOLS_PORT 80
#define POLICY_TOOLS_PATH "/mcp"
#define POLICY_TOOLS_URL "http://" POLICY_TOOLS_HOST POLICY_TOOLS_PATH

/* In front of the hash of a capability of type `wasm`: "capability:sha256:...". */
#define POLICY_TOOLS_CAPABILITY "capability:"

#define POLICY_TOOLS_SERVERS_MAX 64
#define POLICY_TOOLS_LOCKED_MAX 1024
#define POLICY_TOOLS_SERVER_MAX 32      /* bytes of a server's name: [a-z0-9_-] */
#define POLICY_TOOLS_TOOL_MAX 128       /* bytes of a tool's own name: [A-Za-z0-9_./-] */
#define POLICY_TOOLS_NAME_MAX (POLICY_TOOLS_SERVER_MAX + 1 + POLICY_TOOLS_TOOL_MAX)
#define POLICY_TOOLS_WORDS_MAX 64       /* of a command; variables; paths of a kind */
#define POLICY_TOOLS_POLICY_MAX (256 * 1024)    /* bytes of a server's own policy */
#define POLICY_TOOLS_SCOPE_MAX (64 * 1024)      /* bytes of a scope */
#define POLICY_TOOLS_LOCK_MAX (4 * 1024 * 1024) /* bytes of a lock's file */
#define POLICY_TOOLS_HASH 64            /* hex digits */
#define POLICY_TOOLS_PINS_MAX 1024      /* of all servers together */

#define POLICY_TOOLS_IDLE_MS (5 * 60 * 1000)
#define POLICY_TOOLS_IDLE_LEAST_MS 1000
#define POLICY_TOOLS_IDLE_MOST_MS (24 * 60 * 60 * 1000)
#define POLICY_TOOLS_TIMEOUT_MS (60 * 1000)
#define POLICY_TOOLS_TIMEOUT_LEAST_MS 100
#define POLICY_TOOLS_TIMEOUT_MOST_MS (60 * 60 * 1000)
#define POLICY_TOOLS_ASK_MS (10 * 60 * 1000)
#define POLICY_TOOLS_RESULT (1024 * 1024)
#define POLICY_TOOLS_RESULT_LEAST 1024
#define POLICY_TOOLS_RESULT_MOST (64 * 1024 * 1024)

/* What a tool's annotations promise.  A lock has all of them; the protocol's defaults stand for
 * those that the tool's author left out: not read-only, destructive, not idempotent, open world. */
enum policy_tool_hint { POLICY_TOOL_READ_ONLY = 1, POLICY_TOOL_DESTRUCTIVE = 2, POLICY_TOOL_IDEMPOTENT = 4,
                        POLICY_TOOL_OPEN_WORLD = 8, POLICY_TOOL_HINTS = 15 };
/* "read_only" and so on, by the number of the bit. */
#define POLICY_TOOL_N_HINTS 4
extern const char *const policy_tool_hints[POLICY_TOOL_N_HINTS];

/* A tool of the lock. */
struct policy_tool {
	const char *name;               /* "server.tool" */
	const char *hash;               /* SHA-256 of its canonical definition, POLICY_TOOLS_HASH digits in lower case */
	unsigned hints;                 /* enum policy_tool_hint: those that are true */
	const char *scope;              /* a map on one line of YAML: egress, read, write, secrets, programs, time; "": none */
};

/* A file of this machine that a server runs, as it was when it was locked. */
struct policy_tools_pin {
	const char *server;
	const char *file;               /* a word of the server's command; "": its program, its program's script or its module */
	const char *hash;               /* SHA-256, POLICY_TOOLS_HASH digits in lower case */
};

struct policy_tools_server {
	const char *name;
	const char *const *command;     /* NULL-terminated; never NULL; may be empty with an image or a URL */
	size_t n_command;
	const char *image, *url, *wasm, *folder;        /* NULL: none; WASM: the path of a WASI module, as written */
	struct policy_list env;         /* "NAME=value" */
	struct policy_list read, write; /* as written: see policy_tools_path() */
	bool per_call;
	uint64_t idle_ms, timeout_ms, result_max;
	const char *policy;             /* its own policy, a map on one line of YAML that policy_load_text() takes; "": none */
	const char *start;              /* rules of `egress`, a list on one line: what it may request while it starts, if a lock
	                                 * holds it; "": nothing */
};

enum policy_tools_injection { POLICY_INJECTION_OFF, POLICY_INJECTION_FLAG, POLICY_INJECTION_ASK, POLICY_INJECTIONS };

struct policy_tools {
	const struct policy_tools_server *servers;
	size_t n_servers;
	bool has_lock;                  /* tools that are not LOCKED do not exist */
	const struct policy_tool *locked;       /* ordered by strcmp of their names */
	size_t n_locked;
	const struct policy_tools_pin *pins;    /* ordered by their servers, then by their files */
	size_t n_pins;
	enum policy_tools_injection injection;
	bool ask_results;
	uint64_t ask_ms;                /* that a result waits for an answer; then the agent does not get it */
};

/* The `tools` of the first layer that has them, or NULL. */
const struct policy_tools *policy_tools_of(const struct policy *p);
const struct policy_tools_server *policy_tools_server(const struct policy_tools *tools, const char *name, size_t len);
/* The locked tool "server.tool", or NULL. */
const struct policy_tool *policy_tools_locked(const struct policy_tools *tools, const char *name);

/* The first pin of the server, or NULL; *ret_n: how many it has, one behind the other. */
const struct policy_tools_pin *policy_tools_pins(const struct policy_tools *tools, const char *server, size_t *ret_n);

bool policy_tools_is_server(const char *name, size_t len);
bool policy_tools_is_tool(const char *name, size_t len);        /* a tool's own name */

/* A path of `read`, `write` or `folder`, made absolute: "~/x" is in HOME, and "x" in FOLDER, the
 * folder that the agent works in.  -ENAMETOOLONG: it does not fit into SIZE bytes. */
int policy_tools_path(const char *text, const char *folder, const char *home, char *ret_path, size_t size, struct err *err);

/* ---- reading ---- */

/* Read the lock at NODE into P's memory: *ret_locked has no locked tools of any other lock. */
int policy_tools_read_lock(struct policy *p, const struct node *node, struct policy_tools *tools, struct err *err);
/* Append TOOLS as the value of the key `tools`, on one line of YAML, with the lock in it. */
void policy_tools_put_yaml(struct buf *b, const struct policy_tools *tools);
#endif

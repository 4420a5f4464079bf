/* server_run.h - the words of the `cloister run` that starts the cell of an MCP server.
 *
 * Pure but for the sealed memory files that hold policies. */
#ifndef CLOISTER_TOOLS_SERVER_RUN_H
#define CLOISTER_TOOLS_SERVER_RUN_H
#include <stdbool.h>
#include <stddef.h>

#include "policy/policy_tools.h"

struct err;
struct server_held;
struct words;

#define SERVER_RUN_WORDS_MAX 512
/* Where a cell has cloister's own program for MCP over standard input and output. */
#define SERVER_RUN_STDIO "/run/cloister/cloister-tools"

struct server_run {
	char *words[SERVER_RUN_WORDS_MAX + 1];  /* owned; ends with NULL */
	size_t n;
	int policy, within;             /* memory files that the program gets, under these numbers; -1: none */
};

/* What the cell of a server is, besides what the server's entry states. */
struct server_run_place {
	const char *folder, *home;      /* of the operator, for relative paths */
	const char *id;                 /* of the cell */
	const struct policy_tool *tool; /* whose scope holds the cell from its start; NULL: none */
	const struct policy_tool *const *all;   /* without TOOL: the locked tools whose scopes bound grants, N_ALL; NULL: */
	size_t n_all;                   /* there is no lock */
	bool is_held;                   /* its policy will be changed: the server's own stays around it */
	bool stands_in;                 /* texts stand in place of the secrets, which it does not get */
	const struct server_held *held; /* in place of what the entry names; NULL: nothing */
	int policy_at, within_at;       /* the numbers that the memory files will have */
};

/* The caller owns *ret_run (server_run_free). */
int server_run_build(const struct policy_tools_server *server, const struct server_run_place *place,
                     struct server_run *ret_run, struct err *err);
void server_run_free(struct server_run *run);   /* for OWN() too */

/* Append "--env=NAME=not-a-secret" for each secret of the server's own policy: programs that insist on a key start with
 * this. */
void server_run_stand_ins(const struct policy_tools_server *server, struct words *w);

/* A server with a `url` is our own bridge in a cell.  The caller owns these words; NULL: out of memory. */
/* "PATH:/run/cloister/cloister-tools:ro": the bridge as a grant.  NULL: ERR says why. */
char *server_run_bridge_grant(struct err *err);
/* "GET,POST,DELETE https://mcp.example.com/mcp": all that it may reach besides what the server's own policy allows. */
char *server_run_bridge_rule(const struct policy_tools_server *server);
/* "SERVER_TOKEN": the name of a secret of the server's that `cloister tools login` and `import` make. */
char *server_run_token(const char *server, const char *suffix);
#endif

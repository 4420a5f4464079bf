/* mcp_channel.h - messages between the two halves of cloister-mcp: datagrams, see ipc.h.
 *
 * The worker parses an orchestrating agent's messages, and cannot open, connect or start anything.
 * The keeper does one thing for it: it connects to the service's run-time socket. */
#ifndef CLOISTER_MCP_CHANNEL_H
#define CLOISTER_MCP_CHANNEL_H

#define MCP_CHANNEL_FD 3                /* the worker's */
#define MCP_LISTENER_FD 4               /* the worker's, if it serves HTTP */
#define MCP_GIVEN_FD 3                  /* the keeper's: a listener that the service opened for it */

enum mcp_message {
	/* keeper -> worker, once: str principal, str token for the service ("": none), u32 port (0:
	 * standard input), str hash of the HTTP token, in hex.  "" for the last: it serves agents
	 * in cells, each with a token of its own. */
	MCP_BEGIN = 1,
	/* worker -> keeper: empty.  Answered in the order of the questions. */
	MCP_CONNECT,
	/* keeper -> worker: fd, connected to agents.sock. */
	MCP_CONNECTED,
	/* keeper -> worker: str reason. */
	MCP_REFUSED,
};
#endif

/* mcp_channel.h - between the two halves of cloister-mcp: datagrams, see ipc.h.
 *
 * The worker reads what an orchestrating agent sends, and can open, connect and start nothing.
 * The keeper does one thing for it: it connects to the run-time socket of the service. */
#ifndef CLOISTER_MCP_CHANNEL_H
#define CLOISTER_MCP_CHANNEL_H

#define MCP_CHANNEL_FD 3                /* the worker's */
#define MCP_LISTENER_FD 4               /* the worker's, if it is to serve HTTP */
#define MCP_GIVEN_FD 3                  /* the keeper's: what the service listens at for it */

enum mcp_message {
	/* keeper -> worker, once: str principal, str token for the service ("": none), u32 port
	 * (0: standard input), str hash of the token of HTTP, in hex ("": there is none, and it is for
	 * agents in cells, each with its own). */
	MCP_BEGIN = 1,
	/* worker -> keeper: nothing else.  Answered in the order of the questions. */
	MCP_CONNECT,
	/* keeper -> worker: fd, connected to agents.sock. */
	MCP_CONNECTED,
	/* keeper -> worker: str why not. */
	MCP_REFUSED,
};
#endif

/* mcp_child.h - the cloister-mcp that runs beside the service, for agents in cells.
 *
 * That process, which is locked down, reads what agents send; the service never does.  Its only
 * access to the service is agents.sock.  The service keeps the listening socket, so that the
 * address stays the same as long as it runs. */
#ifndef CLOISTER_MCP_CHILD_H
#define CLOISTER_MCP_CHILD_H

struct mcp_child;                       /* opaque */
struct err;
struct loop;

/* ADDRESS as for serve_listen_tcp().  With port 0 the last port is used if it is free, because
 * running cells know it.  agents.sock must be open. */
int mcp_child_start(struct loop *loop, const char *address, struct mcp_child **ret_child,
                 struct err *err);
void mcp_child_stop(struct mcp_child *b);       /* NULL is fine */
#endif

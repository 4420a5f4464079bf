/* beside.h - the cloister-mcp that runs beside the service, for agents in cells.
 *
 * That process, which is locked down, reads what agents send; the service never does.  Its only
 * access to the service is agents.sock.  The service keeps the listening socket, so that the
 * address stays the same as long as it runs. */
#ifndef CLOISTER_BESIDE_H
#define CLOISTER_BESIDE_H

struct beside;                          /* opaque */
struct err;
struct loop;

/* ADDRESS as for serve_listen_tcp().  With port 0 the last port is used if it is free, because
 * running cells know it.  agents.sock must be open. */
int beside_start(struct loop *loop, const char *address, struct beside **ret_beside,
                 struct err *err);
void beside_stop(struct beside *b);     /* NULL is fine */
#endif

/* beside.h - the cloister-mcp that runs beside the service, for agents in cells.
 *
 * What agents send is read by that process, which is locked down, and never by this one; it has no
 * more of us than agents.sock.  The listening socket stays ours, so that the address is the same
 * for as long as we run. */
#ifndef CLOISTER_BESIDE_H
#define CLOISTER_BESIDE_H

struct beside;                          /* opaque */
struct err;
struct loop;

/* ADDRESS as of serve_listen_tcp(); with port 0 that of last time, if it is free: cells that run
 * know it.  agents.sock has to be open. */
int beside_start(struct loop *loop, const char *address, struct beside **ret_beside,
                 struct err *err);
void beside_stop(struct beside *b);     /* NULL is fine */
#endif

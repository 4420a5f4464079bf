/* courier_ssh.h - signs for the cell's SSH keys: logins to hosts that the key is for, over
 * connections that this courier carries, and texts where the key's definition says so.
 *
 * The gate says what the agent wants signed, never the bytes: those are put together here. */
#ifndef CLOISTER_COURIER_SSH_H
#define CLOISTER_COURIER_SSH_H
#include <stddef.h>
#include <stdint.h>

struct buf;
struct courier;
struct exchange;

/* Of what a server says before anything is encrypted, which has its signature of the session
 * in it.  Kept of raw connections, where the cell has such keys. */
#define COURIER_SSH_HEARD_MAX (16 * 1024)

/* EGRESS_SSH_LIST and EGRESS_SSH_SIGN; negative if the gate is broken. */
int courier_ssh_list(struct courier *c, uint32_t id, struct buf *body);
int courier_ssh_sign(struct courier *c, uint32_t id, struct buf *body);

/* A server's bytes on EX, which is raw. */
void exchange_ssh_hear(struct exchange *ex, const void *data, size_t len);
void exchange_ssh_free(struct exchange *ex);
#endif

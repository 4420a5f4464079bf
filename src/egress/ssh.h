/* ssh.h - signs with the cell's SSH keys.
 *
 * It signs logins to hosts that the key is for, over connections that this courier carries.  It
 * signs texts if the key's definition allows that.  The gate describes what the agent wants signed,
 * and the courier builds the bytes itself. */
#ifndef CLOISTER_EGRESS_SSH_H
#define CLOISTER_EGRESS_SSH_H
#include <stddef.h>
#include <stdint.h>

struct buf;
struct courier;
struct exchange;

/* Bytes kept of the server's unencrypted start, which contains its signature of the session.  Kept
 * for raw connections, if the cell has SSH keys. */
#define COURIER_SSH_HEARD_MAX (16 * 1024)

/* Answer EGRESS_SSH_LIST and EGRESS_SSH_SIGN.  Negative: the gate is broken. */
int courier_ssh_list(struct courier *c, uint32_t id, struct buf *body);
int courier_ssh_sign(struct courier *c, uint32_t id, struct buf *body);

/* The server sent these bytes on EX, which is raw. */
void exchange_ssh_hear(struct exchange *ex, const void *data, size_t len);
void exchange_ssh_free(struct exchange *ex);
#endif

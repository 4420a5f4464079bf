/* ssh_wire.h - the data types of SSH (RFC 4251, 5): read strictly from a text that moves on,
 * written behind what is in a buf.
 *
 * Pure.  What was read points into the text. */
#ifndef CLOISTER_SSH_WIRE_H
#define CLOISTER_SSH_WIRE_H
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "http/http_head.h"

#define SSH_BLOB_MAX 4096               /* a public key or a signature: RSA with 16384 bits */

/* False: there is too little of it, and *REST is of no more use. */
bool ssh_get_u8(struct http_text *rest, uint8_t *ret_v);
bool ssh_get_bool(struct http_text *rest, bool *ret_v);         /* 0 or 1 only */
bool ssh_get_u32(struct http_text *rest, uint32_t *ret_v);
bool ssh_get_string(struct http_text *rest, struct http_text *ret_v);
/* The same of MIN to MAX bytes. */
bool ssh_get_sized(struct http_text *rest, size_t min, size_t max, struct http_text *ret_v);
/* For people and events: no NUL, 1 to MAX bytes; copied to OUT, which has one more. */
bool ssh_get_name(struct http_text *rest, size_t max, char *out);
/* A positive number in the one form that it has; without leading zeros. */
bool ssh_get_mpint(struct http_text *rest, struct http_text *ret_v);

/* How much of SAID, the beginning of what a server says, is in the clear: lines up to its version,
 * and whole packets up to the one from which on it is encrypted. */
size_t ssh_clear_len(struct http_text said);

void ssh_put_u8(struct buf *b, uint8_t v);
void ssh_put_u32(struct buf *b, uint32_t v);
void ssh_put_string(struct buf *b, struct http_text v);
void ssh_put_str(struct buf *b, const char *v);
/* V as it would be read: leading zeros are left out, one is put before a high bit. */
void ssh_put_mpint(struct buf *b, struct http_text v);
#endif

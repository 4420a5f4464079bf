/* ssh_wire.h - the data types of SSH (RFC 4251, 5): reads them strictly and advances *REST, or
 * appends them to a buf.
 *
 * Pure.  The results point into the text. */
#ifndef CLOISTER_SSH_WIRE_H
#define CLOISTER_SSH_WIRE_H
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "http/http_head.h"

#define SSH_BLOB_MAX 4096               /* a public key or a signature: RSA with 16384 bits */

/* False: there are too few bytes, and *REST is unusable. */
bool ssh_get_u8(struct http_text *rest, uint8_t *ret_v);
bool ssh_get_bool(struct http_text *rest, bool *ret_v);         /* 0 or 1 only */
bool ssh_get_u32(struct http_text *rest, uint32_t *ret_v);
bool ssh_get_string(struct http_text *rest, struct http_text *ret_v);
/* As ssh_get_string(), of MIN to MAX bytes. */
bool ssh_get_sized(struct http_text *rest, size_t min, size_t max, struct http_text *ret_v);
/* For people and events: 1 to MAX bytes without NUL, copied to OUT, which has one byte more. */
bool ssh_get_name(struct http_text *rest, size_t max, char *out);
/* A positive number in its canonical form; the result has no leading zeros. */
bool ssh_get_mpint(struct http_text *rest, struct http_text *ret_v);

/* How much of SAID, the beginning of a server's bytes, is unencrypted: lines up to its version, and
 * whole packets up to the one that starts the encryption. */
size_t ssh_clear_len(struct http_text said);

void ssh_put_u8(struct buf *b, uint8_t v);
void ssh_put_u32(struct buf *b, uint32_t v);
void ssh_put_string(struct buf *b, struct http_text v);
void ssh_put_str(struct buf *b, const char *v);
/* Write V in canonical form: without leading zeros, but with one before a high bit. */
void ssh_put_mpint(struct buf *b, struct http_text v);
#endif

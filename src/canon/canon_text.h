/* canon_text.h - escapes strings for canonical JSON (RFC 8785).  Pure. */
#ifndef CLOISTER_CANON_TEXT_H
#define CLOISTER_CANON_TEXT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* The length of the prefix of TEXT that is printable ASCII and needs no escape. */
size_t canon_text_plain(const char *text, size_t len);
/* Decode the character at AT, inside a string.  Returns its length, or 0 if this is not its only
 * canonical form.  U+0000 has none. */
size_t canon_text_next(const char *at, const char *end, uint32_t *ret_code);

/* Append TEXT as the inside of a string.  Invalid UTF-8 and U+0000 become U+FFFD.  With SAFE, so do
 * characters that could control a terminal and have no escape. */
void canon_text_put(struct buf *b, const char *text, size_t len, bool safe);
/* The same with the quotes. */
void canon_put_string(struct buf *b, const char *text, size_t len);
#endif

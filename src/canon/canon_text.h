/* canon_text.h - strings in canonical JSON (RFC 8785): what is escaped in them, and how.  Pure. */
#ifndef CLOISTER_CANON_TEXT_H
#define CLOISTER_CANON_TEXT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* How much of TEXT, from its beginning, is printable ASCII that stands for itself in a string. */
size_t canon_text_plain(const char *text, size_t len);
/* The character that is written at AT, inside a string, and how long that is: 0 if it is not the
 * only form that it can have.  U+0000 has none. */
size_t canon_text_next(const char *at, const char *end, uint32_t *ret_code);

/* TEXT as the inside of a string.  What is not UTF-8, and U+0000, becomes U+FFFD; with SAFE so does
 * what could steer a terminal and has no escape. */
void canon_text_put(struct buf *b, const char *text, size_t len, bool safe);
/* All of it with its quotes. */
void canon_put_string(struct buf *b, const char *text, size_t len);
#endif

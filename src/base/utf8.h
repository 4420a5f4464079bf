/* utf8.h - reads UTF-8 strictly: no overlong forms, no surrogates. */
#ifndef CLOISTER_UTF8_H
#define CLOISTER_UTF8_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decode the first character of the LEN bytes at S.  Returns its length, or 0 with *ret_code
 * untouched if it is invalid. */
size_t utf8_next(const char *s, size_t len, uint32_t *ret_code);

/* Whether printing CODE could do more to a terminal than show a character: C0, DEL, C1, line
 * separators, and characters that reorder the text around them. */
bool utf8_is_control(uint32_t code);
#endif

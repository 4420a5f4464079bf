/* utf8.h - reads UTF-8 strictly: no overlong forms, no surrogates. */
#ifndef CLOISTER_UTF8_H
#define CLOISTER_UTF8_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The character that the LEN bytes at S begin with: returns how many bytes it
 * takes, or 0, with *ret_code untouched, when they begin with none. */
size_t utf8_next(const char *s, size_t len, uint32_t *ret_code);

/* Whether printing CODE could do more to a terminal than show a character:
 * C0, DEL, C1, line separators, and what reorders the text around it. */
bool utf8_is_control(uint32_t code);
#endif

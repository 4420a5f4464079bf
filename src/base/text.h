/* text.h - text for people: makes it safe for a terminal, and finds the nearest name; and reads words. */
#ifndef CLOISTER_TEXT_H
#define CLOISTER_TEXT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Print text that an agent may have written: control characters (escape
 * sequences above all) and bytes that are not UTF-8 become \xNN.  Newline and
 * tab pass only with KEEP_LINES. */
void text_print_safe(FILE *out, const char *s, size_t len, bool keep_lines);

/* The name in NAMES (NULL-terminated) nearest to WORD, or NULL if none is near enough. */
const char *text_nearest(const char *word, const char *const *names);

/* The ending of a counted word: "" for 1, "s" for any other N. */
const char *text_plural(uint64_t n);

/* Whether the text from *AT to END begins with WORD; then *AT moves behind it. */
bool text_take(const char **at, const char *end, const char *word);

/* Whether OUT is a terminal that wants colour (NO_COLOR is honoured). */
bool text_wants_colour(FILE *out);
#endif

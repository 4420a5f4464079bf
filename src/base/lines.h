/* lines.h - compares two texts line by line. */
#ifndef CLOISTER_LINES_H
#define CLOISTER_LINES_H
#include <stddef.h>

#include "base/buf.h"

#define LINES_MAX 65536                 /* in a text; the rest counts as one line */
#define LINES_CONTEXT 2                 /* lines around a difference */
#define LINES_EXACT (4 * 1024 * 1024)   /* pairs of lines: beyond it, everything between the first and
                                         * the last difference counts as changed */

/* Append the differing lines: "-" before lines only in OLD, "+" before lines only in NEW, " "
 * before common lines around them.  "@@ " and a line number of NEW begin each run.  Appends nothing
 * if the texts are equal. */
void lines_diff(struct buf *b, const char *old, size_t n_old, const char *new, size_t n_new);
#endif

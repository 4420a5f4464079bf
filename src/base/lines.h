/* lines.h - what differs between two texts, line by line. */
#ifndef CLOISTER_LINES_H
#define CLOISTER_LINES_H
#include <stddef.h>

#include "base/buf.h"

#define LINES_MAX 65536                 /* of a text; what follows is one line */
#define LINES_CONTEXT 2                 /* around what differs */
#define LINES_EXACT (4 * 1024 * 1024)   /* pairs of lines: beyond it, all between the first and the
                                         * last difference counts as changed */

/* "-" in front of lines that only A has, "+" of those that only B has, " " of those around them
 * that both have, "@@ " and the line of B where a run of them begins.  Nothing if they are alike. */
void lines_diff(struct buf *b, const char *old, size_t n_old, const char *new, size_t n_new);
#endif

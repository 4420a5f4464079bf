/* hanging.h - prints a line that is longer than the terminal is wide: all of it stays in its column. */
#ifndef CLOISTER_CLI_HANGING_H
#define CLOISTER_CLI_HANGING_H
#include <stddef.h>
#include <stdio.h>

/* The columns of the terminal OUT; 0: it is none, or does not say. */
size_t hanging_width(FILE *out);
/* Print TEXT from column INDENT, where the cursor is, and a newline.  Lines end between words if they can; those that
 * follow begin at INDENT.  TEXT may have escape sequences for colours, and nothing else that moves the cursor.  WIDTH 0,
 * or too little of it: one line. */
void hanging_print(FILE *out, const char *text, size_t indent, size_t width);
#endif

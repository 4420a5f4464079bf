/* format.h - prints objects by a template, for --format.
 *
 * "{state}" stands for a member of the object, by the name that it has with --json, and "{grant.argv}" for one inside
 * another.  "{{" is a brace, "\t" a tab and "\n" a newline. */
#ifndef CLOISTER_FORMAT_H
#define CLOISTER_FORMAT_H
#include <jansson.h>
#include <stdio.h>

struct err;

/* Refuses a template with a brace that is not closed. */
int format_check(const char *template, struct err *err);
/* Prints OBJECT, and a newline.  A list is printed with spaces between its values, and what is null, or is not there,
 * as "-".  Values are made safe for a terminal: an agent may have chosen them. */
void format_print(FILE *out, const char *template, const json_t *object);
#endif

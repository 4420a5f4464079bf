/* body_shape_parts.h - shared by the two files that describe bodies.
 *
 * Forms are separate from JSON, so that a program that shows only queries need not link the JSON
 * parser. */
#ifndef CLOISTER_BODY_SHAPE_PARTS_H
#define CLOISTER_BODY_SHAPE_PARTS_H
#include <stdbool.h>

#include "inspect/body_shape.h"

#define SHAPE_VALUE 64                  /* bytes shown of a value */
#define SHAPE_VALUE_WIDE 640            /* of one in a result, whose text is what matters */
#define SHAPE_VALUE_TEXT (SHAPE_VALUE_WIDE + 96)
#define SHAPE_NAME 48
#define SHAPE_NAME_TEXT (SHAPE_NAME + 8)
#define SHAPE_LINE_TEXT (SHAPE_NAME_TEXT + SHAPE_VALUE_TEXT + 8)
#define SHAPE_LOOKED_AT 4096            /* bytes of a value that are searched for credentials */

struct shape {
	char *text;
	size_t len;
	size_t value;                   /* bytes shown of a value */
	size_t left_out;                /* values that did not fit */
};
/* Whether there is room.  If not, COUNT values are counted as left out. */
bool shape_has_room(struct shape *s, size_t count);
void shape_line(struct shape *s, size_t depth, const char *line);
/* Write the last line: NOTE, or if it is "", the number of values left out. */
void shape_end(struct shape *s, const char *note);
/* Write TEXT as S shows it under NAME.  RAW is TEXT as written, and LEN its full length. */
void shape_value(const struct shape *s, char out[SHAPE_VALUE_TEXT], const char *name, struct http_text raw,
                 struct http_text text, size_t len);
void shape_name(char out[SHAPE_NAME_TEXT], struct http_text raw, struct http_text text);
/* The length of at most MAX bytes of TEXT that splits no character or escape. */
size_t shape_cut(struct http_text text, size_t max);
#endif

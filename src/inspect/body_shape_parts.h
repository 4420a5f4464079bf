/* body_shape_parts.h - between the two files that describe bodies.  Forms stand apart from JSON,
 * so that who shows only queries need not link its parser. */
#ifndef CLOISTER_BODY_SHAPE_PARTS_H
#define CLOISTER_BODY_SHAPE_PARTS_H
#include <stdbool.h>

#include "inspect/body_shape.h"

#define SHAPE_VALUE 64                  /* bytes of it that are shown */
#define SHAPE_VALUE_TEXT (SHAPE_VALUE + 96)
#define SHAPE_NAME 48
#define SHAPE_NAME_TEXT (SHAPE_NAME + 8)
#define SHAPE_LINE_TEXT (SHAPE_NAME_TEXT + SHAPE_VALUE_TEXT + 8)
#define SHAPE_LOOKED_AT 4096            /* of a value, for credentials */

struct shape {
	char *text;
	size_t len;
	size_t left_out;                /* values, since there is no more room */
};
/* Whether there is room; what is left out otherwise is counted as COUNT. */
bool shape_has_room(struct shape *s, size_t count);
void shape_line(struct shape *s, size_t depth, const char *line);
/* NOTE on what comes instead of the rest; "": nothing does. */
void shape_end(struct shape *s, const char *note);
/* TEXT (of RAW, as it was written), under NAME, as it is to be shown; LEN is told. */
void shape_value(char out[SHAPE_VALUE_TEXT], const char *name, struct http_text raw,
                 struct http_text text, size_t len);
void shape_name(char out[SHAPE_NAME_TEXT], struct http_text raw, struct http_text text);
/* At most MAX bytes of TEXT, and no character or escape in two. */
size_t shape_cut(struct http_text text, size_t max);
#endif

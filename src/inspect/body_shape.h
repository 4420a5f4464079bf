/* body_shape.h - describes a body for a person who has to approve it: one line for each name and
 * its value, shortened, and masked if it looks like a credential. */
#ifndef CLOISTER_BODY_SHAPE_H
#define CLOISTER_BODY_SHAPE_H
#include "http/http_head.h"
#include "ipc/inspect_channel.h"

/* "" if it is neither JSON nor a form.  The last line counts the values that do not fit. */
void body_shape(struct http_text content_type, const char *data, size_t len,
                char ret_shape[INSPECT_SHAPE_MAX]);
/* As body_shape(), for the JSON of a result: more is shown of each value. */
void body_shape_result(const char *data, size_t len, char ret_shape[INSPECT_SHAPE_MAX]);
/* As body_shape(), for a form, or a query without its "?". */
void body_shape_form(struct http_text form, char ret_shape[INSPECT_SHAPE_MAX]);
/* As body_shape(), for a head's fields, each as NAME: "VALUE". */
void body_shape_headers(const struct http_head *head, char ret_shape[INSPECT_SHAPE_MAX]);
#endif

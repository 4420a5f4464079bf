/* body_shape.h - what a body looks like, for a person who is to approve it: the names in it and
 * what stands under them, one a line, cut short, and masked where it looks like a credential. */
#ifndef CLOISTER_BODY_SHAPE_H
#define CLOISTER_BODY_SHAPE_H
#include "http/http_head.h"
#include "ipc/inspect_channel.h"

/* "" if it is neither JSON nor a form.  What does not fit is counted in the last line. */
void body_shape(struct http_text content_type, const char *data, size_t len,
                char ret_shape[INSPECT_SHAPE_MAX]);
/* The same of a form, or of a query without its "?". */
void body_shape_form(struct http_text form, char ret_shape[INSPECT_SHAPE_MAX]);
/* The same of a head's fields, each as NAME: "VALUE". */
void body_shape_headers(const struct http_head *head, char ret_shape[INSPECT_SHAPE_MAX]);
#endif

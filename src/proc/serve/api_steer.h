/* api_steer.h - what the routes share that change a running cell. */
#ifndef CLOISTER_API_STEER_H
#define CLOISTER_API_STEER_H
#include "cell/cell_steer.h"
#include "proc/serve/api.h"

/* The body is checked against MEMBERS, of which one is "why" (NULL: it is the only one, and there need
 * be no body).  *ret_who is for whom it is done, as the record will have it. */
int api_steer_who(struct api_call *c, const struct api_member *members, struct cell_steer_who *ret_who);
/* In the operator's timeline: TYPE, the cell, if it is one, and a member of that NAME (NULL: none).
 * That it could not be recorded there does not undo it: the cell's own timeline has it. */
void api_steer_note(struct api_call *c, const char *type, const char *name, const char *value);
#endif

/* api_steer.h - shared by the routes that change a running cell. */
#ifndef CLOISTER_API_STEER_H
#define CLOISTER_API_STEER_H
#include "cell/cell_steer.h"
#include "proc/serve/api.h"

/* Checks the body against MEMBERS, one of which is "why" (NULL: it is the only one, and the body is
 * optional).  *ret_who is for whom it is done, for the record. */
int api_steer_who(struct api_call *c, const struct api_member *members, struct cell_steer_who *ret_who);
/* Records the request in the operator's timeline, as its row names it: the cell, if it is about one,
 * and a member of that NAME (NULL: none).  If that fails, the change stays: the cell's own timeline has
 * it. */
void api_steer_note(struct api_call *c, const char *name, const char *value);
#endif

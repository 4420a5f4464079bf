/* supervisor_lost_rights.h - reports whether a cell still has all rights that it was granted. */
#ifndef CLOISTER_SUPERVISOR_LOST_RIGHTS_H
#define CLOISTER_SUPERVISOR_LOST_RIGHTS_H
#include <stdint.h>

struct client;
struct err;
struct steer_call;
struct supervisor;

/* Rights lost since the cell started: bits of enum cell_lost, without those for its momentary state. */
uint32_t supervisor_lost_rights(const struct supervisor *sv);
/* The same, with all that the courier has reported until now. */
int supervisor_hear_lost_rights(struct supervisor *sv, uint32_t *ret_lost, struct err *err);
/* CONTROL_LOST_RIGHTS. */
int supervisor_answer_lost_rights(struct client *client, struct steer_call *call);
#endif

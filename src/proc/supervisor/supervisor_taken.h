/* supervisor_taken.h - whether a cell still has all that it was granted. */
#ifndef CLOISTER_SUPERVISOR_TAKEN_H
#define CLOISTER_SUPERVISOR_TAKEN_H
#include <stdint.h>

struct client;
struct ipc_message;
struct supervisor;

/* What was taken back since the cell started: bits of enum cell_taken, without those that tell only
 * what it is at just now. */
uint32_t supervisor_taken(const struct supervisor *sv);
/* CONTROL_TAKEN. */
int supervisor_answer_taken(struct client *client, struct ipc_message *message);
#endif

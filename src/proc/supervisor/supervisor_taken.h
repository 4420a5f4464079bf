/* supervisor_taken.h - reports whether a cell still has all rights that it was granted. */
#ifndef CLOISTER_SUPERVISOR_TAKEN_H
#define CLOISTER_SUPERVISOR_TAKEN_H
#include <stdint.h>

struct client;
struct ipc_message;
struct supervisor;

/* Rights lost since the cell started: bits of enum cell_taken, without those for its momentary state. */
uint32_t supervisor_taken(const struct supervisor *sv);
/* CONTROL_TAKEN. */
int supervisor_answer_taken(struct client *client, struct ipc_message *message);
#endif

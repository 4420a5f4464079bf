/* courier_gate.h - the channel to the gate. */
#ifndef CLOISTER_COURIER_GATE_H
#define CLOISTER_COURIER_GATE_H
#include "ipc/mux.h"

/* Takes the gate's messages; its argument is the courier. */
extern const struct mux_handler courier_gate_handler;
#endif

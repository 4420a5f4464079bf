/* privileges.h - gives up capabilities, for good. */
#ifndef CLOISTER_PRIVILEGES_H
#define CLOISTER_PRIVILEGES_H
#include <stdint.h>

struct err;

/* No program that this process executes gets capabilities from now on.  Needs CAP_SETPCAP. */
int privileges_close(struct err *err);
/* Drops those that the process has. */
int privileges_drop(struct err *err);
/* Drops those that are not in RIGHTS, a bit for each of the first 32 capabilities. */
int privileges_keep(uint32_t rights, struct err *err);
#endif

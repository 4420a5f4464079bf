/* privileges.h - gives up all capabilities, for good. */
#ifndef CLOISTER_PRIVILEGES_H
#define CLOISTER_PRIVILEGES_H

struct err;

/* No program that this process executes gets capabilities from now on.  Needs CAP_SETPCAP. */
int privileges_close(struct err *err);
/* Drops those that the process has. */
int privileges_drop(struct err *err);
#endif

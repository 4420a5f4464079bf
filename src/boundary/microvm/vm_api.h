/* vm_api.h - requests to a monitor that is controlled by HTTP over a socket.
 *
 * The monitor answers for itself, before a guest of a cell has run an instruction, and once more when
 * the machine ends. */
#ifndef CLOISTER_VM_API_H
#define CLOISTER_VM_API_H
#include "base/json.h"
#include "boundary/microvm/vm_driver.h"

struct vm_body {
	struct json json;               /* the caller writes one object, between begin and ask */
	char *text;
	size_t len;
};

int vm_body_begin(struct vm_body *body, struct err *err);
void vm_body_free(struct vm_body *body);        /* for OWN() */

/* Sends a request and waits for its answer; an answer other than success becomes an error with its
 * text.  BODY: NULL for none.  FD goes with the request; -1: none.  WHO is the monitor, as in errors. */
int vm_api_ask(struct vm_control *c, const char *who, const char *method, const char *path, struct vm_body *body,
               int fd, struct err *err);
#endif

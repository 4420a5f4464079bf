/* service.h - asking `cloister serve` over its unix socket. */
#ifndef CLOISTER_CLI_SERVICE_H
#define CLOISTER_CLI_SERVICE_H
#include <jansson.h>

struct err;

#define SERVICE_ANSWER_MAX (16u << 20)
#define SERVICE_PATIENCE_S 60

/* METHOD on PATH, without a body.  SOCKET NULL: that in the runtime folder.  The caller owns
 * *ret_answer, which is NULL where there is none.  What the service refused is a failure with its
 * own sentence; -ENOENT: no service is there. */
int service_ask(const char *socket, const char *method, const char *path, json_t **ret_answer,
                struct err *err);
#endif

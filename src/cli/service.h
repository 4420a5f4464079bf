/* service.h - sends requests to `cloister serve` over its unix socket. */
#ifndef CLOISTER_CLI_SERVICE_H
#define CLOISTER_CLI_SERVICE_H
#include <jansson.h>

struct err;

#define SERVICE_ANSWER_MAX (16u << 20)
#define SERVICE_PATIENCE_S 60

/* Sends METHOD on PATH, without a body.  SOCKET NULL: the one in the runtime folder.  The caller
 * owns *ret_answer, which is NULL if the response has no body.  If the service refuses, ERR has its
 * message.  -ENOENT: no service runs. */
int service_ask(const char *socket, const char *method, const char *path, json_t **ret_answer,
                struct err *err);
#endif

/* link_services.h - which services a worker has joined: folders in DATA/worker/, each named by the service.
 *
 *   HOME/service        "ADDRESS PRINT TOKEN", where TOKEN is the hash of the token that it was joined with
 *   HOME/key.pem, HOME/cert.pem */
#ifndef CLOISTER_LINK_SERVICES_H
#define CLOISTER_LINK_SERVICES_H
#include "link/link_hello.h"

struct err;

#define LINK_SERVICES "worker"
#define LINK_SERVICES_MAX 16
#define LINK_SERVICE_FILE "service"
#define LINK_JOINING ".joining"         /* a folder that is not yet complete */

struct link_service {
	char home[LINK_HOME_MAX + 1];
	char address[LINK_ADDRESS_MAX], print[LINK_HEX + 1], token[LINK_HEX + 1];
};

/* All of them, at most LINK_SERVICES_MAX. */
int link_services_list(int dir, struct link_service ret_services[LINK_SERVICES_MAX], size_t *ret_n, struct err *err);
/* Whether TOKEN is the one that some service was joined with: a worker that starts again brings it again. */
bool link_services_used(int dir, const char *secret);
/* Removes the folder LINK_JOINING, if somebody was killed while joining. */
int link_services_clear(int dir, struct err *err);
/* The folder LINK_JOINING becomes that of the service HOME, in place of an older one. */
int link_services_add(int dir, const char *home, const struct link_token *token, struct err *err);
#endif

/* route.h - matches paths of requests with patterns, and parses queries. */
#ifndef CLOISTER_SERVE_ROUTE_H
#define CLOISTER_SERVE_ROUTE_H
#include <stdbool.h>

struct err;

#define ROUTE_PARAMS_MAX 2
#define ROUTE_QUERY_MAX 8

struct route_params {
	char *at[ROUTE_PARAMS_MAX];     /* decoded; NULL where there is none */
};
void route_params_free(struct route_params *params);    /* for OWN() too */

/* Whether PATH (canonical, without its query) matches PATTERN: "/v1/cells/{id}/stop".  A part in
 * braces must not be empty; "{path*}" at the end takes the rest.  The caller frees *ret_params;
 * untouched if it does not match. */
bool route_match(const char *pattern, const char *path, struct route_params *ret_params);

/* The values of QUERY ("a=1&b=%20x"), decoded, in the order of NAMES ("limit after", or NULL): NULL
 * if one is missing.  -EINVAL for one that is not among NAMES, occurs twice or is no UTF-8.  The
 * caller frees the values. */
int route_query(const char *query, const char *names, char *ret_values[ROUTE_QUERY_MAX],
                struct err *err);
void route_query_free(char *values[ROUTE_QUERY_MAX]);
#endif

/* kube.h - requests to the API server of a Kubernetes, one at a time. */
#ifndef CLOISTER_KUBE_H
#define CLOISTER_KUBE_H
#include <jansson.h>
#include <stdint.h>

#include "fleet/fleet_http.h"
#include "fleet/kube_access.h"

#define KUBE_PAGE 100                   /* objects of one answer */
#define KUBE_LIST_MAX 4096              /* objects of one list */

struct kube {
	struct fleet_http *http;        /* borrowed */
	struct kube_access access;
};
/* Before the lockdown.  The caller frees *ret_kube. */
int kube_open(struct fleet_http *http, const char *context, struct kube *ret_kube, struct err *err);
void kube_close(struct kube *k);

/* *RET_JSON, which the caller owns, is the answer of a status below 300; NULL: nobody wants it.  Other statuses fail with the
 * server's message: -ENOENT for 404, -EEXIST for 409, -EACCES for 401 and 403, -ESTALE for 410, -EINVAL for 422.  The body of
 * PATCH is a merge patch. */
int kube_ask(struct kube *k, const char *method, const char *path, json_t *body, json_t **ret_json, struct err *err);
/* All items of the list at PATH that match the label NAME=VALUE, as an array that the caller owns. */
int kube_list(struct kube *k, const char *path, const char *name, const char *value, json_t **ret_items, struct err *err);

/* The value at the end of a path of names; NULL if anything on the way is missing. */
const json_t *kube_at(const json_t *object, const char *name, const char *then, const char *last);
/* A text there; "" if it is missing. */
const char *kube_text(const json_t *object, const char *name, const char *then, const char *last);
/* The condition TYPE of an object's status; NULL if it has none. */
const json_t *kube_condition(const json_t *object, const char *type);
#endif

/* kube.c - see kube.h. */
#include "fleet/kube.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "fleet/fleet.h"

int
kube_open(struct fleet_http *http, const char *context, struct kube *ret_kube, struct err *err)
{
	struct kube k = { .http = http };
	int r = kube_access_find(context, &k.access, err);

	if (r == 0)
		r = fleet_http_to(http, &(struct fleet_server){ .url = k.access.server, .ca = k.access.ca, .cert = k.access.cert,
		                                                .key = k.access.key }, err);
	if (r < 0) {
		kube_access_free(&k.access);
		return r;
	}
	*ret_kube = k;
	return 0;
}

void
kube_close(struct kube *k)
{
	kube_access_free(&k->access);
}

const json_t *
kube_at(const json_t *object, const char *name, const char *then, const char *last)
{
	object = json_object_get(object, name);
	object = then != NULL ? json_object_get(object, then) : object;
	return then != NULL && last != NULL ? json_object_get(object, last) : object;
}

const char *
kube_text(const json_t *object, const char *name, const char *then, const char *last)
{
	const char *text = json_string_value(kube_at(object, name, then, last));

	return text != NULL ? text : "";
}

const json_t *
kube_condition(const json_t *object, const char *type)
{
	const json_t *list = kube_at(object, "status", "conditions", NULL), *one;
	size_t i;

	json_array_foreach(list, i, one)
		if (strcmp(kube_text(one, "type", NULL, NULL), type) == 0)
			return one;
	return NULL;
}

static int
fail(const struct kube *k, long status, const json_t *answer, struct err *err)
{
	const char *where = fleet_http_where(k->http);
	char text[FLEET_WHY_MAX];

	fleet_say(text, sizeof(text), kube_text(answer, "message", NULL, NULL));
	if (status == 401)
		return err_set(err, EACCES, "Kubernetes at '%.100s' does not know who asks: the token or certificate of %.200s is wrong or has "
		               "expired", where, k->access.from);
	return err_set(err, status == 403 ? EACCES : status == 404 ? ENOENT : status == 409 ? EEXIST : status == 410 ? ESTALE :
	               status == 422 ? EINVAL : EIO,
	               "Kubernetes at '%.100s' refuses with %ld%s%.400s", where, status, *text != '\0' ? ": " : "", text);
}

int
kube_ask(struct kube *k, const char *method, const char *path, json_t *body, json_t **ret_json, struct err *err)
{
	OWN(fleet_reply_free) struct fleet_reply reply = {0};
	OWN(json_decrefp) json_t *answer = NULL;
	OWN(freep) char *whole = str_format("%s%s", k->access.prefix, path);
	char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL, *line = NULL;
	const char *fields[] = { "Accept: application/json", NULL, NULL };
	int r = whole == NULL || (body != NULL && text == NULL) ? err_set(err, ENOMEM, "out of memory") :
	        kube_access_line(&k->access, &line, err);

	fields[1] = line;
	if (r == 0)
		r = fleet_http_ask(k->http, &(struct fleet_request){ .method = method, .path = whole, .body = text, .fields = fields,
			.type = strcmp(method, "PATCH") == 0 ? "application/merge-patch+json" : NULL,
			.len = text != NULL ? strlen(text) : 0 }, &reply, err);
	if (line != NULL)
		explicit_bzero(line, strlen(line));
	if (text != NULL)
		explicit_bzero(text, strlen(text));
	free(line);
	free(text);
	if (r < 0)
		return r;
	answer = json_loadb((char *)reply.body.data, reply.body.len, 0, NULL);
	if (reply.status >= 300)
		return fail(k, reply.status, answer, err);
	if (answer == NULL)
		return err_set(err, EPROTO, "what answers at '%.200s' is no Kubernetes", fleet_http_where(k->http));
	if (ret_json != NULL)
		*ret_json = TAKE(answer);
	return 0;
}

int
kube_list(struct kube *k, const char *path, const char *name, const char *value, json_t **ret_items, struct err *err)
{
	OWN(json_decrefp) json_t *items = json_array();
	OWN(freep) char *next = strdup("");
	unsigned pages = 0;
	int r = items == NULL || next == NULL ? err_set(err, ENOMEM, "out of memory") : 0;

	do {
		OWN(json_decrefp) json_t *page = NULL;
		OWN(freep) char *asked = r == 0 ? str_format("%s?labelSelector=%s%%3D%s&limit=%d%s%s", path, name, value, KUBE_PAGE,
		                                             *next != '\0' ? "&continue=" : "", next) : NULL;

		if (r == 0)
			r = asked == NULL ? err_set(err, ENOMEM, "out of memory") : kube_ask(k, "GET", asked, NULL, &page, err);
		if (r == 0 && json_array_extend(items, json_object_get(page, "items")) < 0)
			r = err_set(err, EPROTO, "what answers at '%.200s' is no Kubernetes", fleet_http_where(k->http));
		if (r == 0 && (json_array_size(items) > KUBE_LIST_MAX || ++pages > KUBE_LIST_MAX / KUBE_PAGE))
			r = err_set(err, EFBIG, "there are over %d workers at '%.200s'", KUBE_LIST_MAX, fleet_http_where(k->http));
		free(next);
		next = fleet_http_escape(kube_text(page, "metadata", "continue", NULL));
		if (r == 0 && next == NULL)
			r = err_set(err, ENOMEM, "out of memory");
	} while (r == 0 && *next != '\0');
	if (r == 0)
		*ret_items = TAKE(items);
	return r;
}

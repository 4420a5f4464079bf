/* kube_watch.c - see kube_watch.h. */
#include "fleet/kube_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "fleet/fleet.h"
#include "fleet/fleet_scale.h"

#define WATCH_S 60                      /* the server ends a watch after this time */
#define WATCH_MS ((WATCH_S + 15) * 1000)        /* and so do we: what answers no more is found out */
#define GONE 410

void
kube_watch_close(struct kube_watch *w)
{
	fleet_stream_close(TAKE(w->stream));
	w->version[0] = '\0';
	w->is_over = false;
	w->failures = 0;
	w->due_ms = 0;
}

/* ---- the stream ---- */

static void
break_off(struct kube_watch *w, const char *why)
{
	fleet_say(w->trouble, sizeof(w->trouble), why);
	w->version[0] = '\0';
	w->is_over = true;
}

static void
take_event(void *arg, const char *line, size_t len)
{
	struct kube_watch *w = arg;
	OWN(json_decrefp) json_t *event = w->is_over ? NULL : json_loadb(line, len, 0, NULL);
	json_t *object = json_object_get(event, "object");
	const char *type = kube_text(event, "type", NULL, NULL), *version = kube_text(object, "metadata", "resourceVersion", NULL);

	if (w->is_over)
		return;
	if (strcmp(type, "ERROR") == 0) {
		break_off(w, json_integer_value(json_object_get(object, "code")) == GONE ? "" :
		          kube_text(object, "message", NULL, NULL));
		return;
	}
	if (*version == '\0' || strlen(version) >= sizeof(w->version)) {
		break_off(w, "an event is malformed");
		return;
	}
	if (strcmp(type, "BOOKMARK") != 0)
		w->handler->object(w->arg, object, strcmp(type, "DELETED") == 0);
	snprintf(w->version, sizeof(w->version), "%s", version);
	w->failures = 0;
}

static void
ended(void *arg, long status, const char *why)
{
	struct kube_watch *w = arg;

	if (w->is_over)
		return;
	w->is_over = true;
	if (status == GONE)
		w->version[0] = '\0';
	else if (status != 200)
		fleet_say(w->trouble, sizeof(w->trouble), status == 0 ? why : "the server refuses to let it be watched");
}

static int
watch(struct kube_watch *w, struct err *err)
{
	static const struct fleet_stream_handler handler = { .line = take_event, .over = ended };
	OWN(freep) char *version = fleet_http_escape(w->version), *path = NULL;
	const char *fields[] = { "Accept: application/json", NULL, NULL };
	char *line = NULL;
	int r;

	if (version != NULL)
		path = str_format("%s%s?watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s", w->kube->access.prefix,
		                  w->path, WATCH_S, version);
	r = path == NULL ? err_set(err, ENOMEM, "out of memory") : kube_access_line(&w->kube->access, &line, err);
	fields[1] = line;
	if (r == 0)
		r = fleet_stream_open(w->kube->http, &(struct fleet_request){ .method = "GET", .path = path, .fields = fields,
		                                                              .ms = WATCH_MS }, &handler, w, &w->stream, err);
	if (line != NULL)
		explicit_bzero(line, strlen(line));
	free(line);
	return r;
}

/* ---- the list ---- */

static int
take_page(struct kube_watch *w, const char *next, unsigned limit, json_t **ret_page, struct err *err)
{
	OWN(freep) char *escaped = fleet_http_escape(next), *path = NULL;
	json_t *object;
	size_t i;
	int r;

	if (escaped != NULL)
		path = str_format("%s?limit=%u%s%s", w->path, limit, *next != '\0' ? "&continue=" : "", escaped);
	r = path == NULL ? err_set(err, ENOMEM, "out of memory") : kube_ask(w->kube, "GET", path, NULL, ret_page, err);
	if (r == 0)
		json_array_foreach(json_object_get(*ret_page, "items"), i, object)
			w->handler->object(w->arg, object, false);
	return r;
}

/* Users decide how large objects are: of large ones, a page has fewer. */
static int
take_some(struct kube_watch *w, const char *next, unsigned *limit, json_t **ret_page, struct err *err)
{
	int r;

	while ((r = take_page(w, next, *limit, ret_page, err)) == -EFBIG && *limit > 1)
		*limit = *limit / 4 > 0 ? *limit / 4 : 1;
	if (r == 0)
		*limit = *limit < KUBE_PAGE / 2 ? *limit * 2 : KUBE_PAGE;
	return r;
}

static int
list(struct kube_watch *w, struct err *err)
{
	OWN(freep) char *next = strdup("");
	unsigned limit = KUBE_PAGE;
	const char *version = "";
	int r = next == NULL ? err_set(err, ENOMEM, "out of memory") : 0;

	w->handler->begins(w->arg);
	for (bool more = true; r == 0 && more;) {
		OWN(json_decrefp) json_t *page = NULL;

		r = take_some(w, next, &limit, &page, err);
		version = kube_text(page, "metadata", "resourceVersion", NULL);
		if (r == 0 && (*version == '\0' || strlen(version) >= sizeof(w->version)))
			r = err_set(err, EPROTO, "a list has no version");
		if (r == 0)
			snprintf(w->version, sizeof(w->version), "%s", version);
		free(next);
		next = strdup(kube_text(page, "metadata", "continue", NULL));
		if (r == 0 && next == NULL)
			r = err_set(err, ENOMEM, "out of memory");
		more = r == 0 && *next != '\0';
	}
	if (r < 0)
		w->version[0] = '\0';
	else
		w->handler->listed(w->arg);
	return r;
}

/* ---- both ---- */

static int
fail(struct kube_watch *w, uint64_t now_ms, struct err *err)
{
	w->due_ms = now_ms + fleet_scale_pause_ms(++w->failures);
	return err_wrap(err, "cannot follow '%s'", w->path);
}

int
kube_watch_tend(struct kube_watch *w, uint64_t now_ms, struct err *err)
{
	int r = 0;

	if (w->stream != NULL && !w->is_over)
		return 0;
	fleet_stream_close(TAKE(w->stream));
	w->is_over = false;
	if (*w->trouble != '\0') {
		(void)err_set(err, EIO, "%s", w->trouble);
		w->trouble[0] = '\0';
		return fail(w, now_ms, err);
	}
	if (now_ms < w->due_ms)
		return 0;
	if (*w->version == '\0')
		r = list(w, err);
	r = r == 0 ? watch(w, err) : r;
	return r < 0 ? fail(w, now_ms, err) : 0;
}

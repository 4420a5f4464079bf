/* kube_watch.h - follows all objects of one kind: lists them, then watches from that version on.
 *
 * If the server does not have that version any more (410), or says something else, it lists them again.  The server's
 * objects may be hostile: lines are bounded by FLEET_BODY_MAX, and the caller bounds what it keeps. */
#ifndef CLOISTER_KUBE_WATCH_H
#define CLOISTER_KUBE_WATCH_H
#include <stdbool.h>

#include "fleet/kube.h"

#define KUBE_VERSION_MAX 128
#define KUBE_PATH_MAX 256

struct kube_watch_handler {
	/* A new list begins; and has been given whole: what was not in it is gone. */
	void (*begins)(void *arg);
	void (*listed)(void *arg);
	/* OBJECT is borrowed.  IS_GONE: it was deleted.  May not ask anything. */
	void (*object)(void *arg, json_t *object, bool is_gone);
};

/* {0} but for its first members. */
struct kube_watch {
	struct kube *kube;
	char path[KUBE_PATH_MAX];       /* of the list */
	const struct kube_watch_handler *handler;
	void *arg;
	/* Its own. */
	struct fleet_stream *stream;
	char version[KUBE_VERSION_MAX]; /* "": there is no list */
	char trouble[256];              /* why it was broken off; "": it was not */
	bool is_over;
	unsigned failures;
	uint64_t due_ms;
};
/* Lists, or watches again, if it is time.  Returns a failure once: it is tried again later by itself. */
int kube_watch_tend(struct kube_watch *watch, uint64_t now_ms, struct err *err);
void kube_watch_close(struct kube_watch *watch);
#endif

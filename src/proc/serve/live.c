/* live.c - see live.h: the clients that follow, and their pace. */
#include "proc/serve/live.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "loop/loop.h"
#include "proc/serve/api.h"
#include "proc/serve/checker.h"


struct stream {
	struct stream *next, **at;
	struct live *live;
	struct serve_request *q;
	uint64_t pinged_ms;
	bool full;                      /* it takes no more for now */
	bool is_new;                    /* or missed something: it gets a full snapshot */
	uint64_t audit;                 /* version of the verification result that it has */
};

struct live {
	struct serve_job job;           /* first */
	struct api *api;
	struct stream *streams;
	struct loop_timer tick;
	bool busy;                      /* the job runs */
	/* Used by the job while it runs. */
	struct live_look *look;
	bool wants_all;
	struct buf delta, all;
};

static void look_soon(struct live *l, uint64_t ms);

/* ---- streams ---- */

static void
end(struct stream *s)
{
	struct live *l = s->live;

	*s->at = s->next;
	if (s->next != NULL)
		s->next->at = s->at;
	serve_end(s->q, false);
	free(s);
	if (l->streams == NULL)
		loop_cancel_timer(l->api->loop, &l->tick);
}

static void
gone(struct serve_request *q)
{
	end(q->app);
}

static void
live_send(struct stream *s, const void *data, size_t len)
{
	s->full |= !serve_send(s->q, data, len);
}

/* The missed events are not sent: the client gets the current state. */
static void
writable(struct serve_request *q)
{
	struct stream *s = q->app;

	if (!s->full)
		return;
	s->full = false;
	if (s->is_new)
		look_soon(s->live, 0);
}

static void
tell(struct stream *s, uint64_t now, const char *audit)
{
	struct live *l = s->live;

	if (s->full) {
		s->is_new |= l->delta.len > 0;
		return;
	}
	if (s->is_new && l->wants_all && !buf_failed(&l->all)) {
		s->is_new = false;
		live_send(s, l->all.data, l->all.len);
	} else if (buf_failed(&l->delta)) {
		s->is_new = true;
	} else if (!s->is_new) {
		live_send(s, l->delta.data, l->delta.len);
	}
	if (!s->is_new && s->audit != checker_version(l->api->checker)) {
		s->audit = checker_version(l->api->checker);
		live_send(s, audit, strlen(audit));
	}
	if (now - s->pinged_ms >= LIVE_PING_MS) {
		s->pinged_ms = now;
		live_send(s, ": still here\n\n", 14);
	}
}

/* ---- looking ---- */

static void
work(struct serve_job *job, void *own)
{
	struct live *l = (struct live *)job;

	(void)own;
	buf_reset(&l->delta);
	buf_reset(&l->all);
	live_look(l->look, &l->delta, l->wants_all ? &l->all : NULL);
}

static void
done(struct serve_job *job)
{
	struct live *l = (struct live *)job;
	json_t *state = checker_state(l->api->checker);
	char *text = json_dumps(state, JSON_COMPACT | JSON_ENSURE_ASCII), event[2048] = "";
	uint64_t now = loop_now_ms();
	bool more = false;

	if (text != NULL)
		snprintf(event, sizeof(event), "event: audit\ndata: %s\n\n", text);
	free(text);
	json_decref(state);
	l->busy = false;
	for (struct stream *s = l->streams, *next; s != NULL; s = next) {
		next = s->next;
		tell(s, now, event);
		more |= s->is_new && !s->full;
	}
	if (l->streams != NULL)
		look_soon(l, more ? 0 : LIVE_LOOK_MS);
}

static void
tick(void *arg)
{
	struct live *l = arg;

	if (l->busy || l->streams == NULL)
		return;
	l->wants_all = false;
	for (const struct stream *s = l->streams; s != NULL; s = s->next)
		l->wants_all |= s->is_new && !s->full;
	l->busy = true;
	serve_pool_add(l->api->pool, &l->job);
}

static void
look_soon(struct live *l, uint64_t ms)
{
	if (!l->busy)
		loop_set_timer(l->api->loop, &l->tick, ms);
}

void
live_begin(struct live *l, struct serve_request *q)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		serve_refuse(q, 503, "unavailable", NULL, "out of memory");
		return;
	}
	*s = (struct stream){ .next = l->streams, .at = &l->streams, .live = l, .q = q,
	                      .pinged_ms = loop_now_ms(), .is_new = true };
	if (l->streams != NULL)
		l->streams->at = &s->next;
	l->streams = s;
	q->app = s;
	q->writable = writable;
	q->gone = gone;
	serve_stream(q, 200, "text/event-stream");
	if (q->is_gone) {
		end(s);
		return;
	}
	/* At once, so that the client knows that it is connected. */
	live_send(s, "retry: 2000\n\n", 13);
	look_soon(l, 0);
}

int
live_new(struct api *api, struct live **ret_live, struct err *err)
{
	struct live *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*l = (struct live){ .job = { .work = work, .done = done }, .api = api,
	                    .tick = { .due = tick, .arg = l } };
	buf_init(&l->delta, LIVE_OUT_MAX);
	buf_init(&l->all, LIVE_OUT_MAX);
	l->look = live_look_new(api);
	if (l->look == NULL) {
		free(l);
		return err_set(err, ENOMEM, "out of memory");
	}
	*ret_live = l;
	return 0;
}

void
live_free(struct live *l)
{
	if (l == NULL)
		return;
	loop_cancel_timer(l->api->loop, &l->tick);
	live_look_free(l->look);
	buf_free(&l->delta);
	buf_free(&l->all);
	free(l);
}

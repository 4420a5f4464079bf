/* follow.c - see follow.h: streams that wait for their file to grow, and for their client. */
#include "proc/serve/follow.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "audit/page.h"
#include "base/err.h"
#include "base/own.h"
#include "canon/canon.h"
#include "loop/loop.h"
#include "serve/serve.h"

#define LINES_AT_ONCE 256               /* then others get their turn */

struct stream {
	struct stream *next, **at;
	struct follow *follow;
	struct serve_request *q;
	struct follow_source *source;
	struct loop_timer tick;
	struct loop_round round;
	int watch;                      /* of inotify; -1: none */
	uint64_t seen, told, pinged_ms;
	bool full;                      /* the client takes no more for now */
};

struct follow {
	struct loop *loop;
	struct loop_source source;      /* inotify */
	struct stream *streams;
};

static void go_on(void *arg);

/* ---- the end ---- */

static bool
is_shared(const struct follow *f, int watch)
{
	size_t n = 0;

	for (const struct stream *s = f->streams; s != NULL; s = s->next)
		n += s->watch == watch;
	return n > 1;
}

static void
end(struct stream *s, bool cut)
{
	struct follow *f = s->follow;

	if (s->watch >= 0 && !is_shared(f, s->watch))
		inotify_rm_watch(f->source.fd, s->watch);
	loop_cancel_timer(f->loop, &s->tick);
	loop_cancel_round(f->loop, &s->round);
	*s->at = s->next;
	if (s->next != NULL)
		s->next->at = s->at;
	serve_end(s->q, cut);
	follow_source_free(s->source);
	free(s);
}

static void
gone(struct serve_request *q)
{
	end(q->app, false);
}

/* ---- lines ---- */

bool
follow_send_line(struct serve_request *q, bool sse, uint64_t n, const char *name, const char *line, size_t len)
{
	char head[256];
	bool more = true;

	if (name != NULL)                       /* names are cloister's own, and short */
		snprintf(head, sizeof(head), "id: %llu\nevent: %.100s\ndata: ", (unsigned long long)n, name);
	else
		snprintf(head, sizeof(head), "id: %llu\ndata: ", (unsigned long long)n);
	if (sse)
		more = serve_send(q, head, strlen(head));
	more = serve_send(q, line, len) && more;
	return serve_send(q, "\n\n", sse ? 2 : 1) && more;
}

static bool
is_wanted(const struct follow_source *source, const char *line, size_t len)
{
	struct audit_page page = { .types = source->types };

	return source->types[0] == '\0' || audit_page_wants(&page, line, len);
}

/* Whether this line is the last. */
static bool
tell(struct stream *s, const char *line, size_t len)
{
	const struct follow_source *source = s->source;
	json_t *object = canon_value(line, len);
	json_int_t n = json_integer_value(json_object_get(object, "n"));
	const char *name = source->key == NULL ? NULL :
		json_string_value(json_object_get(object, source->key));
	bool last = name != NULL && source->last != NULL && strcmp(name, source->last) == 0;
	bool is_new = n > 0 && (uint64_t)n > s->seen;

	if (is_new)
		s->seen = (uint64_t)n;
	if (is_new && s->seen > source->after && is_wanted(source, line, len)) {
		s->told++;
		s->full |= !follow_send_line(s->q, source->sse, (uint64_t)n, name, line, len);
	}
	json_decref(object);
	return last || (source->limit > 0 && s->told == source->limit);
}

/* Sends all that is available and that the client takes. */
static void
go_on(void *arg)
{
	struct stream *s = arg;
	struct follow_source *source = s->source;
	bool live = source->is_live == NULL || source->is_live(source->dir), last = false;
	const char *line;
	size_t len;
	int r = 0;

	for (int i = 0; !s->full && !last; i++) {
		if (i == LINES_AT_ONCE) {
			loop_at_round_end(s->follow->loop, &s->round);
			return;
		}
		r = follow_next_line(source, &line, &len);
		if (r <= 0)
			break;
		last = tell(s, line, len);
	}
	if (r < 0 || last || (r == 0 && !s->full && (!source->follow || !live)))
		end(s, r < 0);
}

static void
writable(struct serve_request *q)
{
	struct stream *s = q->app;

	if (!s->full)
		return;
	s->full = false;
	go_on(s);
}

static void
tick(void *arg)
{
	struct stream *s = arg;
	uint64_t now = loop_now_ms();

	loop_set_timer(s->follow->loop, &s->tick, s->source->is_live != NULL ? FOLLOW_LOOK_MS :
	               FOLLOW_PING_MS);
	if (s->full)
		return;
	if (s->source->sse && now - s->pinged_ms >= FOLLOW_PING_MS) {
		s->pinged_ms = now;
		s->full |= !serve_send(s->q, ": still here\n\n", 14);
	}
	go_on(s);
}

/* ---- files that change ---- */

static void
changed(void *arg, uint32_t events)
{
	struct follow *f = arg;
	char data[16 * 1024] __attribute__((aligned(8)));
	ssize_t n = read(f->source.fd, data, sizeof(data));

	(void)events;
	for (char *at = data; n > 0 && at < data + n;) {
		const struct inotify_event *event = (void *)at;

		for (struct stream *s = f->streams; s != NULL; s = s->next)
			if ((s->watch == event->wd || (event->mask & IN_Q_OVERFLOW) != 0) && !s->full)
				loop_at_round_end(f->loop, &s->round);
		at += sizeof(*event) + event->len;
	}
}

static void
watch(struct stream *s)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", s->source->dir);
	s->watch = inotify_add_watch(s->follow->source.fd, path, IN_MODIFY | IN_CREATE | IN_MOVED_TO |
	                             IN_ONLYDIR);
}

void
follow_begin(struct follow *f, struct serve_request *q, struct follow_source *source)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		follow_source_free(source);
		serve_refuse(q, 503, "unavailable", NULL, "out of memory");
		return;
	}
	*s = (struct stream){ .next = f->streams, .at = &f->streams, .follow = f, .q = q,
		.source = source, .watch = -1, .pinged_ms = loop_now_ms(),
		.tick = { .due = tick, .arg = s }, .round = { .run = go_on, .arg = s } };
	if (f->streams != NULL)
		f->streams->at = &s->next;
	f->streams = s;
	q->app = s;
	q->writable = writable;
	q->gone = gone;
	/* Before reading, so that lines that are written meanwhile are not missed. */
	if (source->follow)
		watch(s);
	serve_stream(q, 200, source->sse ? "text/event-stream" : "application/x-ndjson");
	if (q->is_gone) {
		end(s, false);
		return;
	}
	loop_set_timer(f->loop, &s->tick, source->is_live != NULL || s->watch < 0 ? FOLLOW_LOOK_MS :
	               FOLLOW_PING_MS);
	go_on(s);
}

int
follow_new(struct loop *loop, struct follow **ret_follow, struct err *err)
{
	struct follow *f = calloc(1, sizeof(*f));
	int r;

	if (f == NULL)
		return err_errno(err, "cannot follow files");
	f->loop = loop;
	f->source = (struct loop_source){ .fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK),
	                                  .ready = changed, .arg = f };
	r = f->source.fd < 0 ? err_errno(err, "cannot follow files (see fs.inotify.max_user_instances)") :
	    loop_watch(loop, &f->source, EPOLLIN, err);
	if (r < 0)
		follow_free(f);
	else
		*ret_follow = f;
	return r;
}

void
follow_free(struct follow *f)
{
	if (f == NULL)
		return;
	if (f->source.fd >= 0) {
		loop_unwatch(f->loop, &f->source);
		close(f->source.fd);
	}
	free(f);
}

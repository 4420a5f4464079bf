/* link_line.c - see link_line.h. */
#include "link/link_line.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define THEIRS 0x80000000u              /* ids of talks that the service opens: the mux counts only one side's */
#define OUT_FULL (256 * 1024)
#define OUT_MAX (4 * WORKER_MESSAGE_MAX)

struct link_line {
	struct loop *loop;
	struct mux *mux;
	int fd;
	bool is_service, over;
	uint32_t last;                  /* id of the last talk that the service opened */
	size_t n_theirs;
	struct link_talk *talks;
	struct loop_round sweep;
	const struct link_line_handler *handler;
	void *arg;
};

/* ---- talks ---- */

static void
sweep(void *arg)
{
	struct link_line *line = arg;
	struct link_talk **at = &line->talks, *talk;

	while ((talk = *at) != NULL) {
		if (!talk->dead) {
			at = &talk->next;
			continue;
		}
		*at = talk->next;
		line->n_theirs -= talk->theirs;
		buf_free(&talk->in);
		buf_free(&talk->out);
		free(talk);
	}
}

static void
bury(struct link_talk *talk)
{
	talk->dead = true;
	if (talk->stream != NULL)
		mux_close(TAKE(talk->stream));
	loop_at_round_end(talk->line->loop, &talk->line->sweep);
}

static struct link_talk *
new_talk(struct link_line *line, uint32_t kind)
{
	struct link_talk *talk = calloc(1, sizeof(*talk));

	if (talk == NULL)
		return NULL;
	*talk = (struct link_talk){ .line = line, .kind = kind, .in = BUF(WORKER_MESSAGE_MAX + 4), .out = BUF(OUT_MAX),
	                            .next = line->talks, .max = WORKER_MESSAGE_MAX };
	line->talks = talk;
	return talk;
}

/* Sends what credit allows. */
static void
push(struct link_talk *talk)
{
	struct buf *out = &talk->out;
	bool was_full = link_talk_is_full(talk);

	if (talk->stream == NULL)
		return;
	while (buf_left(out) > 0) {
		size_t n = mux_send_data(talk->stream, out->data + out->pos, buf_left(out));

		if (n == 0)
			return;
		out->pos += n;
		if (was_full && !link_talk_is_full(talk) && talk->drained != NULL) {
			was_full = false;
			talk->drained(talk->arg);
			if (talk->dead)
				return;
		}
	}
	buf_reset(out);
	if (talk->finishing)
		link_talk_close(talk);
}

void
link_talk_send(struct link_talk *talk, const struct buf *message)
{
	if (talk->dead)
		return;
	/* What has left makes room. */
	if (talk->out.pos > OUT_FULL) {
		memmove(talk->out.data, talk->out.data + talk->out.pos, buf_left(&talk->out));
		talk->out.len -= talk->out.pos;
		talk->out.pos = 0;
	}
	buf_put_u32(&talk->out, (uint32_t)message->len);
	buf_put(&talk->out, message->data, message->len);
	if (buf_failed(message) || buf_failed(&talk->out) || message->len > WORKER_MESSAGE_MAX) {
		if (talk->closed != NULL)
			talk->closed(talk->arg);
		link_talk_close(talk);
		return;
	}
	push(talk);
}

bool
link_talk_is_full(const struct link_talk *talk)
{
	return buf_left(&talk->out) > OUT_FULL;
}

void
link_talk_close(struct link_talk *talk)
{
	if (talk->dead)
		return;
	if (talk->stream != NULL)
		mux_send(talk->line->mux, talk->stream->id, WORKER_CLOSE, NULL);
	bury(talk);
}

static void
hear_nothing(void *arg, uint32_t type, struct buf *body)
{
	(void)arg, (void)type, (void)body;
}

static void
close_nothing(void *arg)
{
	(void)arg;
}

void
link_talk_finish(struct link_talk *talk)
{
	if (talk->dead)
		return;
	talk->heard = hear_nothing;
	talk->closed = close_nothing;
	talk->drained = NULL;
	talk->finishing = true;
	push(talk);
}

struct link_talk *
link_line_open(struct link_line *line, enum worker_talk kind, const struct buf *body)
{
	struct link_talk *talk = line->over ? NULL : new_talk(line, kind);
	OWN(buf_free) struct buf first = BUF(MUX_FRAME_MAX);

	if (talk == NULL)
		return NULL;
	buf_put_u32(&first, kind);
	if (body != NULL)
		buf_put(&first, body->data, body->len);
	if (!buf_failed(&first))
		talk->stream = line->is_service ? mux_open_as(line->mux, THEIRS | (++line->last & ~THEIRS), talk) :
		               mux_open(line->mux, talk);
	if (talk->stream == NULL) {
		bury(talk);
		return NULL;
	}
	mux_send(line->mux, talk->stream->id, WORKER_OPEN, &first);
	return talk;
}

/* ---- from the peer ---- */

static int
open_theirs(struct link_line *line, uint32_t id, struct buf *body)
{
	struct link_talk *talk;
	uint32_t kind;
	int r;

	/* Each side has its own ids. */
	if (((id & THEIRS) != 0) == line->is_service || buf_get_u32(body, &kind) < 0)
		return -EBADMSG;
	if (line->n_theirs >= LINK_TALKS_MAX)
		return -EBADMSG;
	talk = new_talk(line, kind);
	if (talk == NULL)
		return -ENOMEM;
	talk->theirs = true;
	line->n_theirs++;
	talk->stream = mux_open_as(line->mux, id, talk);
	if (talk->stream == NULL) {
		bury(talk);
		return -EBADMSG;
	}
	r = line->handler->opened(line->arg, talk, body);
	if (r < 0)
		bury(talk);
	return r;
}

static int
on_frame(void *arg, uint32_t id, struct mux_stream *stream, uint32_t type, struct buf *body)
{
	struct link_line *line = arg;
	struct link_talk *talk = stream == NULL ? NULL : stream->arg;

	if (type == WORKER_OPEN && talk == NULL)
		return open_theirs(line, id, body);
	if (type != WORKER_CLOSE || buf_left(body) != 0)
		return -EBADMSG;
	/* It came too late, or both sides have ended it. */
	if (talk == NULL || talk->dead)
		return 0;
	bury(talk);
	if (talk->closed != NULL)
		talk->closed(talk->arg);
	return 0;
}

/* The messages that are complete. */
static int
hear(struct link_talk *talk)
{
	uint32_t len, type;
	struct buf body;

	while (!talk->dead && buf_left(&talk->in) >= sizeof(len)) {
		memcpy(&len, talk->in.data + talk->in.pos, sizeof(len));
		len = le32toh(len);
		if (len < sizeof(type) || len > talk->max)
			return -EBADMSG;
		if (buf_left(&talk->in) - sizeof(len) < len)
			return 0;
		buf_init_borrowed(&body, talk->in.data + talk->in.pos + sizeof(len), len);
		(void)buf_get_u32(&body, &type);
		talk->in.pos += sizeof(len) + len;
		talk->heard(talk->arg, type, &body);
	}
	if (!talk->dead && buf_left(&talk->in) == 0)
		buf_reset(&talk->in);
	return 0;
}

static int
on_data(void *arg, struct mux_stream *stream, const unsigned char *data, size_t len)
{
	struct link_talk *talk = stream->arg;

	(void)arg;
	if (talk == NULL || talk->dead)
		return 0;
	if (talk->in.pos > 0) {
		memmove(talk->in.data, talk->in.data + talk->in.pos, buf_left(&talk->in));
		talk->in.len -= talk->in.pos;
		talk->in.pos = 0;
	}
	buf_put(&talk->in, data, len);
	mux_consumed(stream, len);
	return buf_failed(&talk->in) ? -EBADMSG : hear(talk);
}

static void
on_writable(void *arg, struct mux_stream *stream)
{
	struct link_talk *talk = stream->arg;

	(void)arg;
	if (talk != NULL && !talk->dead)
		push(talk);
}

static void
on_ended(void *arg, int error)
{
	struct link_line *line = arg;

	(void)error;
	line->over = true;
	for (struct link_talk *talk = line->talks, *next; talk != NULL; talk = next) {
		next = talk->next;
		if (talk->dead)
			continue;
		bury(talk);
		if (talk->closed != NULL)
			talk->closed(talk->arg);
	}
	line->handler->ended(line->arg);
}

static const struct mux_handler handler = { .frame = on_frame, .data = on_data, .writable = on_writable, .ended = on_ended };

/* ---- the whole ---- */

int
link_line_new(struct loop *loop, int fd, bool is_service, const struct link_line_handler *own, void *arg,
              struct link_line **ret_line, struct err *err)
{
	struct link_line *line = calloc(1, sizeof(*line));
	int r = line == NULL ? err_set(err, ENOMEM, "out of memory") : 0;

	if (r < 0) {
		close(fd);
		return r;
	}
	*line = (struct link_line){ .loop = loop, .fd = fd, .is_service = is_service, .handler = own, .arg = arg,
	                            .sweep = { .run = sweep, .arg = line } };
	r = mux_new(loop, fd, &handler, line, &line->mux, err);
	if (r < 0) {
		link_line_free(line);
		return r;
	}
	*ret_line = line;
	return 0;
}

void
link_line_free(struct link_line *line)
{
	if (line == NULL)
		return;
	for (struct link_talk *talk = line->talks; talk != NULL; talk = talk->next)
		talk->dead = true, talk->stream = NULL;
	sweep(line);
	loop_cancel_round(line->loop, &line->sweep);
	mux_free(line->mux);
	close(line->fd);
	free(line);
}

/* fuzz_mux.c - the bytes of a hostile peer on a channel.
 *
 * The first byte says how the rest is cut, the second one what the owner does with what
 * it is told.  Whatever comes, credit is kept to, and what goes out are whole frames. */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "fuzz.h"
#include "ipc/mux.h"

#define PIECE_MAX 4096

enum { CLOSES_ON_DATA = 1, ANSWERS = 2, HOARDS = 4, FREES = 8, REFUSES = 16, OPENS = 32 };

struct state {
	struct loop *loop;
	struct mux *mux;
	struct loop_round feeds;
	int fd, peer;
	unsigned char cut, does;
	const uint8_t *data;
	size_t left, streams;
	bool ended;
	/* What came back, and of the frame that is being read. */
	size_t got, frame_left;
	unsigned char header[12];
};

static void
check_header(const struct state *s)
{
	uint32_t field[3];

	memcpy(field, s->header, sizeof(field));
	for (int i = 0; i < 3; i++)
		field[i] = le32toh(field[i]);
	assert(field[2] <= MUX_FRAME_MAX);
	assert(field[1] == MUX_DATA || field[1] == MUX_CREDIT || field[1] == MUX_TYPES + 1);
	assert(field[1] != MUX_DATA || field[2] > 0);
	assert(field[1] != MUX_CREDIT || field[2] == 4);
}

/* Read what the mux sent: frames, whole and of known types. */
static void
swallow(struct state *s)
{
	unsigned char piece[PIECE_MAX];
	ssize_t n;

	while ((n = recv(s->peer, piece, sizeof(piece), MSG_DONTWAIT)) > 0)
		for (ssize_t i = 0; i < n; i++) {
			if (s->frame_left > 0) {
				s->frame_left--;
				continue;
			}
			s->header[s->got++] = piece[i];
			if (s->got < sizeof(s->header))
				continue;
			check_header(s);
			s->got = 0;
			s->frame_left = s->header[8] | (size_t)s->header[9] << 8 |
			                (size_t)s->header[10] << 16;
		}
}

static void
feed(void *arg)
{
	struct state *s = arg;
	size_t len = s->cut == 0 ? PIECE_MAX : s->cut;
	ssize_t n;

	if (len > s->left)
		len = s->left;
	swallow(s);
	if (len == 0) {
		shutdown(s->peer, SHUT_WR);
		return;
	}
	n = send(s->peer, s->data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n > 0) {
		s->data += n;
		s->left -= (size_t)n;
	}
	loop_at_round_end(s->loop, &s->feeds);
}

static void
drop(struct state *s)
{
	mux_free(s->mux);
	s->mux = NULL;
	loop_quit(s->loop);
}

static int
on_frame(void *arg, uint32_t id, struct mux_stream *stream, uint32_t type, struct buf *body)
{
	struct state *s = arg;
	uint32_t word = 0;

	assert(!s->ended && type >= MUX_TYPES && body->len <= MUX_FRAME_MAX);
	assert(stream == NULL || stream->id == id);
	if (buf_get_u32(body, &word) < 0 && (s->does & REFUSES) != 0)
		return -EPROTO;
	if (stream == NULL && (s->does & OPENS) != 0) {
		stream = mux_open_as(s->mux, id, NULL);
		s->streams += stream != NULL;
		assert(s->streams <= MUX_STREAMS_MAX);
	} else if (stream != NULL && word == 7) {
		mux_close(stream);
		s->streams--;
		stream = NULL;
	}
	if ((s->does & ANSWERS) != 0) {
		mux_send(s->mux, id, MUX_TYPES + 1, NULL);
		if (stream != NULL)
			(void)mux_send_data(stream, body->data, body->len);
	}
	if ((s->does & FREES) != 0 && word == 8)
		drop(s);
	return 0;
}

static int
on_data(void *arg, struct mux_stream *stream, const unsigned char *data, size_t len)
{
	struct state *s = arg;

	assert(!s->ended && len > 0 && len <= MUX_FRAME_MAX);
	assert(stream->may_receive + stream->unreturned <= MUX_WINDOW);
	if ((s->does & CLOSES_ON_DATA) != 0 && data[0] == 7) {
		mux_close(stream);
		s->streams--;
		return 0;
	}
	if ((s->does & ANSWERS) != 0)
		(void)mux_send_data(stream, data, len);
	if ((s->does & HOARDS) == 0)
		mux_consumed(stream, len);
	if ((s->does & FREES) != 0 && data[0] == 8)
		drop(s);
	return 0;
}

static void
on_writable(void *arg, struct mux_stream *stream)
{
	struct state *s = arg;

	assert(!s->ended && stream->may_send > 0 && stream->may_send <= MUX_WINDOW);
	if ((s->does & ANSWERS) != 0)
		(void)mux_send_data(stream, "again", 5);
}

static void
on_ended(void *arg, int error)
{
	struct state *s = arg;

	assert(!s->ended && error <= 0);
	s->ended = true;
	loop_quit(s->loop);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct mux_handler handler = { on_frame, on_data, on_writable, on_ended };
	struct state s = {0};
	int ends[2];

	if (size < 2)
		return 0;
	s.cut = data[0];
	s.does = data[1];
	s.data = data + 2;
	s.left = size - 2;
	s.feeds = (struct loop_round){ .run = feed, .arg = &s };
	if (loop_new(&s.loop, NULL) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
		abort();
	s.fd = ends[0];
	s.peer = ends[1];
	if (mux_new(s.loop, s.fd, &handler, &s, &s.mux, NULL) < 0)
		abort();
	loop_at_round_end(s.loop, &s.feeds);
	if (loop_run(s.loop, NULL) < 0)
		abort();
	assert(s.ended || s.mux == NULL);
	mux_free(s.mux);
	close(s.fd);
	close(s.peer);
	loop_free(s.loop);
	return 0;
}

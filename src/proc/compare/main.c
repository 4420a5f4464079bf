/* main.c - cloister-compare: compares and merges files that an agent wrote.
 *
 * `cloister diff` and `apply` start it, and send it descriptors for each file.  It can write nothing,
 * open nothing and reach nobody: see ipc/compare_channel.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "confine/lockdown.h"
#include "ipc/compare_channel.h"
#include "ipc/ipc.h"
#include "workspace/compare.h"
#include "workspace/compare_merge.h"

#define MEMORY_MAX ((rlim_t)2 << 30)    /* of address space */
#define SECONDS_MAX 20                  /* of processor time, for each file */
#define GROWTH (1 << 20)

struct file {
	char *data;
	size_t len, cap;
};

/* The memory of the files is reused from request to request. */
struct state {
	struct file files[COMPARE_FILES_MAX];
	struct buf text;                /* the part of the answer that is not sent yet */
	struct err err;
};

static int
grow(struct file *f)
{
	size_t cap = f->cap + (f->cap < GROWTH ? GROWTH : f->cap);
	char *more = realloc(f->data, cap);

	if (more == NULL)
		return -ENOMEM;
	f->data = more;
	f->cap = cap;
	return 0;
}

/* Reads at most MAX more bytes of it. */
static int
load(struct file *f, int fd, size_t max)
{
	for (ssize_t n; max > 0; f->len += (size_t)n, max -= (size_t)n) {
		if (f->len == f->cap && grow(f) < 0)
			return -ENOMEM;
		n = read(fd, f->data + f->len, f->cap - f->len < max ? f->cap - f->len : max);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return 0;
		n = n < 0 ? 0 : n;
	}
	return 0;
}

/* A file with gigabytes of zeros is not read as a whole to recognise it as binary.  -EFBIG if one has
 * more than MAX bytes. */
static int
load_all(struct state *s, const int *fds, size_t n, size_t max, bool *ret_binary)
{
	int r = 0;

	*ret_binary = false;
	for (size_t i = 0; i < n; i++) {
		s->files[i].len = 0;
		if (fds[i] >= 0)
			r = r == 0 ? load(&s->files[i], fds[i], COMPARE_SNIFF) : r;
		*ret_binary = *ret_binary || compare_is_binary(s->files[i].data, s->files[i].len);
	}
	for (size_t i = 0; i < n && !*ret_binary; i++) {
		if (fds[i] >= 0 && r == 0)
			r = load(&s->files[i], fds[i], max == SIZE_MAX ? max : max + 1 - s->files[i].len);
		if (s->files[i].len > max)
			r = -EFBIG;
	}
	return r;
}

static struct compare_text
text_of(const struct state *s, size_t i)
{
	return (struct compare_text){ s->files[i].data, s->files[i].len };
}

static int
take_piece(void *arg, const char *data, size_t len)
{
	struct state *s = arg;

	while (len > 0) {
		size_t room = COMPARE_TEXT_MAX - (s->text.len - sizeof(uint32_t)), n = len < room ? len : room;

		buf_put(&s->text, data, n);
		data += n;
		len -= n;
		if (n == room) {
			if (ipc_send(COMPARE_FD, &s->text, NULL, 0, &s->err) < 0)
				return -EPIPE;
			buf_reset(&s->text);
			buf_put_u32(&s->text, COMPARE_TEXT);
		}
	}
	return 0;
}

static int
send_done(struct state *s, int failed, bool binary, uint64_t one, uint64_t two)
{
	OWN(buf_free) struct buf done = {0};

	if (failed == -EPIPE)
		return failed;
	ipc_begin(&done, COMPARE_DONE);
	buf_put_u32(&done, (uint32_t)-failed);
	buf_put_u32(&done, binary);
	buf_put_u64(&done, one);
	buf_put_u64(&done, two);
	buf_put(&done, s->text.data + sizeof(uint32_t), s->text.len - sizeof(uint32_t));
	return ipc_send(COMPARE_FD, &done, NULL, 0, &s->err);
}

static int
malformed(struct state *s)
{
	return err_set(&s->err, EBADMSG, "the question is malformed");
}

static int
answer_ask(struct state *s, struct ipc_message *message)
{
	int fds[2] = { -1, -1 }, r;
	struct compare_count count = {0};
	uint32_t wanted;
	bool binary;
	size_t n = 0;

	if (buf_get_u32(&message->body, &wanted) < 0)
		return malformed(s);
	if ((wanted & COMPARE_OLD) != 0 && n < message->n_fds)
		fds[0] = message->fds[n++];
	if ((wanted & COMPARE_NEW) != 0 && n < message->n_fds)
		fds[1] = message->fds[n++];
	r = load_all(s, fds, 2, SIZE_MAX, &binary);
	if (r == 0 && !binary)
		r = compare_texts(text_of(s, 0), text_of(s, 1), (wanted & COMPARE_HUNKS) != 0 ? take_piece : NULL,
		                  s, &count);
	return send_done(s, r, binary, count.added, count.removed);
}

static int
answer_merge(struct state *s, struct ipc_message *message)
{
	struct compare_merge merge = {0};
	uint64_t conflicts = 0;
	bool binary;
	int r;

	if (message->n_fds != 3 || buf_get_str(&message->body, &merge.ours_label) < 0 ||
	    buf_get_str(&message->body, &merge.theirs_label) < 0)
		return malformed(s);
	if (merge.ours_label[0] == '\0')
		merge.ours_label = NULL;
	r = load_all(s, message->fds, 3, COMPARE_MERGE_MAX, &binary);
	merge.base = text_of(s, 0);
	merge.ours = text_of(s, 1);
	merge.theirs = text_of(s, 2);
	if (r == 0 && !binary)
		r = compare_merge(&merge, take_piece, s, &conflicts);
	return send_done(s, r, binary, conflicts, 0);
}

static int
answer_pick(struct state *s, struct ipc_message *message)
{
	bool wanted[COMPARE_HUNKS_MAX], binary;
	size_t n = buf_left(&message->body);
	int r;

	if (message->n_fds != 2 || n > ARRAY_LEN(wanted))
		return malformed(s);
	for (size_t i = 0; i < n; i++)
		wanted[i] = message->body.data[message->body.pos + i] != 0;
	r = load_all(s, message->fds, 2, COMPARE_MERGE_MAX, &binary);
	if (r == 0 && !binary)
		r = compare_pick(text_of(s, 0), text_of(s, 1), wanted, n, take_piece, s);
	return send_done(s, r, binary, 0, 0);
}

static int
answer_likeness(struct state *s, struct ipc_message *message)
{
	uint64_t common = 0;
	size_t most;
	int r = 0;

	if (message->n_fds != 2)
		return malformed(s);
	for (size_t i = 0; i < 2; i++) {
		s->files[i].len = 0;
		r = r == 0 ? load(&s->files[i], message->fds[i], COMPARE_MERGE_MAX) : r;
	}
	most = s->files[0].len > s->files[1].len ? s->files[0].len : s->files[1].len;
	if (r == 0)
		r = compare_likeness(text_of(s, 0), text_of(s, 1), &common);
	return send_done(s, r, false, common, most);
}

static int
answer(struct state *s, struct ipc_message *message)
{
	buf_reset(&s->text);
	buf_put_u32(&s->text, COMPARE_TEXT);
	switch (message->type) {
	case COMPARE_ASK:
		return answer_ask(s, message);
	case COMPARE_MERGE:
		return answer_merge(s, message);
	case COMPARE_PICK:
		return answer_pick(s, message);
	case COMPARE_LIKENESS:
		return answer_likeness(s, message);
	default:
		return malformed(s);
	}
}

/* If a file takes longer, the kernel kills this process, and another is started for the rest. */
static void
limit_time(void)
{
	struct rlimit limit = { .rlim_max = RLIM_INFINITY };
	struct timespec used;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) < 0)
		return;
	limit.rlim_cur = (rlim_t)used.tv_sec + SECONDS_MAX;
	(void)setrlimit(RLIMIT_CPU, &limit);
}

static int
serve(struct state *s)
{
	for (;;) {
		OWN(ipc_message_free) struct ipc_message message = {0};
		int r = ipc_receive(COMPARE_FD, &message, &s->err);

		if (r < 0)
			return r == -EPIPE ? 0 : r;
		limit_time();
		r = answer(s, &message);
		if (r < 0)
			return r;
	}
}

static int
prepare(struct state *s)
{
	const struct rlimit memory = { MEMORY_MAX, MEMORY_MAX };

#ifndef CLOISTER_SANITIZED
	(void)setrlimit(RLIMIT_AS, &memory);
#else
	(void)memory;
#endif
	buf_init(&s->text, COMPARE_TEXT_MAX + sizeof(uint32_t));
	for (size_t i = 0; i < ARRAY_LEN(s->files); i++)
		if (grow(&s->files[i]) < 0)
			return -ENOMEM;
	return 0;
}

int
main(void)
{
	static const struct lockdown lockdown = { .filter = FILTER_COMPARE };
	static struct state state;
	int r;

	if (fcntl(COMPARE_FD, F_GETFD) < 0) {
		fprintf(stderr, "cloister-compare is started by cloister only\n");
		return 125;
	}
	r = prepare(&state);
	if (r == 0)
		r = lockdown_enter(&lockdown, COMPARE_FD + 1, &state.err);
	if (r == 0)
		r = serve(&state);
	if (r < 0)
		fprintf(stderr, "cloister-compare: %s\n", state.err.text);
	return r < 0;
}

/* main.c - cloister-compare: finds the lines in which files that an agent wrote differ.
 *
 * `cloister diff` starts it, and sends it two descriptors for each file.  It can write nothing,
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

#define MEMORY_MAX ((rlim_t)2 << 30)    /* of address space */
#define SECONDS_MAX 20                  /* of processor time, for each file */
#define GROWTH (1 << 20)

struct file {
	char *data;
	size_t len, cap;
};

/* The memory of the two files is reused from request to request. */
struct state {
	struct file files[2];
	struct buf text;                /* hunks not yet sent */
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

/* A file with gigabytes of zeros is not read as a whole to recognise it as binary. */
static int
load_both(struct state *s, const int *fds, bool *ret_binary)
{
	int r = 0;

	*ret_binary = false;
	for (int i = 0; i < 2; i++) {
		s->files[i].len = 0;
		if (fds[i] >= 0)
			r = r == 0 ? load(&s->files[i], fds[i], COMPARE_SNIFF) : r;
		*ret_binary = *ret_binary || compare_is_binary(s->files[i].data, s->files[i].len);
	}
	for (int i = 0; i < 2 && !*ret_binary; i++)
		if (fds[i] >= 0 && r == 0)
			r = load(&s->files[i], fds[i], SIZE_MAX);
	return r;
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
answer(struct state *s, uint32_t wanted, const int *fds)
{
	OWN(buf_free) struct buf done = {0};
	struct compare_count count = {0};
	bool binary;
	int r = load_both(s, fds, &binary);

	buf_reset(&s->text);
	buf_put_u32(&s->text, COMPARE_TEXT);
	if (r == 0 && !binary)
		r = compare_texts((struct compare_text){ s->files[0].data, s->files[0].len },
		                  (struct compare_text){ s->files[1].data, s->files[1].len },
		                  (wanted & COMPARE_HUNKS) != 0 ? take_piece : NULL, s, &count);
	if (r == -EPIPE)
		return r;
	ipc_begin(&done, COMPARE_DONE);
	buf_put_u32(&done, (uint32_t)-r);
	buf_put_u32(&done, binary);
	buf_put_u64(&done, count.added);
	buf_put_u64(&done, count.removed);
	buf_put(&done, s->text.data + sizeof(uint32_t), s->text.len - sizeof(uint32_t));
	return ipc_send(COMPARE_FD, &done, NULL, 0, &s->err);
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
		int fds[2] = { -1, -1 }, r = ipc_receive(COMPARE_FD, &message, &s->err);
		uint32_t wanted;
		size_t n = 0;

		if (r < 0)
			return r == -EPIPE ? 0 : r;
		if (message.type != COMPARE_ASK || buf_get_u32(&message.body, &wanted) < 0)
			return err_set(&s->err, EBADMSG, "the question is malformed");
		if ((wanted & COMPARE_OLD) != 0 && n < message.n_fds)
			fds[0] = message.fds[n++];
		if ((wanted & COMPARE_NEW) != 0 && n < message.n_fds)
			fds[1] = message.fds[n++];
		limit_time();
		r = answer(s, wanted, fds);
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
	return grow(&s->files[0]) < 0 || grow(&s->files[1]) < 0 ? -ENOMEM : 0;
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

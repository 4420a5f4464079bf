/* s3.c - see s3.h. */
#include "store/s3.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/spawn.h"
#include "ipc/blobs_channel.h"
#include "ipc/ipc.h"
#include "store/s3_place.h"

struct worker {
	pid_t pid;                      /* 0: it has not been started */
	int channel;
	int fd;                         /* of what it puts; 0: it has nothing to do */
};

struct s3 {
	char *text;
	unsigned stall_s;
	struct worker workers[S3_WORKERS];
};

/* ---- the handle ---- */

int
s3_open(struct s3 **ret_s3, struct err *err)
{
	const char *text = getenv(S3_VARIABLE);
	OWN(s3_closep) struct s3 *s = NULL;
	struct s3_place place;
	int r;

	*ret_s3 = NULL;
	if (text == NULL || *text == '\0')
		return 0;
	r = s3_place_parse(text, environ, &place, err);
	if (r < 0)
		return err_wrap(err, S3_VARIABLE);
	s = calloc(1, sizeof(*s));
	if (s == NULL || (s->text = str_format("s3://%s/%s", place.bucket, place.prefix)) == NULL)
		return err_set(err, ENOMEM, "out of memory");
	s->stall_s = place.stall_s;
	*ret_s3 = TAKE(s);
	return 0;
}

/* It ends when its channel is closed. */
static void
end(struct worker *w)
{
	close_fd(&w->fd);
	close_fd(&w->channel);
	if (w->pid > 0)
		(void)spawn_await(w->pid, NULL);
	w->pid = 0;
}

void
s3_close(struct s3 *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < S3_WORKERS; i++)
		end(&s->workers[i]);
	free(s->text);
	free(s);
}

const char *
s3_place_text(const struct s3 *s)
{
	return s->text;
}

unsigned
s3_stall_s(const struct s3 *s)
{
	return s->stall_s;
}

static int
start(struct worker *w, struct err *err)
{
	char *argv[] = { (char[]){ "cloister-blobs" }, NULL };
	int ends[2];
	pid_t pid;

	if (w->pid > 0)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot start cloister-blobs");
	pid = spawn_start(&(struct spawn){ .argv = argv, .n_fds = 3, .flags = SPAWN_APART | SPAWN_ONLY,
		.fds = (struct spawn_fd[]){ { SPAWN_NULL, STDIN_FILENO }, { SPAWN_NULL, STDOUT_FILENO },
		                            { ends[1], BLOBS_CHANNEL_FD } } }, NULL, err);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return (int)pid;
	}
	*w = (struct worker){ .pid = pid, .channel = ends[0] };
	return 0;
}

/* ---- questions ---- */

/* The next answer: its body, or its error. */
static int
take_answer(struct worker *w, struct ipc_message *ret_answer, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message m = {0};
	const char *why;
	uint32_t code;
	int r = ipc_receive(w->channel, &m, NULL);

	if (r == 0 && m.type == BLOBS_DONE) {
		*ret_answer = m;
		m = (struct ipc_message){0};
		return 0;
	}
	if (r == 0 && m.type == BLOBS_FAILED && buf_get_u32(&m.body, &code) == 0 && buf_get_str(&m.body, &why) == 0 &&
	    code > 0 && code < 4096)
		return err_set(err, (int)code, "%s", why);
	end(w);
	return err_set(err, EIO, "cloister-blobs has ended: what it printed says why, or the system's log");
}

/* The body of QUESTION is freed. */
static int
ask(struct s3 *s, struct buf *question, int fd, struct ipc_message *ret_answer, struct err *err)
{
	struct worker *w = &s->workers[0];
	int r = start(w, err);

	r = r == 0 ? ipc_send(w->channel, question, &fd, fd >= 0, NULL) : r;
	buf_free(question);
	/* One that has ended may have said why. */
	return r < 0 && w->pid == 0 ? r : take_answer(w, ret_answer, err);
}

static int
ask_for_size(struct s3 *s, uint32_t type, const unsigned char hash[HASH_LEN], int fd, uint64_t *ret_size, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message answer = {0};
	struct buf question;
	int r;

	ipc_begin(&question, type);
	buf_put(&question, hash, HASH_LEN);
	r = ask(s, &question, fd, &answer, err);
	return r < 0 ? r : buf_get_u64(&answer.body, ret_size) < 0 ? err_set(err, EBADMSG, "cloister-blobs is malformed") : 0;
}

int
s3_get(struct s3 *s, const unsigned char hash[HASH_LEN], int fd, struct err *err)
{
	uint64_t size;

	return ask_for_size(s, BLOBS_GET, hash, fd, &size, err);
}

int
s3_touch(struct s3 *s, const unsigned char hash[HASH_LEN], uint64_t *ret_size, struct err *err)
{
	return ask_for_size(s, BLOBS_TOUCH, hash, -1, ret_size, err);
}

int
s3_remove(struct s3 *s, const unsigned char hash[HASH_LEN], uint64_t *ret_size, struct err *err)
{
	return ask_for_size(s, BLOBS_REMOVE, hash, -1, ret_size, err);
}

int
s3_purge(struct s3 *s, const unsigned char hash[HASH_LEN], bool put_back, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message answer = {0};
	struct buf question;

	ipc_begin(&question, BLOBS_PURGE);
	buf_put(&question, hash, HASH_LEN);
	buf_put_u32(&question, put_back);
	return ask(s, &question, -1, &answer, err);
}

int
s3_own(struct s3 *s, const unsigned char id[HASH_LEN], struct err *err)
{
	OWN(ipc_message_free) struct ipc_message answer = {0};
	struct buf question;

	ipc_begin(&question, BLOBS_OWN);
	buf_put(&question, id, HASH_LEN);
	return ask(s, &question, -1, &answer, err);
}

static bool
read_page(struct buf *b, struct s3_page *page, int64_t *ret_now)
{
	uint64_t now, modified;
	uint32_t more, n;

	if (buf_get_u32(b, &more) < 0 || buf_get_u64(b, &now) < 0 || buf_get_u32(b, &n) < 0 || n > S3_PAGE_MAX ||
	    (more != 0 && n == 0))
		return false;
	for (page->n = 0; page->n < n; page->n++) {
		struct s3_object *o = &page->at[page->n];

		if (buf_left(b) < HASH_LEN)
			return false;
		memcpy(o->hash, b->data + b->pos, HASH_LEN);
		b->pos += HASH_LEN;
		if (buf_get_u64(b, &o->size) < 0 || buf_get_u64(b, &modified) < 0)
			return false;
		o->modified = (int64_t)modified;
	}
	page->more = more != 0;
	if (page->more)
		memcpy(page->last, page->at[n - 1].hash, HASH_LEN);
	*ret_now = (int64_t)now;
	return true;
}

int
s3_list(struct s3 *s, bool trash, const unsigned char *after, struct s3_page *ret_page, int64_t *ret_now,
        struct err *err)
{
	static const unsigned char none[HASH_LEN];
	OWN(ipc_message_free) struct ipc_message answer = {0};
	struct buf question;
	int r;

	ipc_begin(&question, BLOBS_LIST);
	buf_put_u32(&question, trash);
	buf_put_u32(&question, after != NULL);
	buf_put(&question, after != NULL ? after : none, HASH_LEN);
	r = ask(s, &question, -1, &answer, err);
	return r < 0 ? r : read_page(&answer.body, ret_page, ret_now) ? 0 : err_set(err, EBADMSG, "cloister-blobs is malformed");
}

/* ---- many at a time ---- */

static int
put_one(struct worker *w, const struct s3_put *put, struct err *err)
{
	OWN(buf_free) struct buf question = {0};
	int r = start(w, err);

	if (r == 0) {
		w->fd = put->fd;
		ipc_begin(&question, BLOBS_PUT);
		buf_put(&question, put->hash, HASH_LEN);
		buf_put_u64(&question, put->size);
		/* If it has ended, that is found when its answer is awaited. */
		(void)ipc_send(w->channel, &question, &put->fd, 1, NULL);
	} else {
		close(put->fd);
	}
	return r;
}

static int
await_one(struct s3 *s, struct err *err)
{
	struct pollfd at[S3_WORKERS];
	int r = 0;

	for (size_t i = 0; i < S3_WORKERS; i++)
		at[i] = (struct pollfd){ .fd = s->workers[i].fd > 0 ? s->workers[i].channel : -1, .events = POLLIN };
	if (poll(at, S3_WORKERS, -1) < 0)
		return errno == EINTR ? 0 : err_errno(err, "cannot wait for cloister-blobs");
	for (size_t i = 0; i < S3_WORKERS; i++) {
		OWN(ipc_message_free) struct ipc_message answer = {0};

		if (at[i].fd < 0 || at[i].revents == 0)
			continue;
		r = r < 0 ? r : take_answer(&s->workers[i], &answer, err);
		close_fd(&s->workers[i].fd);
	}
	return r;
}

static struct worker *
find_idle(struct s3 *s, size_t *ret_busy)
{
	struct worker *idle = NULL;

	*ret_busy = 0;
	for (size_t i = S3_WORKERS; i-- > 0;)
		if (s->workers[i].fd > 0)
			++*ret_busy;
		else
			idle = &s->workers[i];
	return idle;
}

int
s3_put_all(struct s3 *s, size_t n, int (*give)(void *arg, size_t i, struct s3_put *ret_put, struct err *err), void *arg,
           struct err *err)
{
	size_t next = 0, busy = 0;
	int r = 0;

	do {
		struct worker *w = find_idle(s, &busy);
		struct s3_put put;
		int m = 0;

		if (w != NULL && next < n && r == 0) {
			r = give(arg, next++, &put, err);
			r = r == 0 ? put_one(w, &put, err) : r;
		} else if (busy > 0) {
			/* After a failure those under way are awaited, and none is begun. */
			m = await_one(s, r == 0 ? err : NULL);
			r = r == 0 ? m : r;
		}
	} while ((next < n && r == 0) || (find_idle(s, &busy), busy > 0));
	return r;
}

/* diff_reader.c - asks cloister-compare about files that an agent wrote.
 *
 * One process answers for all files, started with the first.  Its output is not trusted to be more
 * than text. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "cli/changes.h"
#include "cli/cli.h"
#include "ipc/compare_channel.h"

/* Bytes of one answer that are written to a file: a merged text with markers has both texts. */
#define WRITTEN_MAX (3 * (uint64_t)COMPARE_MERGE_MAX)

void
diff_reader_close(struct diff_reader *reader)
{
	if (reader->pid <= 0)
		return;
	close(reader->channel);
	while (waitpid(reader->pid, NULL, 0) < 0 && errno == EINTR)
		;
	*reader = (struct diff_reader){0};
}

static int
reader_start(struct diff_reader *reader, struct err *err)
{
	OWN(closep) int theirs = -1;
	int ends[2];

	if (reader->pid > 0)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot create a socket");
	theirs = ends[1];
	reader->pid = spawn_start(&(struct spawn){ .argv = (char *[]){ (char[]){ "cloister-compare" }, NULL },
		.fds = &(struct spawn_fd){ theirs, COMPARE_FD }, .n_fds = 1, .flags = SPAWN_APART }, NULL, err);
	if (reader->pid < 0) {
		close(ends[0]);
		return reader->pid;
	}
	reader->channel = ends[0];
	return 0;
}

/* 1: that was the last message. */
static int
take_message(const struct diff_question *q, struct ipc_message *message, struct diff_answer *ret_answer)
{
	struct diff_answer answer = {0};
	uint32_t failed, binary;
	int r;

	if (message->type != COMPARE_TEXT && message->type != COMPARE_DONE)
		return -EBADMSG;
	if (message->type == COMPARE_DONE &&
	    (buf_get_u32(&message->body, &failed) < 0 || buf_get_u32(&message->body, &binary) < 0 ||
	     buf_get_u64(&message->body, &answer.one) < 0 || buf_get_u64(&message->body, &answer.two) < 0))
		return -EBADMSG;
	r = q->take == NULL ? 0 : q->take(q->arg, (const char *)message->body.data + message->body.pos,
	                                  buf_left(&message->body));
	if (r < 0 || message->type == COMPARE_TEXT)
		return r;
	if (failed != 0)
		return -E2BIG;
	answer.binary = binary != 0;
	*ret_answer = answer;
	return 1;
}

/* A process that crashed on a file, or sends nonsense, is replaced for the next file. */
static int
await_answer(struct diff_reader *reader, const struct diff_question *q, struct diff_answer *ret_answer,
             struct err *err)
{
	int r = 0, status;

	while (r == 0) {
		OWN(ipc_message_free) struct ipc_message message = {0};

		r = ipc_receive(reader->channel, &message, NULL);
		r = r == 0 ? take_message(q, &message, ret_answer) : r;
		reader->answered = reader->answered || r >= 0;
	}
	if (r == 1)
		return 0;
	if (r == -E2BIG)
		return err_set(err, E2BIG, "it could not be compared");
	close(reader->channel);
	while (waitpid(reader->pid, &status, 0) < 0 && errno == EINTR)
		;
	reader->pid = 0;
	/* It prints the reason itself. */
	return reader->answered || WIFSIGNALED(status) ? err_set(err, E2BIG, "it could not be compared") :
	       err_set(err, EPERM, "files cannot be compared safely on this machine: use --name-status");
}

int
diff_ask(struct diff_reader *reader, const struct diff_question *q, struct diff_answer *ret_answer,
         struct err *err)
{
	int r = reader_start(reader, err);

	for (size_t i = 0; i < q->n_fds; i++)
		(void)lseek(q->fds[i], 0, SEEK_SET);
	r = r == 0 ? ipc_send(reader->channel, q->body, q->fds, q->n_fds, err) : r;
	return r == 0 || r == -EPIPE ? await_answer(reader, q, ret_answer, err) : r;
}

/* ---- texts that are written ---- */

struct written {
	int out;
	uint64_t left;
	int failed;
};

/* The rest of an answer is read even if it cannot be written. */
static int
write_piece(void *arg, const char *data, size_t len)
{
	struct written *w = arg;

	if (w->out < 0 || w->failed != 0)
		return 0;
	if (len > w->left)
		w->failed = -EFBIG;
	else if (write_all(w->out, data, len, NULL) < 0)
		w->failed = -errno;
	w->left -= len;
	return 0;
}

static int
ask_written(struct diff_reader *reader, struct diff_question q, int out, struct diff_answer *ret_answer,
            struct err *err)
{
	struct written w = { .out = out, .left = WRITTEN_MAX };
	int r;

	q.take = write_piece;
	q.arg = &w;
	r = diff_ask(reader, &q, ret_answer, err);
	if (r == 0 && w.failed != 0) {
		errno = -w.failed;
		return err_errno(err, "cannot write the merged text");
	}
	return r;
}

int
diff_merge_text(struct diff_reader *reader, const struct workspace_merge *files, const char *label, int out,
                uint64_t *ret_conflicts, struct err *err)
{
	OWN(buf_free) struct buf body;
	struct diff_question q = { .body = &body, .fds = { files->base, files->ours, files->theirs }, .n_fds = 3 };
	struct diff_answer answer;
	int r;

	ipc_begin(&body, COMPARE_MERGE);
	buf_put_str(&body, label == NULL ? "" : "here");
	buf_put_str(&body, label == NULL ? "" : label);
	r = ask_written(reader, q, out, &answer, err);
	if (r == 0 && answer.binary)
		return err_set(err, E2BIG, "it is not text");
	if (r == 0)
		*ret_conflicts = answer.one;
	return r;
}

int
diff_pick_text(struct diff_reader *reader, int old, int new, const unsigned char *wanted, size_t n, int out,
               struct err *err)
{
	OWN(buf_free) struct buf body;
	struct diff_question q = { .body = &body, .fds = { old, new }, .n_fds = 2 };
	struct diff_answer answer;
	int r;

	ipc_begin(&body, COMPARE_PICK);
	buf_put(&body, wanted, n);
	r = ask_written(reader, q, out, &answer, err);
	return r == 0 && answer.binary ? err_set(err, E2BIG, "it is not text") : r;
}

int
diff_likeness(struct diff_reader *reader, int old, int new, unsigned *ret_percent, struct err *err)
{
	OWN(buf_free) struct buf body;
	const struct diff_question q = { .body = &body, .fds = { old, new }, .n_fds = 2 };
	struct diff_answer answer;
	int r;

	ipc_begin(&body, COMPARE_LIKENESS);
	r = diff_ask(reader, &q, &answer, err);
	if (r == 0)
		*ret_percent = answer.two == 0 || answer.one > answer.two ? 0 : (unsigned)(answer.one * 100 / answer.two);
	return r;
}

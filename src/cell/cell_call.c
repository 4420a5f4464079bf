/* cell_call.c - see cell_call.h. */
#include "cell/cell_call.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "ipc/control_channel.h"
#include "steer/steer.h"

int
cell_call_exec(int socket, const struct cell_call *call, const int *fds, size_t n_fds, struct err *err)
{
	OWN(buf_free) struct buf message = {0};

	steer_put(&message, &(struct steer_request){ .verb = VERB_EXEC });
	buf_put_u32(&message, call->flags);
	buf_put_u32(&message, call->rows);
	buf_put_u32(&message, call->columns);
	buf_put_str(&message, call->cwd);
	buf_put_strv(&message, call->argv);
	buf_put_strv(&message, call->env);
	if (call->by != NULL)
		buf_put_str(&message, call->by);
	if (buf_failed(&message))
		return err_set(err, E2BIG, "the command and its environment are over %d KiB", IPC_MESSAGE_MAX / 1024);
	return ipc_send(socket, &message, fds, n_fds, err);
}

static void
send_numbers(int socket, enum steer_verb verb, uint64_t first, uint64_t second, const char *by)
{
	OWN(buf_free) struct buf message = {0};

	steer_put(&message, &(struct steer_request){ .verb = verb, .by = by, .n = { first, second } });
	(void)ipc_send(socket, &message, NULL, 0, NULL);
}

void
cell_call_attach(int socket, unsigned rows, unsigned columns, const char *by)
{
	send_numbers(socket, VERB_ATTACH, rows, columns, by);
}

void
cell_call_signal(int socket, int number)
{
	send_numbers(socket, VERB_SIGNAL, (uint64_t)number, 0, NULL);
}

void
cell_call_resize(int socket, unsigned rows, unsigned columns)
{
	send_numbers(socket, VERB_RESIZE, rows, columns, NULL);
}

void
cell_answer_free(struct cell_answer *answer)
{
	ipc_message_free(&answer->message);
}

static int
read_answer(struct cell_answer *a)
{
	struct buf *body = &a->message.body;
	const bool has_number = a->message.type != CONTROL_SAYS;

	if (has_number && buf_get_u32(body, &a->number) < 0)
		return -EBADMSG;
	switch (a->message.type) {
	case CONTROL_STARTED:
		a->kind = CELL_ANSWER_STARTED;
		a->has_log = buf_get_u64(body, &a->log_size) == 0;
		return 0;
	case CONTROL_EXITED:
		a->kind = CELL_ANSWER_EXITED;
		return 0;
	case CONTROL_ENDED:
	case CONTROL_SAYS:
	case CONTROL_REFUSED:
		a->kind = a->message.type == CONTROL_ENDED ? CELL_ANSWER_ENDED : has_number ? CELL_ANSWER_REFUSED : CELL_ANSWER_SAYS;
		return buf_get_str(body, &a->text);
	default:
		return -EBADMSG;
	}
}

int
cell_call_receive(int socket, struct cell_answer *ret_answer, struct err *err)
{
	int r;

	*ret_answer = (struct cell_answer){0};
	r = ipc_receive(socket, &ret_answer->message, err);
	if (r < 0)
		return r;
	return read_answer(ret_answer) < 0 ? err_set(err, EBADMSG, "the cell's supervisor is of another version") : 0;
}

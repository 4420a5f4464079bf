/* cell_steer.c - see cell_steer.h. */
#include "cell/cell_steer.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/err.h"
#include "base/own.h"

void
cell_steer_put(struct buf *message, const struct cell_steer_who *who, const struct steer_request *q)
{
	struct steer_request all = *q;

	if (who != NULL) {
		all.by = who->by;
		all.why = who->why;
		all.tells = who->tells;
	}
	steer_put(message, &all);
}

/* Whether the cell lives is unknown here. */
static int
hung_up(struct err *err)
{
	return err_set(err, EPIPE, "the cell has just ended, or its supervisor was too busy to answer: see "
	               "`cloister ps`");
}

int
cell_steer_ask(int socket, const struct buf *message, const int *fds, size_t n_fds,
               struct err *err)
{
	const struct timeval patience = { .tv_sec = CELL_STEER_S };
	int r;

	(void)setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	r = ipc_send(socket, message, fds, n_fds, err);
	return r == 0 || r == -E2BIG ? r : hung_up(err);
}

int
cell_steer(int socket, const struct buf *message, const int *fds, size_t n_fds,
           struct ipc_message *ret_answer, struct err *err)
{
	int r = cell_steer_ask(socket, message, fds, n_fds, err);

	return r < 0 ? r : cell_steer_await(socket, ret_answer, err);
}

int
cell_steer_await(int socket, struct ipc_message *ret_answer, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message answer = { .fds = { -1, -1, -1, -1 } };
	const char *text;
	uint32_t code;
	int r = ipc_receive(socket, &answer, err);

	if (r == -EAGAIN)
		return err_set(err, ETIMEDOUT, "the cell did not answer within %d s: whether it is in force "
		               "is not known", CELL_STEER_S);
	if (r < 0)
		return hung_up(err);
	if (answer.type == CONTROL_REFUSED && buf_get_u32(&answer.body, &code) == 0 && code != 0 &&
	    buf_get_str(&answer.body, &text) == 0)
		return err_set(err, (int)code, "%s", text);
	if (answer.type != CONTROL_DONE)
		return err_set(err, EBADMSG, "the cell's supervisor is of another version");
	if (ret_answer != NULL) {
		*ret_answer = answer;
		answer = (struct ipc_message){ .fds = { -1, -1, -1, -1 } };
	}
	return 0;
}

int
cell_steer_check_why(const char *why, struct err *err)
{
	if (strlen(why) > CONTROL_WHY_MAX)
		return err_set(err, E2BIG, "a reason is at most %d bytes long", CONTROL_WHY_MAX);
	if (strchr(why, '\n') != NULL)
		return err_set(err, EINVAL, "a reason is one line");
	return 0;
}

/* cell_approvals.c - see cell_approvals.h. */
#include "cell/cell_approvals.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"

bool
cell_approval_split(const char *id, char ret_cell[CELL_NAME_MAX + 1], uint64_t *ret_n)
{
	const char *dash = strrchr(id, '-');
	size_t n = dash == NULL ? 0 : (size_t)(dash - id);

	if (n == 0 || n > CELL_NAME_MAX || num_parse_count(dash + 1, 1, UINT64_MAX, ret_n, NULL) < 0)
		return false;
	memcpy(ret_cell, id, n);
	ret_cell[n] = '\0';
	return true;
}

int
cell_approvals_ask(int socket, uint64_t seen, bool wait, struct err *err)
{
	OWN(buf_free) struct buf message;

	cell_steer_put(&message, NULL, &(struct steer_request){ .verb = VERB_APPROVALS, .n = { seen, wait } });
	return ipc_send(socket, &message, NULL, 0, err);
}

int
cell_approvals_take(int socket, uint64_t *ret_seen, char **ret_json, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	const char *json;
	uint64_t seen;
	uint32_t code;
	int r = ipc_receive(socket, &message, err);

	if (r == -EPIPE || r == -ECONNRESET)
		return err_set(err, EPIPE, "the cell has just ended");
	if (r < 0)
		return r;
	if (message.type == CONTROL_DONE)
		return 0;
	if (message.type == CONTROL_REFUSED && buf_get_u32(&message.body, &code) == 0 && code != 0 &&
	    buf_get_str(&message.body, &json) == 0)
		return err_set(err, (int)code, "%s", json);
	if (message.type != CONTROL_APPROVAL || buf_get_u64(&message.body, &seen) < 0 ||
	    buf_get_str(&message.body, &json) < 0)
		return err_set(err, EBADMSG, "the cell's supervisor is of another version");
	*ret_json = strdup(json);
	if (*ret_json == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*ret_seen = seen;
	return 1;
}

int
cell_approve(int socket, uint64_t n, enum control_approve how, uint64_t ms,
             const struct cell_steer_who *who, bool *ret_enough, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message answer = {0};
	OWN(buf_free) struct buf message;
	uint32_t enough = 0;
	int r;

	cell_steer_put(&message, who, &(struct steer_request){ .verb = VERB_APPROVE, .n = { n, how, ms } });
	r = cell_steer(socket, &message, NULL, 0, &answer, err);
	if (r == 0 && buf_get_u32(&answer.body, &enough) < 0)
		r = err_set(err, EBADMSG, "the cell's supervisor is of another version");
	if (r == 0)
		*ret_enough = enough == 1;
	return r;
}

int
cell_refuse(int socket, uint64_t n, const struct cell_steer_who *who, struct err *err)
{
	OWN(buf_free) struct buf message;

	cell_steer_put(&message, who, &(struct steer_request){ .verb = VERB_REFUSE, .n = { n } });
	return cell_steer(socket, &message, NULL, 0, NULL, err);
}

/* cell_control.c - see cell_control.h. */
#include "cell/cell_control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_far.h"
#include "cell/cell_steer.h"
#include "ipc/control_channel.h"

/* A supervisor that does not answer must not block its client. */
static void
set_patience(int socket)
{
	const struct timeval patience = { .tv_sec = CELL_ANSWER_MS / 1000 };

	(void)setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

int
cell_control_ask(int socket, enum steer_verb verb, const struct cell_steer_who *who, struct err *err)
{
	OWN(buf_free) struct buf message;

	cell_steer_put(&message, who, &(struct steer_request){ .verb = verb });
	return ipc_send(socket, &message, NULL, 0, err);
}

int
cell_control_await_dead(int socket, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = ipc_receive(socket, &message, err);

	if (r == 0 && message.type != CONTROL_DEAD)
		r = err_set(err, EBADMSG, "the cell's supervisor is of another version");
	return r;
}

/* Turn CONTROL_REFUSED into an error. */
static int
take_refusal(struct ipc_message *message, struct err *err)
{
	const char *text;
	uint32_t code;

	if (message->type == CONTROL_REFUSED && buf_get_u32(&message->body, &code) == 0 && code != 0 &&
	    buf_get_str(&message->body, &text) == 0)
		return err_set(err, (int)code, "%s", text);
	return err_set(err, EBADMSG, "the cell's supervisor is of another version");
}

int
cell_control_await_end(int socket, uint32_t *ret_status, char cause[256], struct err *err)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	const char *text;
	int r = ipc_receive(socket, &message, err);

	if (r == -EPIPE || r == -ECONNRESET)
		return err_set(err, EPIPE, "the cell's supervisor hung up");
	if (r < 0)
		return r;
	if (message.type == CONTROL_REFUSED)
		return take_refusal(&message, err);
	if (message.type != CONTROL_ENDED || buf_get_u32(&message.body, ret_status) < 0 ||
	    buf_get_str(&message.body, &text) < 0)
		return err_set(err, EBADMSG, "the cell's supervisor is of another version");
	snprintf(cause, 256, "%s", text);
	return 0;
}

int
cell_control_ask_info(int socket, struct ipc_message *ret_message, uint32_t *ret_state, struct err *err)
{
	int r = cell_control_ask(socket, VERB_INFO, NULL, err);

	if (r == 0)
		r = ipc_receive(socket, ret_message, err);
	if (r == 0 && (ret_message->type != CONTROL_IS || buf_get_u32(&ret_message->body, ret_state) < 0 ||
	               *ret_state > CONTROL_STATE_PAUSED))
		r = err_set(err, EBADMSG, "the cell's supervisor is of another version");
	return r;
}

int
cell_control_ask_stop(int socket, uint32_t grace_ms, const struct cell_steer_who *who,
                      struct err *err)
{
	OWN(buf_free) struct buf message;

	cell_steer_put(&message, who, &(struct steer_request){ .verb = VERB_STOP, .n = { grace_ms } });
	return ipc_send(socket, &message, NULL, 0, err);
}

int
cell_control_do(int socket, enum steer_verb verb, const struct cell_steer_who *who, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = cell_control_ask(socket, verb, who, err);

	if (r == 0)
		r = ipc_receive(socket, &message, err);
	if (r == 0 && message.type != CONTROL_DONE)
		r = take_refusal(&message, err);
	return r;
}

int
cell_control_ask_one(int runtime, const struct cell_entry *entry, enum steer_verb verb,
                     const struct cell_steer_who *who, struct err *err)
{
	OWN(closep) int fd = cell_connect(runtime, entry, err);
	int r = fd;

	if (fd >= 0) {
		set_patience(fd);
		r = cell_control_do(fd, verb, who, err);
	}
	if (r != -EPIPE && r != -ECONNRESET && r != -EAGAIN)
		return r;
	return cell_is_alive(runtime, entry) ? cell_is_silent(entry, err) :
	       err_set(err, ENOENT, "cell %s has just ended", entry->id);
}

/* Describe a cell whose supervisor does not answer. */
static int
describe_silent(int runtime, const struct cell_entry *entry, struct cell_info *ret_info, struct err *err)
{
	struct cell_info info = { .state = CONTROL_STATE_SILENT,
	                          .supervisor = (uint32_t)cell_supervisor(runtime, entry) };
	struct stat st;

	memcpy(info.spec.id, entry->id, sizeof(info.spec.id));
	info.spec.name = strdup(entry->name);
	info.spec.principal = strdup("");
	info.spec.chain = strdup("");
	info.spec.argv = calloc(1, sizeof(char *));
	if (info.spec.name == NULL || info.spec.principal == NULL || info.spec.chain == NULL ||
	    info.spec.argv == NULL) {
		cell_spec_free(&info.spec);
		return err_set(err, ENOMEM, "out of memory");
	}
	if (fstatat(runtime, entry->dir, &st, AT_SYMLINK_NOFOLLOW) == 0)
		info.started_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec;
	*ret_info = info;
	return 0;
}

static void
get_use(struct buf *b, struct cell_use *ret_use)
{
	struct cell_use use = {0};

	if (buf_get_u64(b, &use.cpu_us) == 0 && buf_get_u64(b, &use.peak) == 0 && buf_get_u64(b, &use.disk) == 0 &&
	    buf_get_u32(b, &use.has_io) == 0 && buf_get_u64(b, &use.read) == 0 && buf_get_u64(b, &use.written) == 0 &&
	    buf_get_u32(b, &use.has_pressure) == 0 && buf_get_u64(b, &use.pressure_cpu) == 0 &&
	    buf_get_u64(b, &use.pressure_io) == 0 && buf_get_u64(b, &use.pressure_memory) == 0)
		*ret_use = use;
}

static int
ask_info(int runtime, const struct cell_entry *entry, struct cell_info *ret_info, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	OWN(closep) int fd = cell_connect(runtime, entry, err);
	struct cell_info info = {0};
	struct buf *b = &message.body;
	int r;

	if (fd < 0)
		return fd;
	set_patience(fd);
	r = cell_control_ask_info(fd, &message, &info.state, err);
	r = r == 0 ? cell_spec_get(b, &info.spec, err) : r;
	if (r < 0)
		return r;
	if (buf_get_u64(b, &info.started_ns) < 0 || buf_get_u32(b, &info.supervisor) < 0 ||
	    buf_get_u32(b, &info.init) < 0 || buf_get_u32(b, &info.agent) < 0 ||
	    buf_get_u64(b, &info.memory) < 0 || buf_get_u64(b, &info.pids) < 0 ||
	    buf_get_u32(b, &info.can_freeze) < 0) {
		cell_spec_free(&info.spec);
		return err_set(err, EBADMSG, "the cell's supervisor is of another version");
	}
	/* A supervisor from before an update does not send all of this. */
	if (buf_get_u32(b, &info.waiting) == 0)
		get_use(b, &info.use);
	*ret_info = info;
	return 0;
}

int
cell_control_info(int runtime, const struct cell_entry *entry, struct cell_info *ret_info,
                  struct err *err)
{
	int r = ask_info(runtime, entry, ret_info, err);

	if (r < 0 && r != -ENOENT)
		r = cell_is_alive(runtime, entry) ? describe_silent(runtime, entry, ret_info, err) :
		    err_set(err, ENOENT, "cell %s has just ended", entry->id);
	if (r == 0)
		(void)cell_far_machine(runtime, entry, ret_info->machine);
	return r;
}

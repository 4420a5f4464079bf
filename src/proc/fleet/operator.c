/* operator.c - `cloister operator`: see operator.h.
 *
 * It has two halves.  The worker has the credentials of the cluster, and reads what the server and the service answer: it
 * is locked down before its first byte.  The keeper reads nothing of that.  It gives the worker connections to the agents'
 * socket of the service, and to nothing else: so the worker can do what an agent can. */
#include "proc/fleet/operator.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/args.h"
#include "base/err.h"
#include "base/own.h"
#include "base/tell.h"
#include "cell/cell_dirs.h"
#include "confine/lockdown.h"
#include "ipc/ipc.h"
#include "ipc/operator_channel.h"
#include "loop/loop.h"

#define ROUND_MS 500                    /* between two looks, at most */
#define SHORT_MS 20

static volatile sig_atomic_t stops;
static pid_t worker_pid;                /* the keeper's */

static void
stop(int number)
{
	(void)number;
	stops = 1;
}

/* The worker gives the Lease back, and ends; and then the keeper does. */
static void
stop_worker(int number)
{
	(void)kill(worker_pid, number);
}

/* ---- the keeper ---- */

static int
dial_service(int folder, const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	OWN(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", folder, name);
	return fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : TAKE_FD(fd);
}

static int
keep(int channel, int folder, const char *name)
{
	int status = 0, r = 0;

	while (r == 0) {
		OWN(ipc_message_free) struct ipc_message message = {0};
		OWN(buf_free) struct buf answer = {0};
		OWN(closep) int fd = -1;

		r = ipc_receive(channel, &message, NULL);
		/* The only request that there is. */
		if (r == 0 && (message.type != OPERATOR_CONNECT || buf_left(&message.body) != 0 || message.n_fds != 0))
			r = -EBADMSG;
		if (r < 0)
			break;
		fd = dial_service(folder, name);
		ipc_begin(&answer, fd >= 0 ? OPERATOR_CONNECTED : OPERATOR_REFUSED);
		r = ipc_send(channel, &answer, &fd, fd >= 0, NULL);
	}
	if (r == -EBADMSG)
		(void)kill(worker_pid, SIGKILL);
	while (waitpid(worker_pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : TELL_FAILED;
}

/* ---- the worker ---- */

int
operator_dial(int channel)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	OWN(buf_free) struct buf question = {0};

	ipc_begin(&question, OPERATOR_CONNECT);
	if (ipc_send(channel, &question, NULL, 0, NULL) < 0 || ipc_receive(channel, &message, NULL) < 0) {
		/* The keeper has ended. */
		stops = 1;
		return -EPIPE;
	}
	return message.type == OPERATOR_CONNECTED && message.n_fds == 1 ? ipc_take_fd(&message, 0) : -ECONNREFUSED;
}

static int
set_scope(struct op *op, const char *namespace, struct err *err)
{
	if (namespace == NULL)
		return 0;
	if (*namespace == '\0' || strlen(namespace) > KUBE_NAME_MAX ||
	    strspn(namespace, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(namespace))
		return err_set(err, EINVAL, "'%.100s' cannot be the name of a namespace", namespace);
	snprintf(op->scope, sizeof(op->scope), "/namespaces/%s", namespace);
	return 0;
}

static int
lock_down(const struct op *op, struct err *err)
{
	const char *readable[] = { "/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/gai.conf",
		op->kube.access.token_folder, NULL };

	return lockdown_enter(&(struct lockdown){ .filter = FILTER_FLEET, .network = true, .readable = readable }, INT_MAX, err);
}

/* Without its keeper it can do nothing. */
static bool
is_alone(int channel)
{
	struct pollfd p = { .fd = channel };

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)) != 0;
}

static void
serve(struct op *op)
{
	while (!stops && !is_alone(op->channel)) {
		uint64_t now = loop_now_ms(), next = now + ROUND_MS;

		op_lease_tend(op, now);
		if (op->leads) {
			op_objects_tend(op, now);
			next = op_objects_look(op, now);
		} else {
			op_objects_end(op);
		}
		now = loop_now_ms();
		next = next > now ? next - now : 0;
		fleet_http_wait(op->engine, next > ROUND_MS ? ROUND_MS : next < SHORT_MS ? SHORT_MS : (unsigned)next);
	}
	op_objects_end(op);
	op_lease_release(op);
}

static int
work(const struct args *args, int channel, struct err *err)
{
	struct op *op = calloc(1, sizeof(*op));
	int r = op == NULL ? err_set(err, ENOMEM, "out of memory") : fleet_http_new(&op->engine, err);

	r = r == 0 ? set_scope(op, args_get(args, "namespace"), err) : r;
	r = r == 0 ? kube_open(op->engine, args_get(args, "context"), &op->kube, err) : r;
	r = r == 0 ? lock_down(op, err) : r;
	r = r == 0 ? op_lease_begin(op, err) : r;
	if (r < 0)
		return r;
	op->channel = channel;
	op_objects_begin(op);
	fprintf(stderr, "cloister: serving the objects of agent-sandbox at %s\n", fleet_http_where(op->engine));
	serve(op);
	kube_close(&op->kube);
	fleet_http_free(op->engine);
	free(op);
	return 0;
}

/* ---- both ---- */

static int
become_worker(const struct args *args, int channel)
{
	struct err err = {0};

	return work(args, channel, &err) < 0 ? tell_error(&err) : 0;
}

/* The folder and the name of the agents' socket. */
static int
open_folder(const char *path, const char **ret_name, struct err *err)
{
	const char *slash = path != NULL ? strrchr(path, '/') : NULL;
	OWN(freep) char *folder = NULL;
	int fd;

	*ret_name = slash != NULL ? slash + 1 : path != NULL ? path : "agents.sock";
	if (path == NULL)
		return cell_runtime_open(err);
	folder = slash == NULL ? strdup(".") : slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
	fd = folder == NULL ? -1 : open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_errno(err, "cannot open the folder of the socket '%.200s'", path) : fd;
}

static int
start(const struct args *args, struct err *err)
{
	const struct sigaction catch = { .sa_handler = stop }, pass = { .sa_handler = stop_worker };
	OWN(closep) int folder = -1, ours = -1, theirs = -1;
	const char *name;
	int pair[2];

	folder = open_folder(args_get(args, "agents-socket"), &name, err);
	if (folder < 0)
		return folder;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, "cannot make a channel");
	ours = pair[0];
	theirs = pair[1];
	(void)sigaction(SIGTERM, &catch, NULL);
	(void)sigaction(SIGINT, &catch, NULL);
	worker_pid = fork();
	if (worker_pid < 0)
		return err_errno(err, "cannot start the worker");
	if (worker_pid == 0) {
		close(TAKE_FD(folder));
		close(TAKE_FD(ours));
		_exit(become_worker(args, theirs));
	}
	(void)sigaction(SIGTERM, &pass, NULL);
	(void)sigaction(SIGINT, &pass, NULL);
	close(TAKE_FD(theirs));
	return keep(ours, folder, name);
}

int
operator_run(int argc, char **argv)
{
	struct args args;
	struct err err = {0};
	int r;

	if (!args_parse(argc, argv, &args) || args.n_words > 0)
		r = err_set(&err, EINVAL, "`cloister operator` takes options only");
	else
		r = start(&args, &err);
	return r < 0 ? tell_error(&err) : r;
}

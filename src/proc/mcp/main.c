/* main.c - cloister-mcp: an MCP server for orchestrating agents.
 *
 * `cloister mcp` becomes it: see base/args.h, and the options in cli/mcp.c.  It has two halves.
 * This one, the keeper, reads nothing that an agent sent: it starts the worker with an empty
 * environment, and connects it to the service on request. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/args.h"
#include "base/codec.h"
#include "base/num.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/tell.h"
#include "base/utf8.h"
#include "cell/cell_dirs.h"
#include "ipc/ipc.h"
#include "ipc/mcp_channel.h"
#include "proc/mcp/mcp_proc.h"

#define WORKER "cloister-mcp-worker"
#define ASIDE 16

struct options {
	const char *http, *token_file, *principal;
	/* Set if cloister-serve, whose process this is, started it for agents in cells; else 0. */
	uint64_t port, parent;
};

static int
read_options(int argc, char **argv, struct options *o, struct err *err)
{
	struct args args;

	if (!args_parse(argc, argv, &args))
		return err_set(err, EINVAL, "cloister-mcp is started by `cloister mcp` only");
	if (args.n_words > 0)
		return err_set(err, EINVAL, "`cloister mcp` takes options only");
	o->http = args_get(&args, "http");
	o->token_file = args_get(&args, "token-file");
	o->principal = args_get(&args, "as");
	if (args_get(&args, "serve-port") != NULL &&
	    (num_parse_count(args_get(&args, "serve-port"), 1, UINT16_MAX, &o->port, err) < 0 ||
	     args_get(&args, "parent") == NULL ||
	     num_parse_count(args_get(&args, "parent"), 1, INT32_MAX, &o->parent, err) < 0))
		return err_set(err, EINVAL, "--serve-port is for cloister-serve");
	if (o->principal == NULL)
		o->principal = "";
	if (*o->principal != '\0' && getenv("CLOISTER_MCP_TOKEN") != NULL)
		return err_set(err, EINVAL, "--as and CLOISTER_MCP_TOKEN contradict each other: an agent "
		               "acts for the principal of its dispatch");
	if ((o->http == NULL) != (o->token_file == NULL))
		return err_set(err, EINVAL, "--http and --token-file go together: without a token every "
		               "program of this machine could dispatch agents");
	return 0;
}

static int
check_principal(const char *text, struct err *err)
{
	size_t len = strlen(text), n;
	uint32_t code;

	if (len > MCP_PRINCIPAL_MAX)
		return err_set(err, EINVAL, "the principal is over %d bytes", MCP_PRINCIPAL_MAX);
	for (; len > 0; text += n, len -= n) {
		n = utf8_next(text, len, &code);
		if (n == 0 || utf8_is_control(code))
			return err_set(err, EINVAL, "the principal has a character that cannot be printed");
	}
	return 0;
}

/* ---- the worker ---- */

/* Its environment is empty. */
static pid_t
spawn_worker(int channel, int listener, struct err *err)
{
	char *env[2] = { NULL };

#ifdef CLOISTER_MUTANT
	if (getenv("CLOISTER_OFF") != NULL && asprintf(&env[0], "CLOISTER_OFF=%s", getenv("CLOISTER_OFF")) < 0)
		return err_set(err, ENOMEM, "out of memory");
#endif
	return spawn_start(&(struct spawn){ .argv = (char *[]){ (char[]){ WORKER }, NULL },
		.path = "/proc/self/exe", .env = env, .n_fds = 2, .fds = (struct spawn_fd[]){
		{ channel, MCP_CHANNEL_FD }, { listener, MCP_LISTENER_FD } }, .flags = SPAWN_DIES }, NULL, err);
}

struct door {
	int listener;                   /* -1: standard input and output instead */
	uint16_t port;
	struct serve_token token;
};

static int
open_door(const struct options *o, struct door *door, struct err *err)
{
	int r;

	door->listener = -1;
	if (o->port != 0) {
		door->listener = fcntl(MCP_GIVEN_FD, F_DUPFD_CLOEXEC, ASIDE);
		door->port = (uint16_t)o->port;
		return door->listener < 0 ? err_errno(err, "cannot listen for agents") :
		       close(MCP_GIVEN_FD);
	}
	if (o->http == NULL)
		return 0;
	r = serve_token_load(o->token_file, "mcp", SERVE_AGENT, &door->token, err);
	if (r < 0)
		return r;
	door->listener = serve_listen_tcp(o->http, &door->port, err);
	return door->listener < 0 ? door->listener : 0;
}

static int
send_beginning(int channel, const struct options *o, const struct door *door, struct err *err)
{
	const char *for_service = getenv("CLOISTER_MCP_TOKEN");
	char hash[2 * sizeof(door->token.hash) + 1] = "";
	OWN(buf_free) struct buf b;

	if (door->listener >= 0 && o->port == 0)
		codec_hex(door->token.hash, sizeof(door->token.hash), hash);
	ipc_begin(&b, MCP_BEGIN);
	buf_put_str(&b, o->principal);
	/* The dispatch's token: dispatches made with it are its children. */
	buf_put_str(&b, for_service != NULL && o->port == 0 ? for_service : "");
	buf_put_u32(&b, door->port);
	buf_put_str(&b, hash);
	return ipc_send(channel, &b, NULL, 0, err);
}

static int
start_worker(const struct options *o, const struct door *door, int *ret_channel, pid_t *ret_pid,
             struct err *err)
{
	OWN(closep) int ours = -1, theirs = -1;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, "cannot make a channel");
	ours = pair[0];
	theirs = pair[1];
	*ret_pid = spawn_worker(theirs, door->listener, err);
	if (*ret_pid < 0)
		return *ret_pid;
	r = send_beginning(ours, o, door, err);
	if (r < 0)
		return r;
	if (door->listener >= 0 && o->port == 0)
		fprintf(stderr, "cloister: MCP at http://%s:%u/mcp, with the token in '%s'\n",
		        o->http[0] == '[' ? "[::1]" : "127.0.0.1", door->port, o->token_file);
	*ret_channel = TAKE_FD(ours);
	return 0;
}

/* ---- the keeper ---- */

static int
answer(int channel, int runtime, bool may_start, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	OWN(closep) int fd = -1;
	OWN(buf_free) struct buf b = {0};
	struct err why = {0};
	int r = ipc_receive(channel, &message, err);

	if (r < 0)
		return r;
	/* The only request that the worker may make. */
	if (message.type != MCP_CONNECT || buf_left(&message.body) != 0 || message.n_fds != 0)
		return err_set(err, EBADMSG, "cloister-mcp's worker made a request that it may not make");
	fd = keeper_connect(runtime, may_start, &why);
	ipc_begin(&b, fd >= 0 ? MCP_CONNECTED : MCP_REFUSED);
	if (fd < 0)
		buf_put_str(&b, why.text);
	return ipc_send(channel, &b, &fd, fd >= 0, err);
}

static int
keep(int channel, int runtime, bool may_start, pid_t worker)
{
	struct err err = {0};
	int status = 0, r;

	do
		r = answer(channel, runtime, may_start, &err);
	while (r == 0);
	if (r == -EBADMSG)
		(void)kill(worker, SIGKILL);
	if (waitpid(worker, &status, 0) == worker && WIFEXITED(status))
		return WEXITSTATUS(status);
	if (r != -EBADMSG)
		err_set(&err, EPIPE, "cloister-mcp's worker was killed by signal %d", WTERMSIG(status));
	return tell_error(&err);
}

/* Without its service it can do nothing, and another service would start its own. */
static int
stay_with_parent(const struct options *o, struct err *err)
{
	if (o->port == 0)
		return 0;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return err_errno(err, "cannot ask to end with the service");
	return getppid() == (pid_t)o->parent ? 0 : err_set(err, ESRCH, "the service has ended");
}

int
main(int argc, char **argv)
{
	OWN(closep) int runtime = -1, channel = -1, fd = -1;
	struct options o = {0};
	struct door door = {0};
	struct err err = {0};
	pid_t worker = -1;
	int r;

	if (argc == 1 && strcmp(argv[0], WORKER) == 0)
		return worker_main();
	r = read_options(argc, argv, &o, &err);
	r = r == 0 ? check_principal(o.principal, &err) : r;
	r = r == 0 ? stay_with_parent(&o, &err) : r;
	r = r == 0 ? open_door(&o, &door, &err) : r;
	if (r == 0) {
		runtime = cell_runtime_open(&err);
		/* An unreachable service should be reported here and now. */
		fd = runtime < 0 ? runtime : keeper_connect(runtime, o.port == 0, &err);
		r = fd < 0 ? fd : start_worker(&o, &door, &channel, &worker, &err);
	}
	if (r < 0)
		return tell_error(&err);
	close(TAKE_FD(fd));
	if (o.port == 0 && o.http == NULL && isatty(STDIN_FILENO))
		fputs("cloister: this is an MCP server, and waits for a client's messages on standard input: "
		      "name `cloister mcp` as the command of a server in your client's settings; Ctrl-D "
		      "ends it\n", stderr);
	return keep(channel, runtime, o.port == 0, worker);
}

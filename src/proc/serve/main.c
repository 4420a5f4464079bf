/* main.c - cloister-serve: the API of this user's cells, agents and dispatches.
 *
 * `cloister serve` becomes it; see base/args.h for its arguments.  It is the operator's own process
 * with the operator's rights, and starts cells as `cloister run` does.  Cells outlive it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/data.h"
#include "base/err.h"
#include "base/file_lock.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tell.h"
#include "cell/cell_dirs.h"
#include "loop/loop.h"
#include "proc/serve/api.h"
#include "proc/serve/e2b.h"
#include "proc/serve/mcp_child.h"
#include "proc/serve/scaler.h"
#include "proc/serve/serve_options.h"
#include "proc/serve/systemd.h"
#include "proc/serve/warm.h"
#include "proc/serve/workers.h"
#include "registry/registry.h"
#include "store/s3_place.h"

#define STOP_S 30                       /* for responses under way */
#define OPERATOR_SOCKET "serve.sock"
#define AGENTS_SOCKET "agents.sock"

struct service {
	struct serve_options options;
	struct loop *loop;
	struct api *api;
	struct mcp_child *mcp;          /* NULL: none */
	struct warm *warm;              /* likewise */
	struct workers *workers;        /* likewise */
	struct scaler *scaler;          /* likewise */
	int folder, runtime, lock;      /* DATA/serve, the runtime folder, the lock */
	struct serve_token tokens[2];
	size_t n_tokens;
	SSL_CTX *tls;
	char print[SERVE_PRINT_MAX];
	struct loop_timer late, idle;   /* a stop that takes too long; --idle-exit */
	bool made[2];                   /* own sockets, to be removed */
	bool stopping;
};

/* ---- doors ---- */

/* The folder of PATH, open, and its last part in *ret_name. */
static int
open_parent(const char *path, const char **ret_name, struct err *err)
{
	const char *slash = strrchr(path, '/');
	OWN(freep) char *dir = slash == NULL ? strdup(".") : slash == path ? strdup("/") :
		strndup(path, (size_t)(slash - path));
	int fd = dir == NULL ? -1 : open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, "cannot open the folder of the socket '%s'", path);
	*ret_name = slash == NULL ? path : slash + 1;
	return fd;
}

static int
open_unix(struct service *s, const char *path, const char *name, enum serve_role role,
          struct err *err)
{
	struct serve_door door = { .role = role, .hears_tokens = role == SERVE_AGENT };
	OWN(closep) int dir = path != NULL ? open_parent(path, &name, err) :
		fcntl(s->runtime, F_DUPFD_CLOEXEC, 3);

	if (dir < 0)
		return err->code != 0 ? -err->code : err_errno(err, "cannot open the runtime folder");
	door.fd = serve_listen_unix(dir, name, err);
	if (door.fd < 0)
		return door.fd;
	s->made[role == SERVE_AGENT] = true;
	return serve_open_door(s->api->server, &door, err);
}

static int
load_tcp(struct service *s, struct err *err)
{
	const struct serve_options *o = &s->options;
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/token", s->folder);
	r = serve_token_load(o->token_file != NULL ? o->token_file : path, "operator", SERVE_OPERATOR,
	                     &s->tokens[s->n_tokens++], err);
	if (r == 0 && o->agent_token_file != NULL)
		r = serve_token_load(o->agent_token_file, "agent", SERVE_AGENT, &s->tokens[s->n_tokens++],
		                     err);
	if (r < 0 || o->no_tls)
		return r;
	if (o->tls_cert != NULL)
		return serve_tls_load(o->tls_cert, o->tls_key, &s->tls, s->print, err);
	return serve_tls_own(s->folder, s->options.e2b != NULL ? "*." E2B_DOMAIN : NULL, &s->tls, s->print, err);
}

static int
open_tcp_fd(struct service *s, int fd, uint16_t port, struct err *err)
{
	struct serve_door door = { .fd = fd, .is_tcp = true, .port = port, .tls = s->tls,
	                           .tokens = s->tokens, .n_tokens = s->n_tokens,
	                           .takes_plain = s->options.tls_cert == NULL,
	                           .also_called = API_PAGE_HOST, .judge = api_judge, .judge_arg = s->api };
	int r = serve_open_door(s->api->server, &door, err);

	if (r < 0)
		return r;
	s->api->page_port = port;
	s->api->page_tls = s->options.tls_cert != NULL;
	fprintf(stderr, "cloister: serving at %s://127.0.0.1:%u\n", s->tls != NULL ? "https" : "http",
	        port);
	if (s->tls != NULL && s->options.tls_cert == NULL)
		fprintf(stderr, "cloister: its certificate's SHA-256 is %s\n", s->print);
	return 0;
}

static int
open_tcp(struct service *s, struct err *err)
{
	uint16_t port;
	int fd;

	fd = serve_listen_tcp(s->options.listen, &port, err);
	return fd < 0 ? fd : open_tcp_fd(s, fd, port, err);
}

static int
open_e2b(struct service *s, struct err *err)
{
	struct serve_door door = { .is_tcp = true, .tls = s->tls, .tokens = s->tokens, .n_tokens = s->n_tokens,
	                           .judge = e2b_judge, .judge_arg = s->api, .judges_all = true, .routes = e2b_routes(),
	                           .refuse = e2b_refuse, .is_carried = e2b_is_host, .carry = e2b_host };
	int r = e2b_start(s->api, s->folder, err);

	if (r == 0)
		r = door.fd = serve_listen_tcp(s->options.e2b, &door.port, err);
	if (r < 0)
		return r;
	s->api->e2b->port = door.port;
	r = serve_open_door(s->api->server, &door, err);
	if (r == 0)
		fprintf(stderr, "cloister: E2B's API is at %s://127.0.0.1:%u\n", s->tls != NULL ? "https" : "http", door.port);
	return r;
}

/* ---- sockets that systemd opened ---- */

static int
open_given(struct service *s, const struct systemd_socket *given, struct err *err)
{
	struct serve_door door = { .fd = given->fd, .role = SERVE_OPERATOR };
	uint16_t port;
	int r = serve_check_given(given->fd, &door.is_tcp, &port, err);

	if (r < 0)
		return err_wrap(err, "socket '%s'", given->name);
	if (door.is_tcp) {
		r = s->n_tokens > 0 ? 0 : load_tcp(s, err);
		return r < 0 ? r : open_tcp_fd(s, given->fd, port, err);
	}
	if (strcmp(given->name, "agents") == 0 || strcmp(given->name, AGENTS_SOCKET) == 0)
		door.role = SERVE_AGENT, door.hears_tokens = true;
	else if (strcmp(given->name, "serve") != 0 && strcmp(given->name, OPERATOR_SOCKET) != 0)
		return err_set(err, EINVAL, "the socket '%s' is neither 'serve' nor 'agents': set "
		               "FileDescriptorName= in its unit", given->name);
	return serve_open_door(s->api->server, &door, err);
}

static void
say_where(const struct service *s)
{
	char link[32], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", s->runtime);
	n = readlink(link, path, sizeof(path));
	if (s->options.socket != NULL)
		fprintf(stderr, "cloister: serving at %s\n", s->options.socket);
	else if (n > 0)
		fprintf(stderr, "cloister: serving at %.*s/" OPERATOR_SOCKET "\n", (int)n, path);
	if (isatty(STDERR_FILENO))
		fputs(s->api->page_port != 0 ? "cloister: `cloister dashboard` logs a browser in\n" :
		      "cloister: browsers need TCP: --listen 127.0.0.1:7878 adds the dashboard\n", stderr);
}

static int
open_doors(struct service *s, struct err *err)
{
	struct systemd_socket given[SYSTEMD_SOCKETS_MAX];
	size_t n;
	int r = systemd_take_sockets(given, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = open_given(s, &given[i], err);
	if (r == 0 && n == 0) {
		r = open_unix(s, s->options.socket, OPERATOR_SOCKET, SERVE_OPERATOR, err);
		r = r == 0 ? open_unix(s, s->options.agents_socket, AGENTS_SOCKET, SERVE_AGENT, err) : r;
	}
	if (r == 0 && s->options.listen != NULL) {
		r = s->n_tokens > 0 ? 0 : load_tcp(s, err);
		r = r == 0 ? open_tcp(s, err) : r;
	}
	if (r == 0 && s->options.e2b != NULL) {
		r = s->n_tokens > 0 ? 0 : load_tcp(s, err);
		r = r == 0 ? open_e2b(s, err) : r;
	}
	if (r == 0 && s->options.mcp != NULL)
		r = mcp_child_start(s->loop, s->options.mcp, &s->mcp, err);
	if (r == 0 && s->options.workers != NULL)
		r = workers_start(s->loop, s->api->registry, s->options.workers, &s->workers, err);
	/* Without a store that workers can reach, there is nothing for them to do. */
	if (r == 0 && registry_store() != NULL)
		r = scaler_start(s->loop, s->folder, s->options.workers != NULL, &s->scaler, err);
	if (r == 0 && s->made[0])
		say_where(s);
	return r;
}

/* ---- the end ---- */

static void
remove_sockets(const struct service *s)
{
	if (s->made[0])
		s->options.socket != NULL ? (void)unlink(s->options.socket) :
		                            (void)unlinkat(s->runtime, OPERATOR_SOCKET, 0);
	if (s->made[1])
		s->options.agents_socket != NULL ? (void)unlink(s->options.agents_socket) :
		                                   (void)unlinkat(s->runtime, AGENTS_SOCKET, 0);
}

static void
all_answered(void *arg)
{
	struct service *s = arg;

	loop_quit(s->loop);
}

static void
too_late(void *arg)
{
	all_answered(arg);
}

static void
stop(struct service *s)
{
	if (s->stopping) {
		loop_quit(s->loop);
		return;
	}
	s->stopping = true;
	systemd_notify("STOPPING=1");
	mcp_child_stop(TAKE(s->mcp));
	warm_stop(TAKE(s->warm));
	scaler_stop(TAKE(s->scaler));
	workers_stop(TAKE(s->workers));
	remove_sockets(s);
	loop_cancel_timer(s->loop, &s->idle);
	loop_prepare_timer(&s->late, too_late, s);
	loop_set_timer(s->loop, &s->late, STOP_S * 1000);
	api_stop(s->api, all_answered, s);
}

static void
caught(void *arg, const struct signalfd_siginfo *info)
{
	(void)info;
	stop(arg);
}

/* No client is there, and nothing is to be done: the next client has the service started again. */
static void
look_idle(void *arg)
{
	struct service *s = arg;
	uint64_t since = serve_idle_since(s->api->server), now = loop_now_ms();

	if (since != 0 && now - since >= s->options.idle_exit_ms && api_is_idle(s->api))
		stop(s);
	else
		loop_set_timer(s->loop, &s->idle, 1000);
}

/* ---- the beginning ---- */

static int
take_lock(struct service *s, struct err *err)
{
	pid_t owner = 0;

	s->lock = file_lock(s->folder, "lock", &owner, err);
	if (s->lock == -EBUSY)
		return err_set(err, EBUSY, "this user's service runs already, as process %d", (int)owner);
	return s->lock < 0 ? s->lock : 0;
}

static int
set_up(struct service *s, struct err *err)
{
	sigset_t signals;
	int r;

	s->folder = data_folder("serve", true, err);
	if (s->folder < 0)
		return s->folder;
	s->runtime = cell_runtime_open(err);
	if (s->runtime < 0)
		return s->runtime;
	r = take_lock(s, err);
	if (r < 0)
		return r;
	io_raise_files();
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	r = loop_new(&s->loop, err);
	/* Before there are threads: they inherit the signal mask. */
	r = r == 0 ? loop_catch(s->loop, &signals, caught, s, err) : r;
	r = r == 0 ? api_start(s->loop, s->folder, &s->options, &s->api, err) : r;
	return r == 0 ? open_doors(s, err) : r;
}

int
main(int argc, char **argv)
{
	struct service s = { .folder = -1, .runtime = -1, .lock = -1 };
	struct err err = {0};
	int r;

	signal(SIGPIPE, SIG_IGN);
	r = serve_options_read(argc, argv, &s.options, &err);
	if (r == 0 && s.options.routes) {
		api_print_routes();
		return 0;
	}
	/* For this process and all that it starts. */
	if (r == 0 && s.options.blobs != NULL && setenv(S3_VARIABLE, s.options.blobs, 1) < 0)
		r = err_errno(&err, "cannot set " S3_VARIABLE);
	r = r == 0 ? set_up(&s, &err) : r;
	if (r == 0) {
		if (s.options.idle_exit_ms > 0) {
			loop_prepare_timer(&s.idle, look_idle, &s);
			loop_set_timer(s.loop, &s.idle, 1000);
		}
		systemd_notify("READY=1");
		r = s.options.warm == 0 ? 0 : warm_start(s.loop, &s.options, &s.warm, &err);
		r = r < 0 ? r : loop_run(s.loop, &err);
	}
	if (!s.stopping)
		remove_sockets(&s);
	mcp_child_stop(s.mcp);
	warm_stop(s.warm);
	scaler_stop(s.scaler);
	workers_stop(s.workers);
	api_free(s.api);
	SSL_CTX_free(s.tls);
	loop_free(s.loop);
	return r < 0 ? tell_error(&err) : 0;
}

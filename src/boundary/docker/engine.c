/* engine.c - one request to a container engine and its answer; and where engines are. */
#include "boundary/docker/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "http/h1.h"
#include "trust/trust.h"

#define PIECE 65536
#define REASON_MAX 300
#define UNIX "unix://"

void
engine_answer_free(struct engine_answer *a)
{
	free(a->text);
	*a = (struct engine_answer){0};
}

static int
dial(const char *socket_path, struct err *err)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	OWN(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(socket_path) > ENGINE_PATH_MAX)
		return err_set(err, ENAMETOOLONG, "the path of the engine's socket is too long: '%s'", socket_path);
	memcpy(at.sun_path, socket_path, strlen(socket_path));
	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		return err_set(err, errno, "no engine answers at '%s': %s: start it, or set DOCKER_HOST to another", socket_path,
		               strerrordesc_np(errno));
	return TAKE_FD(fd);
}

/* Sends the head and the body. */
static int
send_request(int fd, const struct engine_request *q, struct err *err)
{
	OWN(freep) char *head = NULL;
	struct stat st = {0};
	off_t at = 0;
	int r;

	if (q->file > 0 && fstat(q->file, &st) < 0)
		return err_errno(err, "cannot look at the archive");
	head = str_format("%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: %s\r\n%s%s%s"
	                  "Content-Length: %llu\r\n\r\n", q->method, q->path,
	                  q->file > 0 ? "application/x-tar" : "application/json",
	                  q->login != NULL ? "X-Registry-Auth: " : "", q->login != NULL ? q->login : "",
	                  q->login != NULL ? "\r\n" : "",
	                  (unsigned long long)(q->file > 0 ? (uint64_t)st.st_size : q->json != NULL ? strlen(q->json) : 0));
	if (head == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = write_all(fd, head, strlen(head), err);
	explicit_bzero(head, strlen(head));
	if (r == 0 && q->json != NULL)
		r = write_all(fd, q->json, strlen(q->json), err);
	while (r == 0 && q->file > 0 && at < st.st_size)
		if (sendfile(fd, q->file, &at, (size_t)(st.st_size - at)) <= 0)
			r = err_errno(err, "cannot send the archive to the engine");
	return r;
}

/* Takes the events of DATA: 1 once the answer is complete, or a negative errno. */
static int
take(struct h1_reader *reader, const char *data, size_t len, bool ended, struct engine_answer *a, struct buf *body,
     struct err *err)
{
	for (;;) {
		struct http_text piece = {0};
		size_t used = 0;
		enum h1_event event = ended ? h1_read_eof(reader, err) : h1_read(reader, data, len, &used, &piece, err);

		if (event == H1_HEAD)
			a->status = reader->head.status;
		else if (event == H1_BODY)
			buf_put(body, piece.at, piece.len);
		else if (event == H1_MORE)
			return ended ? err_set(err, EPIPE, "the engine hung up") : 0;
		else
			return event == H1_END ? 1 : -EBADMSG;
		data += used;
		len -= used;
	}
}

static int
read_answer(int fd, int64_t deadline, struct engine_answer *a, struct buf *body, struct err *err)
{
	char piece[PIECE];
	struct h1_reader reader;
	int r = 0;

	h1_reader_init(&reader, H1_RESPONSES);
	while (r == 0) {
		ssize_t n;

		r = io_await(fd, deadline);
		if (r < 0) {
			(void)err_set(err, -r, r == -EINTR ? "interrupted while the engine worked" :
			              "the engine did not answer in time");
			break;
		}
		n = read(fd, piece, sizeof(piece));
		r = n < 0 ? err_errno(err, "cannot read the engine's answer") :
		            take(&reader, piece, (size_t)n, n == 0, a, body, err);
	}
	h1_reader_free(&reader);
	return r < 0 ? r : 0;
}

int
engine_ask(const char *socket_path, const struct engine_request *q, struct engine_answer *ret_answer, struct err *err)
{
	OWN(buf_free) struct buf body = BUF(ENGINE_ANSWER_MAX);
	OWN(closep) int fd = dial(socket_path, err);
	struct engine_answer a = {0};
	int r = fd < 0 ? fd : send_request(fd, q, err);

	if (r == 0)
		r = read_answer(fd, io_now_ms() + (int64_t)(q->ms != 0 ? q->ms : ENGINE_MS), &a, &body, err);
	if (r == 0 && buf_failed(&body))
		r = err_set(err, EFBIG, "its answer is over %u MiB", ENGINE_ANSWER_MAX >> 20);
	if (r < 0)
		return err_wrap(err, "engine at '%s'", socket_path);
	buf_put(&body, "", 1);
	if (buf_failed(&body))
		return err_set(err, ENOMEM, "out of memory");
	a.len = body.len - 1;
	a.text = (char *)TAKE(body.data);
	*ret_answer = a;
	return 0;
}

int
engine_refused(const char *what, const struct engine_answer *a, struct err *err)
{
	const char *const key = a->status == 200 ? ENGINE_ERROR : "\"message\":\"", *at = strstr(a->text, key);
	char reason[REASON_MAX + 1];
	size_t n = 0;

	at = at == NULL ? a->text : at + strlen(key);
	for (; *at != '\0' && *at != '"' && *at != '\n' && n < REASON_MAX; at++) {
		if (*at == '\\' && at[1] != '\0')
			at++;
		reason[n++] = *at >= ' ' && *at <= '~' ? *at : '?';
	}
	reason[n] = '\0';
	return err_set(err, a->status == 404 ? ENOENT : a->status == 409 ? EEXIST : EIO, "the engine cannot %s: %s", what,
	               n > 0 ? reason : "it gives no reason");
}

/* ---- where it is ---- */

static bool
is_socket(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

static char *
find_in(const char *folder, const char *name)
{
	OWN(freep) char *path = folder == NULL || folder[0] != '/' ? NULL : str_format("%s/%s", folder, name);

	return path != NULL && is_socket(path) ? TAKE(path) : NULL;
}

static int
name_socket(char **ret_socket, struct err *err)
{
	const char *named = getenv("DOCKER_HOST"), *own = getenv("XDG_RUNTIME_DIR");
	const bool root = geteuid() == 0;
	char *path = NULL;

	if (named != NULL && named[0] != '\0') {
		if (strncmp(named, UNIX, strlen(UNIX)) != 0 || named[strlen(UNIX)] != '/')
			return err_set(err, EINVAL, "DOCKER_HOST is '%.200s': cloister needs an engine on this machine, as "
			               "unix:///PATH", named);
		path = strdup(named + strlen(UNIX));
		if (path == NULL)
			return err_set(err, ENOMEM, "out of memory");
		*ret_socket = path;
		return 0;
	}
	if (!root) {
		path = find_in(own, "docker.sock");
		path = path != NULL ? path : find_in(own, "podman/podman.sock");
	} else {
		path = find_in("/var/run", "docker.sock");
		path = path != NULL ? path : find_in("/run", "podman/podman.sock");
	}
	if (path == NULL)
		return err_set(err, ENOENT, "there is no container engine%s: start Docker, or `systemctl%s start podman.socket`, "
		               "or set DOCKER_HOST", root ? "" : " of this user's", root ? "" : " --user");
	*ret_socket = path;
	return 0;
}

int
engine_find(char **ret_socket, struct err *err)
{
	OWN(freep) char *path = NULL;
	int r = name_socket(&path, err);

	/* An agent that could put a socket of its own there would be the engine. */
	r = r == 0 ? trust_path(TRUST_ENGINE, path, err) : r;
	if (r == 0)
		*ret_socket = TAKE(path);
	return r;
}

int
engine_check_owner(const char *socket_path, struct err *err)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	OWN(closep) int fd = dial(socket_path, err);

	if (fd < 0)
		return fd;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return err_errno(err, "cannot find out whose engine '%s' is", socket_path);
	if (peer.uid != geteuid())
		return err_set(err, EPERM, "the engine at '%s' runs as %s, and cloister as %s: its containers are not this "
		               "user's to set up; use %s", socket_path, peer.uid == 0 ? "root" : "another user",
		               geteuid() == 0 ? "root" : "you", geteuid() == 0 ? "root's engine" :
		               "a rootless engine of your own (`systemctl --user start podman.socket`)");
	return 0;
}

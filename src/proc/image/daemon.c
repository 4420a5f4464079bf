/* daemon.c - asks a Docker engine for an image, over its socket. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "proc/image/image_proc.h"
#include "trust/trust.h"

#define SOCKET_DEFAULT "/var/run/docker.sock"
#define HEAD_MAX 8192
#define MESSAGE_MAX 4096

static int
find_socket(struct sockaddr_un *ret_address, struct err *err)
{
	static const char unix_scheme[] = "unix://";
	const char *host = getenv("DOCKER_HOST"), *path = SOCKET_DEFAULT;

	if (host != NULL && host[0] != '\0') {
		if (strncmp(host, unix_scheme, sizeof(unix_scheme) - 1) != 0)
			return err_set(err, ENOTSUP, "DOCKER_HOST is no unix:// socket: use `docker save` and docker-archive:");
		path = host + sizeof(unix_scheme) - 1;
	}
	ret_address->sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(ret_address->sun_path))
		return err_set(err, ENAMETOOLONG, "the path of Docker's socket is too long");
	memcpy(ret_address->sun_path, path, strlen(path) + 1);
	return trust_path(TRUST_ENGINE, path, err);
}

/* HTTP/1.0: then the archive ends with the connection, and comes without frames. */
static int
ask(int fd, const char *name, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(HEAD_MAX);
	char escaped[3];

	buf_put_text(&b, "GET /images/");
	for (const char *c = name; *c != '\0'; c++)
		if (*c == '/' || *c == ':')
			buf_put(&b, c, 1);
		else
			buf_put(&b, escaped, codec_percent((unsigned char)*c, escaped));
	buf_put_text(&b, "/get HTTP/1.0\r\nHost: docker\r\n\r\n");
	return buf_failed(&b) ? err_set(err, E2BIG, "its name is too long") : write_all(fd, b.data, b.len, err);
}

/* Byte by byte, so that nothing of the archive is read. */
static int
read_head(int fd, char ret_head[HEAD_MAX], struct err *err)
{
	size_t len = 0;

	while (len + 1 < HEAD_MAX && (len < 4 || memcmp(ret_head + len - 4, "\r\n\r\n", 4) != 0)) {
		ssize_t n = read(fd, ret_head + len, 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? err_errno(err, "cannot read its response") : err_set(err, EPROTO, "it did not answer");
		len++;
	}
	ret_head[len] = '\0';
	return strncmp(ret_head, "HTTP/1.", 7) == 0 && len > 12 ? 0 : err_set(err, EPROTO, "it is no HTTP server");
}

/* The engine's own sentence. */
static int
explain(int fd, const char *status, struct err *err)
{
	OWN(freep) char *text = NULL;
	OWN(json_decrefp) json_t *answer = NULL;
	const char *message = NULL;
	size_t len;

	if (read_open(fd, "the response", MESSAGE_MAX, &text, &len, NULL) == 0) {
		answer = json_loadb(text, len, 0, NULL);
		message = json_string_value(json_object_get(answer, "message"));
	}
	return err_set(err, ENOENT, "%.400s", message != NULL ? message : status);
}

int
daemon_get(const char *name, struct err *err)
{
	OWN(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = {0};
	char head[HEAD_MAX];
	int r = find_socket(&address, err);

	if (r < 0)
		return r;
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return err_errno(err, "cannot connect to '%s'", address.sun_path);
	r = ask(fd, name, err);
	if (r == 0)
		r = read_head(fd, head, err);
	if (r < 0)
		return r;
	if (strncmp(head + 8, " 200", 4) != 0) {
		head[strcspn(head, "\r\n")] = '\0';
		return explain(fd, head, err);
	}
	return TAKE_FD(fd);
}

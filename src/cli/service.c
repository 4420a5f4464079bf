/* service.c - see service.h. */
#include "cli/service.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "canon/canon.h"
#include "cell/cell_dirs.h"
#include "http/h1.h"

#define SOCKET_NAME "serve.sock"

/* The folder of the socket, open, and its name there. */
static int
open_folder(const char *path, char ret_name[NAME_MAX + 1], struct err *err)
{
	char folder[PATH_MAX], name[PATH_MAX];
	int fd;

	if (path == NULL) {
		snprintf(ret_name, NAME_MAX + 1, SOCKET_NAME);
		return cell_runtime_open(err);
	}
	snprintf(folder, sizeof(folder), "%s", path);
	snprintf(name, sizeof(name), "%s", path);
	snprintf(ret_name, NAME_MAX + 1, "%.*s", NAME_MAX, basename(name));
	fd = open(dirname(folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_errno(err, "cannot open the folder of the socket '%s'", path) : fd;
}

static int
reach(const char *path, struct err *err)
{
	const struct timeval patience = { .tv_sec = SERVICE_PATIENCE_S };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char name[NAME_MAX + 1];
	OWN(closep) int folder = open_folder(path, name, err);
	OWN(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int n;

	if (folder < 0)
		return folder;
	n = snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", folder, name);
	if (n < 0 || (size_t)n >= sizeof(address.sun_path))
		return err_set(err, ENAMETOOLONG, "the path of the socket '%s' is too long", name);
	if (fd < 0)
		return err_errno(err, "cannot create a socket");
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		if (errno == ENOENT || errno == ECONNREFUSED)
			return err_set(err, ENOENT, "no service is running: start one with `cloister "
			               "serve --listen 127.0.0.1:7878`");
		return err_errno(err, "cannot reach the service");
	}
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return TAKE_FD(fd);
}

/* Consumes DATA; 1 when the response is complete. */
static int
take(struct h1_reader *reader, const char *data, size_t len, struct buf *body, struct err *err)
{
	struct http_text piece;
	size_t used, at = 0;

	for (;;) {
		enum h1_event event = h1_read(reader, data + at, len - at, &used, &piece, err);

		at += used;
		if (event == H1_MORE)
			return 0;
		if (event == H1_END)
			return 1;
		if (event == H1_BAD)
			return -EBADMSG;
		if (event == H1_BODY)
			buf_put(body, piece.at, piece.len);
		if (buf_failed(body))
			return err_set(err, EFBIG, "the response of the service is larger than %u MiB",
			               SERVICE_ANSWER_MAX >> 20);
	}
}

static int
read_answer(int fd, struct h1_reader *reader, struct buf *body, struct err *err)
{
	char data[16 * 1024];
	ssize_t n;
	int r = 0;

	while (r == 0) {
		n = read(fd, data, sizeof(data));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "the service does not answer");
		if (n == 0)
			return h1_read_eof(reader, err) == H1_END ? 0 :
			       err_set(err, EPIPE, "the service ended before it answered");
		r = take(reader, data, (size_t)n, body, err);
	}
	return r < 0 ? r : 0;
}

int
service_ask(const char *socket, const char *method, const char *path, json_t **ret_answer,
            struct err *err)
{
	OWN(h1_reader_free) struct h1_reader reader;
	OWN(buf_free) struct buf body = BUF(SERVICE_ANSWER_MAX);
	OWN(closep) int fd = -1;
	char text[512];
	json_t *answer;
	int r;

	h1_reader_init(&reader, H1_RESPONSES);
	fd = reach(socket, err);
	if (fd < 0)
		return fd;
	snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n%s\r\n",
	         method, path, strcmp(method, "GET") == 0 ? "" : "content-length: 0\r\n");
	r = write_all(fd, text, strlen(text), err);
	r = r == 0 ? read_answer(fd, &reader, &body, err) : r;
	if (r < 0)
		return r;
	answer = canon_value((char *)body.data, body.len);
	if (reader.head.status >= 400) {
		const char *said = json_string_value(json_object_get(json_object_get(answer, "error"), "message"));

		err_set(err, EIO, "%s", said != NULL ? said : "the service cannot do that: is it "
		        "another version?");
		json_decref(answer);
		return -EIO;
	}
	*ret_answer = answer;
	return 0;
}

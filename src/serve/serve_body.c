/* serve_body.c - stores a request's body: in memory while it is short, then in an unnamed file. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/io.h"
#include "serve/serve_parts.h"

size_t
serve_body_kept(const struct serve_door *door)
{
	return door->body_kept != 0 ? door->body_kept : SERVE_BODY_KEPT;
}

static int
spill(struct serve_body *body, int spool)
{
	int fd = spool < 0 ? -1 : openat(spool, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		return -EIO;
	if (write_all(fd, body->data.data, body->data.len, NULL) < 0) {
		close(fd);
		return -EIO;
	}
	buf_free(&body->data);
	body->fd = fd;
	return 0;
}

int
serve_body_add(struct serve_request *q, int spool, const char *data, size_t len)
{
	struct serve_body *body = &q->body;

	if (len > q->body_max || body->len > q->body_max - len)
		return -EFBIG;
	if (body->fd <= 0 && body->len + len > serve_body_kept(q->door) && spill(body, spool) < 0)
		return -EIO;
	if (body->fd > 0) {
		if (write_all(body->fd, data, len, NULL) < 0)
			return -EIO;
	} else {
		buf_put(&body->data, data, len);
		if (buf_failed(&body->data))
			return -EIO;
	}
	body->len += len;
	return 0;
}

void
serve_body_free(struct serve_body *body)
{
	buf_free(&body->data);
	close_fd(&body->fd);
	*body = (struct serve_body){0};
}

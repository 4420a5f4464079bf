/* vm_api.c - see vm_api.h. */
#include "boundary/microvm/vm_api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "http/h1.h"

#define REQUEST_MAX 16384
#define WHY_MAX 160

int
vm_body_begin(struct vm_body *body, struct err *err)
{
	*body = (struct vm_body){0};
	body->json.out = open_memstream(&body->text, &body->len);
	if (body->json.out == NULL)
		return err_set(err, ENOMEM, "out of memory");
	json_open(&body->json, NULL, '{');
	return 0;
}

void
vm_body_free(struct vm_body *body)
{
	if (body->json.out != NULL)
		fclose(body->json.out);
	free(body->text);
}

struct answer {
	unsigned status;
	char why[WHY_MAX + 1];
	size_t len;
};

/* Takes the events of DATA; whether the answer is complete. */
static bool
take(struct h1_reader *reader, const char *data, size_t len, struct answer *a, int *ret_error, struct err *err)
{
	for (;;) {
		struct http_text piece = {0};
		size_t used = 0, room = WHY_MAX - a->len;

		switch (h1_read(reader, data, len, &used, &piece, err)) {
		case H1_HEAD:
			a->status = reader->head.status;
			break;
		case H1_BODY:
			room = piece.len < room ? piece.len : room;
			memcpy(a->why + a->len, piece.at, room);
			a->len += room;
			break;
		case H1_END:
			return true;
		case H1_MORE:
			return false;
		case H1_BAD:
			*ret_error = -EBADMSG;
			return true;
		}
		data += used;
		len -= used;
	}
}

static int
read_answer(struct vm_control *c, struct answer *a, struct err *err)
{
	struct h1_reader reader;
	int r;

	h1_reader_init(&reader, H1_RESPONSES);
	do {
		c->len = 0;
		r = vm_control_read(c, err);
	} while (r == 0 && !take(&reader, c->text, c->len, a, &r, err));
	h1_reader_free(&reader);
	return r;
}

/* Its words, as far as they can stand in a sentence. */
static const char *
words(struct answer *a)
{
	for (size_t i = 0; i < a->len; i++)
		if (a->why[i] < ' ' || a->why[i] > '~')
			a->why[i] = ' ';
	a->why[a->len] = '\0';
	return a->len > 0 ? a->why : "no reason was given";
}

static int
put_request(struct buf *b, const char *method, const char *path, struct vm_body *body, struct err *err)
{
	OWN(freep) char *head = NULL;
	char length[96] = "";

	if (body != NULL) {
		json_close(&body->json, '}');
		if (fflush(body->json.out) != 0)
			return err_set(err, ENOMEM, "out of memory");
		snprintf(length, sizeof(length), "Content-Type: application/json\r\nContent-Length: %zu\r\n", body->len);
	}
	head = str_format("%s %s HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n%s\r\n", method, path,
	                  length);
	if (head == NULL)
		return err_set(err, ENOMEM, "out of memory");
	buf_put(b, head, strlen(head));
	if (body != NULL)
		buf_put(b, body->text, body->len);
	return buf_failed(b) ? err_set(err, E2BIG, "the virtual machine's description is too large") : 0;
}

int
vm_api_ask(struct vm_control *c, const char *who, const char *method, const char *path, struct vm_body *body,
           int fd, struct err *err)
{
	OWN(buf_free) struct buf request = BUF(REQUEST_MAX);
	struct answer a = {0};
	const char *why;
	int r = put_request(&request, method, path, body, err);

	if (r == 0)
		r = vm_control_send(c, request.data, request.len, fd, err);
	if (r == 0)
		r = read_answer(c, &a, err);
	if (r == -EBADMSG)
		return err_wrap(err, "%s does not answer in HTTP", who);
	if (r < 0 || (a.status >= 200 && a.status <= 299))
		return r;
	why = words(&a);
	return err_set(err, EIO, "%s refused %s (%u): %s", who, path, a.status, why);
}

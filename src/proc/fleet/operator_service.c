/* operator_service.c - see operator.h: requests to the service, with an agent's rights. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "dispatch/dispatch.h"
#include "fleet/fleet.h"
#include "http/h1.h"
#include "proc/fleet/operator.h"

#define PATIENCE_S 20
#define EVENTS 64                       /* of a dispatch, in which its start is */

static bool
is_id(const char *text)
{
	return strlen(text) == DISPATCH_ID_LEN && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789") == DISPATCH_ID_LEN;
}

/* The error of an answer, as the service says it. */
static int
refused(unsigned status, const json_t *answer, struct err *err)
{
	char text[FLEET_WHY_MAX];

	fleet_say(text, sizeof(text), kube_text(answer, "error", "message", NULL));
	return err_set(err, status == 404 ? ENOENT : status == 409 ? EEXIST : status >= 500 || status == 429 ? EAGAIN : EINVAL,
	               "%s", *text != '\0' ? text : "the service refuses");
}

/* ---- one request, on a connection of its own ---- */

static struct http_text
text_of(const char *text)
{
	return (struct http_text){ text, strlen(text) };
}

static int
send_request(int fd, const char *method, const char *path, const char *body, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(HTTP_HEAD_MAX);
	struct http_head head = { .method = text_of(method), .host = text_of("localhost"), .path = text_of(path), .port = 80,
	                          .scheme = HTTP_PLAIN };
	int r;

	if (body != NULL) {
		head.length = strlen(body);
		head.fields[head.n_fields++] = (struct http_field){ text_of("content-type"), text_of("application/json") };
	}
	h1_write_head(&b, &head, (struct h1_style){ .keep_alive = false });
	r = buf_failed(&b) ? err_set(err, ENOMEM, "out of memory") : write_all(fd, b.data, b.len, err);
	return r == 0 && body != NULL ? write_all(fd, body, strlen(body), err) : r;
}

/* 1: the answer is whole. */
static int
take(struct h1_reader *reader, const char *data, size_t len, struct buf *body, unsigned *ret_status, struct err *err)
{
	struct http_text piece;
	size_t used;

	for (;;) {
		enum h1_event event = h1_read(reader, data, len, &used, &piece, err);

		data += used;
		len -= used;
		if (event == H1_MORE || event == H1_END)
			return event == H1_END;
		if (event == H1_HEAD)
			*ret_status = reader->head.status;
		else if (event == H1_BODY)
			buf_put(body, piece.at, piece.len);
		else
			return err_set(err, EPROTO, "the service is of another version");
		if (buf_failed(body))
			return err_set(err, EFBIG, "the answer of the service is too large");
	}
}

static int
receive(int fd, struct buf *body, unsigned *ret_status, struct err *err)
{
	OWN(h1_reader_free) struct h1_reader reader;
	char data[16 * 1024];
	ssize_t n;
	int r = 0;

	h1_reader_init(&reader, H1_RESPONSES);
	while (r == 0) {
		n = read(fd, data, sizeof(data));
		if (n < 0)
			return err_errno(err, "the service does not answer");
		if (n == 0)
			return h1_read_eof(&reader, err) == H1_END ? 0 : err_set(err, EPIPE, "the service broke off");
		r = take(&reader, data, (size_t)n, body, ret_status, err);
	}
	return r < 0 ? r : 0;
}

/* BODY has a NUL behind its end. */
static int
exchange(struct op *op, const char *method, const char *path, const char *said, struct buf *body, unsigned *ret_status,
         struct err *err)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	OWN(closep) int fd = operator_dial(op->channel);
	int r;

	if (fd < 0)
		return err_set(err, EAGAIN, "the service cannot be reached: does `cloister serve` run?");
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	r = send_request(fd, method, path, said, err);
	r = r == 0 ? receive(fd, body, ret_status, err) : r;
	buf_put(body, "", 1);
	return r == 0 && buf_failed(body) ? err_set(err, ENOMEM, "out of memory") : r;
}

static int
ask(struct op *op, const char *method, const char *path, json_t *said, json_t **ret_answer, struct err *err)
{
	OWN(buf_free) struct buf body = BUF(FLEET_BODY_MAX);
	OWN(json_decrefp) json_t *answer = NULL;
	OWN(freep) char *text = said != NULL ? json_dumps(said, JSON_COMPACT) : NULL;
	unsigned status = 0;
	int r = said != NULL && text == NULL ? err_set(err, ENOMEM, "out of memory") :
	        exchange(op, method, path, text, &body, &status, err);

	if (r < 0)
		return r;
	answer = json_loadb((char *)body.data, body.len - 1, 0, NULL);
	if (status >= 300)
		return refused(status, answer, err);
	if (ret_answer != NULL)
		*ret_answer = TAKE(answer);
	return 0;
}

int
op_service_dispatch(struct op *op, const char *agent, const char *uid, const char *principal, char ret_id[OP_ID_MAX + 1],
                    struct err *err)
{
	OWN(json_decrefp) json_t *answer = NULL, *body = json_pack("{s:s, s:b, s:s, s:s+}", "agent", agent, "sandbox", 1,
		"on_behalf_of", principal, "idempotency_key", "kubernetes-", uid);
	const char *id;
	int r = body == NULL ? err_set(err, EINVAL, "the name of the agent is none") :
	        ask(op, "POST", "/v1/dispatches", body, &answer, err);

	if (r < 0)
		return r;
	id = kube_text(answer, "id", NULL, NULL);
	if (!is_id(id))
		return err_set(err, EAGAIN, "the service is of another version");
	snprintf(ret_id, OP_ID_MAX + 1, "%s", id);
	return 0;
}

int
op_service_look(struct op *op, const char *id, struct op_dispatch *ret_d, struct err *err)
{
	OWN(json_decrefp) json_t *answer = NULL;
	char path[64];
	int r;

	if (!is_id(id))
		return err_set(err, ENOENT, "this is the id of no dispatch");
	snprintf(path, sizeof(path), "/v1/dispatches/%s", id);
	r = ask(op, "GET", path, NULL, &answer, err);
	if (r < 0)
		return r;
	fleet_say(ret_d->state, sizeof(ret_d->state), kube_text(answer, "state", NULL, NULL));
	fleet_say(ret_d->reason, sizeof(ret_d->reason), kube_text(answer, "reason", NULL, NULL));
	snprintf(ret_d->principal, sizeof(ret_d->principal), "%s", kube_text(answer, "principal", NULL, NULL));
	ret_d->exit_code = (int)json_integer_value(json_object_get(answer, "exit_code"));
	return 0;
}

int
op_service_has_started(struct op *op, const char *id, bool *ret_has, struct err *err)
{
	OWN(buf_free) struct buf body = BUF(FLEET_BODY_MAX);
	unsigned status = 0;
	char path[96];
	int r;

	snprintf(path, sizeof(path), "/v1/dispatches/%s/events?follow=false&limit=%d", id, EVENTS);
	r = exchange(op, "GET", path, NULL, &body, &status, err);
	/* No text inside has such quotes. */
	*ret_has = r == 0 && status == 200 && strstr((char *)body.data, "\"event\":\"agent.started\"") != NULL;
	return r;
}

int
op_service_cancel(struct op *op, const char *id, struct err *err)
{
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/v1/dispatches/%s/cancel", id);
	r = ask(op, "POST", path, NULL, NULL, err);
	/* It is over. */
	return r == -EEXIST ? 0 : r;
}

/* The server makes uids, and this one goes into a path. */
static bool
is_uid(const char *text)
{
	size_t len = strlen(text);

	return len > 0 && len <= OP_UID_MAX && strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == len;
}

static unsigned
count_of(const json_t *answer, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(answer, name));

	return n < 0 ? 0 : n > OP_REPLICAS_MAX ? OP_REPLICAS_MAX : (unsigned)n;
}

int
op_service_reserve(struct op *op, const char *agent, const char *uid, unsigned slots, unsigned *ret_slots, unsigned *ret_ready,
                   struct err *err)
{
	OWN(json_decrefp) json_t *answer = NULL, *body = json_pack("{s:s?, s:i}", "agent", agent, "slots", (int)slots);
	char path[96];
	int r;

	if (body == NULL || !is_uid(uid))
		return err_set(err, EINVAL, "the name of the agent is none");
	snprintf(path, sizeof(path), "/v1/reserves/kubernetes-%s", uid);
	r = ask(op, "PUT", path, body, &answer, err);
	if (r < 0)
		return r;
	*ret_slots = count_of(answer, "slots");
	*ret_ready = count_of(answer, "free");
	return 0;
}

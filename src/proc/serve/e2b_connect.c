/* e2b_connect.c - Connect's protocol with JSON, as far as E2B's SDKs need it: messages of streams, and errors. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/num.h"
#include "base/own.h"
#include "canon/canon.h"
#include "proc/serve/e2b.h"

#define HEAD_LEN 5                      /* of a message: flags, and its length */
#define FLAG_END 2
#define YEAR_10000_MS 253402300800000ull

static const struct {
	const char *code;               /* the service's */
	const char *rpc;                /* Connect's */
	unsigned status;                /* that Connect has for it */
} codes[] = {
	{ "not_found", "not_found", 404 },          { "invalid", "invalid_argument", 400 },
	{ "bad_request", "invalid_argument", 400 }, { "not_json", "invalid_argument", 400 },
	{ "conflict", "already_exists", 409 },      { "over", "unavailable", 503 },
	{ "forbidden", "permission_denied", 403 },  { "unauthorized", "unauthenticated", 401 },
	{ "unsupported", "unimplemented", 501 },    { "method_not_allowed", "unimplemented", 501 },
	{ "no_space", "resource_exhausted", 429 },  { "busy", "resource_exhausted", 429 },
	{ "too_large", "invalid_argument", 400 },
};

bool
e2b_is_inside(const char *path)
{
	static const char *const services[] = { "/process.Process/", "/filesystem.Filesystem/" };

	for (size_t i = 0; i < ARRAY_LEN(services); i++)
		if (strncmp(path, services[i], strlen(services[i])) == 0)
			return true;
	return strcmp(path, "/files") == 0 || strcmp(path, "/health") == 0;
}

static bool
is_stream(const char *path)
{
	static const char *const streams[] = { "/process.Process/Start", "/process.Process/Connect",
	                                       "/filesystem.Filesystem/WatchDir" };

	for (size_t i = 0; i < ARRAY_LEN(streams); i++)
		if (strcmp(path, streams[i]) == 0)
			return true;
	return false;
}

const char *
e2b_text(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

uint64_t
e2b_read_timeout(const struct serve_request *q)
{
	char text[24];
	uint64_t ms = 0;

	return serve_read_field(q, "connect-timeout-ms", text, sizeof(text)) &&
	       num_parse_count(text, 0, INT32_MAX, &ms, NULL) == 0 ? ms : 0;
}

json_t *
e2b_time(uint64_t ms)
{
	time_t seconds = (time_t)(ms / 1000);
	char day[40], text[64];
	struct tm tm;

	if (ms >= YEAR_10000_MS || gmtime_r(&seconds, &tm) == NULL)
		return json_null();
	strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text, sizeof(text), "%s.%03uZ", day, (unsigned)(ms % 1000));
	return json_string(text);
}

/* ---- messages ---- */

int
e2b_read_message(struct api_call *c)
{
	const struct buf *data = &c->q->body.data;
	const unsigned char *at = data->data;
	size_t len;

	if (data->len < HEAD_LEN)
		return api_fail_with(c, 400, "invalid", "the body is no message of Connect's");
	len = (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4];
	if (at[0] != 0)
		return api_fail_with(c, 501, "unsupported", "compressed messages are not served");
	if (len != data->len - HEAD_LEN)
		return api_fail_with(c, 400, "invalid", "the body is not exactly one message");
	if (canon_read((const char *)at + HEAD_LEN, len, &c->body, &c->err) < 0) {
		err_wrap(&c->err, "the message cannot be read as JSON");
		return api_fail_as(c, 400, "invalid");
	}
	return json_is_object(c->body) ? 0 : api_fail_with(c, 400, "invalid", "the message is no object");
}

/* One message in new memory, or NULL; the caller frees it. */
static unsigned char *
pack(unsigned flags, const json_t *message, size_t *ret_len)
{
	OWN(freep) char *text = json_dumps(message, JSON_COMPACT | JSON_ENSURE_ASCII);
	size_t len = text != NULL ? strlen(text) : 0;
	unsigned char *data = text != NULL ? malloc(HEAD_LEN + len) : NULL;

	if (data == NULL)
		return NULL;
	data[0] = (unsigned char)flags;
	for (int i = 0; i < 4; i++)
		data[1 + i] = (unsigned char)(len >> (24 - 8 * i));
	memcpy(data + HEAD_LEN, text, len);
	*ret_len = HEAD_LEN + len;
	return data;
}

bool
e2b_send(struct serve_request *q, json_t *message)
{
	size_t len = 0;
	OWN(freep) unsigned char *data = pack(0, message, &len);

	json_decref(message);
	return data == NULL || serve_send(q, data, len);
}

static unsigned char *
pack_end(const char *code, const char *message, size_t *ret_len)
{
	OWN(json_decrefp) json_t *end = code == NULL ? json_object() :
		json_pack("{s:{s:s, s:s}}", "error", "code", code, "message", message);

	return pack(FLAG_END, end, ret_len);
}

void
e2b_send_end(struct serve_request *q, const char *code, const char *message)
{
	size_t len = 0;
	OWN(freep) unsigned char *data = pack_end(code, message, &len);

	if (data != NULL)
		(void)serve_send(q, data, len);
}

void
e2b_send_late(struct serve_request *q)
{
	e2b_send_end(q, "deadline_exceeded", "the timeout of the request is over");
}

/* ---- errors ---- */

static void
refuse_stream(struct serve_request *q, const char *code, const char *message)
{
	size_t len = 0;
	OWN(freep) unsigned char *data = pack_end(code, message, &len);

	serve_answer(q, 200, E2B_STREAM, data, len);
}

static void
refuse_with(struct serve_request *q, unsigned status, json_t *code, const char *message)
{
	OWN(json_decrefp) json_t *error = json_pack("{s:o, s:s}", "code", code, "message", message);
	OWN(freep) char *text = json_dumps(error, JSON_COMPACT | JSON_ENSURE_ASCII);

	serve_answer(q, status, "application/json", text, text != NULL ? strlen(text) : 0);
}

void
e2b_refuse(struct serve_request *q, unsigned status, const char *code, const char *message)
{
	const char *path = q->path != NULL ? q->path : "", *rpc = "internal";
	unsigned its_status = 500;

	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		if (strcmp(codes[i].code, code) == 0) {
			rpc = codes[i].rpc;
			its_status = codes[i].status;
		}
	/* E2B's edge answers so for a sandbox that is over. */
	if (e2b_is_inside(path) && strcmp(code, "over") == 0)
		status = 502;
	if (is_stream(path))
		refuse_stream(q, rpc, message);
	else if (e2b_is_inside(path) && path[1] != 'h' && strcmp(path, "/files") != 0)
		refuse_with(q, its_status, json_string(rpc), message);
	else
		refuse_with(q, status, json_integer(status), message);
}

/* mcp_http.c - MCP over HTTP at /mcp: connects the server, whose door decides on access (serve.h),
 * with the protocol in mcp/. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "cell/cell_net.h"
#include "ipc/mcp_channel.h"
#include "proc/mcp/mcp_proc.h"

#define FIELD_MAX 512

/* The fields of a request; missing ones are NULL. */
struct asked {
	char session[FIELD_MAX], version[FIELD_MAX], method[FIELD_MAX], name[FIELD_MAX],
		last[FIELD_MAX];
	bool has_session, has_last;
	struct mcp_fields fields;
};

static void
read_fields(const struct serve_request *q, struct asked *a)
{
	a->has_session = serve_read_field(q, "mcp-session-id", a->session, FIELD_MAX);
	a->has_last = serve_read_field(q, "last-event-id", a->last, FIELD_MAX);
	a->fields.version = serve_read_field(q, "mcp-protocol-version", a->version, FIELD_MAX) ? a->version : NULL;
	a->fields.method = serve_read_field(q, "mcp-method", a->method, FIELD_MAX) ? a->method : NULL;
	a->fields.name = serve_read_field(q, "mcp-name", a->name, FIELD_MAX) ? a->name : NULL;
}

static void
answer(struct serve_request *q, unsigned status, json_t *message)
{
	OWN(freep) char *text = jsonrpc_write(message);

	json_decref(message);
	if (text == NULL)
		serve_refuse(q, 503, "memory", NULL, "out of memory");
	else
		serve_answer(q, status, "application/json", text, strlen(text));
}

/* ---- POST ---- */

static void
reply(struct serve_request *q, struct session *s, const struct jsonrpc *m, const struct asked *a)
{
	struct stream *stream = stream_new(q, s);
	struct mcp_reply r;

	if (stream == NULL ||
	    mcp_receive(q->token[0] != '\0' ? &mcp_guest_config : &mcp_config, s != NULL ? &s->peer : &stream->own, &a->fields, m, &r) < 0) {
		serve_refuse(q, 503, "memory", NULL, "out of memory");
		if (stream != NULL) {
			stream->q = NULL;
			stream_free(stream);
		}
		return;
	}
	if (r.call != NULL) {
		stream_begin(stream, r.call);
		return;
	}
	stream->q = NULL;
	stream_free(stream);
	if (r.cancel != NULL)
		job_cancel(r.cancel->app);
	if (r.begins)
		serve_field(q, "mcp-session-id", s->id);
	if (r.message != NULL)
		answer(q, r.status, r.message);
	else
		serve_answer(q, r.status, NULL, NULL, 0);
}

/* For the older revisions: the session that the request names. */
static struct session *
find_session(struct serve_request *q, const struct asked *a)
{
	struct session *s = a->has_session ? mcp_session_find(a->session, q->token) : NULL;

	if (!a->has_session)
		serve_refuse(q, 400, "session", NULL, "'Mcp-Session-Id' is missing: send `initialize` "
		             "first");
	else if (s == NULL)
		serve_refuse(q, 404, "session", NULL, "there is no such session: send `initialize` again");
	return s;
}

static void
post(struct serve_request *q, const struct asked *a)
{
	OWN(jsonrpc_free) struct jsonrpc m = {0};
	struct session *s = NULL;
	json_t *error = NULL;

	if (jsonrpc_read((char *)q->body.data.data, q->body.data.len, &m, &error) < 0) {
		answer(q, 400, error);
		return;
	}
	if (mcp_is_modern(&a->fields, &m)) {
		if (m.kind == JSONRPC_RESPONSE)
			serve_refuse(q, 400, "response", NULL, "this response answers no open request");
		else
			reply(q, NULL, &m, a);
		return;
	}
	if (m.kind == JSONRPC_REQUEST && strcmp(m.method, "initialize") == 0 && !a->has_session) {
		s = mcp_session_new(q->token);
		if (s == NULL) {
			serve_refuse(q, 503, "memory", NULL, "out of memory");
			return;
		}
		reply(q, s, &m, a);
		/* The request did not begin a session. */
		if (s->peer.version == NULL)
			mcp_session_end(s);
		return;
	}
	/* An unknown version is reported before an unknown session. */
	s = mcp_speaks(a->fields.version) ? find_session(q, a) : NULL;
	if (s != NULL || !mcp_speaks(a->fields.version))
		reply(q, s, &m, a);
}

/* ---- GET, DELETE ---- */

static void
get(struct serve_request *q, const struct asked *a)
{
	struct session *s;

	/* This server sends nothing on its own. */
	if (!a->has_last || !a->has_session) {
		serve_field(q, "allow", a->has_session ? "POST, DELETE" : "POST");
		serve_refuse(q, 405, "method", NULL, "there is nothing to listen to: send a message by POST");
		return;
	}
	s = find_session(q, a);
	if (s != NULL && !stream_resume(s, q, a->last))
		serve_refuse(q, 404, "event", NULL, "that event is no longer known");
}

static void
delete(struct serve_request *q, const struct asked *a)
{
	struct session *s;

	if (!a->has_session) {
		serve_field(q, "allow", "POST");
		serve_refuse(q, 405, "method", NULL, "there is no session to end");
		return;
	}
	s = find_session(q, a);
	if (s == NULL)
		return;
	mcp_session_end(s);
	serve_answer(q, 204, NULL, NULL, 0);
}

/* ---- requests ---- */

/* "ID.HEX"; nothing else can be a dispatch's token. */
static bool
is_of_dispatch(const char *token)
{
	static const char hex[] = "0123456789abcdef";

	return strspn(token, "abcdefghijklmnopqrstuvwxyz234567") == 16 && token[16] == '.' &&
	       strspn(token + 17, hex) == 64 && token[17 + 64] == '\0';
}

static void
take_head(void *arg, struct serve_request *q)
{
	(void)arg;
	if (q->token[0] != '\0' && !is_of_dispatch(q->token))
		serve_refuse_token(q, "the token is wrong");
	else if (strcmp(q->path, "/mcp") != 0)
		serve_refuse(q, 404, "not_found", NULL, "there is only /mcp here");
	else if (http_text_is(q->head.method, "POST") && serve_events_fit(q, false))
		q->body_max = SERVE_BODY_KEPT;
}

static void
deal_with(struct serve_request *q)
{
	struct asked a = {0};

	read_fields(q, &a);
	if (http_text_is(q->head.method, "POST"))
		post(q, &a);
	else if (http_text_is(q->head.method, "GET") && !q->is_head)
		get(q, &a);
	else if (http_text_is(q->head.method, "DELETE"))
		delete(q, &a);
	else {
		serve_field(q, "allow", "POST, GET, DELETE");
		serve_refuse(q, 405, "method", NULL, "send messages by POST");
	}
}

/* ---- requests with a token that is not the server's own ---- */

static void
checked(struct job *job, json_t *message, bool last)
{
	struct serve_request *q = job->arg;
	unsigned status = mcp_call_checked(job->call);

	json_decref(message);
	if (!last)
		return;
	if (status == 200 && !q->is_gone)
		deal_with(q);
	else if (status == 401)
		serve_refuse_token(q, "the token belongs to no running dispatch");
	else
		serve_refuse(q, 503, "unavailable", NULL, "the service cannot be reached: try again later");
}

/* Checked for each request: a dispatch may be over. */
static void
take_request(void *arg, struct serve_request *q)
{
	static const struct job_handler handler = { .say = checked };
	static struct mcp_peer nobody;

	(void)arg;
	if (q->token[0] == '\0')
		deal_with(q);
	else if (job_new(mcp_call_check(&mcp_guest_config, &nobody), q->token, &handler, q) == NULL)
		serve_refuse(q, 503, "busy", NULL, "too many messages are being handled: try again later");
}

/* Nothing was kept of it. */
static void
lose_request(void *arg, struct serve_request *q)
{
	(void)arg;
	(void)q;
}

static const struct serve_handler handler = { .head = take_head, .request = take_request,
                                              .lost = lose_request };

int
http_begin(uint16_t port, const struct serve_token *token, struct err *err)
{
	const struct serve_door door = { .fd = MCP_LISTENER_FD, .role = SERVE_AGENT, .is_tcp = true,
		.port = port, .takes_local_origin = token != NULL, .tokens = token,
		.n_tokens = token != NULL, .hears_tokens = true,
		.also_called = token != NULL ? NULL : CELL_NET_HOST_NAME };
	struct serve_server *server;
	int r = serve_new(mcp_loop, &handler, NULL, -1, &server, err);

	return r < 0 ? r : serve_open_door(server, &door, err);
}

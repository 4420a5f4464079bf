/* tools_http.c - MCP over HTTP at /mcp, for the agent: streamable HTTP, and the HTTP with events of 2024-11-05.
 *
 * Who the client is needs no proof: the courier gives connections of this one cell only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/own.h"
#include "proc/tools/tools_worker.h"

#define FIELD_MAX 128
#define OLD "session="                  /* the query of a session of 2024-11-05 */

static struct serve_server *server;

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

/* The session that the request names, in its query if it is an old one. */
static struct session *
find_session(struct serve_request *q)
{
	char id[FIELD_MAX];
	struct session *s;

	if (strncmp(q->query, OLD, strlen(OLD)) == 0)
		snprintf(id, sizeof(id), "%s", q->query + strlen(OLD));
	else if (!serve_read_field(q, "mcp-session-id", id, FIELD_MAX)) {
		serve_refuse(q, 400, "session", NULL, "'Mcp-Session-Id' is missing: send `initialize` first");
		return NULL;
	}
	s = gateway_session_find(id);
	if (s == NULL)
		serve_refuse(q, 404, "session", NULL, "there is no such session: send `initialize` again");
	return s;
}

/* ---- POST ---- */

static void
initialize(struct serve_request *q, const struct jsonrpc *m)
{
	struct session *s = gateway_session_new();
	json_t *message = s == NULL ? NULL : call_welcome(s, m);

	if (message == NULL) {
		serve_refuse(q, 503, "memory", NULL, "out of memory");
		return;
	}
	if (s->version == NULL) {
		gateway_session_end(s);
		answer(q, 400, message);
		return;
	}
	serve_field(q, "mcp-session-id", s->id);
	answer(q, 200, message);
}

/* All answers of an old session come over its one stream. */
static void
take_old(struct session *s, struct serve_request *q, const struct jsonrpc *m)
{
	serve_answer(q, 202, NULL, NULL, 0);
	if (m->kind == JSONRPC_RESPONSE)
		reverse_answer(s, m);
	else if (m->kind == JSONRPC_NOTIFICATION)
		call_note(s, m);
	else if (s->listener == NULL)
		return;
	else if (strcmp(m->method, "initialize") == 0 && s->version == NULL)
		(void)channel_send(s->listener, call_welcome(s, m));
	else
		call_begin(s, s->listener, m);
}

static bool
speaks(const struct serve_request *q, const struct session *s)
{
	char version[FIELD_MAX];

	return !serve_read_field(q, "mcp-protocol-version", version, FIELD_MAX) || s->version == NULL ||
	       strcmp(version, s->version) == 0;
}

static void
take_message(struct session *s, struct serve_request *q, const struct jsonrpc *m)
{
	struct channel *channel;

	if (m->kind != JSONRPC_REQUEST) {
		serve_answer(q, 202, NULL, NULL, 0);
		if (m->kind == JSONRPC_RESPONSE)
			reverse_answer(s, m);
		else
			call_note(s, m);
		return;
	}
	channel = channel_new(s, q);
	if (channel == NULL)
		serve_refuse(q, 503, "memory", NULL, "out of memory");
	else
		call_begin(s, channel, m);
}

static void
post(struct serve_request *q)
{
	OWN(jsonrpc_free) struct jsonrpc m = {0};
	json_t *error = NULL;
	struct session *s;
	char id[FIELD_MAX];

	if (jsonrpc_read((char *)q->body.data.data, q->body.data.len, &m, &error) < 0) {
		answer(q, 400, error);
		return;
	}
	if (m.kind == JSONRPC_REQUEST && strcmp(m.method, "initialize") == 0 && q->query[0] == '\0' &&
	    !serve_read_field(q, "mcp-session-id", id, FIELD_MAX)) {
		initialize(q, &m);
		return;
	}
	s = find_session(q);
	if (s == NULL)
		return;
	if (!speaks(q, s))
		serve_refuse(q, 400, "version", NULL, "'MCP-Protocol-Version' is not the session's");
	else if (s->is_old)
		take_old(s, q, &m);
	else
		take_message(s, q, &m);
}

/* ---- GET, DELETE ---- */

/* The client wants to be told where to send its messages: HTTP with events of 2024-11-05. */
static void
begin_old(struct serve_request *q)
{
	struct session *s = gateway_session_new();
	struct channel *channel = s == NULL ? NULL : channel_new(s, q);
	char where[sizeof("/mcp?" OLD) + GATEWAY_ID_LEN];

	if (channel == NULL) {
		serve_refuse(q, 503, "memory", NULL, "out of memory");
		return;
	}
	s->is_old = true;
	snprintf(where, sizeof(where), "/mcp?" OLD "%s", s->id);
	channel->events.keeps = false;
	channel_listen(channel);
	if (serve_events_add(&channel->events, "endpoint", where))
		serve_events_pump(&channel->events);
}

static void
get(struct serve_request *q)
{
	char last[FIELD_MAX], id[FIELD_MAX];
	struct channel *channel;
	struct session *s;

	if (!serve_read_field(q, "mcp-session-id", id, FIELD_MAX)) {
		begin_old(q);
		return;
	}
	s = find_session(q);
	if (s == NULL)
		return;
	if (serve_read_field(q, "last-event-id", last, FIELD_MAX) && channel_resume(s, q, last))
		return;
	channel = channel_new(s, q);
	if (channel == NULL)
		serve_refuse(q, 503, "memory", NULL, "out of memory");
	else
		channel_listen(channel);
}

static void
delete(struct serve_request *q)
{
	struct session *s = find_session(q);

	if (s == NULL)
		return;
	gateway_session_end(s);
	serve_answer(q, 204, NULL, NULL, 0);
}

/* ---- requests ---- */

/* The courier decided on what is in a coded body, and we would read something else. */
static bool
is_plain(struct serve_request *q)
{
	if (http_head_get(&q->head, "content-encoding").len == 0)
		return true;
	serve_refuse(q, 415, "encoding", NULL, "a message is sent without a 'Content-Encoding'");
	return false;
}

static void
take_head(void *arg, struct serve_request *q)
{
	(void)arg;
	if (strcmp(q->path, "/mcp") != 0)
		serve_refuse(q, 404, "not_found", NULL, "there is only /mcp here");
	else if (http_text_is(q->head.method, "POST") && is_plain(q) && serve_events_fit(q, q->query[0] != '\0'))
		q->body_max = GATEWAY_MESSAGE_MAX;
}

static void
take_request(void *arg, struct serve_request *q)
{
	(void)arg;
	if (http_text_is(q->head.method, "POST"))
		post(q);
	else if (http_text_is(q->head.method, "GET") && !q->is_head)
		get(q);
	else if (http_text_is(q->head.method, "DELETE"))
		delete(q);
	else {
		serve_field(q, "allow", "POST, GET, DELETE");
		serve_refuse(q, 405, "method", NULL, "send messages by POST");
	}
}

/* Nothing was kept of it. */
static void
lose_request(void *arg, struct serve_request *q)
{
	(void)arg;
	(void)q;
}

int
tools_http_begin(struct err *err)
{
	static const struct serve_handler handler = { .head = take_head, .request = take_request, .lost = lose_request };
	const struct serve_door door = { .fd = -1, .role = SERVE_AGENT, .takes_local_origin = true,
	                                 .body_kept = GATEWAY_MESSAGE_MAX };
	int r = serve_new(gateway_loop, &handler, NULL, -1, &server, err);

	return r < 0 ? r : serve_open_door(server, &door, err);
}

void
tools_http_give(int fd)
{
	serve_give(server, fd);
}

/* api_follow.c - how a client wants to follow a source: by its Accept, its query and Last-Event-ID. */
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "proc/serve/api.h"
#include "proc/serve/checker.h"
#include "proc/serve/follow.h"
#include "proc/serve/live.h"

bool
api_accepts(const struct serve_request *q, const char *type)
{
	for (size_t i = 0; i < q->head.n_fields; i++) {
		const struct http_field *field = &q->head.fields[i];

		if (http_text_is(field->name, "accept") &&
		    memmem(field->value.at, field->value.len, type, strlen(type)) != NULL)
			return true;
	}
	return false;
}

static int
take_last_id(struct api_call *c, uint64_t *after)
{
	struct http_text said = http_head_get(&c->q->head, "last-event-id");
	char text[32];

	if (said.len == 0)
		return 0;
	snprintf(text, sizeof(text), "%.*s", (int)(said.len < 31 ? said.len : 31), said.at);
	if (num_parse_count(text, 0, INT64_MAX, after, NULL) < 0)
		return api_fail_with(c, 400, "invalid", "Last-Event-ID must be the number of an event");
	return 0;
}

int
api_follow_prepare(struct api_call *c, bool always)
{
	struct follow_source *s = c->source;

	s->sse = api_accepts(c->q, "text/event-stream");
	if (api_query_bool(c, "follow", always || s->sse, &s->follow) < 0 ||
	    api_query_number(c, "after", 0, INT64_MAX, 0, &s->after) < 0 ||
	    api_query_number(c, "limit", 1, INT64_MAX, 0, &s->limit) < 0 ||
	    take_last_id(c, &s->after) < 0)
		return -EINVAL;
	return 0;
}

void
api_follow_begin(struct api_call *c)
{
	struct follow_source *source = c->source;

	if (c->is_all_told) {
		serve_answer(c->q, 204, NULL, NULL, 0);
		c->q = NULL;
		return;
	}
	c->source = NULL;
	c->q->app = NULL;
	follow_begin(c->api->follow, c->q, source);
	c->q = NULL;
}

/* The stream has no end, so a client that accepts only other types would wait for ever. */
int
api_live(struct api_call *c)
{
	return api_accepts(c->q, "text/event-stream") ? 0 :
	       api_fail_with(c, 406, "not_acceptable", "this stream has no end: send 'Accept: "
	                     "text/event-stream'");
}

void
api_live_begin(struct api_call *c)
{
	c->q->app = NULL;
	live_begin(c->api->live, c->q);
	c->q = NULL;
}

void
api_audit_state_begin(struct api_call *c)
{
	c->answer = checker_state(c->api->checker);
	api_answer(c);
}

/* record.c - records exchanges; never a body, a header's value or a query. */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "egress/courier.h"
#include "egress/git.h"
#include "egress/secrets_parts.h"
#include "ipc/courier_channel.h"
#include "ipc/ipc.h"

#define NAMES_RECENT 32                 /* names whose lookups are recorded once */
#define NAMES_RECENT_MS 10000

static const char *const types[] = { "http", "tcp", "tls" };
static const char *const vias[] = { "transparent", "connect", "socks" };

/* Describe the rule, if there is one. */
static void
put_rule(struct events *e, const struct exchange *ex)
{
	const struct policy *p = ex->policy->policy;
	const char *places[POLICY_LOGGED_MAX];

	if (!ex->learned) {
		event_str(e, "rule", policy_rule_place(p, ex->decision.rule));
		event_str(e, "rule_text", policy_rule_text(p, ex->decision.rule));
		event_str(e, "reason", ex->decision.reason);
		if (ex->decision.layer > 0)
			event_u64(e, "layer", ex->decision.layer);
	}
	for (size_t i = 0; i < ex->logged.n; i++)
		places[i] = policy_rule_place(p, ex->logged.rules[i]);
	if (ex->logged.n > 0)
		event_list(e, "logged", places, ex->logged.n);
}

/* As refspecs: "+refs/heads/x" by force, ":refs/heads/x" deleted. */
static void
put_refs(struct events *e, const char *pushed)
{
	const char *refs[COURIER_GIT_REFS_MAX];
	char room[INSPECT_PUSHED_MAX];
	size_t n = courier_git_refs(pushed, room, refs);

	if (n > 0)
		event_list(e, "refs", refs, n);
	if (courier_git_has(pushed, 'o'))
		event_true(e, "push_options");
}

/* "tool": "github.create_issue", "server": "github"; "rpc": "tools/list" of what calls nothing. */
static void
put_call(struct events *e, const char *call)
{
	const char *space = strchr(call, ' '), *name = space != NULL ? space + 1 : "";
	bool is_method = strncmp(call, "method ", 7) == 0;
	char kind[16];

	snprintf(kind, sizeof(kind), "%.*s", space != NULL ? (int)(space - call) : 0, call);
	if (*name == '\0')
		return;
	event_str(e, is_method ? "rpc" : kind, name);
	if (!is_method)
		event_text(e, "server", name, strcspn(name, "./"));
}

static void
put_target(struct events *e, const struct exchange *ex)
{
	const char *query;
	size_t len;

	if (ex->kind == EXCHANGE_HTTP) {
		event_text(e, "method", ex->t.method.at, ex->t.method.len);
		event_str(e, "scheme", ex->t.scheme == HTTP_TLS ? "https" : "http");
	}
	event_str(e, "host", ex->host);
	event_u64(e, "port", ex->t.port);
	if (ex->kind == EXCHANGE_HTTP) {
		query = memchr(ex->request.path.at, '?', ex->request.path.len);
		len = query == NULL ? ex->request.path.len : (size_t)(query - ex->request.path.at);
		event_text(e, "path", ex->request.path.at, len);
		if (query != NULL)
			event_true(e, "query");
		if (ex->t.is_upgrade)
			event_true(e, "upgrade");
		if (ex->inspect.pushed[0] != '\0')
			put_refs(e, ex->inspect.pushed);
		if (exchange_is_for_tools(ex))
			put_call(e, ex->inspect.call);
	}
	exchange_rewrite_record(e, ex);
	exchange_wire_record(e, ex);
	exchange_secrets_record(e, ex);
	event_str(e, "via", vias[ex->request.via]);
	if (ex->kind == EXCHANGE_HTTP)
		event_str(e, "version", ex->request.version == 20 ? "2" : ex->request.version == 10 ? "1.0" : "1.1");
}

static void
put_outcome(struct events *e, const struct exchange *ex)
{
	uint64_t now = loop_now_ms();

	if (ex->t.status != 0)
		event_u64(e, "status", ex->t.status);
	event_str(e, "note", ex->note);
	exchange_injection_record(e, ex);
	event_kind_ends(e);
	if (ex->request.from != 0)
		event_u64(e, "from", ex->request.from);
	if (ex->outcome.refused && ex->outcome.why != NULL && strcmp(ex->outcome.why, "too-large") == 0)
		event_u64(e, "size", ex->request.length != HTTP_LENGTH_UNKNOWN ? ex->request.length : ex->flow.came);
	if (!ex->outcome.refused) {
		event_u64(e, "sent", ex->t.sent);
		event_u64(e, "received", ex->response.received);
	}
	event_u64(e, "ms", now - ex->times.began_ms);
	if (ex->times.first_ms != 0 && !ex->outcome.refused)
		event_u64(e, "upstream_ms", ex->times.first_ms - ex->times.left_ms);
}

/* Not with the events that are only counted in a flood: each alarm matters. */
void
courier_raise_alarm(struct courier *c, const char *why)
{
	OWN(buf_free) struct buf message = {0};

	if (!c->alarms || why == NULL || strcmp(why, "exfiltration") != 0)
		return;
	events_flush(&c->events, true);
	ipc_begin(&message, COURIER_ALARM);
	(void)ipc_send(c->events.fd, &message, NULL, 0, NULL);
}

static void
record(struct exchange *ex)
{
	struct events *e = &ex->courier->events;
	char what[HTTP_HOST_MAX + 64] = "";
	const char *verdict = "allow";

	if (ex->outcome.recorded)
		return;
	ex->outcome.recorded = true;
	exchange_note_mistake(ex);
	if (ex->outcome.refused)
		verdict = ex->outcome.why != NULL && strcmp(ex->outcome.why, "ask") == 0 ? "ask" : "deny";
	event_begin(e, types[ex->kind]);
	event_str(e, "verdict", verdict);
	event_str(e, "why", ex->outcome.why != NULL ? ex->outcome.why : ex->learned ? "learn" : NULL);
	put_rule(e, ex);
	put_target(e, ex);
	if (ex->strict.intent != 0)
		event_u64(e, "request", ex->strict.intent);
	if (ex->ask != NULL && ex->ask->by[0] != '\0') {
		event_str(e, "approval", ex->ask->id);
		event_str(e, ex->outcome.refused && strcmp(verdict, "ask") == 0 ? "refused_by" : "approved_by",
		          ex->ask->by);
	}
	put_outcome(e, ex);
	if (exchange_meter_record(ex))
		return;
	if (ex->outcome.refused && ex->kind == EXCHANGE_HTTP)
		snprintf(what, sizeof(what), "%.*s %s", ex->t.method.len < 32 ? (int)ex->t.method.len : 32,
		         ex->t.method.at, ex->host);
	else if (ex->outcome.refused)
		snprintf(what, sizeof(what), "%s:%u", ex->host, ex->t.port);
	event_done(e, ex->outcome.refused, what);
	courier_raise_alarm(ex->courier, ex->outcome.why);
	if (ex->outcome.refused)
		courier_note_refusal(ex->courier, ex->outcome.why, 1);
}

void
exchange_record_intent(struct exchange *ex)
{
	struct events *e = &ex->courier->events;

	event_begin(e, "intent");
	event_str(e, "of", types[ex->kind]);
	event_str(e, "verdict", "allow");
	event_str(e, "why", ex->learned ? "learn" : NULL);
	put_rule(e, ex);
	put_target(e, ex);
	event_u64(e, "request", ex->strict.intent);
	event_done_awaited(e, ex->strict.intent);
	courier_at_round_end(ex->courier);
}

void
exchange_record(struct exchange *ex)
{
	if (exchange_awaits_stray(ex))
		return;
	record(ex);
	courier_at_round_end(ex->courier);
}

void
exchange_record_last(struct exchange *ex)
{
	record(ex);
	exchange_meter_forget(ex);
	courier_policy_release(TAKE(ex->policy));
}

/* Programs look up a name once per family, and again for each connection.  One event per kind in a
 * while is enough. */
static bool
was_just_recorded(const char *name, bool permitted)
{
	static struct {
		char name[HTTP_HOST_MAX + 1];
		bool permitted;
		uint64_t ms;
	} recent[NAMES_RECENT];
	static size_t next;
	uint64_t now = loop_now_ms();

	for (size_t i = 0; i < NAMES_RECENT; i++)
		if (recent[i].ms != 0 && now - recent[i].ms < NAMES_RECENT_MS &&
		    recent[i].permitted == permitted && strcmp(recent[i].name, name) == 0)
			return true;
	snprintf(recent[next].name, sizeof(recent[next].name), "%s", name);
	recent[next].permitted = permitted;
	recent[next].ms = now;
	next = (next + 1) % NAMES_RECENT;
	return false;
}

/* Explain why NAME has no address: the rule that denies its most likely request, or no rule. */
static void
put_name_refused(struct events *e, const struct courier *c, const char *name)
{
	static struct http_head head = { .method = { "GET", 3 }, .scheme = HTTP_TLS, .port = 443,
	                                 .path = { "/", 1 } };
	const struct policy_request req = { .protocol = POLICY_HTTP, .head = &head, .host = name,
	                                    .port = 443 };
	const struct policy *p = c->policy->policy;
	struct policy_decision d;

	head.host = (struct http_text){ name, strlen(name) };
	policy_decide(p, &req, &d, NULL);
	if (d.verdict != POLICY_DENY || d.rule < 0) {
		event_str(e, "why", "no-rule");
		event_str(e, "note", "no rule allows it");
		return;
	}
	event_str(e, "why", "rule");
	event_str(e, "rule", policy_rule_place(p, d.rule));
	event_str(e, "rule_text", policy_rule_text(p, d.rule));
	event_str(e, "reason", d.reason);
	if (d.layer > 0)
		event_u64(e, "layer", d.layer);
	event_str(e, "note", "a rule denies it");
}

void
courier_record_name(struct courier *c, const char *name, bool permitted, const char *stray)
{
	struct events *e = &c->events;

	/* If alarms follow, each lookup counts: the cell may have been thawed meanwhile. */
	if (was_just_recorded(name, permitted) && (stray == NULL || !c->alarms))
		return;
	/* The lookup does not leave the machine, and there may be very many. */
	if (e->halted && stray == NULL)
		return;
	event_begin(e, "dns");
	event_str(e, "verdict", permitted ? "allow" : "deny");
	if (stray != NULL) {
		event_str(e, "why", "exfiltration");
		event_str(e, "note", stray);
	} else if (!permitted) {
		put_name_refused(e, c, name);
	} else if (c->learn && !policy_mentions_host(c->policy->policy, name)) {
		event_str(e, "why", "learn");
	}
	event_str(e, "host", name);
	event_done(e, !permitted, name);
	if (stray != NULL)
		courier_raise_alarm(c, "exfiltration");
	if (!permitted)
		courier_note_refusal(c, NULL, 1);
	courier_at_round_end(c);
}

void
courier_record_note(struct courier *c, const struct courier_note *note)
{
	static const char *const kinds[] = { "http", "dns", "tcp", "ssh" };
	struct events *e = &c->events;

	event_begin(e, kinds[note->kind]);
	event_str(e, "verdict", "deny");
	event_str(e, "why", "malformed");
	event_str(e, "host", note->host);
	if (note->port != 0)
		event_u64(e, "port", note->port);
	event_str(e, "via", vias[note->via]);
	if (note->status != 0)
		event_u64(e, "status", note->status);
	event_kind_ends(e);
	event_str(e, "note", note->reason);
	event_times(e, note->times);
	event_done(e, true, note->host);
	courier_note_refusal(c, NULL, note->times);
	courier_at_round_end(c);
}

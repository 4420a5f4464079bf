/* decide.c - decides on exactly the request that will be sent. */
#include <stdio.h>
#include <string.h>

#include "base/control.h"
#include "base/own.h"
#include "egress/courier.h"
#include "egress/secrets_parts.h"
#include "ipc/inspect_channel.h"

/* ---- names ---- */

void
courier_resolve_name(struct courier *c, uint32_t id, const char *name, bool is_host)
{
	char reason[COURIER_NOTE_MAX];
	bool strays = courier_strays_in_name(c, name, "the name that is asked for", reason,
	                                     sizeof(reason));
	bool permitted = !strays && is_host &&
	                 (c->learn || policy_mentions_host(c->policy->policy, name));

	courier_record_name(c, name, permitted, strays ? reason : NULL);
	buf_reset(&c->out);
	buf_put_u32(&c->out, permitted);
	mux_send(c->gate, id, EGRESS_RESOLVED, &c->out);
}

/* ---- requests ---- */

struct policy_way
exchange_way(const struct exchange *ex)
{
	return ex->learned ? (struct policy_way){0} : ex->decision.way;
}

/* In learn mode everything is allowed.  But private addresses still need a rule, and credentials
 * are still searched for. */
static void
learn(struct exchange *ex)
{
	struct policy_decision *d = &ex->decision;

	d->upload_max = UINT64_MAX;
	d->held_max = COURIER_HELD_MAX;
	if (d->verdict == POLICY_ALLOW && !d->needs_body)
		return;
	ex->learned = true;
	*d = (struct policy_decision){
		.verdict = POLICY_ALLOW, .rule = -1, .upload_max = UINT64_MAX, .held_max = COURIER_HELD_MAX,
		.may_use_private = d->may_use_private && d->verdict != POLICY_DENY,
		.named_bits = d->verdict != POLICY_DENY ? d->named_bits : 0,
		.must_look = true,
	};
}

static struct policy_request
request_of(const struct exchange *ex, const struct http_head *head)
{
	static const enum policy_protocol protocols[] = { POLICY_HTTP, POLICY_TCP, POLICY_TLS };

	return (struct policy_request){ .protocol = protocols[ex->kind], .head = head,
	                                .host = ex->host, .port = ex->t.port };
}

static void
decide(struct exchange *ex, const struct http_head *head, const unsigned char *fits, size_t n)
{
	struct policy_request req = request_of(ex, head);

	req.body_fits = fits;
	req.n_body_fits = n;
	if (ex->rewrite != NULL && ex->rewrite->n_decided > 0)
		exchange_decide_outside(ex, &req);
	else
		policy_decide(ex->policy->policy, &req, &ex->decision, &ex->logged);
	if (ex->courier->learn)
		learn(ex);
}

/* Refuse DNS over HTTPS, whatever rule allows it.  A request that no rule allows is refused for
 * that reason, unless it plainly is a DNS query. */
bool
exchange_refuse_doh(struct exchange *ex, const struct http_head *head)
{
	const struct policy_request req = request_of(ex, head);
	bool denied = ex->decision.verdict == POLICY_DENY && !ex->decision.needs_body;

	if (!CONTROL_ON("doh") || !policy_is_doh(&req) || (denied && !policy_asks_for_name(&req)))
		return false;
	/* The rule is not the reason. */
	ex->decision = (struct policy_decision){ .verdict = POLICY_DENY, .rule = -1 };
	exchange_refuse(ex, "doh", NULL);
	return true;
}

bool
exchange_settle(struct exchange *ex)
{
	const struct policy_decision *d = &ex->decision;

	exchange_count(ex);
	if (d->verdict == POLICY_ALLOW || d->verdict == POLICY_ASK || !CONTROL_ON("policy"))
		return true;
	if (d->too_large)
		exchange_refuse(ex, "too-large", NULL);
	else if (exchange_apply_consequences(ex))
		exchange_refuse(ex, d->rule >= 0 ? "rule" : "no-rule", NULL);
	return false;
}

/* Whether the name of the connection and the name in the request agree. */
static bool
names_agree(const char *host, const char *asked)
{
	return strcmp(host, asked) == 0 || !CONTROL_ON("names");
}

enum stage_answer
stage_decide(struct exchange *ex)
{
	const struct http_head *head = ex->kind == EXCHANGE_HTTP ? exchange_head(ex) : NULL;

	if (exchange_is_halted(ex))
		return STAGE_REFUSE;
	decide(ex, head, NULL, 0);
	if (exchange_refuse_doh(ex, head) || (!ex->decision.needs_body && !exchange_settle(ex)))
		return STAGE_REFUSE;
	return STAGE_CONTINUE;
}

void
exchange_decide(struct exchange *ex, const char *host, uint16_t port)
{
	char reason[2 * HTTP_HOST_MAX + 128];

	ex->outcome.recorded = false;
	if (exchange_strays_in_name(ex, ex->host, "the host"))
		return;
	if (!names_agree(host, ex->host) || port != ex->t.port) {
		snprintf(reason, sizeof(reason), "the connection was opened to %s:%u, but the request "
		         "is for %s:%u", host, port, ex->host, ex->t.port);
		exchange_refuse_with(ex, ex->request.version == 20 ? 421 : 403, "mismatch", reason);
		return;
	}
	exchange_begin(ex);
}

void
exchange_decide_anew(struct exchange *ex)
{
	decide(ex, ex->kind == EXCHANGE_HTTP ? exchange_head(ex) : NULL, NULL, 0);
}

void
exchange_decide_body(struct exchange *ex, const unsigned char *fits, size_t n)
{
	decide(ex, exchange_head(ex), fits, n);
}

/* EX was allowed by a policy other than P, and uses P from now on. */
void
exchange_decide_again(struct exchange *ex, struct courier_policy *p)
{
	const struct policy_decision *d = &ex->decision;
	bool looks;

	/* The answer of a hook, or a rewrite, of the former policy means nothing in the new one. */
	if (ex->rewrite != NULL || ex->hook != NULL) {
		exchange_refuse(ex, "rule", "the policy was changed, and a rule of the former one had a hook or a "
		                "rewrite for this request: send it again");
		return;
	}
	courier_policy_release(ex->policy);
	ex->policy = courier_policy_use(p);
	decide(ex, ex->kind == EXCHANGE_HTTP ? exchange_head(ex) : NULL, NULL, 0);
	looks = d->must_look && !d->may_carry_secrets && ex->state == EXCHANGE_HOLDS &&
	        (ex->inspect.wanted & INSPECT_SECRETS) == 0;
	if (d->needs_body || looks)
		exchange_refuse(ex, "rule", "the policy was changed, and what it says of this request hangs on "
		                "its body, which was not looked into for that");
	else if (exchange_is_to_be_rewritten(ex))
		exchange_refuse(ex, "rule", "the policy was changed, and a rule has a hook or a rewrite for this "
		                "request, which was under way: send it again");
	else if (exchange_has_question(ex))
		exchange_refuse(ex, "ask", "the policy was changed, and somebody is to be asked for this "
		                "request, which was under way: send it again");
	else if (exchange_settle(ex) && exchange_keeps_to_uses(ex))
		ex->inspect.wanted &= ~(uint32_t)INSPECT_RULES;
}

/* ---- connections ---- */

static void
route_answer(struct exchange *ex, enum egress_routed routed)
{
	ex->outcome.recorded = true;            /* a later decision is recorded then */
	exchange_routed(ex, routed, "", "");
	exchange_over(ex);
}

/* Pass raw bytes if a rule allows it. */
static void
route_raw(struct exchange *ex, enum exchange_kind kind)
{
	ex->kind = kind;
	exchange_begin(ex);
}

static void
route_tls(struct exchange *ex, enum policy_route route, const char *sni)
{
	char reason[2 * HTTP_HOST_MAX + 128];

	ex->kind = EXCHANGE_TLS;
	if (sni[0] != '\0' && !names_agree(ex->host, sni)) {
		snprintf(reason, sizeof(reason), "the connection was opened to %s, but its TLS is for %s",
		         ex->host, sni);
		exchange_refuse(ex, "mismatch", reason);
	} else if (route != POLICY_ROUTE_TLS) {
		route_answer(ex, mtls_is_wanted(&ex->courier->secrets, ex->host) ? EGRESS_SPEAK_ASKING
		                                                                 : EGRESS_SPEAK);
	} else if (sni[0] == '\0' && !ex->courier->learn) {
		exchange_refuse(ex, "mismatch", "TLS is passed through by the name that it asks for, and "
		                "this one asks for none");
	} else {
		route_raw(ex, EXCHANGE_TLS);
	}
}

static void
route_other(struct exchange *ex, enum policy_route route)
{
	struct policy_decision decision;
	struct policy_request req = { .protocol = POLICY_TCP, .host = ex->host, .port = ex->t.port };

	policy_decide(ex->policy->policy, &req, &decision, NULL);
	if (decision.verdict == POLICY_DENY && decision.rule < 0 && !ex->courier->learn &&
	    route != POLICY_ROUTE_NONE)
		exchange_refuse(ex, "protocol", "a rule allows HTTP or TLS there, and this is neither");
	else
		route_raw(ex, EXCHANGE_TCP);
}

void
exchange_route(struct exchange *ex, enum egress_looks looks, const char *sni)
{
	enum policy_route route = policy_route(ex->policy->policy, ex->host, ex->t.port);

	ex->outcome.recorded = false;
	if (looks == EGRESS_LOOKS_TLS)
		ex->kind = EXCHANGE_TLS;
	if (exchange_strays_in_name(ex, ex->host, "the host") ||
	    exchange_strays_in_name(ex, sni, "the name that TLS is for") || exchange_is_halted(ex))
		return;
	if (route == POLICY_ROUTE_TCP) {
		route_raw(ex, EXCHANGE_TCP);
		return;
	}
	switch (looks) {
	case EGRESS_LOOKS_UNKNOWN:
		/* In a protocol where the server speaks first, the client sends nothing.  Without a
		 * rule for the connection, do not wait long for its bytes before it is let through
		 * or refused. */
		route_answer(ex, ex->courier->learn || route == POLICY_ROUTE_NONE ? EGRESS_LOOK_BRIEFLY
		                                                                  : EGRESS_LOOK);
		break;
	case EGRESS_LOOKS_TLS:
		route_tls(ex, route, sni);
		break;
	case EGRESS_LOOKS_HTTP:
		route_answer(ex, EGRESS_SPEAK);
		break;
	case EGRESS_LOOKS_OTHER:
		route_other(ex, route);
		break;
	}
}

/* refuse.c - the courier's own responses: a small JSON body that an agent can act on, or
 * the form that its library shows. */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "cell/cell_net.h"
#include "egress/cloud.h"
#include "egress/git.h"
#include "ipc/courier_channel.h"
#include "upstream/address.h"
#include "upstream/upstream.h"

#define BODY_MAX (32 * 1024)
#define PATH_SHOWN 1024
#define REFUSED "refused by cloister"

/* The meaning of each refusal, if the rule gives no reason, and what to do. */
static const struct {
	const char *why, *reason, *hint;
} meanings[] = {
	{ "no-rule", "no rule allows it",
	  "Do without it, or have the operator add a rule: `cloister why` prints one." },
	{ "rule", "a rule denies this",
	  "Do not try again; find another way, or ask the operator." },
	{ "ask", "a person has to approve this, and did not",
	  "Do not try again unless you are told to; find another way, or ask the operator." },
	{ "private-address", "the address is not a public one",
	  "If the name is an internal one, the operator can say `private: true` in its rule." },
	{ "secret", "the request carries what looks like a credential",
	  "Take it out of the request; the operator can permit it with `secrets: allow`." },
	{ "exfiltration", "the placeholder of a secret is where it may not be",
	  "Send it only to the hosts that the secret is for. The operator can name others: `-s NAME@HOST:PORT`, "
	  "or `cloister secret remove`, and `add` with another --host, and with --plain if it has no TLS." },
	{ "credential", "a secret cannot be put into the request",
	  "Check how the request is made and signed." },
	{ "expired", "a secret or a token has ended",
	  "Get a new token the way you got this one; if it stays so, tell the operator." },
	{ "revoked", "the operator has revoked the secret",
	  "Do not try again; tell the operator if the work needs it." },
	{ "transfer", "this is far more than the cell has sent before",
	  "Send less at once; if the work needs it, tell the operator." },
	{ "hook", "the operator's hook denies this",
	  "Do not try again; find another way, or ask the operator." },
	{ "rewrite", "the request cannot be changed as the rule asks",
	  "Send it in another form, or ask the operator." },
	{ "consequence", "what the rule leads to cannot be put in force",
	  "Do not try again; tell the operator." },
	{ "mismatch", "the names in the request do not agree",
	  "Connect to the host that the request is for." },
	{ "unreadable", "the body cannot be looked into",
	  "Send it without a content coding." },
	{ "too-large", "the body is larger than the rule permits",
	  "Send less, or have the operator raise the rule's limit." },
	{ "protocol", "this is not the protocol that a rule allows there",
	  "The operator can allow raw bytes with `protocol: tcp`." },
	{ "malformed", "two programs might read it in two ways",
	  "Send it in its plain form." },
	{ "doh", "names are resolved by the machine, not over HTTPS or TLS",
	  "Use the system's resolver; it answers for every name that a rule mentions." },
	{ "audit", "what happens cannot be recorded, so nothing may happen",
	  "Try again later; the operator has to make room for the cell's timeline." },
	{ "budget", "a budget is used up",
	  "Do not try again; the operator can raise it: `cloister budget`." },
	{ "rate", "more requests than the cell may make in a while",
	  "Wait as long as `retry-after` says." },
	{ "certificate", NULL,
	  "It cannot be ignored here; the operator can trust another authority with --ca." },
	{ "unresolved", NULL, "Check the name." },
	{ "unreachable", NULL, "Try again later." },
};

static const char *
reason_for(const struct exchange *ex, const char *why)
{
	if (strcmp(why, "rule") == 0 && ex->decision.reason != NULL)
		return ex->decision.reason;
	if (strcmp(why, "no-rule") == 0 && ex->decision.layer > 0)
		return "no rule of those who started this agent allows it";
	for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
		if (strcmp(meanings[i].why, why) == 0 && meanings[i].reason != NULL)
			return meanings[i].reason;
	return "this is not allowed";
}

/* A hint if the server speaks another protocol than the request. */
static const char *
hint_for_scheme(const struct exchange *ex, const char *why, const char *reason)
{
	/* A response that begins as HTTP, and has an error later, is HTTP. */
	if (strcmp(why, "protocol") == 0 && strstr(reason, "HTTP version") == NULL &&
	    strstr(reason, "TLS") == NULL)
		return "The server is at fault; try again later.";
	if (ex->t.scheme == HTTP_PLAIN && ex->t.port != 80)
		return "If the server speaks TLS on this port, use https://.";
	if (ex->t.scheme == HTTP_TLS && ex->t.port != 443)
		return "If the server speaks plain HTTP on this port, use http://.";
	return strcmp(why, "protocol") == 0 ? "The server is at fault; try again later."
	                                    : "Try again later.";
}

/* A hint for addresses that are not public, if the usual hint for names does not help. */
static const char *
hint_for_address(const struct exchange *ex, const char *reason)
{
	struct address a;
	const char *what;

	if (strstr(reason, COURIER_NO_RULE_HELPS) != NULL)
		return "Do not try again.";
	if (strstr(reason, COURIER_DENIES_ADDRESS) != NULL)
		return "Do not try again; find another way, or ask the operator.";
	if (strcmp(ex->host, CELL_NET_HOST_NAME) == 0)
		return "The operator can allow " CELL_NET_HOST_NAME " with its port.";
	if (!address_parse(ex->host, &a))
		return NULL;
	(void)address_judge(&a, &what);
	if (strcmp(what, "loopback") == 0)
		return "The cell's own loopback needs no proxy; for the machine's, the operator can allow "
		       CELL_NET_HOST_NAME " with its port.";
	return "The operator can name the address in a rule, or a range around it, /8 or narrower.";
}

/* A hint for a placeholder, if the usual one would not help: the host is right and the place is not, or the request
 * has no TLS. */
static const char *
hint_for_placeholder(const struct exchange *ex, const char *reason)
{
	if (strstr(reason, COURIER_WRONG_PLACE COURIER_ITS_PLACES) != NULL)
		return "Send it in one of its places. The operator can add this one: `cloister secret remove`, then `add` with "
		       "--in and all of its places.";
	if (ex->kind == EXCHANGE_HTTP && ex->t.scheme == HTTP_PLAIN)
		return "Send it only to the hosts that the secret is for. The operator can name this one, which has no TLS: "
		       "`cloister secret remove`, then `add` with --host HOST:PORT and --plain.";
	return NULL;
}

static const char *
hint_for(const struct exchange *ex, const char *error, const char *why, const char *reason,
         bool refused)
{
	const char *hint = NULL;

	if (ex->kind == EXCHANGE_HTTP && !refused &&
	    (strcmp(why, "protocol") == 0 || strcmp(error, "upstream broke off") == 0 ||
	     strstr(reason, "TLS handshake") != NULL))
		return hint_for_scheme(ex, why, reason);
	if (strcmp(why, "private-address") == 0)
		hint = hint_for_address(ex, reason);
	else if (strcmp(why, "exfiltration") == 0)
		hint = hint_for_placeholder(ex, reason);
	if (hint != NULL)
		return hint;
	for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
		if (strcmp(meanings[i].why, why) == 0)
			return meanings[i].hint;
	return "Do not try again.";
}

struct answer_cloud {
	enum cloud_dialect dialect;
	const char *code;
};

static void
put_member(struct buf *b, const char *key, const char *value)
{
	buf_put_text(b, key);
	if (value == NULL || value[0] == '\0') {
		buf_put_text(b, "null");
		return;
	}
	buf_put_text(b, "\"");
	members_escape(b, value, strlen(value), EVENT_TEXT_MAX);
	buf_put_text(b, "\"");
}

/* "POST https://api.github.com/repos": the agent knows the rest. */
static void
put_what(struct buf *b, const struct exchange *ex)
{
	const char *query = memchr(ex->request.path.at, '?', ex->request.path.len);
	char port[8] = "";

	if (ex->t.port != (ex->t.scheme == HTTP_TLS ? 443 : 80))
		snprintf(port, sizeof(port), ":%u", ex->t.port);
	buf_put_text(b, ",\"what\":\"");
	members_escape(b, ex->t.method.at, ex->t.method.len, 64);
	buf_put_text(b, ex->t.scheme == HTTP_TLS ? " https://" : " http://");
	buf_put_text(b, ex->host);
	buf_put_text(b, port);
	members_escape(b, ex->request.path.at, query == NULL ? ex->request.path.len
	                                               : (size_t)(query - ex->request.path.at), PATH_SHOWN);
	buf_put_text(b, "\"");
}

/* Write the cloud's error document.  False: it has none for this, and B holds members to be added
 * to other ones. */
static bool
write_for_cloud(struct buf *b, const struct exchange *ex, const struct answer_cloud *cloud,
                const char *error, const char *why, const char *reason, bool refused)
{
	char message[COURIER_NOTE_MAX + 256];

	snprintf(message, sizeof(message), "%s: %s. %s", error, reason,
	         hint_for(ex, error, why, reason, refused));
	if (cloud_is_xml(cloud->dialect)) {
		cloud_put_xml(b, cloud->dialect, cloud->code, message);
		return true;
	}
	put_member(b, "{\"__type\":", cloud->code);
	put_member(b, ",\"message\":", message);
	buf_put_text(b, ",");
	return false;
}

static void
write_body(struct buf *b, const struct exchange *ex, const struct answer_cloud *cloud,
           const char *error, const char *why, const char *reason, bool refused)
{
	if (refused && courier_git_is_asking(ex)) {
		courier_git_put_text(b, reason, policy_rule_place(ex->policy->policy,
		                                                  ex->decision.rule),
		                     hint_for(ex, error, why, reason, refused));
		return;
	}
	if (cloud->dialect == CLOUD_NONE)
		buf_put_text(b, "{");
	else if (write_for_cloud(b, ex, cloud, error, why, reason, refused))
		return;
	put_member(b, "\"error\":", error);
	put_what(b, ex);
	put_member(b, ",\"rule\":", policy_rule_place(ex->policy->policy, ex->decision.rule));
	put_member(b, ",\"reason\":", reason);
	put_member(b, ",\"hint\":", hint_for(ex, error, why, reason, refused));
	buf_put_text(b, "}\n");
}

void
exchange_answer(struct exchange *ex, struct http_head *head, const struct buf *body)
{
	head->length = body->len;
	if (!exchange_respond(ex, head, !ex->t.is_head))
		return;
	if (!ex->t.is_head)
		exchange_give(ex, body->data, body->len);
	ex->response.received = 0;
	ex->times.first_ms = 0;
	exchange_end(ex, NULL, 0);
}

/* When to retry.  Without it, clients of model providers retry for minutes. */
static void
put_retry(struct http_head *head, uint32_t retry_after_s, char seconds[16])
{
	struct http_field *field = &head->fields[head->n_fields++];

	if (retry_after_s == 0) {
		*field = (struct http_field){ { "x-should-retry", 14 }, { "false", 5 } };
		return;
	}
	snprintf(seconds, 16, "%u", retry_after_s);
	*field = (struct http_field){ { "retry-after", 11 }, { seconds, strlen(seconds) } };
}

/* The cloud's error code and its fields. */
static struct answer_cloud
cloud_for(struct exchange *ex, struct http_head *head, const char *why, bool refused)
{
	struct answer_cloud cloud = { .dialect = CLOUD_NONE };

	if (ex->kind == EXCHANGE_HTTP && !courier_git_is_asking(ex))
		cloud.dialect = cloud_dialect_of(exchange_head(ex));
	if (cloud.dialect == CLOUD_NONE)
		return cloud;
	cloud.code = cloud_code(cloud.dialect, why, refused, ex->outcome.retry_after_s > 0);
	if (cloud_is_xml(cloud.dialect))
		head->fields[0].value = (struct http_text){ "application/xml", 15 };
	if (cloud.dialect == CLOUD_JSON || cloud.dialect == CLOUD_AZURE)
		head->fields[head->n_fields++] = (struct http_field){
			{ cloud.dialect == CLOUD_JSON ? "x-amzn-errortype" : "x-ms-error-code",
			  cloud.dialect == CLOUD_JSON ? 16 : 15 }, { cloud.code, strlen(cloud.code) } };
	return cloud;
}

static void
answer(struct exchange *ex, uint16_t status, const char *error, const char *why,
       const char *reason, bool refused)
{
	OWN(buf_free) struct buf body = BUF(BODY_MAX);
	struct http_head head = {
		.status = status, .n_fields = 3,
		.fields = { { { "content-type", 12 }, { "application/json", 16 } },
		            { { "cache-control", 13 }, { "no-store", 8 } },
		            { { "x-cloister-verdict", 18 }, { "deny", 4 } } },
	};
	struct answer_cloud cloud = cloud_for(ex, &head, why, refused);
	char seconds[16];

	if (!refused)
		head.fields[2] = (struct http_field){ { "x-cloister-error", 16 }, { why, strlen(why) } };
	if (refused && courier_git_is_asking(ex))
		head.fields[0].value = (struct http_text){ "text/plain", 10 };
	if (refused && status == 429)
		put_retry(&head, ex->outcome.retry_after_s, seconds);
	write_body(&body, ex, &cloud, error, why, reason, refused);
	exchange_answer(ex, &head, &body);
}

void
exchange_refuse_with(struct exchange *ex, uint16_t status, const char *why, const char *reason)
{
	OWN(buf_free) struct buf held = exchange_take_unsearched(ex);
	const char *stray;

	if (reason == NULL)
		reason = reason_for(ex, why);
	exchange_drain(ex);
	exchange_drop_held(ex);
	stray = exchange_find_stray(ex, &held);
	if (stray != NULL) {
		status = 403;
		why = "exfiltration";
		reason = stray;
	}
	ex->outcome.refused = true;
	ex->outcome.why = why;
	if (ex->note[0] == '\0' && (ex->decision.reason == NULL ||
	                            strcmp(reason, ex->decision.reason) != 0))
		snprintf(ex->note, sizeof(ex->note), "%s", reason);
	if (exchange_wire_tell(ex, why, reason))
		return;
	if (ex->kind != EXCHANGE_HTTP && !ex->t.answered) {
		exchange_routed(ex, EGRESS_REFUSED, reason, hint_for(ex, REFUSED, why, reason, true));
		exchange_over(ex);
		return;
	}
	if (ex->t.answered) {
		exchange_record(ex);
		exchange_reset(ex, EGRESS_RESET_POLICY);
		return;
	}
	if (ex->outcome.quiet != NULL && strcmp(why, "revoked") == 0) {
		exchange_answer_quietly(ex);
		return;
	}
	if (courier_git_refuse(ex, reason))
		return;
	ex->t.status = status;
	exchange_record(ex);
	answer(ex, status, REFUSED, why, reason, true);
}

void
exchange_refuse(struct exchange *ex, const char *why, const char *reason)
{
	exchange_refuse_with(ex, 403, why, reason);
}

void
exchange_fail(struct exchange *ex, const struct failure *failure)
{
	bool refused = failure->status == 403 || strcmp(failure->why, "certificate") == 0;

	if (ex->state == EXCHANGE_OVER)
		return;
	exchange_drain(ex);
	exchange_drop_held(ex);
	ex->outcome.refused = refused && (!ex->t.answered || ex->wire != NULL);
	ex->outcome.why = failure->why;
	snprintf(ex->note, sizeof(ex->note), "%s", failure->note);
	if (exchange_wire_tell(ex, failure->why, failure->note))
		return;
	if (ex->kind != EXCHANGE_HTTP && !ex->t.answered) {
		exchange_routed(ex, EGRESS_REFUSED, failure->note,
		                hint_for(ex, failure->error, failure->why, failure->note, refused));
		exchange_over(ex);
	} else if (ex->t.answered) {
		exchange_reset(ex, failure->status == 504 ? EGRESS_RESET_TIMEOUT
		                                          : EGRESS_RESET_UPSTREAM);
	} else {
		ex->t.status = failure->status;
		exchange_record(ex);
		answer(ex, failure->status, failure->error, failure->why, failure->note, refused);
	}
}

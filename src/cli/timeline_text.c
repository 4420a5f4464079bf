/* timeline_text.c - prints an event for people. */
#include <string.h>
#include <time.h>

#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/timeline.h"
#include "cli/timeline_acts.h"

static void
put(FILE *out, const char *text)
{
	text_print_safe(out, text, strlen(text), false);
}

bool
timeline_format_time(char ret_text[TIMELINE_TIME_MAX], const char *time, const char *format)
{
	struct tm utc = {0}, here;
	time_t t;

	if (strptime(time, "%Y-%m-%dT%H:%M:%S", &utc) == NULL)
		return false;
	t = timegm(&utc);
	return localtime_r(&t, &here) != NULL &&
	       strftime(ret_text, TIMELINE_TIME_MAX, format, &here) > 0;
}

bool
timeline_is_decision(const struct timeline_event *e)
{
	return !timeline_is_of_budget(e) && timeline_act(e) == TIMELINE_NO_ACT &&
	       strncmp(e->type, "cell", 4) != 0 && strcmp(e->type, "setup.ran") != 0 &&
	       strcmp(e->type, "steer") != 0 && strcmp(e->type, "approval") != 0 &&
	       strcmp(e->type, "tool") != 0;
}

bool
timeline_is_refusal(const struct timeline_event *e)
{
	return timeline_is_decision(e) && strcmp(e->verdict, "allow") != 0;
}

static void
put_port(FILE *out, const struct timeline_event *e, uint16_t port)
{
	uint16_t usual = strcmp(e->scheme, "https") == 0 ? 443 :
	                 strcmp(e->scheme, "http") == 0 ? 80 : strcmp(e->type, "ssh") == 0 ? 22 : 0;

	if (port != 0 && port != usual)
		fprintf(out, ":%u", port);
}

/* Prints the key, and the user and host it was to log in to, or what it was to sign. */
static void
print_ssh(FILE *out, const struct timeline_event *e)
{
	fputs("ssh ", out);
	put(out, e->secret[0] != '\0' ? e->secret : "agent");
	if (e->sign[0] != '\0') {
		fputs(" signs for ", out);
		put(out, e->sign);
	} else if (e->user[0] != '\0') {
		fputc(' ', out);
		put(out, e->user);
		fputc('@', out);
		put(out, e->host);
		put_port(out, e, e->port);
	}
}

/* The host that the agent asked for.  A policy may have sent the request to another one. */
static void
print_host(FILE *out, const struct timeline_event *e)
{
	const char *made = json_string_value(json_object_get(e->json, "made_host"));
	const json_int_t port = json_integer_value(json_object_get(e->json, "made_port"));

	put(out, made != NULL ? made : e->host);
	put_port(out, e, made == NULL ? e->port : port > 0 && port <= UINT16_MAX ? (uint16_t)port : 0);
}

/* The host that it was sent to. */
static void
print_moved(FILE *out, const struct timeline_event *e)
{
	if (json_object_get(e->json, "made_host") == NULL)
		return;
	fputs(" (sent to ", out);
	put(out, e->host);
	put_port(out, e, e->port);
	fputc(')', out);
}

static void
print_request(FILE *out, const struct timeline_event *e)
{
	put(out, e->method);
	fputc(' ', out);
	put(out, e->scheme);
	fputs("://", out);
	print_host(out, e);
	put(out, e->path);
	if (e->has_query)
		fputs("?...", out);
	print_moved(out, e);
	if (e->is_upgrade)
		fputs(" (WebSocket)", out);
	if (e->tool[0] != '\0' || e->prompt[0] != '\0' || e->resource[0] != '\0') {
		fputs(e->tool[0] != '\0' ? " (tool " : e->prompt[0] != '\0' ? " (prompt " : " (resource ", out);
		put(out, e->tool[0] != '\0' ? e->tool : e->prompt[0] != '\0' ? e->prompt : e->resource);
		fputs(")", out);
	}
	if (e->refs != NULL) {
		fputs(" (", out);
		put(out, e->refs);
		fputs(e->has_push_options ? ", with options)" : ")", out);
	}
}

/* Prints an operator's action, or a rule's consequence. */
static void
print_steer(FILE *out, const struct timeline_event *e)
{
	uint64_t ttl_ms = (uint64_t)json_integer_value(json_object_get(e->json, "ttl_ms"));
	char time[NUM_TEXT_MAX];

	fputs("steer: ", out);
	put(out, e->did);
	fputs(e->rule[0] != '\0' || e->secret[0] != '\0' ? " " : "", out);
	put(out, e->rule[0] != '\0' ? e->rule : e->secret);
	if (strcmp(e->did, "budget") == 0)
		timeline_print_raised(out, e);
	else if (strcmp(e->did, "ttl") == 0)
		fprintf(out, " %s", ttl_ms > 0 ? num_format_duration(time, ttl_ms) : "none");
	fputs(" by ", out);
	put(out, e->by);
}

static void
print_boot(FILE *out, const struct timeline_event *e)
{
	const json_t *vm = json_object_get(json_object_get(e->json, "grant"), "vm");
	const char *kernel = json_string_value(json_object_get(vm, "kernel"));

	fputs("cell started", out);
	if (kernel != NULL) {
		fputs(json_is_true(json_object_get(vm, "emulated")) ? " in an emulated" : " in a", out);
		fputs(" virtual machine with ", out);
		put(out, kernel);
	}
	fputs(": ", out);
}

/* A state was committed, or was not. */
static void
print_state(FILE *out, const json_t *event)
{
	const char *why = json_string_value(json_object_get(event, "why"));
	const char *name = json_string_value(json_object_get(event, "state"));
	const char *commit = json_string_value(json_object_get(event, "commit"));
	const json_int_t refused = json_integer_value(json_object_get(event, "refused"));
	const json_int_t pending = json_integer_value(json_object_get(event, "pending"));
	const char *flags = json_string_value(json_object_get(event, "flags"));

	fputs("state ", out);
	put(out, name != NULL ? name : "");
	fputs(why != NULL ? " not committed: " : " committed as ", out);
	put(out, why != NULL ? why : commit != NULL ? commit : "");
	if (refused > 0)
		fprintf(out, ", %lld refused", (long long)refused);
	if (pending > 0)
		fprintf(out, ", %lld for a person", (long long)pending);
	if (flags != NULL) {
		fputs("; look at ", out);
		put(out, flags);
	}
}

/* Prints an event of the cell's own life. */
static bool
print_cell(FILE *out, const struct timeline_event *e)
{
	if (strcmp(e->type, "cell.boot") == 0) {
		print_boot(out, e);
	} else if (strcmp(e->type, "cell.end") == 0) {
		fprintf(out, "cell ended with %u", e->status);
		fputs(e->cause[0] != '\0' ? ": " : "", out);
		put(out, e->cause);
		fputs(timeline_has(e, "cpu_ms") || timeline_has(e, "programs") ? "; " : "", out);
		timeline_print_used(out, e);
	} else if (strcmp(e->type, "cell.state") == 0) {
		print_state(out, e->json);
	} else if (strcmp(e->type, "setup.ran") == 0) {
		fputs("setup ", out);
		put(out, e->path);
		fprintf(out, " ended with %u", e->status);
	} else if (strcmp(e->type, "steer") == 0) {
		print_steer(out, e);
	} else if (strcmp(e->type, "cell") == 0) {
		fputs("cell ", out);
		put(out, strcmp(e->did, "not_notified") == 0 ? "could not notify anybody:" : e->did);
		fputs(e->by[0] != '\0' ? " by " : "", out);
		put(out, e->by);
		fputs(e->argv != NULL ? ": " : "", out);
	} else {
		return false;
	}
	put(out, e->argv != NULL ? e->argv : "");
	return true;
}

void
timeline_print_what(FILE *out, const struct timeline_event *e)
{
	if (timeline_is_of_budget(e)) {
		timeline_print_budget(out, e);
		return;
	}
	if (timeline_act(e) != TIMELINE_NO_ACT) {
		timeline_print_act(out, e);
		return;
	}
	if (print_cell(out, e))
		return;
	if (strcmp(e->type, "intent") == 0)
		fputs("about to: ", out);
	if (strcmp(e->type, "approval") == 0) {
		fputs("approval ", out);
		put(out, strcmp(e->did, "timed_out") == 0 ? "timed out" : e->did);
		fputs(": ", out);
	}
	if (strcmp(e->type, "dns") == 0) {
		fputs("name ", out);
		put(out, e->host);
	} else if (strcmp(e->type, "secret") == 0) {
		fputs("secret ", out);
		put(out, e->secret);
		fputs(e->host[0] != '\0' ? " to " : "", out);
		put(out, e->host);
	} else if (strcmp(e->type, "tool") == 0) {
		fputs("tool ", out);
		put(out, e->of);
		fputc(' ', out);
		put(out, e->did);
		fputs(e->reason[0] != '\0' ? ": " : "", out);
		put(out, e->reason);
	} else if (strcmp(e->type, "webhook") == 0) {
		fputs("webhook ", out);
		put(out, e->method);
		fprintf(out, " :%u", e->port);
		put(out, e->path);
	} else if (strcmp(e->type, "many") == 0) {
		fputs("refusals of all kinds", out);
	} else if (strcmp(e->type, "ssh") == 0) {
		print_ssh(out, e);
	} else if (e->method[0] != '\0') {
		print_request(out, e);
	} else {
		put(out, e->of[0] != '\0' ? e->of : e->type);
		fputc(' ', out);
		put(out, e->host);
		put_port(out, e, e->port);
	}
}

/* Short texts for a list; `cloister why` has the sentences. */
static const struct {
	const char *why, *words;
} causes[] = {
	{ "no-rule",         "no rule allows it" },
	{ "rule",            "a rule denies it" },
	{ "ask",             "it needed approval and did not get it" },
	{ "private-address", "its address is private" },
	{ "secret",          "it contains what looks like a credential" },
	{ "exfiltration",    "exfiltration: a placeholder is where it may not be" },
	{ "credential",      "a secret could not be inserted" },
	{ "expired",         "the secret in it has expired" },
	{ "revoked",         "the secret in it was revoked" },
	{ "hook",            "the rule's hook refused it or failed" },
	{ "rewrite",         "it cannot be rewritten as the rule asks" },
	{ "transfer",        "it sends far more than earlier requests" },
	{ "consequence",     "the consequence of its rule failed" },
	{ "not-renewed",     "no new value could be fetched" },
	{ "guessed",         "prefixes of a secret's value were tried out" },
	{ "login",           "the login failed" },
	{ "mismatch",        "its host names differ" },
	{ "unreadable",      "its body cannot be inspected" },
	{ "too-large",       "its body is too large" },
	{ "certificate",     "the server's certificate is not valid" },
	{ "unresolved",      "the name does not resolve" },
	{ "unreachable",     "the server cannot be reached" },
	{ "protocol",        "it uses an unexpected protocol" },
	{ "doh",             "names must not be resolved this way" },
	{ "malformed",       "it is invalid or ambiguous" },
	{ "unbound",         "the client does not name its host" },
	{ "forged",          "the host did not sign the session" },
	{ "unknown-host",    "the host's key is not known" },
	{ "no-key",          "the cell has no such key" },
	{ "signature",       "its signature is wrong" },
	{ "scope",           "no webhook like it is expected" },
	{ "budget",          "a budget is used up" },
	{ "rate",            "it exceeds the rate limit" },
	{ "audit",           "there was no room to record it" },
	{ "many",            "there were too many to record one by one" },
};

void
timeline_print_cause(FILE *out, const struct timeline_event *e)
{
	const char *words = "it was refused";

	for (size_t i = 0; i < ARRAY_LEN(causes); i++)
		if (strcmp(causes[i].why, e->why) == 0)
			words = causes[i].words;
	fputs(words, out);
	if (e->count > 1)
		fprintf(out, ", %llu times", (unsigned long long)e->count);
	if (e->rule[0] != '\0') {
		fputs(" (", out);
		put(out, e->rule);
		fputc(')', out);
	}
}

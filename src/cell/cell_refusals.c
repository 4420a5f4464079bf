/* cell_refusals.c - summarises refusals from events as they pass. */
#include "cell/cell_refusals.h"

#include <stdbool.h>
#include <string.h>

#include "base/num.h"
#include "base/own.h"
#include "base/text.h"

#define CUT "..."

/* The members of an event that are printed; each is cut to its room. */
struct event {
	char type[8], verdict[8], why[16], note[320], rule[96], reason[320], method[16], scheme[8], host[96],
		path[64], port[8], count[16], secret[40], user[40];
};

/* Copy a string, from behind its opening quote, into OUT, decoding escapes of ASCII characters.
 * Returns the position behind the closing quote, or NULL. */
static const char *
read_string(const char *at, char *out, size_t size)
{
	bool is_cut = false;
	size_t n = 0;

	for (; *at != '"'; at++) {
		char c = *at;

		if (c == '\0')
			return NULL;
		if (c == '\\') {
			c = *++at;
			if (c == '\0')
				return NULL;
			if (c == 'u' && strnlen(at, 5) == 5) {
				at += 4;
				c = '?';
			} else if (strchr("\"\\/", c) == NULL) {
				c = '?';
			}
		}
		if (n + 1 < size)
			out[n++] = c;
		else
			is_cut = true;
	}
	if (size > 0)
		out[n] = '\0';
	/* Mark the cut: half a number would be a different number. */
	if (is_cut && size > sizeof(CUT))
		memcpy(out + size - sizeof(CUT), CUT, sizeof(CUT));
	return at + 1;
}

/* Copy a number or a word as text; skip a list of strings. */
static const char *
read_other(const char *at, char *out, size_t size)
{
	size_t len;

	if (*at == '[') {
		for (at++; at != NULL && *at != ']' && *at != '\0'; )
			at = *at == '"' ? read_string(at + 1, NULL, 0) : at + 1;
		return at == NULL || *at == '\0' ? NULL : at + 1;
	}
	len = strcspn(at, ",");
	if (size > 0)
		snprintf(out, size, "%.*s", (int)len, at);
	return at + len;
}

static void
read_event(const char *members, struct event *e)
{
	const struct { const char *key; char *out; size_t size; } wanted[] = {
		{ "type", e->type, sizeof(e->type) }, { "verdict", e->verdict, sizeof(e->verdict) },
		{ "why", e->why, sizeof(e->why) },
		{ "note", e->note, sizeof(e->note) }, { "rule", e->rule, sizeof(e->rule) },
		{ "reason", e->reason, sizeof(e->reason) },
		{ "method", e->method, sizeof(e->method) },
		{ "scheme", e->scheme, sizeof(e->scheme) }, { "host", e->host, sizeof(e->host) },
		{ "path", e->path, sizeof(e->path) }, { "port", e->port, sizeof(e->port) },
		{ "count", e->count, sizeof(e->count) },
		{ "secret", e->secret, sizeof(e->secret) }, { "user", e->user, sizeof(e->user) },
	};
	const char *at = members;
	char key[16], *out;
	size_t size;

	while (at != NULL && *at == '"') {
		at = read_string(at + 1, key, sizeof(key));
		if (at == NULL || *at != ':')
			return;
		out = NULL;
		size = 0;
		for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
			if (strcmp(key, wanted[i].key) == 0) {
				out = wanted[i].out;
				size = wanted[i].size;
			}
		}
		at++;
		at = *at == '"' ? read_string(at + 1, out, size) : read_other(at, out, size);
		if (at != NULL && *at == ',')
			at++;
	}
}

static void
tell_what(const struct event *e, char ret_what[CELL_REFUSAL_TEXT])
{
	bool https = strcmp(e->scheme, "https") == 0;
	bool usual = e->port[0] == '\0' || strcmp(e->port, https ? "443" : "80") == 0;

	if (strcmp(e->type, "dns") == 0)
		snprintf(ret_what, CELL_REFUSAL_TEXT, "name %s", e->host);
	else if (strcmp(e->type, "webhook") == 0)
		snprintf(ret_what, CELL_REFUSAL_TEXT, "webhook %s :%s%s", e->method, e->port, e->path);
	else if (strcmp(e->type, "many") == 0)
		snprintf(ret_what, CELL_REFUSAL_TEXT, "many");
	else if (strcmp(e->type, "ssh") == 0)
		snprintf(ret_what, CELL_REFUSAL_TEXT, "ssh %s%s%s%s%s", e->secret,
		         e->user[0] != '\0' ? " " : "", e->user, e->host[0] != '\0' ? "@" : "", e->host);
	else if (strcmp(e->type, "http") == 0 && e->method[0] != '\0')
		snprintf(ret_what, CELL_REFUSAL_TEXT, "%s %s://%s%s%s%s", e->method, e->scheme, e->host,
		         usual ? "" : ":", usual ? "" : e->port, e->path);
	else
		snprintf(ret_what, CELL_REFUSAL_TEXT, "%s %s:%s", e->type, e->host, e->port);
}

/* Allowed, but failed: the name, the server or its protocol. */
static bool
has_failed(const struct event *e)
{
	return strcmp(e->verdict, "allow") == 0 && e->why[0] != '\0' && strcmp(e->why, "learn") != 0;
}

static const char *
tell_why(const struct event *e)
{
	bool is_exfiltration = strcmp(e->why, "exfiltration") == 0;

	if (e->reason[0] != '\0' && !is_exfiltration)
		return e->reason;
	return e->note[0] == '\0' && strcmp(e->type, "dns") == 0 ? "no rule allows it" : e->note;
}

void
cell_refusals_note(struct cell_refusals *refusals, const char *members)
{
	struct event e = {0};
	struct cell_refusal refusal = { .times = 1 };
	uint64_t count;

	read_event(members, &e);
	refusals->failed += has_failed(&e);
	if (strcmp(e.verdict, "deny") != 0 && strcmp(e.verdict, "ask") != 0)
		return;
	if (num_parse_count(e.count, 1, CELL_REFUSAL_TIMES_MAX, &count, NULL) == 0)
		refusal.times = count;
	refusals->total += refusal.times;
	tell_what(&e, refusal.what);
	snprintf(refusal.why, sizeof(refusal.why), e.rule[0] != '\0' ? "%s (%s)" : "%s",
	         tell_why(&e), e.rule);
	for (size_t i = 0; i < refusals->n; i++) {
		struct cell_refusal *same = &refusals->kinds[i];

		if (strcmp(same->what, refusal.what) == 0 && strcmp(same->why, refusal.why) == 0) {
			same->times += refusal.times;
			return;
		}
	}
	if (refusals->n < CELL_REFUSALS_MAX)
		refusals->kinds[refusals->n++] = refusal;
}

static void
print_refused(FILE *out, const struct cell_refusals *refusals)
{
	uint64_t told = 0;

	fprintf(out, "cloister: refused %llu %s:\n", (unsigned long long)refusals->total,
	        refusals->total == 1 ? "time" : "times");
	for (size_t i = 0; i < refusals->n; i++) {
		const struct cell_refusal *r = &refusals->kinds[i];

		told += r->times;
		fputs("cloister:   ", out);
		text_print_safe(out, r->what, strlen(r->what), false);
		if (r->times > 1)
			fprintf(out, " (%llu times)", (unsigned long long)r->times);
		if (r->why[0] != '\0')
			fputs("  ", out);
		text_print_safe(out, r->why, strlen(r->why), false);
		fputc('\n', out);
	}
	if (told < refusals->total)
		fprintf(out, "cloister:   and %llu more\n",
		        (unsigned long long)(refusals->total - told));
}

void
cell_refusals_print(FILE *out, const struct cell_refusals *refusals, const char *cell)
{
	if (refusals->total == 0 && refusals->failed == 0)
		return;
	if (refusals->total > 0)
		print_refused(out, refusals);
	if (refusals->failed > 0)
		fprintf(out, "cloister: %llu %s allowed, and failed on the way\n",
		        (unsigned long long)refusals->failed, refusals->failed == 1 ? "request was"
		                                                                     : "requests were");
	fprintf(out, "cloister: `cloister why %s` explains the last one, `cloister events %s` shows "
	        "all\n", cell, cell);
}

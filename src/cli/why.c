/* why.c - `cloister why`: a recorded refusal in plain words, and the rule that would
 * allow it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "cell/cell_policy.h"
#include "cli/cli.h"
#include "cli/timeline.h"
#include "cli/why.h"
#include "ipc/courier_channel.h"
#include "policy/policy_suggest.h"

/* What is behind each "why" of an event. */
static const struct cause {
	const char *why;
	bool rule_helps;                /* a rule in front of the others would allow it */
	bool note_helps;                /* what the event notes is more than this text */
	const char *text;               /* NULL: the rule tells */
} causes[] = {
	{ "no-rule", true, false, "No rule matches it, and what no rule allows is refused." },
	{ "rule", true, false, NULL },
	{ "ask", true, true, "The rule asks for a person's approval, and nobody gave it. `cloister "
	  "approvals` shows the requests that wait." },
	{ "private-address", true, true, "It leads to an address that is not a public one. Those are "
	  "refused, unless the rule of the name says `private: true`, or an address is asked for that "
	  "the rule names; where that is link-local or metadata, only the latter." },
	{ "secret", true, true, "It carries something that looks like a credential, and no rule permits "
	  "that." },
	{ "exfiltration", false, true, "It carries the placeholder of a secret to where that secret may not "
	  "go, or in a place where it may not stand: `cloister secret show` shows the secret's own scope. "
	  "One rule can help: if the host is a model that the agent talks to, `placeholders: pass` lets "
	  "placeholders in bodies go there as they are." },
	{ "credential", false, true, "It carries the placeholder of a secret, or is signed with it, and the "
	  "real one could not be put in its place. No rule changes that." },
	{ "expired", false, true, "The value of a secret has ended, and no new one could be fetched." },
	{ "revoked", false, true, "An operator, or a rule's `then`, has taken the secret back from this "
	  "cell. No rule changes that: a cell that is to have it again is started anew." },
	{ "budget", false, true, "A rule allows it, but a budget of the policy does not. No rule changes that: "
	  "`cloister budget` shows what is used of what, and with `--raise` gives more of it while the "
	  "cell runs." },
	{ "rate", false, true, "A rule allows it, but the cell makes more requests in a while than its `rate` "
	  "lets it. No rule changes that: what is sent again later goes." },
	{ "transfer", false, true, "It sends far more than the cell's requests before it, and the policy has a "
	  "tripwire for that (`tripwires: {transfer: ...}`)." },
	{ "consequence", false, true, "A rule that it matches leads to something (`then`) that could not be put "
	  "in force, so it does not leave." },
	{ "not-renewed", false, true, "A secret ends, and where its value comes from gave no new one. It "
	  "is tried again." },
	{ "guessed", false, true, "Somebody in the cell tried out beginnings of a secret's value, by what is held "
	  "back of answers. Some of its characters may be known: give it another value where it is from." },
	{ "too-large", true, true, "Its body is larger than the rule permits with its `body: {max: ...}`, or "
	  "than can be held: what is packed, or what a rule looks into, is, and never more than 64M." },
	{ "mismatch", false, true, "The name that was looked up, the one in the TLS handshake and the one "
	  "in the request do not agree. No rule changes that: the client must ask for the server "
	  "that it means." },
	{ "unreadable", false, true, "A rule depends on what is in its body, and the body cannot be read "
	  "as what it claims to be, or is too large to be held." },
	{ "certificate", false, true, "The server's certificate is not good for this name. No rule "
	  "changes that: if it is your own, or by an authority of yours, `cloister run --ca FILE` trusts it." },
	{ "unresolved", false, true, "A rule allows it, but the name could not be resolved." },
	{ "unreachable", false, true, "A rule allows it, but the server could not be reached." },
	{ "protocol", false, true, "What was sent is not the protocol that the rule is about." },
	{ "malformed", false, true, "It was not sent on: it is no well-formed request, or one that two "
	  "programs might read in two ways. No rule changes that." },
	{ "unbound", false, true, "A signature is made only for a client that says which host it speaks "
	  "with. OpenSSH does since 8.9; other programs often do not." },
	{ "forged", false, true, "A signature is made only for a session that the host itself has "
	  "signed." },
	{ "unknown-host", false, true, "The host has a key that is in none of the operator's "
	  "known_hosts files, nor in the secret's definition: it is another host, or has a new key." },
	{ "no-key", false, true, "The cell was not given that key: see `cloister run -s`." },
	{ "signature", false, true, "It is a webhook, and was not signed with the secret that its sender "
	  "should have. No rule changes that." },
	{ "scope", false, true, "Webhooks come to this port of the cell, and no secret's scope has this "
	  "one: see `ports`, `methods` and `paths` of the secret, or publish another port for what is "
	  "not signed." },
	{ "login", false, true, "A rule allows the connection, but nobody could be logged in: either the "
	  "client did not give the placeholder of a secret that may go there, or the server did not "
	  "take the real one. No rule changes that." },
	{ "audit", false, true, "What happens is recorded, and there was no room for that: the disk was "
	  "full, or the cell's timeline as large as its policy lets it become (`audit: {max: ...}`). "
	  "Nothing leaves a cell then." },
	{ "many", false, true, "More was refused in a short time than is told one by one. The events "
	  "before this one show what it was like." },
	{ "doh", false, false, "It goes to a service that resolves names over HTTPS or TLS, or asks as one asks "
	  "those, which would hide the names that are looked up. No rule changes that: the cell's own "
	  "resolver answers for every name that a rule mentions." },
};

static const struct cause *
find_cause(const char *why)
{
	for (size_t i = 0; i < ARRAY_LEN(causes); i++)
		if (strcmp(causes[i].why, why) == 0)
			return &causes[i];
	return NULL;
}

static void
put(const char *text)
{
	text_print_safe(stdout, text, strlen(text), false);
}

static void
put_place(const char *rule)
{
	char text[CELL_POLICY_PLACE];

	put(cell_policy_place(text, rule));
}

/* One that was given on the command line has no place in a file. */
static bool
is_in_file(const char *rule)
{
	return rule[0] != '\0' && strncmp(rule, "--", 2) != 0;
}

static void
print_line(const char *before, const char *text)
{
	fputs(before, stdout);
	put(text);
	putchar('\n');
}

static bool
is_denied_address(const struct timeline_event *e)
{
	return strcmp(e->why, "private-address") == 0 && strstr(e->note, COURIER_DENIES_ADDRESS) != NULL;
}

/* Neither `private: true` nor naming the address helps. */
static bool
is_useless_address(const struct timeline_event *e)
{
	size_t len = strlen(e->note), end = sizeof(COURIER_NO_RULE_HELPS) - 1;

	return strcmp(e->why, "private-address") == 0 && len >= end &&
	       strcmp(e->note + len - end, COURIER_NO_RULE_HELPS) == 0;
}

static void
print_cause(const struct timeline_event *e, const struct cause *cause)
{
	if (is_denied_address(e))
		puts("It leads to an address that a rule denies.");
	else if (is_useless_address(e))
		puts("It leads to an address that is not a public one.");
	else if (cause != NULL && cause->text != NULL)
		puts(cause->text);
	if (is_in_file(e->rule)) {
		fputs("The rule at ", stdout);
		put_place(e->rule);
		print_line(cause != NULL && cause->text == NULL ? " refuses it: " : " is: ",
		           e->rule_text);
	} else if (e->rule[0] != '\0') {
		print_line("The rule is that of the command line: ", e->rule);
	}
	if (e->reason[0] != '\0')
		print_line("The reason given: ", e->reason);
	if (e->note[0] != '\0' && (cause == NULL || cause->note_helps))
		print_line("What happened: ", e->note);
}

/* Whether TEXT can stand in quotes in a shell, and means itself in a rule. */
static bool
is_plain(const char *text)
{
	return strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/+=") ==
	       strlen(text);
}

/* How to have it at once, where that fits on a line. */
static void
print_allow(const struct timeline *t, const struct timeline_event *e)
{
	bool is_request = strcmp(e->type, "http") == 0 && e->refs == NULL && !e->is_upgrade;

	if ((!is_request && strcmp(e->type, "dns") != 0) || !is_plain(e->host) || !is_plain(e->path) ||
	    (strcmp(e->why, "no-rule") != 0 && strcmp(e->why, "rule") != 0) || !timeline_is_live(t))
		return;
	printf("\nWhile the cell runs, this puts it in front of its rules:\n\n  cloister allow %s ",
	       timeline_cell(t));
	if (!is_request) {
		printf("%s\n", e->host);
		return;
	}
	printf("'{allow: %s", e->host);
	if (e->port != 80 && e->port != 443)
		printf(":%u", e->port);
	printf(", methods: [%s], paths: [%s]}'\n", e->method, e->path);
}

/* Whether the rule that refused a name is about nothing else, so that one in front leaves nothing
 * to it: that would be an error. */
static bool
is_just_the_name(const struct timeline_event *e)
{
	size_t n = strlen("deny ");

	return strcmp(e->type, "dns") == 0 && strncmp(e->rule_text, "deny ", n) == 0 &&
	       strcmp(e->rule_text + n, e->host) == 0;
}

static void
print_suggestion(const struct timeline *t, const struct timeline_event *e)
{
	OWN(freep) char *text = NULL;
	struct policy_seen seen;
	struct err err = {0};

	timeline_get_seen(e, &seen);
	if (policy_write_rule_for(&seen, &text, &err) < 0) {
		fputs("\nNo rule is suggested: ", stdout);
		put(err.text);
		putchar('\n');
		return;
	}
	if (is_in_file(e->rule)) {
		fputs(is_just_the_name(e) ? "\nThis rule, in place of the one at "
		                          : "\nThis rule, put in front of the one at ", stdout);
		put_place(e->rule);
		fputs(", would allow it:\n\n", stdout);
	} else {
		fputs("\nThis rule under `egress:` would allow it:\n\n", stdout);
	}
	text_print_safe(stdout, text, strlen(text), true);
	if (why_is_layered(t))
		fputs("\nThe cell's policy lies within others: each of them has to allow it.\n", stdout);
	else
		print_allow(t, e);
}

static void
explain(const struct timeline *t, const struct timeline_event *e)
{
	const struct cause *cause = find_cause(e->why);
	char time[TIMELINE_TIME_MAX];

	fputs(timeline_is_refusal(e) ? "Refused" : e->why[0] != '\0' ? "Failed" : "Allowed", stdout);
	printf(" in cell %s (event %llu", timeline_cell(t), (unsigned long long)e->n);
	if (timeline_format_time(time, e->time, ", %Y-%m-%d %H:%M:%S"))
		fputs(time, stdout);
	fputs("):\n\n    ", stdout);
	timeline_print_what(stdout, e);
	fputs("\n\n", stdout);
	print_cause(e, cause);
	if (strcmp(e->why, "no-rule") == 0)
		why_print_near(t, e);
	if (is_denied_address(e))
		puts("\nA rule that allows it has to stand in front of the one that denies the address.");
	else if (timeline_is_refusal(e) && (cause == NULL || cause->rule_helps) &&
	         strstr(e->note, COURIER_NO_RULE_HELPS) == NULL)
		print_suggestion(t, e);
}

static bool
is_asked_for(const struct timeline_event *e, uint64_t n)
{
	return n != 0 ? e->n == n : timeline_is_refusal(e) || e->why[0] != '\0';
}

/* Number N, or with 0 the last that did not go well. */
static int
find_event(struct timeline *t, uint64_t n, struct timeline_event *ret_event, struct err *err)
{
	struct timeline_event e;
	bool found = false;
	int r;

	while ((r = timeline_next(t, &e, err)) > 0) {
		if (!is_asked_for(&e, n)) {
			timeline_event_free(&e);
			continue;
		}
		timeline_event_free(ret_event);
		*ret_event = e;
		found = true;
		if (n != 0)
			break;
	}
	if (r < 0)
		return r;
	if (found && !timeline_is_decision(ret_event))
		return err_set(err, EINVAL, "event %llu of cell %s is no decision, but tells what befell the cell: "
		               "`cloister events %s` shows it, and `cloister why %s` explains the last refusal",
		               (unsigned long long)n, timeline_cell(t), timeline_cell(t), timeline_cell(t));
	if (found)
		return 0;
	if (n != 0)
		return err_set(err, ENOENT, "cell %s has no event %llu: see `cloister events %s`",
		               timeline_cell(t), (unsigned long long)n, timeline_cell(t));
	return err_set(err, ENOENT, "cell %s was refused nothing", timeline_cell(t));
}

/* Whether WORD is the whole id or name of a cell: then it is no number. */
static bool
is_cell(const char *word)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	struct cell_entry entry;

	return state >= 0 && cell_find(state, false, word, &entry, NULL) == 0 &&
	       (strcmp(entry.id, word) == 0 || strcmp(entry.name, word) == 0);
}

/* CELL and N, either of which may be left out. */
static int
take_words(int argc, char **argv, int rest, const char **ret_cell, uint64_t *ret_n,
           struct err *err)
{
	const char *number = NULL;
	uint64_t n;

	if (argc - rest > 2)
		return err_set(err, EINVAL, "'%s' is too much: cloister why [CELL] [N]", argv[rest + 2]);
	if (argc - rest == 2) {
		*ret_cell = argv[rest];
		number = argv[rest + 1];
	} else if (argc - rest == 1) {
		if (num_parse_count(argv[rest], 1, INT64_MAX, &n, NULL) == 0 && !is_cell(argv[rest]))
			*ret_n = n;
		else
			*ret_cell = argv[rest];
	}
	if (number != NULL && num_parse_count(number, 1, INT64_MAX, ret_n, err) < 0)
		return err_wrap(err, "'%s' is no number of an event", number);
	return 0;
}

int
cmd_why(int argc, char **argv)
{
	OWN(timeline_close) struct timeline t = { .state = -1, .dir = -1, .fd = -1 };
	OWN(timeline_event_free) struct timeline_event e = {0};
	const char *cell = NULL;
	struct err err = {0};
	uint64_t n = 0;
	int rest, r;

	r = cli_parse(cli_no_options, argc, argv, false, NULL, NULL, &rest, &err);
	if (r == 0)
		r = take_words(argc, argv, rest, &cell, &n, &err);
	if (r == 0)
		r = timeline_open(cell, &t, &err);
	if (r == 0)
		r = find_event(&t, n, &e, &err);
	if (r < 0)
		return cli_fail(&err);
	explain(&t, &e);
	return 0;
}

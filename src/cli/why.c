/* why.c - `cloister why`: explains a recorded refusal, and prints the rule that would allow it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "cell/cell_policy.h"
#include "cli/cli.h"
#include "cli/timeline.h"
#include "cli/why.h"
#include "ipc/courier_channel.h"
#include "policy/policy_suggest.h"

const struct cli_option cli_why_options[] = {
	{ "json", 0, NULL, "print JSON for programs", CLI_BOOL },
	{0}
};

/* The explanation of each "why" of an event. */
static const struct cause {
	const char *why;
	bool rule_helps;                /* a rule in front of the others would allow it */
	bool note_helps;                /* the event's note has more than this text */
	const char *text;               /* NULL: the rule explains it */
} causes[] = {
	{ "no-rule", true, false, "No rule allows the request, so it is refused." },
	{ "rule", true, false, NULL },
	{ "ask", true, true, "The rule asks for a person's approval, and nobody gave it. `cloister "
	  "approvals` shows the requests that wait." },
	{ "private-address", true, true, "It leads to an address that is not a public one. Such an "
	  "address is refused unless the rule of the name has `private: true`, or the request names an "
	  "address and a rule names it too. For link-local and metadata addresses only the latter "
	  "helps." },
	{ "secret", true, true, "It contains something that looks like a credential, and no rule "
	  "permits that." },
	{ "exfiltration", false, true, "It carries the placeholder of a secret to a host that the "
	  "secret is not for, or in a part of the request where it is not allowed: `cloister secret "
	  "show` shows the secret's own scope. To allow the host, start the cell with `-s "
	  "NAME@HOST:PORT`, or `cloister secret remove` it and `add` it again with another --host. If the "
	  "host has no TLS, only the latter helps, with --plain. One rule can help: if the host is a model that the "
	  "agent talks to, `placeholders: pass` sends placeholders in bodies there unchanged." },
	{ "credential", false, true, "It carries the placeholder of a secret, or is signed with it, "
	  "and the real value could not replace it. No rule changes that." },
	{ "expired", false, true, "The value of a secret has expired, and no new value could be "
	  "fetched." },
	{ "revoked", false, true, "An operator, or a rule's `then`, has revoked the secret in this "
	  "cell. No rule changes that: start a new cell to use the secret again." },
	{ "budget", false, true, "A rule allows it, but a budget of the policy does not. No rule "
	  "changes that: `cloister budget` shows the usage, and `--raise` raises a budget while the "
	  "cell is running." },
	{ "rate", false, true, "A rule allows it, but the cell makes more requests than its `rate` "
	  "allows. No rule changes that: send the request again later." },
	{ "hook", false, true, "A rule allows it, but the rule's `hook` refused it or gave no valid answer. "
	  "Change the hook, or repair it: a rule without the hook would let such requests pass unjudged." },
	{ "rewrite", false, true, "A rule allows it and rewrites such requests, but this one cannot be "
	  "rewritten for certain. Send it in another form, or change the rule's `rewrite`." },
	{ "transfer", false, true, "It sends far more than the cell's earlier requests, and the policy "
	  "has a tripwire for that (`tripwires: {transfer: ...}`)." },
	{ "consequence", false, true, "It matches a rule with a consequence (`then`) that could not be "
	  "enforced, so it did not leave the cell." },
	{ "not-renewed", false, true, "A secret expires, and its source gave no new value. cloister "
	  "tries again." },
	{ "guessed", false, true, "Somebody in the cell tried out prefixes of a secret's value, by "
	  "observing what is held back from responses. Some of its characters may be known: create a "
	  "new value at the service that issued it." },
	{ "too-large", true, true, "Its body is larger than the rule's `body: {max: ...}`, or too "
	  "large to be held. Compressed bodies, and bodies that a rule inspects, are held, up to 64M." },
	{ "mismatch", false, true, "The name that was looked up, the name in the TLS handshake and the "
	  "name in the request differ. No rule changes that: the client must use one name." },
	{ "unreadable", false, true, "A rule depends on the contents of its body, and the body does "
	  "not have the format that it claims, or is too large to be held." },
	{ "certificate", false, true, "The server's certificate is not valid for this name. No rule "
	  "changes that: if it is your own, or your own authority issued it, `cloister run --ca FILE` "
	  "trusts it." },
	{ "unresolved", false, true, "A rule allows it, but the name could not be resolved." },
	{ "unreachable", false, true, "A rule allows it, but the server could not be reached." },
	{ "protocol", false, true, "The client does not use the protocol that the rule expects." },
	{ "malformed", false, true, "It was not forwarded: it is not a well-formed request, or two "
	  "programs might read it in two ways. No rule changes that." },
	{ "unbound", false, true, "The key signs only for a client that names its host. OpenSSH does "
	  "so since 8.9; other programs often do not." },
	{ "forged", false, true, "The key signs only for a session that the host itself has signed." },
	{ "unknown-host", false, true, "The host's key is neither in the operator's known_hosts files "
	  "nor in the secret's definition: it is another host, or it has a new key." },
	{ "no-key", false, true, "The cell was not given that key: see `cloister run -s`." },
	{ "signature", false, true, "It is a webhook that was not signed with its sender's secret. No "
	  "rule changes that." },
	{ "scope", false, true, "This port of the cell receives webhooks, and no secret's scope covers "
	  "this one: see `ports`, `methods` and `paths` of the secret, or publish another port for "
	  "unsigned requests." },
	{ "login", false, true, "A rule allows the connection, but the login failed: either the client "
	  "did not give the placeholder of a secret for this server, or the server did not accept the "
	  "real value. No rule changes that." },
	{ "audit", false, true, "It could not be recorded: the disk was full, or the cell's timeline "
	  "has reached its maximum size (`audit: {max: ...}`). Then nothing leaves a cell." },
	{ "many", false, true, "There were too many refusals in a short time to record them one by "
	  "one. The events before this one show examples." },
	{ "doh", false, false, "It goes to a service that resolves names over HTTPS or TLS, or uses "
	  "the format of such a service, which would hide the names that are looked up. No rule "
	  "changes that: the cell's own resolver answers for every name that a rule mentions." },
};

static const struct cause *
find_cause(const char *why)
{
	for (size_t i = 0; i < ARRAY_LEN(causes); i++)
		if (strcmp(causes[i].why, why) == 0)
			return &causes[i];
	return NULL;
}

/* Its places are for the host, three times. */
#define GIT_OVER_SSH "\nThe policy allows git on %s over HTTPS. A rule for port 22 would let the cell push to any\n" \
	"repository there, so use HTTPS. For git with a configuration of its own:\n\n" \
	"  git config url.https://%s/.insteadOf git@%s:\n"

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

/* A rule from the command line is in no file. */
static bool
is_in_file(const char *rule)
{
	return rule[0] != '\0' && strncmp(rule, "--", 2) != 0;
}

static bool
is_of_profile(const char *rule)
{
	return strncmp(rule, POLICY_OF_PROFILE, strlen(POLICY_OF_PROFILE)) == 0;
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

/* The status is the server's own, not the one for a missing response. */
static bool
is_cut(const struct timeline_event *e)
{
	return strcmp(e->why, "unreachable") == 0 && e->status != 0 && e->status != 502 && e->status != 504;
}

/* The placeholder goes to a right host, in a part of the request where it may not be. */
static bool
is_wrong_place(const struct timeline_event *e)
{
	return strcmp(e->why, "exfiltration") == 0 && strstr(e->note, COURIER_WRONG_PLACE COURIER_ITS_PLACES) != NULL;
}

/* NULL: the rule explains it. */
static const char *
explanation(const struct timeline_event *e, const struct cause *cause)
{
	if (is_wrong_place(e))
		return "It carries the placeholder of a secret to a host of the secret, but in a part of the request where it is "
		       "not allowed. To allow that part, `cloister secret remove` the secret and `add` it again with --in and all "
		       "of its places: `--in header --in query`. One rule can help: if the host is a model that the agent talks to, "
		       "`placeholders: pass` sends placeholders in bodies there unchanged.";
	return cause != NULL ? cause->text : NULL;
}

static void
print_cause(const struct timeline_event *e, const struct cause *cause)
{
	if (is_denied_address(e))
		puts("It leads to an address that a rule denies.");
	else if (is_useless_address(e))
		puts("It leads to an address that is not a public one.");
	else if (is_cut(e))
		puts("A rule allows it, but the server broke off its response.");
	else if (explanation(e, cause) != NULL)
		puts(explanation(e, cause));
	if (is_in_file(e->rule)) {
		fputs(is_of_profile(e->rule) ? "The rule of the " : "The rule at ", stdout);
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

/* Whether TEXT can be quoted in a shell, and is literal in a rule. */
static bool
is_plain(const char *text)
{
	return strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/+=") ==
	       strlen(text);
}

/* Prints the command to allow it at once, if that fits on a line. */
static void
print_allow(const struct timeline *t, const struct timeline_event *e)
{
	bool is_request = strcmp(e->type, "http") == 0 && e->refs == NULL && !e->is_upgrade;

	if ((!is_request && strcmp(e->type, "dns") != 0) || !is_plain(e->host) || !is_plain(e->path) ||
	    !is_plain(e->tool) || !is_plain(e->prompt) || strchr(e->resource, '\'') != NULL ||
	    (strcmp(e->why, "no-rule") != 0 && strcmp(e->why, "rule") != 0) || !timeline_is_live(t))
		return;
	printf("\nWhile the cell is running, this adds the rule in front of the others:\n\n  cloister "
	       "allow %s ",
	       timeline_cell(t));
	if (!is_request) {
		printf("%s\n", e->host);
		return;
	}
	if (e->tool[0] != '\0' || e->prompt[0] != '\0' || e->resource[0] != '\0') {
		printf("'%s%s'\n", e->tool[0] != '\0' ? "tool:" : e->prompt[0] != '\0' ? "prompt:" : "resource:",
		       e->tool[0] != '\0' ? e->tool : e->prompt[0] != '\0' ? e->prompt : e->resource);
		return;
	}
	printf("'{allow: %s", e->host);
	if (e->port != 80 && e->port != 443)
		printf(":%u", e->port);
	printf(", methods: [%s], paths: [%s]}'\n", e->method, e->path);
}

/* Whether the rule that refused a name covers only that name.  A rule in front would then leave it
 * nothing to match, which is an error. */
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
		fputs("\nThe cell's policy is within other policies: each of them must allow it.\n", stdout);
	else
		print_allow(t, e);
}

/* Whether a rule in front of the others would allow it, and is one to advise. */
static bool
rule_helps(const struct timeline *t, const struct timeline_event *e, const struct cause *cause)
{
	return !why_is_git_over_ssh(t, e) && !is_denied_address(e) && timeline_is_refusal(e) && (cause == NULL || cause->rule_helps) &&
	       strstr(e->note, COURIER_NO_RULE_HELPS) == NULL && strstr(e->rule_text, " hook ") == NULL;
}

/* ---- for programs ---- */

static void
put_text(struct json *w, const char *key, const char *text)
{
	json_str(w, key, text != NULL && text[0] != '\0' ? text : NULL);
}

static void
put_suggestion(struct json *w, const struct timeline_event *e)
{
	OWN(freep) char *text = NULL;
	struct policy_seen seen;

	timeline_get_seen(e, &seen);
	put_text(w, "suggested_rule", policy_write_rule_for(&seen, &text, NULL) < 0 ? NULL : text);
}

static int
print_json(const struct timeline *t, const struct timeline_event *e)
{
	const struct cause *cause = find_cause(e->why);
	OWN(freep) char *what = NULL;
	struct json w = { .out = stdout };
	size_t len = 0;
	FILE *out = open_memstream(&what, &len);

	if (out == NULL)
		return cli_failf("out of memory");
	timeline_print_what(out, e);
	if (fclose(out) != 0)
		return cli_failf("out of memory");
	json_open(&w, NULL, '{');
	json_str(&w, "cell", t->entry.id);
	json_u64(&w, "event", e->n);
	put_text(&w, "time", e->time);
	json_str(&w, "result", timeline_is_refusal(e) ? "refused" : e->why[0] != '\0' ? "failed" : "allowed");
	put_text(&w, "what", what);
	put_text(&w, "why", e->why);
	put_text(&w, "explanation", explanation(e, cause));
	put_text(&w, "rule", e->rule);
	put_text(&w, "rule_text", e->rule_text);
	put_text(&w, "reason", e->reason);
	put_text(&w, "note", e->note);
	if (rule_helps(t, e, cause))
		put_suggestion(&w, e);
	else
		json_str(&w, "suggested_rule", NULL);
	json_close(&w, '}');
	putchar('\n');
	return 0;
}

/* ---- for people ---- */

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
		puts("\nA rule that allows it must be in front of the one that denies the address.");
	else if (why_is_git_over_ssh(t, e))
		printf(GIT_OVER_SSH, e->host, e->host, e->host);
	else if (rule_helps(t, e, cause))
		print_suggestion(t, e);
}

static bool
is_asked_for(const struct timeline_event *e, uint64_t n)
{
	return n != 0 ? e->n == n : timeline_is_refusal(e) || e->why[0] != '\0';
}

/* Finds number N, or with 0 the last failure. */
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
		return err_set(err, EINVAL, "event %llu of cell %s is not a decision: `cloister events "
		               "%s` shows it, and `cloister why %s` explains the last refusal",
		               (unsigned long long)n, timeline_cell(t), timeline_cell(t), timeline_cell(t));
	if (found)
		return 0;
	if (n != 0)
		return err_set(err, ENOENT, "cell %s has no event %llu: see `cloister events %s`",
		               timeline_cell(t), (unsigned long long)n, timeline_cell(t));
	return err_set(err, ENOENT, "nothing was refused in cell %s", timeline_cell(t));
}

/* CELL and N, both optional. */
static int
take_words(int argc, char **argv, int rest, const char **ret_cell, uint64_t *ret_n,
           struct err *err)
{
	const char *number = NULL;
	uint64_t n;

	if (argc - rest > 2)
		return err_set(err, EINVAL, "there are too many arguments, remove '%s': cloister why "
		               "[CELL] [N]", argv[rest + 2]);
	if (argc - rest == 2) {
		*ret_cell = argv[rest];
		number = argv[rest + 1];
	} else if (argc - rest == 1) {
		if (num_parse_count(argv[rest], 1, INT64_MAX, &n, NULL) == 0 && !cli_is_kept(argv[rest]))
			*ret_n = n;
		else
			*ret_cell = argv[rest];
	}
	if (number != NULL && num_parse_count(number, 1, INT64_MAX, ret_n, err) < 0)
		return err_wrap(err, "'%s' is not the number of an event", number);
	return 0;
}

int
cmd_why(int argc, char **argv)
{
	OWN(timeline_close) struct timeline t = {0};
	OWN(timeline_event_free) struct timeline_event e = {0};
	const char *cell = NULL;
	struct err err = {0};
	bool json = false;
	uint64_t n = 0;
	int rest, r;

	r = cli_parse(cli_why_options, argc, argv, true, NULL, &json, &rest, &err);
	if (r == 0)
		r = take_words(argc, argv, rest, &cell, &n, &err);
	if (r == 0)
		r = timeline_open(cell, &t, &err);
	if (r == 0)
		r = find_event(&t, n, &e, &err);
	if (r < 0)
		return cli_fail(&err);
	if (json)
		return print_json(&t, &e);
	explain(&t, &e);
	return 0;
}

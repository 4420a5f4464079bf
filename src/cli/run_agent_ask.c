/* run_agent_ask.c - the first run of an agent: shows what it gets, and asks for what is missing.
 *
 * The answers are remembered, so that later runs start at once.  Without a terminal nothing is asked. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/run.h"
#include "cli/run_agent.h"
#include "cli/secret.h"
#include "vault/secret.h"

bool
run_agent_can_ask(const struct run *run)
{
	return isatty(STDIN_FILENO) && isatty(STDERR_FILENO) && !run->spec.quiet && !run->print_doc;
}

bool
run_agent_read_answer(char ret_answer[RUN_ANSWER_MAX])
{
	fflush(stderr);
	if (fgets(ret_answer, RUN_ANSWER_MAX, stdin) == NULL)
		return false;
	ret_answer[strcspn(ret_answer, "\n")] = '\0';
	return true;
}

/* ---- the screen ---- */

static void
put_line(const char *title, const char *text, const char *more)
{
	fprintf(stderr, "  %-9s ", title);
	text_print_safe(stderr, text, strlen(text), false);
	fprintf(stderr, "%s\n", more);
}

/* PREFIX is put before each. */
static void
put_list(const char *title, char *const *list, const char *prefix, const char *more)
{
	for (; list != NULL && *list != NULL; list++, title = "") {
		fprintf(stderr, "  %-9s %s", title, prefix);
		text_print_safe(stderr, *list, strlen(*list), false);
		fprintf(stderr, "%s\n", more);
	}
}

static void
show_reads(const struct run_agent *a)
{
	char *const *read = a->found->profile->read;
	const char *title = "read";

	for (size_t i = 0; read != NULL && read[i] != NULL; i++) {
		if (a->read[i] == NULL && a->withheld[i] == NULL)
			continue;
		fprintf(stderr, "  %-9s ~/", title);
		text_print_safe(stderr, read[i], strlen(read[i]), false);
		fprintf(stderr, "%s%s%s\n", a->withheld[i] != NULL ? " (not given: " : "",
		        a->withheld[i] != NULL ? a->withheld[i] : "", a->withheld[i] != NULL ? ")" : "");
		title = "";
	}
}

static void
show_secrets(const struct profile *p, const char *const *used)
{
	const char *title = "key";

	for (size_t i = 0; i < p->n_secrets; i++, title = "") {
		fprintf(stderr, "  %-9s ", title);
		if (used[i] != NULL) {
			text_print_safe(stderr, used[i], strcspn(used[i], "=:@"), false);
			fprintf(stderr, ", as a placeholder\n");
			continue;
		}
		if (p->login.file != NULL)
			fprintf(stderr, "your login in ~/%s, or ", p->login.file);
		for (char **name = p->secrets[i]; *name != NULL; name++) {
			fprintf(stderr, "%s", name > p->secrets[i] ? " or " : "");
			text_print_safe(stderr, *name, strcspn(*name, "=:@"), false);
		}
		fprintf(stderr, ", as a placeholder\n");
	}
}

static void
show_servers(const struct profile_mcp *mcp)
{
	for (size_t i = 0; i < mcp->n; i++) {
		const struct profile_server *s = &mcp->servers[i];

		fprintf(stderr, "  %-9s %s: ", i == 0 ? "mcp" : "", s->name);
		text_print_safe(stderr, s->url != NULL ? s->url : s->command[0],
		                strlen(s->url != NULL ? s->url : s->command[0]), false);
		fprintf(stderr, "%s\n", s->url != NULL ? "" : " (a program in the cell)");
	}
}

/* USED: the secret that is used for each choice; NULL: not known yet. */
static void
show(const struct run_agent *a, const char *const *used)
{
	const struct profile *p = a->found->profile;

	fprintf(stderr, "%s: ", a->found->name);
	if (p->about != NULL)
		text_print_safe(stderr, p->about, strlen(p->about), false);
	fprintf(stderr, " (%s profile)\n", profile_cli_origin(a->found->origin));
	put_line("program", a->program.path != NULL ? a->program.path : p->program,
	         a->program.path != NULL ? "" : " (in the image)");
	for (size_t i = 0; i < a->program.n_grants; i++)
		put_line(i == 0 ? "granted" : "", a->program.grants[i].cell, " (read only)");
	put_list("words", p->args, "", "");
	put_line("project", a->folder, a->here != NULL ? " (changes stay apart, for `cloister diff` and `apply`)" : "");
	put_list("hosts", p->allow, "", "");
	show_secrets(p, used);
	show_servers(&p->mcp);
	put_list("kept", p->keep, "~/", " (apart from your own, for this project)");
	show_reads(a);
	fprintf(stderr, "`cloister profile show %s` prints the profile.\n", a->found->name);
}

/* ---- trust ---- */

static int
ask_trust(const struct run_agent *a, struct err *err)
{
	char answer[RUN_ANSWER_MAX];

	fprintf(stderr, "This profile comes with the project ('%s'). Use it? [y/N] ", a->found->file);
	if (!run_agent_read_answer(answer) || (answer[0] != 'y' && answer[0] != 'Y'))
		return err_set(err, ECANCELED, "the project's profile '%s' was not accepted: `cloister profile new` writes one "
		               "of your own", a->found->name);
	return profile_cli_trust(a->found, err);
}

static int
refuse_unknown(const struct run_agent *a, struct err *err)
{
	return err_set(err, EPERM, "the profile '%s' comes with the project ('%.250s'), and nobody has accepted it as it is: "
	               "read it, then `cloister profile trust %s`", a->found->name, a->found->file, a->found->name);
}

/* ---- secrets ---- */

/* Whether the short form TEXT, of -s, is about the secret NAME. */
static bool
is_about(const char *text, const char *name)
{
	size_t len = strcspn(text, "=:@");

	return strlen(name) == len && strncmp(text, name, len) == 0;
}

/* The alternative of CHOICE that LIST names; NULL if there is none. */
static const char *
find_alternative(char *const *choice, char *const *list)
{
	for (; *choice != NULL; choice++)
		for (size_t i = 0; list[i] != NULL; i++)
			if (is_about(*choice, list[i]))
				return *choice;
	return NULL;
}

/* The one of them that -s gives, or NULL. */
static const char *
find_given(const struct run *run, char *const *choice)
{
	for (; *choice != NULL; choice++)
		for (size_t i = 0; i < run->n_secrets; i++) {
			OWN(freep) char *name = strndup(run->secrets[i], strcspn(run->secrets[i], "=:@"));

			if (name != NULL && is_about(*choice, name))
				return *choice;
		}
	return NULL;
}

/* The secrets that choose_one() will choose without a question. */
static void
find_used(const struct run *run, struct run_agent *a, char *const *names, const char **ret_used)
{
	const struct profile *p = a->found->profile;

	for (size_t i = 0; i < p->n_secrets; i++) {
		ret_used[i] = find_given(run, p->secrets[i]);
		if (ret_used[i] == NULL)
			ret_used[i] = find_alternative(p->secrets[i], a->answers.secrets);
		if (ret_used[i] == NULL && names != NULL)
			ret_used[i] = find_alternative(p->secrets[i], names);
	}
}

/* The command that adds a secret of the short form TEXT. */
static void
put_add(struct buf *b, const char *text)
{
	size_t len = strcspn(text, "=:@");
	const char *host = strchr(text, '@');

	buf_put_text(b, "`cloister secret add ");
	buf_put(b, text, len);
	for (; host != NULL; host = host[len] == ',' ? host + len : NULL) {
		len = 1 + strcspn(host + 1, ",");
		buf_put_text(b, " --host '");
		buf_put(b, host + 1, len - 1);
		buf_put_text(b, "'");
	}
	buf_put_text(b, "`");
}

static int
refuse_missing(const struct run_agent *a, char *const *choice, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(PROFILE_FILE_MAX);

	for (size_t i = 0; choice[i] != NULL; i++) {
		buf_put_text(&b, i > 0 ? " or " : "");
		put_add(&b, choice[i]);
	}
	return err_set(err, ENOENT, "%s needs a key that is not in the vault: %.*s", a->found->name, (int)b.len,
	               (const char *)b.data);
}

/* Asks which one to add, if there are several. */
static int
ask_which(char *const *choice, const char **ret_chosen, struct err *err)
{
	char answer[RUN_ANSWER_MAX], *end = answer;
	size_t n = strv_len(choice);
	unsigned long number = 1;

	for (size_t i = 0; n > 1 && i < n; i++)
		fprintf(stderr, "  %zu) %.*s\n", i + 1, (int)strcspn(choice[i], "=:@"), choice[i]);
	if (n > 1) {
		fprintf(stderr, "Which key do you have? [1] ");
		if (!run_agent_read_answer(answer))
			return err_set(err, ECANCELED, "no key was chosen");
		number = answer[0] == '\0' ? 1 : strtoul(answer, &end, 10);
		if (number < 1 || number > n || (answer[0] != '\0' && *end != '\0'))
			return err_set(err, EINVAL, "'%s' is not one of the numbers", answer);
	}
	*ret_chosen = choice[number - 1];
	return 0;
}

static int
add_missing(const struct run_agent *a, char *const *choice, const char **ret_chosen, struct err *err)
{
	int r;

	fprintf(stderr, "The vault has no key for it yet. The agent gets a placeholder, and never the key.\n");
	if (a->found->profile->login.file != NULL)
		fprintf(stderr, "To log in by browser instead, press Ctrl-C, run `%s` outside a cell once, and start this again.\n",
		        a->found->profile->program);
	r = ask_which(choice, ret_chosen, err);
	return r == 0 ? secret_cli_add(*ret_chosen, err) : r;
}

/* NAMES: of the vault's secrets; loaded once. */
static int
choose_one(const struct run *run, struct run_agent *a, char *const *choice, char ***names, struct err *err)
{
	const char *chosen = find_alternative(choice, a->answers.secrets);
	int r = 0;

	if (find_given(run, choice) != NULL)
		return 0;
	/* A document has names only, so the vault need not be open. */
	if (chosen == NULL && run->print_doc)
		chosen = choice[0];
	if (chosen == NULL && *names == NULL)
		r = secret_cli_names(names, err);
	if (r == 0 && chosen == NULL)
		chosen = find_alternative(choice, *names);
	if (r == 0 && chosen == NULL && run_agent_find_login(a))
		return 0;
	if (r == 0 && chosen == NULL)
		r = run_agent_can_ask(run) ? add_missing(a, choice, &chosen, err) : refuse_missing(a, choice, err);
	if (r == 0)
		a->secrets[a->n_secrets++] = chosen;
	return r;
}

/* ---- answers ---- */

static int
remember(struct run_agent *a, struct err *err)
{
	struct profile_answers *now = &a->answers;

	profile_answers_free(now);
	memcpy(now->shown, a->found->hash, sizeof(now->shown));
	for (size_t i = 0; i < a->n_secrets; i++) {
		now->secrets[i] = strndup(a->secrets[i], strcspn(a->secrets[i], "=:@"));
		if (now->secrets[i] == NULL)
			return err_set(err, ENOMEM, "out of memory");
	}
	return profile_answers_save(a->found->name, now, err);
}

int
run_agent_ask(const struct run *run, struct run_agent *a, struct err *err)
{
	const struct profile *p = a->found->profile;
	const bool is_trusted = profile_cli_is_trusted(a->found);
	const bool is_new = run_agent_can_ask(run) && (strcmp(a->answers.shown, a->found->hash) != 0 || !is_trusted);
	const char *used[PROFILE_CHOICES_MAX] = { NULL };
	OWN(strv_freep) char **names = NULL;
	int r = 0;

	if (!is_trusted && !is_new)
		return refuse_unknown(a, err);
	/* A profile that nobody has accepted yet asks the vault nothing. */
	if (is_new && is_trusted && p->n_secrets > 0)
		r = secret_cli_names(&names, err);
	if (r < 0)
		return r;
	find_used(run, a, names, used);
	if (is_new)
		show(a, used);
	if (!is_trusted)
		r = ask_trust(a, err);
	for (size_t i = 0; r == 0 && i < p->n_secrets; i++)
		r = choose_one(run, a, p->secrets[i], &names, err);
	return r == 0 && is_new ? remember(a, err) : r;
}

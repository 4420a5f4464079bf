/* completion.c - `cloister completion`: the scripts of shells, and the words that they offer.
 *
 * The scripts only call `cloister completion words WORD...`, whose last WORD is the one to complete.  It
 * prints one candidate in each line, with a tab and an explanation where there is one.  The line ":files" or
 * ":programs" asks the shell for its own. */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include "policy/policy_boundary.h"
#include "policy/policy_preset.h"
#include "state/state_read.h"
#include "vault/catalogue.h"
#include "volume/volume.h"

/* The files, included at build time. */
__asm__(".section .rodata.completion, \"a\"\n"
        "completion_bash:\n"
        ".incbin \"share/completion/cloister\"\n"
        ".byte 0\n"
        "completion_zsh:\n"
        ".incbin \"share/completion/_cloister\"\n"
        ".byte 0\n"
        "completion_fish:\n"
        ".incbin \"share/completion/cloister.fish\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char completion_bash[], completion_zsh[], completion_fish[];

struct completing {
	const struct cli_command *command;
	char **words;                   /* before the last, without the command */
	int n;
	int behind;                     /* how many of them are words behind the verb */
	const char *last;
};

/* ---- candidates ---- */

static void
offer(const struct completing *c, const char *word, const char *help)
{
	if (strncmp(word, c->last, strlen(c->last)) != 0)
		return;
	fputs(word, stdout);
	if (help != NULL && help[0] != '\0')
		printf("\t%s", help);
	putchar('\n');
}

static void
offer_commands(const struct completing *c)
{
	for (const struct cli_command *command = cli_commands; command->name != NULL; command++)
		offer(c, command->name, command->help);
}

static void
offer_verbs(const struct completing *c, const struct cli_verb *verb)
{
	char word[32];

	for (; verb->use != NULL; verb++) {
		snprintf(word, sizeof(word), "%.*s", (int)strcspn(verb->use, " "), verb->use);
		if (word[0] != '[')
			offer(c, word, verb->help);
	}
}

static void
offer_options(const struct completing *c)
{
	char word[64];

	for (const struct cli_option *o = c->command->options; o->name != NULL; o++) {
		snprintf(word, sizeof(word), "--%s", o->name);
		offer(c, word, o->help);
	}
	offer(c, "--help", "explain the command and its options");
}

static void
offer_cells_in(const struct completing *c, int folder, bool runs)
{
	OWN(freep) struct cell_entry *cells = NULL;
	size_t n = 0;

	if (folder < 0 || cell_list(folder, runs, &cells, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		offer(c, cells[i].name[0] != '\0' ? cells[i].name : cells[i].id, runs ? "runs" : "ended");
}

/* What has ended is offered where something that is kept is asked for. */
static void
offer_cells(const struct completing *c)
{
	static const char *const kept[] = { "diff", "apply", "discard", "logs", "events", "tree", "replay", "review", "why", "audit", "wait" };
	OWN(closep) int runtime = cell_runtime_open(NULL), state = cell_state_open(false, NULL);

	offer_cells_in(c, runtime, true);
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (strcmp(c->command->name, kept[i]) == 0)
			offer_cells_in(c, state, false);
}

static void
offer_states(const struct completing *c)
{
	OWN(strv_freep) char **names = NULL;

	if (state_list(&names, NULL) == 0)
		for (char **name = names; *name != NULL; name++)
			offer(c, *name, NULL);
}

static void
offer_volumes(const struct completing *c)
{
	OWN(volumes_close) struct volumes volumes = { .top = -1, .names = -1, .trees = -1, .locks = -1 };
	OWN(strv_freep) char **names = NULL;

	if (volumes_open(false, &volumes, NULL) == 0 && volume_list(&volumes, &names, NULL) == 0)
		for (char **name = names; *name != NULL; name++)
			offer(c, *name, NULL);
}

/* Words of verbs that are about states and volumes.  False if USE is about other things. */
static bool
offer_kept(const struct completing *c, const char *use)
{
	const bool volume = strcmp(c->command->name, "volume") == 0, state = strcmp(c->command->name, "state") == 0;
	const bool makes = strncmp(use, "create ", 7) == 0 || strncmp(use, "import ", 7) == 0;

	if ((!volume && !state) || (strstr(use, " NAME") == NULL && strstr(use, "[NAME]") == NULL))
		return false;
	if (volume && !makes)
		offer_volumes(c);
	if (state && !makes && c->behind == 0)
		offer_states(c);
	/* The paths of other verbs are in the state. */
	return c->behind == 0 || (strncmp(use, "export ", 7) != 0 && strncmp(use, "import ", 7) != 0);
}

/* "a|b|c", with or without brackets; words in capitals stand for others */
static void
offer_choices(const struct completing *c, const char *list)
{
	char word[32];

	for (list += list[0] == '['; *list != '\0'; list += strcspn(list, "|]")) {
		list += *list == '|' || *list == ']';
		snprintf(word, sizeof(word), "%.*s", (int)strcspn(list, "|]"), list);
		if (word[0] != '\0' && (word[0] < 'A' || word[0] > 'Z'))
			offer(c, word, NULL);
	}
}

static void
offer_presets(const struct completing *c)
{
	char word[64];

	for (const struct policy_preset *p = policy_presets; p->name != NULL; p++) {
		snprintf(word, sizeof(word), "preset:%s", p->name);
		offer(c, word, p->help);
	}
}

static void
offer_services(const struct completing *c)
{
	for (const struct catalogue_entry *e = catalogue; e->name != NULL; e++)
		offer(c, e->name, e->title);
}

static void
offer_boundaries(const struct completing *c)
{
	for (const char *const *name = policy_boundary_names; *name != NULL; name++)
		offer(c, *name, NULL);
	offer(c, BOUNDARY_DOCKER, NULL);
	offer(c, POLICY_BOUNDARY_STRONGEST, NULL);
}

static int
offer_profile(void *arg, const char *name)
{
	offer(arg, name, NULL);
	return 0;
}

static void
offer_profiles(struct completing *c)
{
	(void)profile_cli_each(".", offer_profile, c, NULL);
}

static bool
is_about_profiles(const struct completing *c)
{
	return strcmp(c->command->name, "profile") == 0;
}

/* The value of an option. */
static void
offer_values(struct completing *c, const struct cli_option *option)
{
	if (strcmp(option->name, "allow") == 0)
		offer_presets(c);
	else if (strcmp(option->name, "like") == 0 && is_about_profiles(c))
		offer_profiles(c);
	else if (strcmp(option->name, "like") == 0)
		offer_services(c);
	else if (strcmp(option->name, "boundary") == 0)
		offer_boundaries(c);
	else if (strcmp(option->name, "cell") == 0)
		offer_cells(c);
	else if (strcmp(option->name, "state") == 0 && strncmp(option->arg, "NAME", 4) == 0)
		offer_states(c);
	else if (strcmp(option->name, "volume-name") == 0)
		offer_volumes(c);
	else if (strncmp(option->arg, "FILE", 4) == 0 || strncmp(option->arg, "DIR", 3) == 0 ||
	         strncmp(option->arg, "HOST[:CELL]", 11) == 0 || strcmp(option->arg, "PATH") == 0)
		puts(":files");
	else if (strchr(option->arg, '|') != NULL)
		offer_choices(c, option->arg);
}

/* Words that are no options: USE is "show CELL", or the command's own "CELL [N]". */
static void
offer_words(struct completing *c, const char *use)
{
	if (offer_kept(c, use))
		return;
	if (strstr(use, "NAME") != NULL && is_about_profiles(c))
		offer_profiles(c);
	if (strstr(use, "COMMAND") != NULL)
		offer_commands(c);
	if (strstr(use, "CELL") != NULL)
		offer_cells(c);
	if (strstr(use, "SERVICE") != NULL)
		offer_services(c);
	if (strstr(use, "bash|") != NULL)
		offer_choices(c, use);
	if (strstr(use, "FILE") != NULL || strstr(use, "FOLDER") != NULL || strstr(use, "DIR") != NULL ||
	    strstr(use, "PATH") != NULL || strstr(use, "REFERENCE") != NULL)
		puts(":files");
	if (strstr(use, "CMD") != NULL)
		puts(":programs");
}

/* ---- where the last word stands ---- */

static const struct cli_verb *
find_verb(const struct cli_verb *verb, const char *word)
{
	size_t len = strlen(word);

	for (; verb != NULL && verb->use != NULL; verb++)
		if (strncmp(verb->use, word, len) == 0 && (verb->use[len] == ' ' || verb->use[len] == '\0'))
			return verb;
	return NULL;
}

static void
complete(struct completing *c)
{
	const struct cli_verb *verbs = cli_verbs_of(c->command);
	const char *first = NULL;
	bool ended = false;

	for (int i = 0; i < c->n; i++) {
		const struct cli_option *o = ended ? NULL : cli_find_option(c->command->options, c->words[i]);
		const bool has_value = o != NULL && o->arg != NULL, may_lack = has_value && o->arg[0] == '[';

		if (has_value && i + 1 == c->n)
			offer_values(c, o);
		if (has_value && !may_lack && i + 1 == c->n)
			return;
		ended = ended || strcmp(c->words[i], "--") == 0;
		if (c->words[i][0] != '-') {
			c->behind += first != NULL;
			first = first != NULL ? first : c->words[i];
		}
		i += has_value && !may_lack;
	}
	if (first != NULL && strstr(c->command->args, "CMD") != NULL && strstr(c->command->args, "CELL") == NULL) {
		puts(":files");
		return;
	}
	if (c->last[0] != '-' && !ended && strcmp(c->command->name, "run") == 0)
		offer_profiles(c);
	if (c->last[0] == '-' && !ended)
		offer_options(c);
	else if (verbs != NULL && first == NULL)
		offer_verbs(c, verbs);
	else if (verbs != NULL)
		offer_words(c, find_verb(verbs, first) != NULL ? find_verb(verbs, first)->use : "");
	else
		offer_words(c, c->command->args);
}

static int
offer_all(int argc, char **argv)
{
	struct completing c = { .last = "" };

	if (argc > 0)
		c.last = argv[argc - 1];
	if (argc > 1)
		c.command = cli_find_command(argv[0]);
	if (argc <= 1)
		offer_commands(&c);
	if (c.command == NULL)
		return 0;
	c.words = argv + 1;
	c.n = argc - 2;
	complete(&c);
	return 0;
}

int
cmd_completion(int argc, char **argv)
{
	static const struct { const char *shell, *script; } all[] = {
		{ "bash", completion_bash }, { "zsh", completion_zsh }, { "fish", completion_fish },
	};

	if (argc > 2 && strcmp(argv[1], "words") == 0)
		return offer_all(argc - 3, argv + 3);
	for (size_t i = 0; argc == 2 && i < ARRAY_LEN(all); i++) {
		if (strcmp(argv[1], all[i].shell) == 0) {
			fputs(all[i].script, stdout);
			return 0;
		}
	}
	return cli_failf("name a shell: cloister completion bash, zsh or fish");
}

/* options.c - walks a command's options by its table. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/tell.h"
#include "base/text.h"
#include "cell/cell_steer.h"
#include "cli/cli.h"

#define OPTIONS_MAX 80

const struct cli_option cli_no_options[] = { {0} };

struct walk {
	const struct cli_option *options;
	int argc, at;
	char **argv;
	int (*take)(void *arg, const struct cli_option *option, const char *value,
	            struct err *err);
	void *arg;
};

/* Options of `run` that other tools need, and this one does not. */
static const struct { const char *word, *here; } elsewhere[] = {
	{ "-i", "standard input is connected, and the terminal if there is one" },
	{ "--interactive", "standard input is connected, and the terminal if there is one" },
	{ "--rm", "a cell leaves nothing behind but what you asked it to keep" },
};

static int
unknown_option(const struct walk *w, const char *word, struct err *err)
{
	const struct cli_option *options = w->options;
	const char *names[OPTIONS_MAX + 1];
	const char *nearest;
	size_t n = 0;

	for (; options[n].name != NULL && n < OPTIONS_MAX; n++)
		names[n] = options[n].name;
	names[n] = NULL;
	for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++)
		if (strcmp(cli_current->name, "run") == 0 && strcmp(word, elsewhere[i].word) == 0)
			return err_set(err, EINVAL, "there is no option '%s', leave it out: %s", word, elsewhere[i].here);
	nearest = word[1] == '-' ? text_nearest(word + 2, names) : NULL;
	if (nearest != NULL)
		return err_set(err, EINVAL, "there is no option '%s': did you mean '--%s'?", word,
		               nearest);
	return err_set(err, EINVAL, "there is no option '%s': see `cloister help %s`", word,
	               cli_current->name);
}

static const struct cli_option *
find_long(const struct cli_option *options, const char *name, size_t len)
{
	for (; options->name != NULL; options++)
		if (strlen(options->name) == len && strncmp(options->name, name, len) == 0)
			return options;
	return NULL;
}

static const struct cli_option *
find_letter(const struct cli_option *options, char letter)
{
	for (; options->name != NULL; options++)
		if (options->letter == letter)
			return options;
	return NULL;
}

static bool
is_number(const char *text)
{
	return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Whether the next word is one of "[A|N|B:N]", where N is any number. */
static bool
next_is_one_of(const struct walk *w, const char *list)
{
	const char *next = w->at + 1 < w->argc ? w->argv[w->at + 1] : "";
	size_t len;

	for (list++; *list != '\0'; list += len + 1) {
		len = strcspn(list, "|]");
		if (strlen(next) == len && strncmp(next, list, len) == 0)
			return true;
		if (list[len - 1] == 'N' && strncmp(next, list, len - 1) == 0 && is_number(next + len - 1))
			return true;
	}
	return false;
}

static int
take_value(struct walk *w, const struct cli_option *option, const char *value,
           struct err *err)
{
	const bool optional = option->arg != NULL && option->arg[0] == '[' && option->arg[strlen(option->arg) - 1] == ']';

	if (optional && value == NULL && !next_is_one_of(w, option->arg))
		return w->take(w->arg, option, NULL, err);
	if (option->arg == NULL && value != NULL)
		return err_set(err, EINVAL, "the option '--%s' takes no value", option->name);
	if (option->arg != NULL && value == NULL) {
		/* "--" ends the options, and is never a value. */
		if (w->at + 1 >= w->argc || strcmp(w->argv[w->at + 1], "--") == 0)
			return err_set(err, EINVAL, "the option '--%s' needs a value: %s", option->name,
			               option->arg);
		value = w->argv[++w->at];
	}
	if (option->id < 0 && value == NULL)
		*(bool *)((char *)w->arg + (-1 - option->id)) = true;
	else if (option->id < 0)
		*(const char **)(void *)((char *)w->arg + (-1 - option->id)) = value;
	return w->take == NULL ? 0 : w->take(w->arg, option, value, err);
}

const struct cli_option *
cli_find_option(const struct cli_option *options, const char *word)
{
	if (word[0] != '-' || word[1] == '\0')
		return NULL;
	return word[1] == '-' ? find_long(options, word + 2, strlen(word + 2)) :
	       word[2] == '\0' ? find_letter(options, word[1]) : NULL;
}

bool
cli_asks_for_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int
take_long(struct walk *w, const char *word, struct err *err)
{
	const char *name = word + 2, *equals = strchr(name, '=');
	size_t len = equals != NULL ? (size_t)(equals - name) : strlen(name);
	const struct cli_option *option = find_long(w->options, name, len);
	char shown[64];

	if (option == NULL) {
		snprintf(shown, sizeof(shown), "--%.*s", (int)len, name);
		return unknown_option(w, shown, err);
	}
	return take_value(w, option, equals != NULL ? equals + 1 : NULL, err);
}

/* "-w DIR", "-wDIR", and flags together: "-dq". */
static int
take_letters(struct walk *w, const char *word, struct err *err)
{
	const struct cli_option *option;
	char shown[3] = { '-', 0, 0 };
	int r = 0;

	for (const char *c = word + 1; r == 0 && *c != '\0'; c++) {
		option = find_letter(w->options, *c);
		shown[1] = *c;
		if (option == NULL)
			return unknown_option(w, shown, err);
		if (option->arg != NULL)
			return take_value(w, option, c[1] != '\0' ? c + 1 : NULL, err);
		r = take_value(w, option, NULL, err);
	}
	return r;
}

static void
move_to_end(struct walk *w)
{
	char *word = w->argv[w->at];

	memmove(w->argv + w->at, w->argv + w->at + 1,
	        (size_t)(w->argc - w->at - 1) * sizeof(*w->argv));
	w->argv[w->argc - 1] = word;
}

/* Words before "--" come before those after it. */
static void
move_back(struct walk *w, int moved)
{
	for (; moved > 0; moved--) {
		char *word = w->argv[w->argc - 1];

		memmove(w->argv + w->at + 1, w->argv + w->at,
		        (size_t)(w->argc - w->at - 1) * sizeof(*w->argv));
		w->argv[w->at] = word;
	}
}

int
cli_parse(const struct cli_option *options, int argc, char **argv, bool anywhere,
          int (*take)(void *arg, const struct cli_option *option, const char *value,
                      struct err *err),
          void *arg, int *ret_rest, struct err *err)
{
	struct walk w = { .options = options, .argc = argc, .at = 1, .argv = argv, .take = take, .arg = arg };
	int moved = 0, r = 0;

	while (r == 0 && w.at < argc - moved) {
		const char *word = argv[w.at];

		if (strcmp(word, "--") == 0) {
			w.at++;
			move_back(&w, moved);
			break;
		}
		if (word[0] != '-' || word[1] == '\0') {
			if (!anywhere)
				break;
			move_to_end(&w);
			moved++;
			continue;
		}
		if (cli_asks_for_help(word)) {
			cli_help_one(cli_current);
			exit(fflush(stdout) == 0 ? 0 : CLI_FAILED);
		}
		r = word[1] == '-' ? take_long(&w, word, err) : take_letters(&w, word, err);
		w.at++;
	}
	*ret_rest = w.at;
	return r;
}

int
cli_fail(const struct err *err)
{
	return tell_error(err);
}

int
cli_failf(const char *fmt, ...)
{
	struct err err = {0};
	va_list args;

	va_start(args, fmt);
	vsnprintf(err.text, sizeof(err.text), fmt, args);
	va_end(args);
	return cli_fail(&err);
}

int
cli_check_why(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	(void)arg;
	return strcmp(option->name, "why") == 0 ? cell_steer_check_why(value, err) : 0;
}

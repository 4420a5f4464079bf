/* run_hints.c - prints a hint if -e or -v probably does not do what was intended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/run.h"
#include "cli/run_agent.h"
#include "vault/catalogue.h"

void
run_note_env(struct run *run, const char *text)
{
	OWN(freep) char *name = strndup(text, strcspn(text, "="));
	const struct catalogue_entry *known = name == NULL ? NULL : catalogue_find(name);
	const char *value = strchr(text, '=');

	/* The name of a service is not the name of a key, and a path is no key. */
	if (known == NULL || strcasecmp(known->name, name) == 0)
		return;
	value = value != NULL ? value + 1 : getenv(text);
	if (value != NULL && value[0] != '\0' && value[0] != '/')
		run->as_it_is = text;
}

static void
hint_env(const char *text)
{
	int len = (int)strcspn(text, "=");

	fprintf(stderr, "cloister: the cell gets the value of %.*s; to give it a placeholder instead, "
	        "use `cloister secret add %.*s` and -s %.*s\n", len, text, len, text, len, text);
}

char *
run_find_home(void)
{
	return getenv("HOME") == NULL ? NULL : realpath(getenv("HOME"), NULL);
}

/* A program looks for this in its home and will not find it: the home is elsewhere in a cell. */
static void
hint_home(const char *path, size_t home_len)
{
	fputs("cloister: ", stderr);
	text_print_safe(stderr, path, strlen(path), false);
	fputs(" has this path in the cell too, where the home is " CELL_HOME ": for it to be there, -v ",
	      stderr);
	text_print_safe(stderr, path, strlen(path), false);
	fputs(":" CELL_HOME, stderr);
	text_print_safe(stderr, path + home_len, strlen(path + home_len), false);
	fputs(":ro\n", stderr);
}

/* A profile grants its program where it is, on purpose. */
static bool
is_of_agent(const struct run *run, const struct cell_grant *g)
{
	const size_t n = run->agent == NULL ? 0 : run->agent->program.n_grants;

	for (size_t i = 0; i < n; i++)
		if (strcmp(run->agent->program.grants[i].cell, g->cell) == 0)
			return true;
	return false;
}

void
run_print_hints(const struct run *run)
{
	OWN(freep) char *home = run_find_home();
	size_t len = home == NULL ? 0 : strlen(home);

	if (run->spec.quiet)
		return;
	if (run->as_it_is != NULL)
		hint_env(run->as_it_is);
	if (isatty(STDERR_FILENO))
		run_hint_ports(run);
	for (size_t i = 0; len > 1 && isatty(STDERR_FILENO) && i < run->spec.n_grants; i++) {
		const struct cell_grant *g = &run->spec.grants[i];

		if (g->workspace || strcmp(g->host, g->cell) != 0 || strncmp(g->host, home, len) != 0 ||
		    strncmp(g->host + len, "/.", 2) != 0 || is_of_agent(run, g))
			continue;
		hint_home(g->host, len);
		break;
	}
}

/* import_grants.c - which program a server of another client's file runs, and what its cell has to read for that. */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "proc/lock/import.h"

bool
import_is_here(const char *word)
{
	OWN(freep) char *path = word != NULL && *word != '\0' && *word != '-' ? realpath(word, NULL) : NULL;
	OWN(freep) char *here = realpath(".", NULL);
	struct stat st;

	/* A plain word may be the name of a folder by chance. */
	return path != NULL && here != NULL && strcmp(here, "/") != 0 && tree_is_beneath(path, here) &&
	       (strpbrk(word, "/.") != NULL || (stat(path, &st) == 0 && S_ISREG(st.st_mode)));
}

/* The script that an interpreter is given: the first argument that is no option, if it is a file elsewhere. */
static const char *
script_of(const struct imported *server)
{
	const char *word = NULL;
	struct stat st;
	json_t *arg;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)server->args, i, arg) {
		word = json_string_value(arg);
		if (word != NULL && word[0] != '-')
			break;
		word = NULL;
	}
	return word != NULL && word[0] == '/' && !program_is_usual(word) && stat(word, &st) == 0 && S_ISREG(st.st_mode) &&
	       !import_is_here(word) ? word : NULL;
}

static bool
add(struct import_grants *g, const char *path)
{
	for (size_t i = 0; i < g->n_reads; i++)
		if (tree_is_beneath(path, g->reads[i]))
			return true;
	if (g->n_reads == IMPORT_READS_MAX)
		return false;
	g->reads[g->n_reads] = strdup(path);
	return g->reads[g->n_reads] != NULL && ++g->n_reads > 0;
}

int
import_grants_find(const struct imported *server, struct import_grants *ret_grants, struct err *err)
{
	const char *script = server->url == NULL ? script_of(server) : NULL;
	OWN(import_grants_free) struct import_grants g = {0};
	char path[PATH_MAX], folder[PATH_MAX];
	bool good = true;

	/* A program that is not there is named as it is: `tools list` reports it. */
	if (server->command != NULL && !import_is_here(server->command) && program_find(server->command, &g.program, NULL) < 0)
		program_free(&g.program);
	for (size_t i = 0; good && i < g.program.n_grants; i++)
		good = add(&g, g.program.grants[i].cell);
	if (good && script != NULL && program_join(path, "/", script)) {
		program_choose_script(path, folder);
		good = add(&g, folder);
	}
	if (!good)
		return err_set(err, ENOMEM, "out of memory");
	*ret_grants = g;
	g = (struct import_grants){0};
	return 0;
}

void
import_grants_free(struct import_grants *g)
{
	program_free(&g->program);
	for (size_t i = 0; i < g->n_reads; i++)
		free(g->reads[i]);
	g->n_reads = 0;
}

/* run_trust.c - refuses operator's files that are where the cell may write. */
#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/run.h"
#include "policy/policy_hook.h"
#include "policy/policy_yaml.h"
#include "trust/trust.h"

int
run_distrust_grants(const struct run *run, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < run->spec.n_grants; i++)
		if (run->spec.grants[i].access == CELL_WRITE)
			trust_also(run->spec.grants[i].host);
	/* Only the document, the engine and the files of variables were read or found before all grants were known. */
	if (run->doc != NULL)
		r = trust_path(TRUST_DOCUMENT, run->doc_file, err);
	if (r == 0 && run->spec.engine != NULL)
		r = trust_path(TRUST_ENGINE, run->spec.engine, err);
	for (char **file = run->spec.sources; r == 0 && file != NULL && *file != NULL; file++)
		r = trust_path(TRUST_ENV_FILE, *file, err);
	return r;
}

int
run_take_hook(void *arg, const struct node *node, const struct policy_hook *hook, struct err *err)
{
	const char *path = hook->socket != NULL ? hook->socket : hook->argv[0];
	char program[PATH_MAX];
	struct err why = {0};
	int r;

	(void)arg;
	/* The program gets the words as they are, and so does the check. */
	r = hook->socket != NULL ? trust_path(TRUST_HOOK_SOCKET, path, &why) :
	    trust_command(TRUST_HOOK_COMMAND, (char *const *)(uintptr_t)hook->argv, program, &why);
	if (r < 0)
		return node_err(err, node, "%s", why.text);
	if (hook->socket == NULL && access(path, X_OK) < 0)
		return node_err(err, node, "'%.128s', the program of this hook, cannot be run: %m", path);
	if (hook->socket == NULL && trust_program(program, &why) < 0)
		return node_err(err, node, "%s", why.text);
	return 0;
}

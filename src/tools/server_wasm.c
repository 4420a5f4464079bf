/* server_wasm.c - see server_wasm.h. */
#include "tools/server_wasm.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/exe.h"
#include "base/io.h"
#include "base/own.h"
#include "base/words.h"
#include "policy/policy_tools.h"
#include "registry/object.h"
#include "registry/registry_tree.h"

/* Where the cell has them. */
#define PROGRAM "/run/cloister/cloister-wasm"
#define MODULE "/run/cloister/module.wasm"

static int
add_paths(struct words *w, const struct policy_list *paths, const char *folder, const char *home, struct err *err)
{
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; r == 0 && i < paths->n; i++) {
		r = policy_tools_path(paths->at[i], folder, home, path, sizeof(path), err);
		if (r == 0)
			words_add(w, strdup(path));
	}
	return r;
}

int
server_wasm_find(const struct policy_tools_server *server, const char *folder, const char *home, char ret_path[PATH_MAX],
                 struct err *err)
{
	OWN(freep) char *files = NULL;
	int r;

	if (strncmp(server->wasm, POLICY_TOOLS_CAPABILITY, strlen(POLICY_TOOLS_CAPABILITY)) != 0)
		return policy_tools_path(server->wasm, folder, home, ret_path, PATH_MAX, err);
	r = registry_find_tree(server->wasm + strlen(POLICY_TOOLS_CAPABILITY), &files, err);
	if (r == 0 && snprintf(ret_path, PATH_MAX, "%s/" OBJECT_MODULE, files) >= PATH_MAX)
		r = err_set(err, ENAMETOOLONG, "the path of the capability is too long");
	return r;
}

int
server_wasm_words(const struct policy_tools_server *server, const char *folder, const char *home, const char *copy,
                  struct words *w, struct err *err)
{
	char program[PATH_MAX], module[PATH_MAX], work[PATH_MAX] = "-";
	OWN(freep) char *tools = NULL;
	int r = exe_find_helper("cloister-wasm", program, err);
	bool described;

	r = r < 0 ? r : server_wasm_find(server, folder, home, module, err);
	if (r == 0 && server->folder != NULL)
		r = policy_tools_path(server->folder, folder, home, work, sizeof(work), err);
	if (r == 0 && strchr(module, ':') != NULL)
		r = err_set(err, EINVAL, "'%.200s' cannot be granted: its path has a ':'", module);
	if (r < 0)
		return r;
	tools = str_format("%s" SERVER_WASM_TOOLS, module);
	described = tools != NULL && access(tools, F_OK) == 0;
	words_add(w, str_format("--volume=%s:" PROGRAM ":ro", program));
	words_add(w, str_format("--volume=%s:" MODULE ":ro", copy != NULL ? copy : module));
	if (described)
		words_add(w, str_format("--volume=%s:" MODULE SERVER_WASM_TOOLS ":ro", tools));
	words_add(w, strdup("--"));
	words_add(w, strdup(PROGRAM));
	words_add(w, strdup(MODULE));
	words_add(w, strdup(described ? MODULE SERVER_WASM_TOOLS : "-"));
	words_add(w, strdup(work));
	r = add_paths(w, &server->read, folder, home, err);
	r = r < 0 ? r : add_paths(w, &server->write, folder, home, err);
	return r < 0 ? r : w->failed ? err_set(err, E2BIG, "the command is too long") : 0;
}

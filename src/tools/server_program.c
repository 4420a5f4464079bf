/* server_program.c - see server_program.h. */
#include "tools/server_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/own.h"
#include "policy/policy_tools.h"
#include "tools/server_wasm.h"

/* As cells have it. */
#define CELL_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Interpreters: their script is the server. */
static const char *const runners[] = { "node", "nodejs", "python", "python3", "deno", "bun", "npx", "uvx", "sh", "bash", "ruby",
                                       NULL };

static bool
is_runner(const char *path)
{
	const char *base = strrchr(path, '/');

	base = base != NULL ? base + 1 : path;
	for (size_t i = 0; runners[i] != NULL; i++)
		if (strcmp(base, runners[i]) == 0)
			return true;
	return false;
}

static bool
is_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool
join(const char *folder, const char *name, char ret_path[PATH_MAX])
{
	return (name[0] == '/' ? snprintf(ret_path, PATH_MAX, "%s", name) :
	        snprintf(ret_path, PATH_MAX, "%s/%s", folder, name)) < PATH_MAX;
}

/* The folder in which the server works. */
static bool
find_folder(const struct policy_tools_server *server, const char *folder, const char *home, char ret_path[PATH_MAX])
{
	return policy_tools_path(server->folder != NULL ? server->folder : ".", folder, home, ret_path, PATH_MAX, NULL) == 0;
}

static const char *
path_of(const struct policy_tools_server *server)
{
	for (size_t i = 0; i < server->env.n; i++)
		if (strncmp(server->env.at[i], "PATH=", 5) == 0)
			return server->env.at[i] + 5;
	return CELL_PATH;
}

static bool
find_on_path(const struct policy_tools_server *server, const char *word, char ret_path[PATH_MAX])
{
	OWN(freep) char *list = strdup(path_of(server));
	char *rest = list, *dir;

	while (rest != NULL && (dir = strsep(&rest, ":")) != NULL)
		if (*dir != '\0' && join(dir, word, ret_path) && is_file(ret_path))
			return true;
	return false;
}

bool
server_program_is_run(const struct policy_tools_server *server)
{
	return server->n_command > 0 && is_runner(server->command[0]);
}

bool
server_program_start(const struct policy_tools_server *server, const char *folder, const char *home, char ret_path[PATH_MAX])
{
	char works[PATH_MAX];

	if (server->n_command == 0 || server->image != NULL || !find_folder(server, folder, home, works))
		return false;
	return strchr(server->command[0], '/') != NULL ? join(works, server->command[0], ret_path) && is_file(ret_path) :
	       find_on_path(server, server->command[0], ret_path);
}

bool
server_program_path(const struct policy_tools_server *server, const char *folder, const char *home, size_t *ret_word,
                    char ret_path[PATH_MAX])
{
	char works[PATH_MAX], script[PATH_MAX];

	*ret_word = 0;
	if (server->wasm != NULL)
		return server_wasm_find(server, folder, home, ret_path, NULL) == 0;
	if (!server_program_start(server, folder, home, ret_path))
		return false;
	for (size_t i = 1; is_runner(ret_path) && find_folder(server, folder, home, works) && i < server->n_command; i++) {
		if (server->command[i][0] == '-' || !join(works, server->command[i], script) || !is_file(script))
			continue;
		memcpy(ret_path, script, PATH_MAX);
		*ret_word = i;
		break;
	}
	return true;
}

/* ---- what the cell has ---- */

static bool
is_under(const char *text, const char *folder, const char *home, const char *path)
{
	char granted[PATH_MAX];
	OWN(freep) char *real = NULL;
	size_t len;

	if (text == NULL || policy_tools_path(text, folder, home, granted, sizeof(granted), NULL) < 0)
		return false;
	real = realpath(granted, NULL);
	len = real != NULL ? strlen(real) : 0;
	return len == 1 || (len > 0 && strncmp(path, real, len) == 0 && (path[len] == '\0' || path[len] == '/'));
}

bool
server_program_is_in(const struct policy_list *paths, const char *folder, const char *home, const char *path)
{
	for (size_t i = 0; i < paths->n; i++)
		if (is_under(paths->at[i], folder, home, path))
			return true;
	return false;
}

char *
server_program_find(const struct policy_tools_server *server, const char *folder, const char *home, const char *word)
{
	char works[PATH_MAX], path[PATH_MAX];

	return find_folder(server, folder, home, works) && join(works, word, path) ? realpath(path, NULL) : NULL;
}

bool
server_program_file(const struct policy_tools_server *server, const char *folder, const char *home, size_t i,
                    char ret_path[PATH_MAX])
{
	const char *word = server->command[i];
	char works[PATH_MAX];
	OWN(freep) char *path = NULL;

	/* Without a folder of its own, it works in an empty one. */
	if ((i == 0 && strchr(word, '/') == NULL) || (word[0] != '/' && server->folder == NULL))
		return false;
	path = server_program_find(server, folder, home, word);
	if (path == NULL || !is_file(path) || server_program_is_in(&server->write, folder, home, path) ||
	    !(is_under(server->folder, folder, home, path) || server_program_is_in(&server->read, folder, home, path)))
		return false;
	return find_folder(server, folder, home, works) && join(works, word, ret_path);
}

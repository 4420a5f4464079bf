/* keeper_program.c - finds out which program a server is: its path, its hash, its package. */
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/io.h"
#include "base/own.h"
#include "canon/canon.h"
#include "proc/lock/lock_proc.h"
#include "tools/server_wasm.h"

#define PROGRAM_MAX (UINT64_C(1) << 30)
#define FILE_MAX (UINT64_C(64) << 20)   /* of a file that a command names: a larger one is data */
#define PACKAGE_JSON_MAX (1u << 20)
#define FOLDERS_UP 8

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

/* WORD as a file on PATH, or in FOLDER. */
static bool
find_file(const char *word, const char *folder, bool on_path, char ret_path[PATH_MAX])
{
	OWN(freep) char *list = strdup(getenv("PATH") != NULL ? getenv("PATH") : "/usr/local/bin:/usr/bin:/bin");
	char *rest = list, *dir;

	if (!on_path || strchr(word, '/') != NULL) {
		int n = word[0] == '/' ? snprintf(ret_path, PATH_MAX, "%s", word) : snprintf(ret_path, PATH_MAX, "%s/%s", folder, word);

		return n < PATH_MAX && is_file(ret_path);
	}
	while (rest != NULL && (dir = strsep(&rest, ":")) != NULL)
		if (*dir != '\0' && snprintf(ret_path, PATH_MAX, "%s/%s", dir, word) < PATH_MAX && is_file(ret_path))
			return true;
	return false;
}

static void
hash_file(const char *path, uint64_t max, char ret_hex[HASH_HEX + 1])
{
	OWN(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned char hash[HASH_LEN];
	uint64_t size;

	if (fd >= 0 && hash_fd(fd, max, hash, &size, NULL) == 0)
		codec_hex(hash, sizeof(hash), ret_hex);
}

/* The nearest package.json with a name and a version. */
static void
find_package(const char *path, char *ret_package, size_t size)
{
	OWN(freep) char *real = realpath(path, NULL);
	char *dir = real;

	for (unsigned i = 0; real != NULL && i < FOLDERS_UP && strcmp(dir, "/") != 0; i++) {
		OWN(freep) char *file = NULL, *text = NULL;
		OWN(json_decrefp) json_t *about = NULL;
		const char *name, *version;
		size_t len;

		dir = dirname(dir);
		file = str_format("%s/package.json", dir);
		if (file == NULL || read_file_at(AT_FDCWD, file, PACKAGE_JSON_MAX, &text, &len, NULL) < 0)
			continue;
		about = canon_value(text, len);
		name = json_string_value(json_object_get(about, "name"));
		version = json_string_value(json_object_get(about, "version"));
		if (name == NULL || version == NULL)
			continue;
		snprintf(ret_package, size, "%s@%s", name, version);
		return;
	}
}

/* ---- what the cell has ---- */

static bool
is_under(const struct keeper *k, const char *text, const char *path)
{
	char granted[PATH_MAX];
	OWN(freep) char *real = NULL;
	size_t len;

	if (text == NULL || policy_tools_path(text, k->folder, k->home, granted, sizeof(granted), NULL) < 0)
		return false;
	real = realpath(granted, NULL);
	len = real != NULL ? strlen(real) : 0;
	return len == 1 || (len > 0 && strncmp(path, real, len) == 0 && (path[len] == '\0' || path[len] == '/'));
}

static bool
is_in(const struct keeper *k, const struct policy_list *paths, const char *path)
{
	for (size_t i = 0; i < paths->n; i++)
		if (is_under(k, paths->at[i], path))
			return true;
	return false;
}

/* WORD as the real path of a file or folder; relative ones are in the server's folder.  NULL: it is none. */
static char *
find_path(const struct keeper *k, const struct policy_tools_server *server, const char *word)
{
	char folder[PATH_MAX], path[PATH_MAX];

	if (word[0] != '/' && (policy_tools_path(server->folder != NULL ? server->folder : ".", k->folder, k->home, folder,
	                                         sizeof(folder), NULL) < 0 ||
	                       snprintf(path, sizeof(path), "%s/%s", folder, word) >= (int)sizeof(path)))
		return NULL;
	return realpath(word[0] == '/' ? word : path, NULL);
}

static void
find_files(const struct keeper *k, const struct policy_tools_server *server, struct server_program *p)
{
	for (size_t i = 0; i < server->n_command && p->n_files < LOCK_FILES_MAX; i++) {
		char *word = (char *)(uintptr_t)server->command[i];
		struct listed_file *file = &p->files[p->n_files];
		OWN(freep) char *path = i > 0 || strchr(word, '/') != NULL ? find_path(k, server, word) : NULL;
		/* Without a folder of its own, it works in an empty one. */
		bool is_known = word[0] != '/' && server->folder == NULL;

		for (size_t n = 0; n < p->n_files; n++)
			is_known |= strcmp(p->files[n].name, word) == 0;
		if (path == NULL || is_known || !is_file(path) || is_in(k, &server->write, path) ||
		    !((server->folder != NULL && is_under(k, server->folder, path)) || is_in(k, &server->read, path)))
			continue;
		hash_file(path, FILE_MAX, file->sha256);
		file->name = word;
		p->n_files += *file->sha256 != '\0';
	}
}

void
server_program_explain(const struct keeper *k, const struct policy_tools_server *server, struct err *err)
{
	for (size_t i = 1; server->image == NULL && i < server->n_command; i++) {
		const char *word = server->command[i];
		OWN(freep) char *path = word[0] != '-' ? find_path(k, server, word) : NULL;
		char said[ERR_TEXT_MAX];

		if (path == NULL || strncmp(path, "/usr/", 5) == 0 || is_under(k, server->folder, path) ||
		    is_in(k, &server->read, path) || is_in(k, &server->write, path))
			continue;
		snprintf(said, sizeof(said), "%s", err->text);
		if (word[0] == '/')
			(void)err_set(err, err->code, "its cell does not have '%s': add `read: [%s]` to the server (%s)", word, word, said);
		else
			(void)err_set(err, err->code, "its cell does not have '%s': add `folder: .` to the server (%s)", word, said);
		return;
	}
}

/* ---- the program ---- */

void
server_program_find(const struct keeper *k, const struct policy_tools_server *server, struct server_program *ret_program)
{
	struct server_program *p = ret_program;
	char folder[PATH_MAX];

	*p = (struct server_program){0};
	if (server->wasm != NULL) {
		if (server_wasm_find(server, k->folder, k->home, p->path, NULL) == 0)
			hash_file(p->path, PROGRAM_MAX, p->sha256);
		if (p->sha256[0] == '\0')
			p->path[0] = '\0';
		return;
	}
	/* The digest of an image says it all. */
	if (server->n_command == 0 || server->image != NULL ||
	    policy_tools_path(server->folder != NULL ? server->folder : ".", k->folder, k->home, folder, sizeof(folder), NULL) < 0)
		return;
	find_files(k, server, p);
	if (!find_file(server->command[0], folder, true, p->path)) {
		p->path[0] = '\0';
		return;
	}
	for (size_t i = 1; is_runner(p->path) && i < server->n_command; i++) {
		char script[PATH_MAX];

		if (server->command[i][0] == '-' || !find_file(server->command[i], folder, false, script))
			continue;
		snprintf(p->path, sizeof(p->path), "%s", script);
		break;
	}
	hash_file(p->path, PROGRAM_MAX, p->sha256);
	find_package(p->path, p->package, sizeof(p->package));
}

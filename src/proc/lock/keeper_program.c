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

#define PROGRAM_MAX (UINT64_C(1) << 30)
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

	if (word[0] == '/' || strchr(word, '/') != NULL) {
		int n = word[0] == '/' ? snprintf(ret_path, PATH_MAX, "%s", word) : snprintf(ret_path, PATH_MAX, "%s/%s", folder, word);

		return n < PATH_MAX && is_file(ret_path);
	}
	while (on_path && rest != NULL && (dir = strsep(&rest, ":")) != NULL)
		if (*dir != '\0' && snprintf(ret_path, PATH_MAX, "%s/%s", dir, word) < PATH_MAX && is_file(ret_path))
			return true;
	return false;
}

static void
hash_file(const char *path, char ret_hex[HASH_HEX + 1])
{
	OWN(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned char hash[HASH_LEN];
	uint64_t size;

	if (fd >= 0 && hash_fd(fd, PROGRAM_MAX, hash, &size, NULL) == 0)
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

void
server_program_find(const struct keeper *k, const struct policy_tools_server *server, struct server_program *ret_program)
{
	struct server_program *p = ret_program;

	*p = (struct server_program){0};
	/* The digest of an image says it all. */
	if (server->n_command == 0 || server->image != NULL)
		return;
	if (!find_file(server->command[0], k->folder, true, p->path)) {
		p->path[0] = '\0';
		return;
	}
	for (size_t i = 1; is_runner(p->path) && i < server->n_command; i++) {
		char script[PATH_MAX];

		if (server->command[i][0] == '-' || !find_file(server->command[i], k->folder, false, script))
			continue;
		snprintf(p->path, sizeof(p->path), "%s", script);
		break;
	}
	hash_file(p->path, p->sha256);
	find_package(p->path, p->package, sizeof(p->package));
}

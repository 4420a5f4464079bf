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
#include "tools/server_program.h"

#define PROGRAM_MAX (UINT64_C(1) << 30)
#define FILE_MAX (UINT64_C(64) << 20)   /* of a file that a command names: a larger one is data */
#define PACKAGE_JSON_MAX (1u << 20)
#define FOLDERS_UP 8

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

static void
find_files(const struct keeper *k, const struct policy_tools_server *server, struct server_program *p)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < server->n_command && p->n_files < LOCK_FILES_MAX; i++) {
		char *word = (char *)(uintptr_t)server->command[i];
		struct listed_file *file = &p->files[p->n_files];
		bool is_known = false;

		for (size_t n = 0; n < p->n_files; n++)
			is_known |= strcmp(p->files[n].name, word) == 0;
		if (is_known || !server_program_file(server, k->folder, k->home, i, path))
			continue;
		hash_file(path, FILE_MAX, file->sha256);
		file->name = word;
		p->n_files += *file->sha256 != '\0';
	}
}

void
server_program_explain(const struct keeper *k, const struct policy_tools_server *server, struct err *err)
{
	const struct policy_list folder = { &server->folder, server->folder != NULL };

	for (size_t i = 1; server->image == NULL && i < server->n_command; i++) {
		const char *word = server->command[i];
		OWN(freep) char *path = word[0] != '-' ? server_program_find(server, k->folder, k->home, word) : NULL;
		char said[ERR_TEXT_MAX];

		if (path == NULL || strncmp(path, "/usr/", 5) == 0 || server_program_is_in(&folder, k->folder, k->home, path) ||
		    server_program_is_in(&server->read, k->folder, k->home, path) ||
		    server_program_is_in(&server->write, k->folder, k->home, path))
			continue;
		snprintf(said, sizeof(said), "%s", err->text);
		if (word[0] == '/')
			(void)err_set(err, err->code, "its cell does not have '%s': add `read: [%s]` to the server (%s)", word, word, said);
		else
			(void)err_set(err, err->code, "its cell does not have '%s': add `folder: .` to the server (%s)", word, said);
		return;
	}
}

void
keeper_find_program(const struct keeper *k, const struct policy_tools_server *server, struct server_program *ret_program)
{
	struct server_program *p = ret_program;
	size_t word;

	*p = (struct server_program){0};
	if (server->wasm == NULL && server->image == NULL)
		find_files(k, server, p);
	if (!server_program_path(server, k->folder, k->home, &word, p->path)) {
		p->path[0] = '\0';
		return;
	}
	hash_file(p->path, PROGRAM_MAX, p->sha256);
	if (server->wasm == NULL)
		find_package(p->path, p->package, sizeof(p->package));
	else if (p->sha256[0] == '\0')
		p->path[0] = '\0';
}

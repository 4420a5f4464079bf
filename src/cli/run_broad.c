/* run_broad.c - notices grants that give an agent more than a project: a whole home, keys, an engine's socket. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/text.h"
#include "base/tree.h"
#include "cli/run.h"

/* Where tools keep keys and logins, beneath a home. */
static const char *const stores[] = {
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".pgpass", ".git-credentials",
	".password-store", ".vault-token", ".npmrc", ".pypirc", ".cargo/credentials.toml", ".config/gcloud",
	".config/gh", ".config/op", ".config/rclone", ".local/share/keyrings", ".mozilla", ".config/google-chrome",
	".config/chromium", ".claude/.credentials.json", ".codex/auth.json", "id_rsa", "id_ed25519", "id_ecdsa",
};

/* Of the whole system, and not of one project. */
static const char *const system_folders[] = { "/", "/home", "/root", "/etc", "/var", "/run", "/boot" };

/* Whoever talks to one of these can have the whole machine. */
static const char *const engines[] = { "docker.sock", "podman.sock", "containerd.sock", "crio.sock", "libvirt-sock" };

/* The first of the stores in FOLDER, or NULL. */
static const char *
store_in(const char *folder)
{
	OWN(closep) int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	for (size_t i = 0; dir >= 0 && i < ARRAY_LEN(stores); i++)
		if (fstatat(dir, stores[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			return stores[i];
	return NULL;
}

static bool
is_store(const char *path, const char *home)
{
	const char *rest = home != NULL && tree_is_beneath(path, home) ? path + strlen(home) : "";

	for (size_t i = 0; *rest == '/' && i < ARRAY_LEN(stores); i++)
		if (tree_is_beneath(rest + 1, stores[i]))
			return true;
	return false;
}

static bool
is_engine(const char *path)
{
	const char *name = strrchr(path, '/');

	for (size_t i = 0; i < ARRAY_LEN(engines); i++)
		if (name != NULL && strcmp(name + 1, engines[i]) == 0)
			return true;
	return false;
}

static bool
is_of_system(const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(system_folders); i++)
		if (strcmp(path, system_folders[i]) == 0)
			return true;
	return false;
}

#define KEYS_HINT "give the cell a placeholder instead: `cloister secret add NAME`, then -s NAME"
#define HOME_HINT "name the folder of one project, such as -w ~/project"

/* If the grant is broad, ERR says how, and names a narrower form. */
static bool
is_broad(const struct cell_grant *grant, const char *home, struct err *err)
{
	const char *path = grant->host, *store = store_in(path);

	if (is_engine(path))
		err_set(err, EPERM, "'%s' lets the agent command a container engine, and with it this machine: "
		        "remove the grant", path);
	else if (home != NULL && strcmp(path, home) == 0)
		err_set(err, EPERM, "'%s' is your whole home%s%s%s: " HOME_HINT, path, store != NULL ? ", with keys in it (" : "",
		        store != NULL ? store : "", store != NULL ? ")" : "");
	else if (is_of_system(path) || (home != NULL && tree_is_beneath(home, path)))
		err_set(err, EPERM, "'%s' is far more than a project: " HOME_HINT, path);
	else if (is_store(path, home))
		err_set(err, EPERM, "'%s' is a place of keys: " KEYS_HINT, path);
	else if (store != NULL)
		err_set(err, EPERM, "'%s' holds keys ('%s'): grant a folder in it, or " KEYS_HINT, path, store);
	else
		return false;
	return true;
}

int
run_note_broad(const struct run *run, struct err *err)
{
	OWN(freep) char *home = run_find_home();

	for (size_t i = 0; i < run->spec.n_grants; i++) {
		struct err broad = {0};

		/* Capabilities and git folders are not of the operator's choosing. */
		if (run->spec.grants[i].git_dir || run->blobs[i] != NULL || !is_broad(&run->spec.grants[i], home, &broad))
			continue;
		if (run->strict)
			return err_set(err, EPERM, "%s (--strict)", broad.text);
		if (run->spec.quiet)
			continue;
		fputs("cloister: ", stderr);
		text_print_safe(stderr, broad.text, strlen(broad.text), false);
		fputs("\n", stderr);
	}
	return 0;
}

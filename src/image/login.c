/* login.c - finds the operator's login for a registry, in the files that other tools write. */
#include "image/login.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "image/auth.h"
#include "trust/trust.h"

#define HELPER_S 30
#define PLACES 4

/* ---- helpers ---- */

static int
input_of(const char *server, struct err *err)
{
	OWN(closep) int fd = memfd_create("server", MFD_CLOEXEC);

	if (fd < 0 || write_all(fd, server, strlen(server), err) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_errno(err, "cannot ask the credential helper");
	return TAKE_FD(fd);
}

/* Reads what the helper prints until it ends, or until its time is over. */
static int
read_answer(int fd, char *text, size_t size, size_t *ret_len)
{
	int64_t deadline = io_now_ms() + HELPER_S * 1000;
	ssize_t n;

	for (*ret_len = 0; *ret_len < size; *ret_len += (size_t)n) {
		if (!io_is_readable(fd, deadline))
			return -ETIMEDOUT;
		n = read(fd, text + *ret_len, size - *ret_len);
		if (n <= 0)
			return n < 0 ? -errno : 0;
	}
	return -EFBIG;
}

static int
run_helper(const char *program, const struct auth_helper *helper, char *text, size_t *ret_len, struct err *err)
{
	OWN(closep) int input = input_of(helper->server, err), from = -1, to = -1;
	char get[] = "get";
	char *const argv[] = { (char *)(uintptr_t)program, get, NULL };
	int ends[2], status, r;
	pid_t pid;

	if (input < 0)
		return input;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	from = ends[0];
	to = ends[1];
	pid = spawn_start(&(struct spawn){ .argv = argv, .path = program, .cwd = trust_here() ? NULL : "/",
	                  .fds = (struct spawn_fd[]){ { input, STDIN_FILENO }, { to, STDOUT_FILENO } }, .n_fds = 2,
	                  .flags = SPAWN_GROUP | SPAWN_ONLY | SPAWN_COMMAND }, NULL, err);
	if (pid < 0)
		return pid;
	close(to);
	to = -1;
	r = read_answer(from, text, AUTH_ANSWER_MAX, ret_len);
	if (r < 0)
		kill(-pid, SIGKILL);
	status = spawn_await(pid, err);
	if (r < 0)
		return err_set(err, -r, "the credential helper '%s' did not answer", program);
	return status;
}

static int
ask_helper(const struct auth_helper *helper, struct auth *ret_auth, struct err *err)
{
	OWN(freep) char *text = malloc(AUTH_ANSWER_MAX), *name = str_format("docker-credential-%s", helper->name);
	char program[PATH_MAX];
	size_t len = 0;
	int r;

	if (text == NULL || name == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = trust_command(TRUST_LOGIN_COMMAND, (char *[]){ name, NULL }, program, err);
	if (r == 0 && access(program, F_OK) == 0)
		r = trust_program(program, err);
	if (r == 0)
		r = run_helper(program, helper, text, &len, err);
	/* Helpers end so when they know nothing about a server. */
	if (r > 0 && memmem(text, len, "credentials not found", 21) != NULL)
		return 0;
	if (r > 0)
		return err_set(err, EIO, "the credential helper '%s' ended with %s %d", name,
		               r < SPAWN_KILLED ? "status" : "signal", r % SPAWN_KILLED);
	if (r == 0)
		r = auth_read_answer(text, len, ret_auth, err);
	explicit_bzero(text, AUTH_ANSWER_MAX);
	return r < 0 ? err_wrap(err, "credential helper '%s'", name) : 1;
}

/* ---- files ---- */

static char *
place(size_t i)
{
	const char *own = getenv("REGISTRY_AUTH_FILE"), *runtime = getenv("XDG_RUNTIME_DIR"), *home = getenv("HOME");
	const char *config = getenv("XDG_CONFIG_HOME"), *docker = getenv("DOCKER_CONFIG");

	if (i == 0)
		return own != NULL && *own != '\0' ? strdup(own) : NULL;
	if (i == 1)
		return runtime != NULL && *runtime == '/' ? str_format("%s/containers/auth.json", runtime) : NULL;
	if (i == 2 && config != NULL && *config == '/')
		return str_format("%s/containers/auth.json", config);
	if (i == 3 && docker != NULL && *docker == '/')
		return str_format("%s/config.json", docker);
	if (home == NULL || *home != '/')
		return NULL;
	return str_format(i == 2 ? "%s/.config/containers/auth.json" : "%s/.docker/config.json", home);
}

/* 1: the login was found. */
static int
look_into(const char *path, const char *registry, const char *repository, struct auth *ret_auth, struct err *err)
{
	OWN(freep) char *text = NULL;
	struct auth_helper helper;
	size_t len;
	int r = trust_read(TRUST_LOGINS, path, AUTH_FILE_MAX, &text, &len, err);

	if (r < 0)
		return r;
	r = auth_find(text, len, registry, repository, ret_auth, &helper, err);
	explicit_bzero(text, len);
	if (r < 0)
		return err_wrap(err, "'%.200s'", path);
	return r == 2 ? ask_helper(&helper, ret_auth, err) : r;
}

int
login_find(const char *registry, const char *repository, struct auth *ret_auth, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < PLACES; i++) {
		OWN(freep) char *path = place(i);

		/* A file that the operator names must be there. */
		if (path != NULL && (i == 0 || access(path, F_OK) == 0))
			r = look_into(path, registry, repository, ret_auth, err);
		if (i == 0 && path != NULL)
			break;
	}
	return r < 0 ? r : 0;
}

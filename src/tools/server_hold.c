/* server_hold.c - see server_hold.h. */
#include "tools/server_hold.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/io.h"
#include "base/own.h"
#include "tools/server_copies.h"
#include "tools/server_program.h"
#include "trust/trust.h"

#define HEX_SHOWN 16                    /* digits of a hash that a message has */

void
server_hold_init(struct server_hold *h, const struct policy_tools *tools)
{
	*h = (struct server_hold){ .tools = tools, .dir = -1 };
}

void
server_hold_end(struct server_hold *h)
{
	if (h->dir >= 0)
		server_copies_close(h->dir, h->copies);
	h->dir = -1;
	h->copies[0] = '\0';
}

void
server_held_free(struct server_held *held)
{
	for (size_t i = 0; i < POLICY_TOOLS_WORDS_MAX; i++) {
		free(held->words[i]);
		free(held->grants[i]);
	}
	free(held->module);
	*held = (struct server_held){0};
}

/* ---- one file ---- */

/* PIN: NULL if the lock does not have it. */
struct file {
	const char *path, *pin;
	size_t word;                    /* of the command */
	bool is_module;
};

/* An agent may have put a pipe there. */
static int
open_file(const char *path, int flags, struct stat *ret_st, struct err *err)
{
	OWN(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);

	if (fd < 0)
		return err_errno(err, "cannot open '%.200s', which the server runs", path);
	if (fstat(fd, ret_st) < 0 || !S_ISREG(ret_st->st_mode))
		return err_set(err, EINVAL, "'%.200s', which the server runs, is not a file", path);
	return TAKE_FD(fd);
}

static int
compare(const struct file *f, const char *hex, struct err *err)
{
	if (strcmp(f->pin, hex) == 0)
		return 0;
	return err_set(err, EUCLEAN, "'%.150s' is not what was locked: its SHA-256 begins with %.*s, and that of the lock with "
	               "%.*s: look at it with `cloister tools check`", f->path, HEX_SHOWN, hex, HEX_SHOWN, f->pin);
}

static bool
is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Compares a file that no agent could write.  PATH has no link. */
static int
hold_in_place(struct server_hold *h, const struct file *f, const char *path, struct err *err)
{
	unsigned char hash[HASH_LEN];
	struct server_hold_seen *seen = &h->seen[h->n_seen % SERVER_HOLD_SEEN];
	struct stat st;
	uint64_t size;
	OWN(closep) int fd = open_file(path, O_NOFOLLOW, &st, err);

	if (fd < 0)
		return fd;
	for (size_t i = 0; i < SERVER_HOLD_SEEN && i < h->n_seen; i++)
		if (is_same(&h->seen[i].st, &st))
			return compare(f, h->seen[i].hex, err);
	if (hash_fd(fd, SERVER_HOLD_FILE_MAX, hash, &size, err) < 0)
		return err_wrap(err, "'%.200s'", path);
	codec_hex(hash, sizeof(hash), seen->hex);
	seen->st = st;
	h->n_seen++;
	return compare(f, seen->hex, err);
}

static int
add_copy(struct server_held *held, const struct file *f, const char *copy, struct err *err)
{
	const char *name = strrchr(f->path, '/');
	char **grant = &held->grants[held->n_grants++];

	name = name != NULL ? name + 1 : f->path;
	if (strchr(copy, ':') != NULL || strchr(name, ':') != NULL)
		return err_set(err, EINVAL, "'%.200s' cannot be granted: its path has a ':'", f->path);
	held->words[f->word] = str_format(SERVER_HOLD_AT "/%zu/%s", f->word, name);
	*grant = held->words[f->word] != NULL ? str_format("%s:%s:ro", copy, held->words[f->word]) : NULL;
	return *grant != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

/* An agent may exchange the file between the comparison and its use, so the cell gets a copy. */
static int
hold_copy(struct server_hold *h, const struct file *f, struct server_held *held, struct err *err)
{
	OWN(freep) char *copy = NULL;
	char hex[2 * HASH_LEN + 1] = "";
	struct stat st;
	OWN(closep) int fd = open_file(f->path, 0, &st, err);
	int r = fd;

	if (r >= 0 && h->dir < 0)
		r = h->dir = server_copies_open(h->copies, err);
	if (r >= 0)
		r = server_copies_take(h->dir, fd, SERVER_HOLD_FILE_MAX, f->pin, hex, err);
	r = r < 0 ? err_wrap(err, "'%.200s'", f->path) : compare(f, hex, err);
	copy = r < 0 ? NULL : str_format("%s/%s", h->copies, f->pin);
	if (r < 0 || copy == NULL)
		return r < 0 ? r : err_set(err, ENOMEM, "out of memory");
	if (!f->is_module)
		return add_copy(held, f, copy, err);
	held->module = TAKE(copy);
	return 0;
}

static int
hold_file(struct server_hold *h, const struct file *f, struct server_held *held, struct err *err)
{
	char end[PATH_MAX];
	struct err why = {0};
	int r = trust_follow(TRUST_SERVER, f->path, end, &why);

	if (r != -EPERM && r < 0)
		return err_set(err, -r, "%s", why.text);
	if (f->pin != NULL)
		return r < 0 ? hold_copy(h, f, held, err) : hold_in_place(h, f, end, err);
	return r == 0 ? 0 :
	       err_set(err, EPERM, "%.400s, or lock it: `cloister tools lock`", why.text);
}

/* ---- a server ---- */

static const char *
pin_of(const struct policy_tools_pin *pins, size_t n, const char *file)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(pins[i].file, file) == 0)
			return pins[i].hash;
	return NULL;
}

/* The list of a module's tools, too, unless the lock has each of them. */
static int
hold_module(struct server_hold *h, const struct file *module, struct server_held *held, struct err *err)
{
	OWN(freep) char *list = str_format("%s.json", module->path);
	const struct file tools = { .path = list, .is_module = true };
	int r = list == NULL ? err_set(err, ENOMEM, "out of memory") : hold_file(h, module, held, err);

	return r < 0 || h->tools->has_lock ? r : hold_file(h, &tools, held, err);
}

/* A lock that names a file which the command does not name is that of another command. */
static int
check_words(const struct policy_tools_server *server, const struct policy_tools_pin *pins, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		bool is_named = pins[i].file[0] == '\0';

		for (size_t k = 0; k < server->n_command; k++)
			is_named |= strcmp(pins[i].file, server->command[k]) == 0;
		if (!is_named)
			return err_set(err, EUCLEAN, "'%.200s' was locked, and the server's command does not name it: `cloister tools lock "
			               "%s` locks it anew", pins[i].file, server->name);
	}
	return 0;
}

static int
hold_words(struct server_hold *h, const struct policy_tools_server *server, const struct policy_tools_pin *pins, size_t n,
           size_t program, struct server_held *held, struct err *err)
{
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; r == 0 && i < server->n_command; i++) {
		const char *pin = pin_of(pins, n, server->command[i]);
		const bool is_file = server_program_file(server, h->folder, h->home, i, path);

		if (pin != NULL && !is_file)
			r = err_set(err, EUCLEAN, "'%.200s' was locked, and its cell does not have it now, or may write it: look at it with "
			            "`cloister tools check`", server->command[i]);
		else if (is_file && i > 0 && i != program && (pin != NULL || server_program_is_run(server)))
			r = hold_file(h, &(struct file){ .path = path, .pin = pin, .word = i }, held, err);
	}
	return r;
}

/* Interpreters load more than their command names. */
static void
find_loose(const struct server_hold *h, const struct policy_tools_server *server, struct server_held *held)
{
	char folder[PATH_MAX];
	struct err why = {0};

	if (server->folder != NULL && server_program_is_run(server) &&
	    policy_tools_path(server->folder, h->folder, h->home, folder, sizeof(folder), NULL) == 0 &&
	    trust_path(TRUST_SERVER, folder, &why) == -EPERM)
		snprintf(held->loose, sizeof(held->loose), "an agent can or could write its `folder`: what '%.100s' loads from there "
		         "is not locked", server->command[0]);
}

struct checking {
	const char *program;
	struct err *err;
};

static int
check_interpreter(void *arg, const char *path)
{
	const struct checking *c = arg;

	return strcmp(path, c->program) == 0 ? 0 : trust_path(TRUST_SERVER, path, c->err);
}

/* The lock has the script, and not what runs it. */
static int
hold_interpreters(struct server_hold *h, const struct policy_tools_server *server, const struct file *program,
                  const struct policy_tools_pin *pins, size_t n, struct server_held *held, struct err *err)
{
	char path[PATH_MAX];
	const struct file first = { .path = path, .pin = pin_of(pins, n, server->command[0]) };
	char *words[] = { path, NULL };

	if (program->word > 0)
		return server_program_start(server, h->folder, h->home, path) ? hold_file(h, &first, held, err) : 0;
	/* Those of its first line, which is the copy's if there is one. */
	if ((held->words[0] != NULL ? snprintf(path, sizeof(path), "%s/%s", h->copies, program->pin) :
	     snprintf(path, sizeof(path), "%s", program->path)) >= (int)sizeof(path))
		return err_set(err, ENAMETOOLONG, "the path of the program is too long");
	return trust_each_path(words, check_interpreter, &(struct checking){ path, err });
}

static int
hold_program(struct server_hold *h, const struct policy_tools_server *server, const struct policy_tools_pin *pins, size_t n,
             struct server_held *held, struct err *err)
{
	char path[PATH_MAX];
	struct file program = { .path = path, .pin = pin_of(pins, n, ""), .is_module = server->wasm != NULL };
	const bool is_found = server_program_path(server, h->folder, h->home, &program.word, path);
	const char *named = is_found && !program.is_module ? pin_of(pins, n, server->command[program.word]) : NULL;
	int r = 0;

	if (!is_found && program.pin != NULL)
		return err_set(err, EUCLEAN, "its program was locked, and is not there now: look with `cloister tools check`");
	if (named != NULL && program.pin != NULL && strcmp(named, program.pin) != 0)
		return err_set(err, EUCLEAN, "the lock has two hashes of '%.200s': `cloister tools lock %s` locks it anew", path,
		               server->name);
	program.pin = program.pin != NULL ? program.pin : named;
	if (is_found)
		r = program.is_module ? hold_module(h, &program, held, err) : hold_file(h, &program, held, err);
	if (r == 0 && is_found && !program.is_module)
		r = hold_interpreters(h, server, &program, pins, n, held, err);
	if (r == 0 && !program.is_module)
		r = hold_words(h, server, pins, n, is_found ? program.word : SIZE_MAX, held, err);
	return r;
}

int
server_hold_check(struct server_hold *h, const struct policy_tools_server *server, struct server_held *ret_held,
                  struct err *err)
{
	OWN(server_held_free) struct server_held held = {0};
	size_t n;
	const struct policy_tools_pin *pins = policy_tools_pins(h->tools, server->name, &n);
	const bool is_elsewhere = server->url != NULL || server->image != NULL;
	int r = 0;

	if (is_elsewhere && n > 0)
		return err_set(err, EUCLEAN, "the lock has a program of it, and it is %s now: `cloister tools lock %s` locks it anew",
		               server->url != NULL ? "elsewhere" : "an image", server->name);
	if (!is_elsewhere)
		r = check_words(server, pins, n, err);
	if (r == 0 && !is_elsewhere)
		r = hold_program(h, server, pins, n, &held, err);
	if (r < 0)
		return r;
	find_loose(h, server, &held);
	*ret_held = held;
	held = (struct server_held){0};
	return 0;
}

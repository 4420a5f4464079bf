/* dispatch_programs.c - the programs of its root that a dispatch starts: its command, and the
 * interpreters of scripts.  Their bytes are part of what is resolved. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "dispatch/dispatch_parts.h"
#include "ipc/init_channel.h"
#include "registry/object.h"
#include "registry/registry.h"

#define FIRST_LINE 256                  /* bytes of a script that the kernel looks at */
#define DEPTH_MAX 4                     /* interpreters that are scripts themselves */
#define PROGRAM_MAX (1ull << 30)
#define PROGRAMS_TEXT_MAX 32768
#define USUAL_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* ---- hashes ---- */

/* The hashes of files that were read before, for a service that is asked often.  A file that has
 * changed has another stamp. */
#define KNOWN 64
struct stamp {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime, ctime;
};
static struct {
	pthread_mutex_t lock;
	struct stamp at[KNOWN];
	char hash[KNOWN][HASH_NAME + 1];
	size_t next;
} known = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct stamp
stamp_of(const struct stat *st)
{
	struct stamp stamp;

	/* With its padding, because stamps are compared as bytes. */
	memset(&stamp, 0, sizeof(stamp));
	stamp.dev = st->st_dev;
	stamp.ino = st->st_ino;
	stamp.size = st->st_size;
	stamp.mtime = st->st_mtim;
	stamp.ctime = st->st_ctim;
	return stamp;
}

static bool
is_known(const struct stamp *stamp, char ret_hash[HASH_NAME + 1])
{
	bool found = false;

	pthread_mutex_lock(&known.lock);
	for (size_t i = 0; i < KNOWN && !found; i++) {
		found = known.hash[i][0] != '\0' && memcmp(&known.at[i], stamp, sizeof(*stamp)) == 0;
		if (found)
			memcpy(ret_hash, known.hash[i], HASH_NAME + 1);
	}
	pthread_mutex_unlock(&known.lock);
	return found;
}

static void
make_known(const struct stamp *stamp, const char hash[HASH_NAME + 1])
{
	pthread_mutex_lock(&known.lock);
	known.at[known.next] = *stamp;
	memcpy(known.hash[known.next], hash, HASH_NAME + 1);
	known.next = (known.next + 1) % KNOWN;
	pthread_mutex_unlock(&known.lock);
}

static int
hash_file(int fd, const char *name, char ret_hash[HASH_NAME + 1], struct err *err)
{
	unsigned char hash[HASH_LEN];
	struct stamp stamp, after;
	struct stat st;
	uint64_t size;
	int r;

	if (fstat(fd, &st) < 0)
		return err_errno(err, "cannot look at '%s'", name);
	stamp = stamp_of(&st);
	if (is_known(&stamp, ret_hash))
		return 0;
	r = hash_fd(fd, PROGRAM_MAX, hash, &size, err);
	if (r < 0)
		return err_wrap(err, "'%s'", name);
	hash_name(hash, ret_hash);
	if (fstat(fd, &st) == 0 && (after = stamp_of(&st), memcmp(&after, &stamp, sizeof(stamp)) == 0))
		make_known(&stamp, ret_hash);
	return 0;
}

/* ---- programs ---- */

struct gathering {
	struct registry *reg;
	const struct dispatch_root *root;
	json_t *const *capabilities;    /* contents */
	size_t n_capabilities;
	const char *search;             /* PATH */
	json_t *list, *starts;
	json_t *executed;               /* hashes of the files that the current start executes; NULL: unknown */
	struct buf text;
	struct err *err;
};

/* The first line of a script: its interpreter, and the text behind that.  False: it is no script. */
static bool
read_interpreter(const char *data, size_t len, char ret_path[PATH_MAX], char ret_rest[FIRST_LINE + 1])
{
	const char *end = memchr(data, '\n', len), *at = data + 2;
	size_t n;

	if (len < 3 || data[0] != '#' || data[1] != '!')
		return false;
	snprintf(ret_rest, FIRST_LINE + 1, "%.*s", (int)((end != NULL ? end : data + len) - at), at);
	n = strspn(ret_rest, " \t");
	at = ret_rest + n;
	n = strcspn(at, " \t");
	snprintf(ret_path, PATH_MAX, "%.*s", (int)n, at);
	at += n;
	at += strspn(at, " \t");
	memmove(ret_rest, at, strlen(at) + 1);
	return ret_path[0] == '/';
}

static int add_file(struct gathering *g, const char *path, unsigned depth);
static int add_searched(struct gathering *g, const char *word, unsigned depth);

/* The program that `env` executes, if these are the words behind it in a script's first line. */
static bool
read_env(const char *path, const char *rest, char ret_word[FIRST_LINE + 1])
{
	const char *name = strrchr(path, '/') + 1;
	size_t n;

	if (strcmp(name, "env") != 0)
		return false;
	if (strncmp(rest, "-S", 2) == 0)
		rest += 2 + strspn(rest + 2, " \t");
	for (n = strcspn(rest, " \t"); memchr(rest, '=', n) != NULL; n = strcspn(rest, " \t"))
		rest += n + strspn(rest + n, " \t");
	snprintf(ret_word, FIRST_LINE + 1, "%.*s", (int)n, rest);
	return ret_word[0] != '\0' && ret_word[0] != '-';
}

/* Whether the kernel executes this file itself, and not an emulator. */
static bool
is_native(const char *data, size_t len)
{
#ifdef __aarch64__
	const unsigned machine = EM_AARCH64;
#else
	const unsigned machine = EM_X86_64;
#endif
	return len > 19 && ((unsigned char)data[18] | (unsigned)(unsigned char)data[19] << 8) == machine;
}

static int
add_executed(struct gathering *g, const char *hash)
{
	return g->executed != NULL && json_array_append_new(g->executed, json_string(hash)) < 0 ?
	       err_set(g->err, ENOMEM, "out of memory") : 0;
}

static void
forget_executed(struct gathering *g)
{
	json_decref(g->executed);
	g->executed = NULL;
}

static int
add_words(struct gathering *g, const char *path, const char *rest, unsigned depth)
{
	char word[FIRST_LINE + 1];
	int r = add_file(g, path, depth + 1);

	if (r < 0 || !read_env(path, rest, word))
		return r;
	return word[0] == '/' ? add_file(g, word, depth + 1) : add_searched(g, word, depth + 1);
}

/* Follows a file with this HASH, by its first bytes, to the one that the kernel executes. */
static int
add_interpreter(struct gathering *g, int fd, const char *hash, unsigned depth)
{
	char data[FIRST_LINE], path[PATH_MAX], rest[FIRST_LINE + 1];
	ssize_t n = pread(fd, data, sizeof(data), 0);
	const bool is_elf = n >= 4 && memcmp(data, ELFMAG, SELFMAG) == 0;

	if (n <= 0 || depth > DEPTH_MAX || (is_elf && !is_native(data, (size_t)n))) {
		forget_executed(g);
		return 0;
	}
	if (is_elf)
		return add_executed(g, hash);
	if (read_interpreter(data, (size_t)n, path, rest))
		return add_words(g, path, rest, depth);
	/* As execvp() has it: a text without a first line is for the shell. */
	return add_file(g, "/bin/sh", depth + 1);
}

/* The program of a capability that is at PATH in the cell: a descriptor of its bytes, and their hash; -ENOENT. */
static int
open_granted(const struct gathering *g, const char *path, const char **ret_hash)
{
	const char *name = path + strlen(DISPATCH_CAPABILITIES "/"), *rest;
	json_t *file;
	size_t k;

	if (strncmp(path, DISPATCH_CAPABILITIES "/", strlen(DISPATCH_CAPABILITIES "/")) != 0 ||
	    (rest = strchr(name, '/')) == NULL)
		return -ENOENT;
	for (size_t i = 0; i < g->n_capabilities; i++) {
		const char *own = dispatch_text(g->capabilities[i], "name");

		if (strlen(own) != (size_t)(rest - name) || strncmp(own, name, strlen(own)) != 0)
			continue;
		json_array_foreach(json_object_get(g->capabilities[i], "files"), k, file)
			if (strcmp(dispatch_text(file, "path"), rest + 1) == 0 &&
			    json_is_true(json_object_get(file, "executable"))) {
				*ret_hash = dispatch_text(file, "hash");
				return registry_open_blob(g->reg, *ret_hash, NULL);
			}
	}
	return -ENOENT;
}

/* A file of the root, at PATH in the cell. */
static int
note_program(struct gathering *g, const char *path, const char *hash, const struct dispatch_found *found)
{
	if (dispatch_lists(g->list, "path", path))
		return 0;
	if (json_array_append_new(g->list, json_pack("{s:s,s:s,s:s}", "file", found->file, "hash", hash, "path", path)) < 0)
		return err_set(g->err, ENOMEM, "out of memory");
	if (strchr(found->host, '\n') == NULL) {
		buf_put_text(&g->text, g->text.len > 0 ? "\n" : "");
		buf_put_text(&g->text, hash);
		buf_put_text(&g->text, " ");
		buf_put_text(&g->text, found->host);
	}
	return 0;
}

/* A program at PATH in the cell; -ENOENT: neither a capability nor the root has it. */
static int
find_file(struct gathering *g, const char *path, unsigned depth)
{
	struct dispatch_found found = { .fd = -1 };
	const char *blob = NULL;
	OWN(closep) int granted = open_granted(g, path, &blob), fd = -1;
	char hash[HASH_NAME + 1];
	int r;

	/* Its own bytes are those of the capability. */
	if (granted >= 0)
		return add_interpreter(g, granted, blob, depth);
	r = dispatch_root_find(g->root, path, &found);
	if (r < 0)
		return r == -ENOENT ? r : err_set(g->err, -r, "cannot find '%.200s' in the root of the cell", path);
	fd = found.fd;
	r = hash_file(fd, path, hash, g->err);
	r = r == 0 ? note_program(g, path, hash, &found) : r;
	return r == 0 ? add_interpreter(g, fd, hash, depth) : r;
}

/* One that is not there is no error yet: the cell reports it. */
static int
add_file(struct gathering *g, const char *path, unsigned depth)
{
	int r = find_file(g, path, depth);

	if (r == -ENOENT)
		forget_executed(g);
	return r == -ENOENT ? 0 : r;
}

/* The first of the folders in PATH that has the command. */
static int
add_searched(struct gathering *g, const char *word, unsigned depth)
{
	const char *search = g->search;
	char path[PATH_MAX];
	size_t n;

	for (;; search += n + 1) {
		n = strcspn(search, ":");
		if (*search == '/' && snprintf(path, sizeof(path), "%.*s/%s", (int)n, search, word) < (int)sizeof(path)) {
			int r = find_file(g, path, depth);

			if (r != -ENOENT)
				return r;
		}
		if (search[n] == '\0')
			break;
	}
	forget_executed(g);
	return 0;
}

/* WORD starts what was executed since begin_start(). */
static int
begin_start(struct gathering *g)
{
	forget_executed(g);
	g->executed = json_array();
	return g->executed == NULL ? err_set(g->err, ENOMEM, "out of memory") : 0;
}

static int
end_start(struct gathering *g, const char *word)
{
	const size_t n = json_array_size(g->executed);

	if (n == 0 || n > INIT_EXECS_MAX || dispatch_lists(g->starts, "start", word))
		return 0;
	return json_array_append_new(g->starts, json_pack("{s:O,s:s}", "hashes", g->executed, "start", word)) < 0 ?
	       err_set(g->err, ENOMEM, "out of memory") : 0;
}

static int
add_start(struct gathering *g, const char *word)
{
	int r = begin_start(g);

	if (r == 0)
		r = word[0] == '/' ? add_file(g, word, 0) : add_searched(g, word, 0);
	return r == 0 ? end_start(g, word) : r;
}

static int
add_setups(struct gathering *g)
{
	char path[PATH_MAX];
	bool tools = false;
	int r = 0;

	for (size_t i = 0; r == 0 && i < g->n_capabilities; i++) {
		tools = tools || json_array_size(json_object_get(g->capabilities[i], "tools")) > 0;
		for (size_t k = 0; r == 0 && k < OBJECT_SETUPS; k++) {
			const char *hash;
			OWN(closep) int fd = -1;

			snprintf(path, sizeof(path), DISPATCH_CAPABILITIES "/%s/%s",
			         dispatch_text(g->capabilities[i], "name"), object_setups[k]);
			fd = open_granted(g, path, &hash);
			r = fd < 0 ? 0 : add_start(g, path);
		}
	}
	if (r == 0 && tools)
		r = begin_start(g);
	if (r == 0 && tools)
		r = add_file(g, "/bin/sh", 0);
	return r == 0 && tools ? end_start(g, DISPATCH_TOOLS) : r;
}

int
dispatch_programs_find(struct registry *reg, const struct dispatch_root *root, const struct dispatch_asked *asked,
                       struct dispatch_programs *ret_programs, struct err *err)
{
	OWN(json_decrefp) json_t *list = json_array(), *starts = json_array();
	struct gathering g = { .reg = reg, .root = root, .capabilities = asked->capabilities,
		.n_capabilities = asked->n_capabilities, .list = list, .starts = starts, .text = BUF(PROGRAMS_TEXT_MAX),
		.search = asked->search != NULL ? asked->search : root->search != NULL ? root->search : USUAL_PATH,
		.err = err };
	const char *word = json_string_value(json_array_get(asked->command, 0));
	char *text = NULL;
	int r = add_setups(&g);

	/* A path that does not begin at the root is one of the workspace. */
	if (r == 0 && word != NULL && (word[0] == '/' || strchr(word, '/') == NULL))
		r = add_start(&g, word);
	forget_executed(&g);
	buf_put(&g.text, "", 1);
	if (r == 0 && buf_failed(&g.text))
		r = err_set(err, E2BIG, "the programs that it starts have too long paths");
	if (r == 0 && (text = strdup((const char *)g.text.data)) == NULL)
		r = err_set(err, ENOMEM, "out of memory");
	buf_free(&g.text);
	if (r == 0)
		*ret_programs = (struct dispatch_programs){ .list = TAKE(list), .starts = TAKE(starts), .text = text };
	return r;
}

int
dispatch_programs_check(const struct dispatch_root *root, const json_t *list, struct err *err)
{
	json_t *program;
	size_t i;

	json_array_foreach(list, i, program) {
		const char *path = dispatch_text(program, "path");
		struct dispatch_found found = { .fd = -1 };
		OWN(closep) int fd = -1;
		char hash[HASH_NAME + 1] = "";
		int r = dispatch_root_find(root, path, &found);

		fd = found.fd;
		r = r == 0 ? hash_file(fd, path, hash, err) : r == -ENOENT ? 0 :
		    err_set(err, -r, "cannot find '%.200s' in the root of the cell", path);
		if (r < 0)
			return r;
		if (strcmp(hash, dispatch_text(program, "hash")) != 0)
			return err_set(err, EUCLEAN, "the program '%.200s' is not the one that was resolved: it was "
			               "changed since; dispatch the agent again", path);
	}
	return 0;
}

/* dispatch_programs.c - the programs of its root that a dispatch starts: its command, and the
 * interpreters of scripts.  Their bytes are part of what is resolved. */
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
	json_t *list;
	struct buf text;
	struct err *err;
};

/* The interpreter in the first line of a script; false: it is no script. */
static bool
read_interpreter(const char *data, size_t len, char ret_path[PATH_MAX])
{
	size_t at = 2, n;

	if (len < 3 || data[0] != '#' || data[1] != '!')
		return false;
	while (at < len && (data[at] == ' ' || data[at] == '\t'))
		at++;
	for (n = at; n < len && strchr(" \t\n", data[n]) == NULL; n++)
		;
	snprintf(ret_path, PATH_MAX, "%.*s", (int)(n - at), data + at);
	return ret_path[0] == '/';
}

static int add_file(struct gathering *g, const char *path, unsigned depth);

/* A script, by its first bytes. */
static int
add_interpreter(struct gathering *g, int fd, bool of_setup, unsigned depth)
{
	char data[FIRST_LINE], path[PATH_MAX];
	ssize_t n = pread(fd, data, sizeof(data), 0);

	if (n <= 0 || depth > DEPTH_MAX)
		return 0;
	if (read_interpreter(data, (size_t)n, path))
		return add_file(g, path, depth + 1);
	/* As execvp() has it: a text without a first line is for the shell. */
	return of_setup && memcmp(data, "\177ELF", (size_t)n < 4 ? (size_t)n : 4) != 0 ?
	       add_file(g, "/bin/sh", depth + 1) : 0;
}

/* The file of a capability that is at PATH in the cell: a descriptor of its bytes; -ENOENT. */
static int
open_granted(const struct gathering *g, const char *path)
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
			if (strcmp(dispatch_text(file, "path"), rest + 1) == 0)
				return registry_open_blob(g->reg, dispatch_text(file, "hash"), NULL);
	}
	return -ENOENT;
}

/* A program at PATH in the cell.  One that is not there is no error yet: the cell reports it. */
static int
add_file(struct gathering *g, const char *path, unsigned depth)
{
	struct dispatch_found found = { .fd = -1 };
	OWN(closep) int granted = open_granted(g, path), fd = -1;
	char hash[HASH_NAME + 1];
	int r;

	/* Its own bytes are those of the capability. */
	if (granted >= 0)
		return add_interpreter(g, granted, false, depth);
	if (dispatch_lists(g->list, "path", path))
		return 0;
	r = dispatch_root_find(g->root, path, &found);
	if (r < 0)
		return r == -ENOENT ? 0 : err_set(g->err, -r, "cannot find '%.200s' in the root of the cell", path);
	fd = found.fd;
	r = hash_file(fd, path, hash, g->err);
	if (r < 0)
		return r;
	if (json_array_append_new(g->list, json_pack("{s:s,s:s,s:s}", "file", found.file, "hash", hash,
	                                             "path", path)) < 0)
		return err_set(g->err, ENOMEM, "out of memory");
	if (strchr(found.host, '\n') == NULL) {
		buf_put_text(&g->text, g->text.len > 0 ? "\n" : "");
		buf_put_text(&g->text, hash);
		buf_put_text(&g->text, " ");
		buf_put_text(&g->text, found.host);
	}
	return add_interpreter(g, fd, false, depth);
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
			OWN(closep) int fd = -1;

			snprintf(path, sizeof(path), DISPATCH_CAPABILITIES "/%s/%s",
			         dispatch_text(g->capabilities[i], "name"), object_setups[k]);
			fd = open_granted(g, path);
			r = fd < 0 ? 0 : add_interpreter(g, fd, true, 0);
		}
	}
	return r == 0 && tools ? add_file(g, "/bin/sh", 0) : r;
}

/* The first of the folders in SEARCH that has the command. */
static int
add_searched(struct gathering *g, const char *word, const char *search)
{
	size_t before = json_array_size(g->list), n;
	char path[PATH_MAX];
	int r = 0;

	for (; r == 0 && json_array_size(g->list) == before; search += n + 1) {
		n = strcspn(search, ":");
		if (*search == '/' && snprintf(path, sizeof(path), "%.*s/%s", (int)n, search, word) < (int)sizeof(path)) {
			OWN(closep) int granted = open_granted(g, path);

			if (granted >= 0 || dispatch_lists(g->list, "path", path))
				return granted >= 0 ? add_interpreter(g, granted, false, 0) : 0;
			r = add_file(g, path, 0);
		}
		if (search[n] == '\0')
			break;
	}
	return r;
}

int
dispatch_programs_find(struct registry *reg, const struct dispatch_root *root, const struct dispatch_starts *starts,
                       json_t **ret_list, char **ret_text, struct err *err)
{
	OWN(json_decrefp) json_t *list = json_array();
	struct gathering g = { .reg = reg, .root = root, .capabilities = starts->capabilities,
		.n_capabilities = starts->n_capabilities, .list = list, .text = BUF(PROGRAMS_TEXT_MAX), .err = err };
	const char *word = json_string_value(json_array_get(starts->command, 0));
	const char *search = starts->search != NULL ? starts->search : root->search != NULL ? root->search : USUAL_PATH;
	int r = add_setups(&g);

	if (r == 0 && word != NULL && strchr(word, '/') == NULL)
		r = add_searched(&g, word, search);
	else if (r == 0 && word != NULL && word[0] == '/')
		r = add_file(&g, word, 0);
	buf_put(&g.text, "", 1);
	if (r == 0 && buf_failed(&g.text))
		r = err_set(err, E2BIG, "the programs that it starts have too long paths");
	*ret_text = r == 0 ? strdup((const char *)g.text.data) : NULL;
	buf_free(&g.text);
	if (r == 0 && *ret_text == NULL)
		r = err_set(err, ENOMEM, "out of memory");
	if (r == 0)
		*ret_list = TAKE(list);
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

/* link_workers.c - see link_workers.h. */
#include "link/link_workers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "canon/hash.h"

#define FILE_MAX 512
#define NONE "-"                        /* in place of an empty field */
#define PASSES "passes"

static int
open_folder(int dir, const char *name, struct err *err)
{
	int fd;

	if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make the folder '%s' of workers", name);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? err_errno(err, "cannot open the folder '%s' of workers", name) : fd;
}

static int
write_new(int folder, const char *name, const char *text, struct err *err)
{
	char temporary[LINK_HEX + 8];
	OWN(closep) int fd = -1;
	int r;

	snprintf(temporary, sizeof(temporary), ".%s.new", name);
	(void)!unlinkat(folder, temporary, 0);
	fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "cannot write '%s'", name);
	r = write_all(fd, text, strlen(text), err);
	if (r == 0 && (fsync(fd) < 0 || renameat(folder, temporary, folder, name) < 0 || fsync(folder) < 0))
		r = err_errno(err, "cannot write '%s'", name);
	return r;
}

/* ---- tokens ---- */

static void
name_token(const char *secret, char ret_name[LINK_HEX + 1])
{
	unsigned char hash[HASH_LEN];

	hash_of(secret, strlen(secret), hash);
	codec_hex(hash, sizeof(hash), ret_name);
}

static size_t
count(int folder)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *at = fd < 0 ? NULL : fdopendir(fd);
	size_t n = 0;

	while (at != NULL && readdir(at) != NULL)
		n++;
	return n;
}

int
link_workers_add_token(int dir, const char *pool, uint64_t until, bool passes, char ret_secret[LINK_HEX + 1], struct err *err)
{
	unsigned char bytes[LINK_HEX / 2];
	char name[LINK_HEX + 1], text[FILE_MAX];
	OWN(closep) int folder = open_folder(dir, LINK_TOKENS, err);

	if (folder < 0)
		return folder;
	if (count(folder) > LINK_TOKENS_MAX)
		return err_set(err, E2BIG, "there are %d tokens that nobody has used: wait until they are over", LINK_TOKENS_MAX);
	if (RAND_bytes(bytes, sizeof(bytes)) != 1)
		return err_set(err, EIO, "there is no randomness for a token");
	codec_hex(bytes, sizeof(bytes), ret_secret);
	name_token(ret_secret, name);
	snprintf(text, sizeof(text), "%" PRIu64 " %s%s\n", until, *pool != '\0' ? pool : NONE, passes ? " " PASSES : "");
	return write_new(folder, name, text, err);
}

static bool
read_token(int folder, const char *name, uint64_t *ret_until, char ret_pool[LINK_POOL_MAX + 1], bool *ret_passes)
{
	OWN(freep) char *text = NULL;
	char more[8] = "";

	if (read_file_at(folder, name, FILE_MAX, &text, NULL, NULL) < 0 ||
	    sscanf(text, "%" SCNu64 " %32s %7s", ret_until, ret_pool, more) < 2)
		return false;
	*ret_passes = strcmp(more, PASSES) == 0;
	if (strcmp(ret_pool, NONE) == 0)
		*ret_pool = '\0';
	return true;
}

static int
no_token(struct err *err)
{
	return err_set(err, ENOENT, "the token was used, or is too old: `cloister worker token` makes another one");
}

int
link_workers_check_token(int dir, const char *secret, uint64_t now, const char *pool, struct err *err)
{
	OWN(closep) int folder = open_folder(dir, LINK_TOKENS, err);
	char name[LINK_HEX + 1], wanted[LINK_POOL_MAX + 1];
	uint64_t until = 0;
	bool passes;

	if (folder < 0)
		return folder;
	name_token(secret, name);
	if (!read_token(folder, name, &until, wanted, &passes) || until <= now)
		return no_token(err);
	if (*wanted != '\0' && strcmp(wanted, pool) != 0)
		return err_set(err, EPERM, "the token is for the pool '%s', and this worker is for '%s'", wanted, pool);
	return 0;
}

int
link_workers_use_token(int dir, const char *secret, uint64_t now, char ret_pool[LINK_POOL_MAX + 1], bool *ret_passes,
                       struct err *err)
{
	OWN(closep) int folder = open_folder(dir, LINK_TOKENS, err);
	char name[LINK_HEX + 1];
	uint64_t until = 0;

	if (folder < 0)
		return folder;
	name_token(secret, name);
	/* Two that come at once: one of them removes it. */
	if (!read_token(folder, name, &until, ret_pool, ret_passes) || unlinkat(folder, name, 0) < 0 || fsync(folder) < 0 || until <= now)
		return no_token(err);
	return 0;
}

void
link_workers_drop_tokens(int dir, uint64_t now)
{
	OWN(closep) int folder = open_folder(dir, LINK_TOKENS, NULL);
	int fd = folder < 0 ? -1 : openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *at = fd < 0 ? NULL : fdopendir(fd);
	char pool[LINK_POOL_MAX + 1];
	struct dirent *e;
	uint64_t until;
	bool passes;

	while (at != NULL && (e = readdir(at)) != NULL)
		if (link_is_hex(e->d_name, LINK_HEX) && read_token(folder, e->d_name, &until, pool, &passes) && until <= now)
			(void)!unlinkat(folder, e->d_name, 0);
}

/* ---- workers ---- */

int
link_workers_add(int dir, const struct link_worker *w, struct err *err)
{
	OWN(closep) int folder = open_folder(dir, LINK_JOINED, err);
	char text[FILE_MAX];

	if (folder < 0)
		return folder;
	if (count(folder) > LINK_JOINED_MAX)
		return err_set(err, E2BIG, "there are %d workers already: remove some", LINK_JOINED_MAX);
	snprintf(text, sizeof(text), "%s %s %s %s %" PRIu64 " %" PRIu64 "\n", w->print, w->name, w->home, *w->pool != '\0' ? w->pool : NONE,
	         w->since, w->seen);
	return write_new(folder, w->id, text, err);
}

static int
read_worker(int folder, const char *id, struct link_worker *ret_worker, struct err *err)
{
	OWN(freep) char *text = NULL;
	struct link_worker w = {0};
	int r = read_file_at(folder, id, FILE_MAX, &text, NULL, err);

	if (r == -ENOENT)
		return err_set(err, ENOENT, "there is no worker %s: see `cloister worker list`", id);
	if (r < 0)
		return r;
	if (sscanf(text, "%64s %64s %32s %32s %" SCNu64 " %" SCNu64, w.print, w.name, w.home, w.pool, &w.since, &w.seen) < 5)
		return err_set(err, EBADMSG, "the file of worker %s is damaged: remove the worker, and let it join again", id);
	if (strcmp(w.pool, NONE) == 0)
		w.pool[0] = '\0';
	snprintf(w.id, sizeof(w.id), "%s", id);
	*ret_worker = w;
	return 0;
}

int
link_workers_get(int dir, const char *id, struct link_worker *ret_worker, struct err *err)
{
	OWN(closep) int folder = open_folder(dir, LINK_JOINED, err);

	if (folder < 0)
		return folder;
	if (!link_is_hex(id, LINK_ID_LEN))
		return err_set(err, ENOENT, "there is no worker '%.32s': see `cloister worker list`", id);
	return read_worker(folder, id, ret_worker, err);
}

int
link_workers_list(int dir, struct link_worker **ret_workers, size_t *ret_n, struct err *err)
{
	OWN(closep) int folder = open_folder(dir, LINK_JOINED, err);
	OWN(freep) struct link_worker *all = calloc(LINK_JOINED_MAX, sizeof(*all));
	int fd = folder < 0 ? -1 : openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *at = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	size_t n = 0;

	if (folder < 0)
		return folder;
	if (all == NULL || at == NULL)
		return err_set(err, ENOMEM, "out of memory");
	while (n < LINK_JOINED_MAX && (e = readdir(at)) != NULL)
		n += link_is_hex(e->d_name, LINK_ID_LEN) && read_worker(folder, e->d_name, &all[n], NULL) == 0;
	*ret_workers = TAKE(all);
	*ret_n = n;
	return 0;
}

int
link_workers_remove(int dir, const char *id, struct err *err)
{
	OWN(closep) int folder = open_folder(dir, LINK_JOINED, err);
	struct link_worker w;
	int r = folder < 0 ? folder : link_workers_get(dir, id, &w, err);

	if (r == -EBADMSG)
		r = 0;
	if (r == 0 && (unlinkat(folder, id, 0) < 0 || fsync(folder) < 0))
		r = err_errno(err, "cannot remove worker %s", id);
	/* Its connection ends now. */
	return r < 0 ? r : create_file_at(dir, LINK_CHANGED, 0600, "", err);
}

void
link_workers_forget(int dir, uint64_t now, bool (*is_connected)(void *arg, const char *id), void *arg)
{
	OWN(freep) struct link_worker *all = NULL;
	size_t n = 0;

	if (link_workers_list(dir, &all, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (all[i].seen != 0 && now > all[i].seen + LINK_AWAY_S && !is_connected(arg, all[i].id))
			(void)link_workers_remove(dir, all[i].id, NULL);
}

/* ---- who is connected ---- */

#define PRESENCE_LINE_MAX (LINK_ID_LEN + 2 * 21 + 2)

/* Not synced to the disk: it is of no use after a crash. */
int
link_presence_write(int dir, const struct link_presence *all, size_t n, struct err *err)
{
	static const char temporary[] = "." LINK_PRESENCE ".new";
	OWN(buf_free) struct buf text = BUF(LINK_JOINED_MAX * PRESENCE_LINE_MAX + 1);
	char line[PRESENCE_LINE_MAX];
	int r;

	for (size_t i = 0; i < n; i++) {
		snprintf(line, sizeof(line), "%s %" PRIu64 " %" PRIu64 "\n", all[i].id, all[i].since, all[i].last);
		buf_put_text(&text, line);
	}
	buf_put(&text, "", 1);
	r = buf_failed(&text) ? err_set(err, ENOMEM, "out of memory") :
	    create_file_at(dir, temporary, 0600, (const char *)text.data, err);
	if (r == 0 && renameat(dir, temporary, dir, LINK_PRESENCE) < 0)
		r = err_errno(err, "cannot write '" LINK_PRESENCE "'");
	return r;
}

int
link_presence_read(int dir, struct link_presence **ret_all, size_t *ret_n, struct err *err)
{
	OWN(freep) struct link_presence *all = calloc(LINK_JOINED_MAX, sizeof(*all));
	OWN(freep) char *text = NULL;
	size_t n = 0;
	int r = read_file_at(dir, LINK_PRESENCE, LINK_JOINED_MAX * PRESENCE_LINE_MAX, &text, NULL, err);

	if (r < 0 && r != -ENOENT)
		return r;
	if (all == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (char *rest = text, *line; n < LINK_JOINED_MAX && (line = strsep(&rest, "\n")) != NULL; )
		n += sscanf(line, "%16s %" SCNu64 " %" SCNu64, all[n].id, &all[n].since, &all[n].last) == 3;
	*ret_all = TAKE(all);
	*ret_n = n;
	return 0;
}

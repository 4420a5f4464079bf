/* state_read.c - see state_read.h. */
#include "state/state_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/data.h"
#include "base/tree.h"

struct hearing {
	int (*file)(void *arg, const struct state_file *file);
	int (*diff)(void *arg, const struct state_diff *file);
	int (*take)(void *arg, const void *data, size_t len);
	void *arg;
};

static int
ask(struct state *state, struct buf *b, state_heard *heard, struct hearing *h, struct ipc_message *ret_done, struct err *err)
{
	int r = state_worker_start(state, -1, -1, err);

	return r < 0 ? r : state_ask(state, b, heard, h, ret_done, err);
}

static int
hear_files(void *arg, struct ipc_message *m, struct err *err)
{
	struct hearing *h = arg;
	int r = 0;

	(void)err;
	while (r == 0 && buf_left(&m->body) > 0) {
		struct state_file file;

		r = m->type != STATE_CHUNK || buf_get_u32(&m->body, &file.mode) < 0 || buf_get_u64(&m->body, &file.size) < 0 ||
		    buf_get_str(&m->body, &file.path) < 0 ? -EBADMSG : h->file(h->arg, &file);
	}
	return r;
}

int
state_files(struct state *state, const char *commit, int (*note)(void *arg, const struct state_file *file), void *arg,
            struct err *err)
{
	OWN(ipc_message_free) struct ipc_message done = {0};
	OWN(buf_free) struct buf b = {0};
	struct hearing h = { .file = note, .arg = arg };

	ipc_begin(&b, STATE_ASK_FILES);
	buf_put_str(&b, commit);
	return ask(state, &b, hear_files, &h, &done, err);
}

static int
hear_bytes(void *arg, struct ipc_message *m, struct err *err)
{
	struct hearing *h = arg;

	(void)err;
	return m->type != STATE_CHUNK ? -EBADMSG : h->take == NULL ? 0 :
	       h->take(h->arg, m->body.data + m->body.pos, buf_left(&m->body));
}

int
state_cat(struct state *state, const char *commit, const char *path, int (*take)(void *arg, const void *data, size_t len),
          void *arg, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message done = {0};
	OWN(buf_free) struct buf b = {0};
	struct hearing h = { .take = take, .arg = arg };

	ipc_begin(&b, STATE_ASK_CAT);
	buf_put_str(&b, commit);
	buf_put_str(&b, path);
	return ask(state, &b, hear_bytes, &h, &done, err);
}

static int
hear_diff(void *arg, struct ipc_message *m, struct err *err)
{
	struct hearing *h = arg;
	int r = 0;

	(void)err;
	while (r == 0 && buf_left(&m->body) > 0) {
		struct state_diff file;
		uint32_t kind = 0;

		r = m->type != STATE_CHUNK || buf_get_u32(&m->body, &kind) < 0 || buf_get_u32(&m->body, &file.old_mode) < 0 ||
		    buf_get_u32(&m->body, &file.new_mode) < 0 || buf_get_u64(&m->body, &file.old_size) < 0 ||
		    buf_get_u64(&m->body, &file.new_size) < 0 || buf_get_str(&m->body, &file.path) < 0 ||
		    (kind != 'A' && kind != 'M' && kind != 'D') ? -EBADMSG : 0;
		file.kind = (char)kind;
		r = r == 0 ? h->diff(h->arg, &file) : r;
	}
	return r;
}

int
state_diff(struct state *state, const char *old, const char *new, int (*note)(void *arg, const struct state_diff *file),
           void *arg, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message done = {0};
	OWN(buf_free) struct buf b = {0};
	struct hearing h = { .diff = note, .arg = arg };

	ipc_begin(&b, STATE_ASK_DIFF);
	buf_put_str(&b, old);
	buf_put_str(&b, new);
	return ask(state, &b, hear_diff, &h, &done, err);
}

int
state_diff_file(struct state *state, const char *old, const char *new, const char *path,
                int (*take)(void *arg, const void *data, size_t len), void *arg, bool *ret_binary, uint64_t *ret_added,
                uint64_t *ret_removed, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message done = {0};
	OWN(buf_free) struct buf b = {0};
	struct hearing h = { .take = take, .arg = arg };
	uint32_t binary;
	int r;

	ipc_begin(&b, STATE_ASK_DIFF_FILE);
	buf_put_str(&b, old);
	buf_put_str(&b, new);
	buf_put_str(&b, path);
	r = ask(state, &b, hear_bytes, &h, &done, err);
	if (r == 0 && (buf_get_u32(&done.body, &binary) < 0 || buf_get_u64(&done.body, ret_added) < 0 ||
	               buf_get_u64(&done.body, ret_removed) < 0))
		r = err_set(err, EPROTO, "the process that reads the state answered nonsense");
	if (r == 0)
		*ret_binary = binary != 0;
	return r;
}

/* ---- checks ---- */

static int
check_sum(struct state *state, const char *commit, const char *sum, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message done = {0};
	OWN(buf_free) struct buf b = {0};
	const char *is;
	int r;

	ipc_begin(&b, STATE_ASK_SUM);
	buf_put_str(&b, commit);
	r = ask(state, &b, NULL, NULL, &done, err);
	if (r < 0)
		return r;
	return buf_get_str(&done.body, &is) == 0 && strcmp(is, sum) == 0 ? 0 :
	       err_set(err, EBADMSG, "the files of commit %.12s are not those whose SHA-256 its message has", commit);
}

int
state_check_commit(struct state *state, const char *commit, const unsigned char key[AUDIT_KEY], const char *known_tree,
                   struct state_text *ret, struct err *err)
{
	OWN(state_text_free) struct state_text text = {0};
	OWN(buf_free) struct buf bytes = {0};
	int r = state_worker_start(state, -1, -1, err);

	r = r == 0 ? state_get_commit(state, commit, &bytes, &text, err) : r;
	if (r < 0)
		return r;
	if (!state_text_is_signed(&text, (const char *)bytes.data, bytes.len, key))
		return err_set(err, EBADMSG, "commit %.12s is not signed with your key", commit);
	if (known_tree == NULL || strcmp(known_tree, text.tree) != 0)
		r = check_sum(state, commit, text.sum, err);
	if (r == 0) {
		*ret = text;
		text = (struct state_text){0};
	}
	return r;
}

int
state_public_key(unsigned char ret_key[AUDIT_KEY], struct err *err)
{
	OWN(operator_close) struct operator op = {0};
	int r = operator_open(&op, err);

	r = r == 0 ? operator_load_key(&op, err) : r;
	if (r == 0)
		memcpy(ret_key, op.key.public, AUDIT_KEY);
	return r;
}

/* ---- all of them ---- */

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A folder without its limits is what a crash left while it was made: they are written last. */
static bool
is_filled(int all, const char *name)
{
	char path[STATE_NAME_MAX + sizeof(STATE_CONFIG)];

	return state_is_name(name) && snprintf(path, sizeof(path), "%s/" STATE_CONFIG, name) < (int)sizeof(path) &&
	       faccessat(all, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int
state_list(char ***ret_names, struct err *err)
{
	OWN(closep) int all = data_folder(STATE_FOLDER, false, err);
	OWN(strv_freep) char **names = calloc(STATE_STATES_MAX + 1, sizeof(*names));
	OWN(closedirp) DIR *list = all < 0 ? NULL : tree_list(all);
	const struct dirent *entry;
	size_t n = 0;

	if (names == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (list == NULL && all != -ENOENT)
		return all < 0 ? all : err_errno(err, "cannot list the states");
	while (list != NULL && n < STATE_STATES_MAX && (entry = readdir(list)) != NULL)
		if (is_filled(all, entry->d_name) && (names[n] = strdup(entry->d_name)) != NULL)
			n++;
	if (n > 0)
		qsort(names, n, sizeof(*names), by_name);
	*ret_names = TAKE(names);
	return 0;
}

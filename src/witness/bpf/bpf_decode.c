/* bpf_decode.c - reads samples: numbers from the kernel, texts from the agent. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "witness/bpf/bpf.h"

_Static_assert((int)SAMPLE_EXEC == (int)ACT_EXEC && (int)SAMPLE_COUNTS == (int)ACT_CALLS &&
               (int)SAMPLE_TIMES == (int)ACT_TIMES && (int)SAMPLE_ACCEPT == (int)ACT_ACCEPT &&
               (int)SAMPLE_BY_KERNEL == (int)ACT_BY_KERNEL && SAMPLE_KINDS == (int)ACT_KINDS,
               "sample.h and act.h differ");

struct text {
	const char *at;                 /* NULL: there is none */
	size_t len;
	unsigned flags;
};

/* ---- texts ---- */

/* Finds the texts behind a sample; the first of each kind counts. */
static int
find_texts(const char *data, size_t len, struct text ret_texts[SAMPLE_WHATS])
{
	struct sample_text head;

	while (len != 0) {
		if (len < sizeof(head))
			return -EBADMSG;
		memcpy(&head, data, sizeof(head));
		data += sizeof(head);
		len -= sizeof(head);
		if (head.what >= SAMPLE_WHATS || head.len > len)
			return -EBADMSG;
		if (ret_texts[head.what].at == NULL)
			ret_texts[head.what] = (struct text){ data, head.len, head.flags };
		data += head.len;
		len -= head.len;
	}
	return 0;
}

static struct act_text
plain(const struct text *text)
{
	if (text->len > ACT_PATH_MAX)
		return (struct act_text){ text->at, ACT_PATH_MAX, true };
	return (struct act_text){ text->at, text->len, (text->flags & SAMPLE_CUT) != 0 };
}

/* A path from the names in it, the last one first.  One that does not begin at the cell's root, or whose
 * beginning is not known, has no slash in front. */
static struct act_text
join(const struct text *from, char ret[ACT_PATH_MAX])
{
	struct act_text path = { ret, 0, (from->flags & SAMPLE_CUT) != 0 };
	size_t end = from->len, begin;
	bool rooted = from->flags == 0;

	if (end != 0 && from->at[end - 1] == '\0')
		end--;
	else if (end == 0 && rooted)
		ret[path.len++] = '/';
	while (end != 0) {
		begin = end;
		while (begin != 0 && from->at[begin - 1] != '\0')
			begin--;
		if (end - begin + 1 > ACT_PATH_MAX - path.len) {
			path.cut = true;
			return path;
		}
		if (rooted || path.len != 0)
			ret[path.len++] = '/';
		memcpy(ret + path.len, from->at + begin, end - begin);
		path.len += end - begin;
		end = begin == 0 ? 0 : begin - 1;
	}
	return path;
}

/* Appends the name of LEN bytes at AT to an absolute PATH, and takes "." and ".." at their word. */
static void
append(struct act_text *path, char *room, const char *at, size_t len)
{
	if (len == 0 || (len == 1 && at[0] == '.'))
		return;
	if (len == 2 && memcmp(at, "..", 2) == 0) {
		while (path->len != 0 && room[--path->len] != '/')
			;
		return;
	}
	if (len + 1 > ACT_PATH_MAX - path->len) {
		path->cut = true;
		return;
	}
	room[path->len++] = '/';
	memcpy(room + path->len, at, len);
	path->len += len;
}

/* The path that NAME, below DIR unless it is absolute, stands for. */
static struct act_text
resolve(const struct text *dir, const struct text *name, char ret[ACT_PATH_MAX])
{
	struct act_text path = { ret, 0, false };
	size_t end;

	if (name->len == 0 || name->at[0] != '/') {
		if (dir->at == NULL)
			return plain(name);
		path = join(dir, ret);
		if (path.len == 1 && ret[0] == '/')
			path.len = 0;
	}
	path.cut |= (name->flags & SAMPLE_CUT) != 0;
	for (size_t i = 0; i < name->len; i = end + 1) {
		const char *slash = memchr(name->at + i, '/', name->len - i);

		end = slash != NULL ? (size_t)(slash - name->at) : name->len;
		append(&path, ret, name->at + i, end - i);
	}
	if (path.len == 0)
		ret[path.len++] = '/';
	return path;
}

/* What an act is about: the kernel's path, or the name that the process gave. */
static struct act_text
path_of(const struct text *path, const struct text *dir, const struct text *name, char ret[ACT_PATH_MAX])
{
	if (path->at != NULL)
		return join(path, ret);
	if (name->at != NULL)
		return resolve(dir, name, ret);
	return dir->at != NULL ? join(dir, ret) : (struct act_text){0};
}

/* ---- kinds ---- */

static void
take_exec(const struct sample *s, const struct text *t, struct bpf_texts *texts, struct act *act)
{
	const struct text *script = &t[SAMPLE_SCRIPT];

	act->path = path_of(&t[SAMPLE_PATH], &t[SAMPLE_DIR], &t[SAMPLE_NAME], texts->path);
	act->cwd = t[SAMPLE_CWD].at != NULL ? join(&t[SAMPLE_CWD], texts->cwd)
	         : t[SAMPLE_DIR].at != NULL ? join(&t[SAMPLE_DIR], texts->cwd)
	                                    : (struct act_text){0};
	if (script->at != NULL)
		act->script = resolve(&t[SAMPLE_CWD], script, texts->script);
	act->argv = plain(&t[SAMPLE_ARGV]);
	act->n_argv = s->nr;
	act->program.size = s->exec.size;
	act->program.modified_ns = s->exec.modified;
	act->from_writable = (s->flags & SAMPLE_WRITABLE) != 0;
	act->from_memory = (s->flags & SAMPLE_UNLINKED) != 0 && (t[SAMPLE_PATH].flags & SAMPLE_OUTSIDE) != 0;
}

static void
take_exit(const struct sample *s, struct act *act)
{
	act->signalled = (s->flags & SAMPLE_SIGNALLED) != 0;
	act->status = s->exit.status;
	act->ran_ns = s->exit.ran;
	act->cpu_ns = s->exit.cpu;
	act->peak = s->exit.peak;
}

/* The last name of a path. */
static struct act_text
last_name(const struct act_text *path)
{
	const char *slash = path->len != 0 ? memrchr(path->at, '/', path->len) : NULL;
	size_t at = slash != NULL ? (size_t)(slash - path->at) + 1 : 0;

	return (struct act_text){ path->at + at, path->len - at, false };
}

/* Compares what was opened with what was asked for. */
static void
compare_names(const struct text *t, struct bpf_texts *texts, struct act *act)
{
	struct act_text asked = resolve(&t[SAMPLE_DIR], &t[SAMPLE_NAME], texts->to);
	struct act_text a = last_name(&act->path), b = last_name(&asked);

	act->asked = false;
	if (a.len != b.len || memcmp(a.at, b.at, a.len) != 0)
		texts->other = asked;
}

#define FCHMODAT2 452                   /* newer than the headers of some systems */

static bool
is_symlink(const struct sample *s)
{
#ifdef SYS_symlink
	if (s->nr == SYS_symlink)
		return true;
#endif
	return s->nr == SYS_symlinkat;
}

/* Whether the call follows a link that its first name is. */
static bool
is_followed(const struct sample *s)
{
	switch (s->nr) {
#ifdef SYS_chmod
	case SYS_chmod:
	case SYS_chown:
	case SYS_utime:
	case SYS_utimes:
	case SYS_futimesat:
#endif
	case SYS_truncate:
	case SYS_fchmodat: return true;
	case SYS_linkat: return (s->args[4] & AT_SYMLINK_FOLLOW) != 0;
	case SYS_fchownat: return (s->args[4] & AT_SYMLINK_NOFOLLOW) == 0;
	case SYS_utimensat:
	case FCHMODAT2: return (s->args[3] & AT_SYMLINK_NOFOLLOW) == 0;
	default: return false;
	}
}

/* The name as it was passed, from the cell's root on; "" if that is not known. */
static void
put_raw(const struct text *dir, const struct text *name, char folder[ACT_PATH_MAX], char ret[BPF_RAW_MAX])
{
	struct act_text from = {0};
	int n = 0;

	ret[0] = '\0';
	if (name->at == NULL || ((name->flags | dir->flags) & SAMPLE_CUT) != 0 ||
	    memchr(name->at, '\0', name->len) != NULL)
		return;
	if (name->len == 0 || name->at[0] != '/') {
		if (dir->at == NULL || dir->flags != 0)
			return;
		from = join(dir, folder);
	}
	n = snprintf(ret, BPF_RAW_MAX, "%.*s/%.*s", (int)from.len, from.len > 0 ? from.at : "", (int)name->len, name->at);
	if (n >= BPF_RAW_MAX)
		ret[0] = '\0';
}

static void
put_names(const struct sample *s, const struct text *t, struct bpf_texts *texts)
{
	texts->is_symlink = s->act == SAMPLE_LINK && t[SAMPLE_DIR].at == NULL && is_symlink(s);
	texts->follows = is_followed(s);
	if (!texts->is_symlink && t[SAMPLE_PATH].at == NULL)
		put_raw(&t[SAMPLE_DIR], &t[SAMPLE_NAME], texts->cwd, texts->raw);
	put_raw(&t[SAMPLE_DIR_TO], &t[SAMPLE_NAME_TO], texts->cwd, texts->raw_to);
}

static int
take_file(const struct sample *s, const struct text *t, struct bpf_texts *texts, struct act *act)
{
	if (s->act >= ACT_FILES)
		return -EBADMSG;
	put_names(s, t, texts);
	act->file = s->act;
	act->path = path_of(&t[SAMPLE_PATH], &t[SAMPLE_DIR], &t[SAMPLE_NAME], texts->path);
	if (t[SAMPLE_NAME_TO].at != NULL)
		act->to = resolve(&t[SAMPLE_DIR_TO], &t[SAMPLE_NAME_TO], texts->to);
	else if (t[SAMPLE_PATH].at != NULL && t[SAMPLE_NAME].at != NULL)
		compare_names(t, texts, act);
	return 0;
}

/* A name in the file system may be followed by anything behind its NUL. */
static struct act_text
socket_name(const struct text *dir, const struct text *name, char ret[ACT_PATH_MAX])
{
	struct text path = *name;

	if (path.len == 0 || path.at[0] == '\0')
		return plain(&path);
	path.len = strnlen(path.at, path.len);
	return resolve(dir, &path, ret);
}

static int
take_net(const struct sample *s, const struct text *t, struct bpf_texts *texts, struct act *act)
{
	if (s->act >= ACT_NETS)
		return -EBADMSG;
	act->net = s->act;
	act->family = s->net.family;
	act->port = s->net.port;
	act->local = s->net.local;
	memcpy(act->address, s->net.address, sizeof(act->address));
	if (act->family == AF_UNIX && t[SAMPLE_PATH].at != NULL)
		act->path = join(&t[SAMPLE_PATH], texts->path);
	else if (act->family == AF_UNIX && t[SAMPLE_NAME].at != NULL)
		act->path = socket_name(&t[SAMPLE_DIR], &t[SAMPLE_NAME], texts->path);
	return 0;
}

static int
take_call(const struct sample *s, const struct text *t, struct act *act)
{
	if (s->by > ACT_BY_KERNEL)
		return -EBADMSG;
	act->nr = s->nr;
	act->by = s->by;
	memcpy(act->args, s->args, sizeof(act->args));
	if (t[SAMPLE_NAME].at != NULL)
		act->text = plain(&t[SAMPLE_NAME]);
	return 0;
}

static int
take_counts(const struct sample *s, const struct text *t, struct bpf_texts *texts, struct act *act)
{
	const struct text *pairs = &t[SAMPLE_PAIRS];
	struct sample_pair pair;
	size_t n = pairs->len / sizeof(pair);

	if (n > SAMPLE_CALLS || n * sizeof(pair) != pairs->len)
		return -EBADMSG;
	for (size_t i = 0; i < n; i++) {
		memcpy(&pair, pairs->at + i * sizeof(pair), sizeof(pair));
		texts->counts[i] = (struct act_count){ pair.nr, pair.n };
	}
	act->counts = texts->counts;
	act->n_counts = n;
	act->since_ns = s->since;
	return 0;
}

int
bpf_decode(const void *data, size_t len, struct bpf_texts *texts, struct act *ret_act)
{
	struct text t[SAMPLE_WHATS] = {0};
	struct act act = {0};
	struct sample s;
	int r;

	texts->other = (struct act_text){0};
	texts->raw[0] = texts->raw_to[0] = '\0';
	texts->follows = texts->is_symlink = false;
	if (len < sizeof(s))
		return -EBADMSG;
	memcpy(&s, data, sizeof(s));
	r = find_texts((const char *)data + sizeof(s), len - sizeof(s), t);
	if (r < 0)
		return r;
	act.kind = s.kind;
	act.time_ns = s.time;
	act.pid = s.pid;
	act.parent = s.parent;
	act.host_pid = (pid_t)s.host_pid;
	act.error = s.error;
	act.asked = (s.flags & SAMPLE_ASKED) != 0;
	switch (s.kind) {
	case SAMPLE_EXEC: take_exec(&s, t, texts, &act); break;
	case SAMPLE_EXIT: take_exit(&s, &act); break;
	case SAMPLE_FILE: r = take_file(&s, t, texts, &act); break;
	case SAMPLE_NET: r = take_net(&s, t, texts, &act); break;
	case SAMPLE_REFUSED:
	case SAMPLE_DANGER: r = take_call(&s, t, &act); break;
	case SAMPLE_COUNTS: r = take_counts(&s, t, texts, &act); break;
	default: r = -EBADMSG;
	}
	if (r == 0)
		*ret_act = act;
	return r;
}

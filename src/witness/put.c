/* put.c - see put.h. */
#include "witness/put.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/codec.h"
#include "base/own.h"
#include "canon/members.h"
#include "witness/calls.h"

#define COUNT_MEMBER "\"count\":1"
#define COUNTS_MAX 1024                 /* calls of a process in one record */
#define NS_PER_MS 1000000

static const char *const types[ACT_KINDS] = {
	[ACT_EXEC] = "exec", [ACT_EXIT] = "exit", [ACT_FILE] = "file", [ACT_NET] = "net", [ACT_REFUSED] = "refused",
	[ACT_DANGER] = "danger", [ACT_CALLS] = "calls", [ACT_LOST] = "lost",
};

const char *
put_type(enum act_kind kind)
{
	return (unsigned)kind < ACT_KINDS ? types[kind] : "acts";
}

static void
put_text(struct members *m, const char *key, const struct act_text *text, size_t max)
{
	if (text->at != NULL && text->len > 0)
		members_text(m, key, text->at, text->len, text->cut && max >= text->len ? text->len - 1 : max);
}

static void
put_flag(struct members *m, const char *key, bool value)
{
	if (value)
		members_bool(m, key, true);
}

static void
put_number(struct members *m, const char *key, uint64_t value)
{
	if (value != 0)
		members_u64(m, key, value);
}

static void
put_error(struct members *m, int error)
{
	char name[CALLS_NAME_MAX];

	if (error > 0)
		members_str(m, "error", calls_error(error, name));
}

static void
put_hash(struct members *m, const char *key, const unsigned char *hash)
{
	char hex[HASH_HEX + 1];

	if (hash == NULL)
		return;
	codec_hex(hash, HASH_LEN, hex);
	members_text(m, key, hex, HASH_HEX, HASH_HEX);
}

/* The words of ARGV, each of at most MAX bytes. */
static void
put_words(struct members *m, const struct act *act, size_t max)
{
	OWN(buf_free) struct buf list = BUF(PUT_MAX);
	const char *at = act->argv.at, *end = at == NULL ? NULL : at + act->argv.len;
	uint32_t n = 0;
	bool cut = act->argv.cut;

	if (at == NULL && act->n_argv == 0)
		return;

	buf_put(&list, "[", 1);
	for (; at != end && n < act->n_argv; n++) {
		size_t len = strnlen(at, (size_t)(end - at));

		buf_put_text(&list, n == 0 ? "\"" : ",\"");
		members_escape(&list, at, len, max);
		buf_put_text(&list, "\"");
		at += len + (at + len != end);
	}
	buf_put(&list, "]", 1);
	members_raw(m, "argv", list.data, list.len);
	m->text.failed = m->text.failed || buf_failed(&list);
	if (cut || n < act->n_argv)
		members_u64(m, "n_argv", act->n_argv);
}

static void
put_exec(struct members *m, const struct act *act, const struct put_more *more, size_t max)
{
	put_number(m, "parent", act->parent);
	put_text(m, "path", &act->path, max);
	put_words(m, act, max);
	put_text(m, "cwd", &act->cwd, max);
	put_hash(m, "sha256", more->program);
	put_text(m, "script", &act->script, max);
	put_hash(m, "script_sha256", more->script);
	members_str(m, "unhashed", more->unhashed);
	put_number(m, "searched", more->searched);
	put_flag(m, "asked", act->asked);
	put_flag(m, "unknown", act->unknown);
	members_str(m, "from", act->from_memory ? "memory" : act->from_writable ? "writable" : NULL);
	put_error(m, act->error);
}

static void
put_exit(struct members *m, const struct act *act)
{
	char name[CALLS_NAME_MAX];

	put_number(m, "parent", act->parent);
	if (act->signalled)
		members_str(m, "signal", calls_signal(act->status, name));
	else if (!act->status_unknown)
		members_u64(m, "status", (uint64_t)(act->status & 0xff));
	put_number(m, "ms", act->ran_ns / NS_PER_MS);
	put_number(m, "cpu_ms", act->cpu_ns / NS_PER_MS);
	put_number(m, "peak", act->peak);
}

static void
put_file(struct members *m, const struct act *act, const struct put_more *more, size_t max)
{
	static const char *const names[ACT_FILES] = {
		[ACT_WRITE] = "write", [ACT_CREATE] = "create", [ACT_READ] = "read", [ACT_RENAME] = "rename",
		[ACT_REMOVE] = "remove", [ACT_LINK] = "link", [ACT_MODE] = "mode", [ACT_OWNER] = "owner",
		[ACT_TIMES] = "times",
	};

	members_str(m, "act", (unsigned)act->file < ACT_FILES ? names[act->file] : "write");
	put_text(m, "path", &act->path, max);
	put_text(m, "to", &act->to, max);
	members_str(m, "grant", more->grant);
	put_flag(m, "asked", act->asked);
	put_flag(m, "unknown", act->unknown);
	put_error(m, act->error);
}

static void
put_address(struct members *m, const struct act *act, size_t max)
{
	char text[INET6_ADDRSTRLEN];
	struct act_text path = act->path;

	if ((act->family == AF_INET || act->family == AF_INET6) &&
	    inet_ntop(act->family, act->address, text, sizeof(text)) != NULL) {
		members_str(m, "address", text);
	} else if (act->family == AF_UNIX && path.at != NULL && path.len > 0 && path.at[0] == '\0') {
		char name[128] = "@";
		size_t len = path.len - 1 < sizeof(name) - 1 ? path.len - 1 : sizeof(name) - 1;

		memcpy(name + 1, path.at + 1, len);
		members_text(m, "address", name, len + 1, max);
	} else {
		put_text(m, "address", &path, max);
	}
}

static void
put_net(struct members *m, const struct act *act, size_t max)
{
	static const char *const names[ACT_NETS] = {
		[ACT_CONNECT] = "connect", [ACT_BIND] = "bind", [ACT_LISTEN] = "listen", [ACT_ACCEPT] = "accept",
	};

	members_str(m, "act", (unsigned)act->net < ACT_NETS ? names[act->net] : "connect");
	put_address(m, act, max);
	put_number(m, "port", act->port);
	put_number(m, "local", act->local);
	put_flag(m, "asked", act->asked);
	put_flag(m, "unknown", act->unknown);
	put_error(m, act->error);
}

static void
put_call(struct members *m, const struct act *act)
{
	static const char *const walls[] = { [ACT_BY_FILTER] = "filter", [ACT_BY_LANDLOCK] = "landlock",
	                                     [ACT_BY_KERNEL] = "kernel" };
	char name[CALLS_NAME_MAX], args[ACT_ARGS_MAX];
	size_t len = calls_args(act, args);

	members_str(m, "call", calls_name(act->nr, name));
	if (len > 0)
		members_text(m, "args", args, len, sizeof(args));
	if (act->kind == ACT_REFUSED && (unsigned)act->by < ARRAY_LEN(walls))
		members_str(m, "by", walls[act->by]);
	if (act->kind == ACT_REFUSED && act->signalled)
		members_str(m, "signal", calls_signal(act->status, name));
	put_error(m, act->error);
}

static void
put_calls(struct members *m, const struct act *act)
{
	OWN(buf_free) struct buf list = BUF(PUT_MAX);
	char name[CALLS_NAME_MAX];

	buf_put(&list, "[", 1);
	for (size_t i = 0; i < act->n_counts && i < COUNTS_MAX; i++) {
		buf_put_text(&list, i == 0 ? "\"" : ",\"");
		buf_put_text(&list, calls_name(act->counts[i].nr, name));
		buf_put_text(&list, " ");
		buf_put_decimal(&list, act->counts[i].n);
		buf_put_text(&list, "\"");
	}
	buf_put(&list, "]", 1);
	members_raw(m, "counts", list.data, list.len);
	m->text.failed = m->text.failed || buf_failed(&list);
	members_u64(m, "ms", act->since_ns / NS_PER_MS);
}

static bool
is_counted(enum act_kind kind, const struct put_more *more)
{
	return (kind == ACT_EXEC && more->counted) || kind == ACT_FILE || kind == ACT_NET || kind == ACT_REFUSED || kind == ACT_DANGER;
}

/* Texts have at most MAX bytes. */
static void
put_members(struct members *m, const struct act *act, const struct put_more *more, size_t max)
{
	members_str(m, "type", put_type(act->kind));
	if (act->kind != ACT_LOST || act->pid != 0)
		members_u64(m, "pid", act->pid);
	if (act->kind == ACT_EXEC)
		put_exec(m, act, more, max);
	else if (act->kind == ACT_EXIT)
		put_exit(m, act);
	else if (act->kind == ACT_FILE)
		put_file(m, act, more, max);
	else if (act->kind == ACT_NET)
		put_net(m, act, max);
	else if (act->kind == ACT_CALLS)
		put_calls(m, act);
	else if (act->kind == ACT_LOST)
		members_str(m, "what", put_type(act->lost));
	else
		put_call(m, act);
	if (is_counted(act->kind, more))
		members_u64(m, "count", 1);
	if (act->kind == ACT_LOST) {
		members_u64(m, "count", act->n_lost);
		members_str(m, "why", more->why);
	}
}

int
put_act(struct buf *out, const struct act *act, const struct put_more *more, size_t *ret_count)
{
	/* Escapes make a text up to six times as long. */
	static const size_t lengths[] = { ACT_PATH_MAX, 1024, 256, 32 };
	const size_t from = out->len;
	const char *count;

	if ((unsigned)act->kind >= ACT_KINDS)
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		OWN(members_free) struct members m;
		OWN(buf_free) struct buf text = BUF(PUT_MAX);

		members_init(&m, PUT_MAX);
		put_members(&m, act, more, lengths[i]);
		if (members_failed(&m))
			continue;
		members_put(&m, &text);
		if (buf_failed(&text))
			continue;
		buf_put(out, text.data, text.len);
		*ret_count = 0;
		/* A quotation mark inside a text has a backslash before it, so this is the member. */
		count = !is_counted(act->kind, more) || buf_failed(out) ? NULL :
		        memmem(out->data + from, text.len, COUNT_MEMBER, strlen(COUNT_MEMBER));
		if (count != NULL)
			*ret_count = (size_t)(count - (char *)out->data) - from + strlen(COUNT_MEMBER) - 1;
		return buf_failed(out) ? -ENOBUFS : 0;
	}
	return -EMSGSIZE;
}

/* notify_memory.c - reads of an agent's memory: bounded, and of whatever is there. */
#include "witness/notify/notify.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/own.h"

#define PAGE 4096u                      /* no page is smaller */
#define PARTS_MAX 3                     /* pages that ACT_PATH_MAX bytes can lie on, and one */
#define AT_ONCE 16
#define SHORT 128                       /* bytes of each argument that are read at once */
#define MOST_ADDRESS (UINT64_C(1) << 56)        /* arm64 ignores the bits above it in pointers */

static uint64_t
address_of(uint64_t at)
{
#ifdef __aarch64__
	return at & (MOST_ADDRESS - 1);
#else
	return at;
#endif
}

static size_t
to_page_end(uint64_t at)
{
	return PAGE - (size_t)(at % PAGE);
}

ssize_t
notify_read(pid_t tid, uint64_t at, void *to, size_t len)
{
	struct iovec local = { to, len }, remote[PARTS_MAX];
	size_t n = 0, rest = len;
	ssize_t got;

	/* The kernel copies whole parts: so each page is one. */
	for (at = address_of(at); rest > 0 && n < PARTS_MAX; n++) {
		size_t part = to_page_end(at) < rest ? to_page_end(at) : rest;

		remote[n] = (struct iovec){ (void *)(uintptr_t)at, part };
		at += part;
		rest -= part;
	}
	got = process_vm_readv(tid, &local, 1, remote, n, 0);
	return got < 0 ? -errno : got;
}

int
notify_read_text(pid_t tid, uint64_t at, struct notify_text *ret)
{
	size_t first = to_page_end(address_of(at)) < 256 ? to_page_end(address_of(at)) : 256;
	ssize_t got = notify_read(tid, at, ret->at, first);
	char *end = got <= 0 ? NULL : memchr(ret->at, '\0', (size_t)got);

	ret->len = 0;
	ret->cut = false;
	if (got > 0 && end == NULL) {
		got = notify_read(tid, at, ret->at, sizeof(ret->at));
		end = got <= 0 ? NULL : memchr(ret->at, '\0', (size_t)got);
	}
	if (got <= 0) {
		ret->cut = true;
		return got < 0 ? (int)got : -EFAULT;
	}
	ret->cut = end == NULL;
	ret->len = end == NULL ? (size_t)got : (size_t)(end - ret->at);
	return 0;
}

/* ---- arguments ---- */

struct args {
	pid_t tid;
	char *to;
	size_t len;
	bool cut;                       /* nothing more is kept */
};

static void
keep(struct args *a, const char *text, size_t len, bool cut)
{
	size_t room = ACT_ARGV_MAX - a->len;

	if (a->cut || room == 0) {
		a->cut = true;
		return;
	}
	if (len + 1 > room) {
		len = room - 1;
		cut = true;
	}
	memcpy(a->to + a->len, text, len);
	a->to[a->len + len] = '\0';
	a->len += len + 1;
	a->cut = cut;
}

static void
keep_long(struct args *a, uint64_t at)
{
	struct notify_text text;

	if (a->cut)
		return;
	if (notify_read_text(a->tid, at, &text) < 0)
		keep(a, "", 0, true);
	else
		keep(a, text.at, text.len, text.cut);
}

/* The texts at COUNT pointers.  Most arguments are short, so their beginnings are read with one call. */
static void
keep_all(struct args *a, const uint64_t *at, size_t count)
{
	struct iovec local[AT_ONCE], remote[AT_ONCE];
	char beginnings[AT_ONCE][SHORT];
	ssize_t got;

	for (size_t i = 0; i < count; i++) {
		size_t len = to_page_end(address_of(at[i])) < SHORT ? to_page_end(address_of(at[i])) : SHORT;

		local[i] = (struct iovec){ beginnings[i], len };
		remote[i] = (struct iovec){ (void *)(uintptr_t)address_of(at[i]), len };
	}
	got = process_vm_readv(a->tid, local, count, remote, count, 0);
	for (size_t i = 0; i < count && !a->cut; i++) {
		bool whole = got >= 0 && (size_t)got >= local[i].iov_len;
		const char *end = whole ? memchr(beginnings[i], '\0', local[i].iov_len) : NULL;

		got = whole ? got - (ssize_t)local[i].iov_len : -1;
		if (end != NULL)
			keep(a, beginnings[i], (size_t)(end - beginnings[i]), false);
		else
			keep_long(a, at[i]);
	}
}

int
notify_read_argv(pid_t tid, uint64_t at, char to[ACT_ARGV_MAX], size_t *ret_len, uint32_t *ret_n, bool *ret_cut)
{
	struct args a = { .tid = tid, .to = to };
	uint64_t pointers[PAGE / sizeof(uint64_t)];
	uint32_t n = 0;
	bool ended = at == 0;

	while (!ended && n < NOTIFY_ARGS_MAX) {
		/* While texts are kept, few at once: most lists are short. */
		size_t want = a.cut ? ARRAY_LEN(pointers) : AT_ONCE, count = 0;
		ssize_t got = notify_read(tid, at, pointers, want * sizeof(*pointers));

		if (got < (ssize_t)sizeof(*pointers)) {
			a.cut = true;
			break;
		}
		while (count < (size_t)got / sizeof(*pointers) && pointers[count] != 0)
			count++;
		ended = count < (size_t)got / sizeof(*pointers);
		if (!a.cut && count > 0)
			keep_all(&a, pointers, count);
		n += (uint32_t)count;
		at += count * sizeof(*pointers);
	}
	*ret_len = a.len;
	*ret_n = n;
	*ret_cut = a.cut || !ended;
	return 0;
}

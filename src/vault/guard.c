/* guard.c - see guard.h. */
#include "vault/guard.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"

static size_t
pages(size_t cap)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (cap + 1 + page - 1) / page * page;
}

int
guard_alloc(struct guard *ret_guard, size_t cap, struct err *err)
{
	size_t size = pages(cap);
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int r;

	if (at == MAP_FAILED)
		return err_errno(err, "cannot get memory for a secret");
	/* A forked child must not have it. */
	if (madvise(at, size, MADV_DONTDUMP) < 0 || madvise(at, size, MADV_WIPEONFORK) < 0 ||
	    (cap <= GUARD_LOCKED_MAX && mlock(at, size) < 0)) {
		r = err_errno(err, "cannot lock a secret in memory (see `ulimit -l`)");
		munmap(at, size);
		return r;
	}
	*ret_guard = (struct guard){ .at = at, .cap = cap };
	return 0;
}

int
guard_copy(struct guard *ret_guard, const void *data, size_t len, struct err *err)
{
	struct guard g;
	int r = guard_alloc(&g, len, err);

	if (r < 0)
		return r;
	if (len > 0)
		memcpy(g.at, data, len);
	g.len = len;
	*ret_guard = g;
	return 0;
}

void
guard_free(struct guard *g)
{
	if (g->at != NULL) {
		explicit_bzero(g->at, pages(g->cap));
		munmap(g->at, pages(g->cap));
	}
	*g = (struct guard){0};
}

struct guard
guard_take(struct guard *old)
{
	struct guard taken = *old;

	*old = (struct guard){0};
	return taken;
}

int
guard_read(struct guard *g, int fd, struct err *err)
{
	ssize_t n;

	for (;;) {
		/* Read one byte more to detect a larger input; it uses the place of the NUL. */
		n = read(fd, g->at + g->len, g->cap + 1 - g->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "cannot read the value");
		if (n == 0)
			break;
		g->len += (size_t)n;
		if (g->len > g->cap) {
			g->len = g->cap;
			g->at[g->cap] = '\0';
			return err_set(err, EFBIG, "a value is at most %zu bytes", g->cap);
		}
	}
	g->at[g->len] = '\0';
	return 0;
}

void
guard_put(struct guard *g, const void *data, size_t len)
{
	assert(len <= g->cap - g->len);
	if (len > 0)
		memcpy(g->at + g->len, data, len);
	g->len += len;
}

void
guard_put_str(struct guard *g, const char *text, size_t len)
{
	const unsigned char size[4] = { (unsigned char)len, (unsigned char)(len >> 8),
	                                (unsigned char)(len >> 16), (unsigned char)(len >> 24) };

	guard_put(g, size, sizeof(size));
	guard_put(g, text, len);
	guard_put(g, "", 1);
}

void
guard_chomp(struct guard *g)
{
	while (g->len > 0 && (g->at[g->len - 1] == '\n' || g->at[g->len - 1] == '\r'))
		g->at[--g->len] = '\0';
}

int
guard_process(struct err *err)
{
	const struct rlimit none = {0};

	if (prctl(PR_SET_DUMPABLE, 0) < 0 || setrlimit(RLIMIT_CORE, &none) < 0)
		return err_errno(err, "cannot forbid core dumps");
	return 0;
}

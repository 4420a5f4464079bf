/* wasm_module.c - reads a module, and bounds the memory that it may grow to.
 *
 * Not every cell has a limit on memory, and the engine knows none: the module's own section 5 gets a maximum. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "proc/wasm/wasm.h"

#define HEAD 8                          /* the magic number and the version */
#define MEMORIES 5                      /* the section */
#define HAS_MAX 1
#define PAGE (64u << 10)
#define PAGES_MAX (WASM_MEMORY_MAX / PAGE)

/* ---- numbers (unsigned LEB128) ---- */

static bool
get(struct buf *b, uint32_t *ret_n)
{
	*ret_n = 0;
	for (unsigned shift = 0; shift < 35 && buf_left(b) > 0; shift += 7) {
		unsigned char byte = b->data[b->pos++];

		*ret_n |= (uint32_t)(byte & 0x7f) << shift;
		if ((byte & 0x80) == 0)
			return true;
	}
	return false;
}

static void
put(struct buf *b, uint32_t n)
{
	do {
		unsigned char byte = (unsigned char)((n & 0x7f) | (n > 0x7f ? 0x80 : 0));

		buf_put(b, &byte, 1);
		n >>= 7;
	} while (n > 0);
}

/* ---- sections ---- */

static int
invalid(struct err *err)
{
	return err_set(err, EINVAL, "the module is not valid WASM");
}

/* The one memory of a command, with a maximum. */
static int
bound_memory(struct buf *from, struct buf *to, struct err *err)
{
	OWN(buf_free) struct buf section = BUF(64);
	uint32_t n, flags, least, most = PAGES_MAX;

	if (!get(from, &n) || n != 1 || !get(from, &flags) || (flags & ~(uint32_t)HAS_MAX) != 0 || !get(from, &least) ||
	    ((flags & HAS_MAX) != 0 && !get(from, &most)) || buf_left(from) > 0)
		return err_set(err, EINVAL, "the module has another kind of memory than a WASI command");
	if (least > PAGES_MAX)
		return err_set(err, E2BIG, "the module needs more than %u MiB", WASM_MEMORY_MAX >> 20);
	put(&section, 1);
	put(&section, HAS_MAX);
	put(&section, least);
	put(&section, most < PAGES_MAX ? most : PAGES_MAX);
	put(to, (uint32_t)section.len);
	buf_put(to, section.data, section.len);
	return 0;
}

static int
copy_section(struct buf *from, struct buf *to, struct err *err)
{
	unsigned char kind = from->data[from->pos++];
	struct buf section;
	uint32_t n;

	if (!get(from, &n) || n > buf_left(from))
		return invalid(err);
	buf_init_borrowed(&section, from->data + from->pos, n);
	from->pos += n;
	buf_put(to, &kind, 1);
	if (kind == MEMORIES)
		return bound_memory(&section, to, err);
	put(to, n);
	buf_put(to, section.data, n);
	return 0;
}

int
wasm_module_read(const char *path, struct buf *ret_module, struct err *err)
{
	OWN(freep) char *text = NULL;
	OWN(buf_free) struct buf to = BUF(WASM_MODULE_MAX + 64);
	struct buf from;
	size_t len;
	int r = read_file_at(AT_FDCWD, path, WASM_MODULE_MAX, &text, &len, err);

	if (r == 0 && (len < HEAD || memcmp(text, "\0asm\1\0\0", HEAD) != 0))
		r = err_set(err, EINVAL, "the module is not WASM");
	if (r < 0)
		return r;
	buf_init_borrowed(&from, text, len);
	buf_put(&to, text, HEAD);
	from.pos = HEAD;
	while (r == 0 && buf_left(&from) > 0)
		r = copy_section(&from, &to, err);
	if (r == 0 && buf_failed(&to))
		r = err_set(err, ENOMEM, "out of memory");
	if (r == 0) {
		*ret_module = to;
		to = BUF(0);
	}
	return r;
}

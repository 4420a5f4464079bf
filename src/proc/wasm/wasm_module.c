/* wasm_module.c - reads a module, and bounds the memory that it may grow to.
 *
 * Not every cell has a limit on memory, and the engine knows none: the module's own sections for memories and tables get
 * maximums.  Objects of the engine's garbage collector and exceptions have no such number, so a module that could make
 * any is refused. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "proc/wasm/wasm.h"

#define HEAD 8                          /* the magic number and the version */
/* Sections. */
#define TYPES 1
#define TABLES 4
#define MEMORIES 5
#define TAGS 13                         /* of exceptions */
/* Types. */
#define FUNCTION 0x60
#define FUNCTIONS 0x70                  /* references to functions */
#define EXTERNALS 0x6f                  /* references to the host's objects: there are none */
#define REFERENCE_NULL 0x63             /* a kind of reference follows */
#define REFERENCE 0x64                  /* likewise */
#define TYPE_LEAST 0x40
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

static bool
get_type(struct buf *b)
{
	unsigned char type = buf_left(b) > 0 ? b->data[b->pos++] : 0;
	uint32_t kind;

	return type == REFERENCE_NULL || type == REFERENCE ? get(b, &kind) : type >= TYPE_LEAST;
}

static bool
get_types(struct buf *b)
{
	uint32_t n;

	if (!get(b, &n))
		return false;
	while (n-- > 0)
		if (!get_type(b))
			return false;
	return true;
}

/* Only functions: not one type of an object. */
static int
check_types(struct buf section, struct err *err)
{
	uint32_t n;

	if (!get(&section, &n))
		return invalid(err);
	while (n-- > 0) {
		if (buf_left(&section) == 0 || section.data[section.pos++] != FUNCTION)
			return err_set(err, EINVAL, "the module has types of objects (WASM GC), whose memory cannot be limited: build it "
			               "without them");
		/* Its arguments, its results. */
		if (!get_types(&section) || !get_types(&section))
			return invalid(err);
	}
	return buf_left(&section) > 0 ? invalid(err) : 0;
}

struct table {
	unsigned char type;
	uint32_t least, most;
};

static bool
get_table(struct buf *from, struct table *ret_table)
{
	uint32_t flags;

	ret_table->most = UINT32_MAX;
	if (buf_left(from) == 0)
		return false;
	ret_table->type = from->data[from->pos++];
	return (ret_table->type == FUNCTIONS || ret_table->type == EXTERNALS) && get(from, &flags) &&
	       (flags & ~(uint32_t)HAS_MAX) == 0 && get(from, &ret_table->least) &&
	       ((flags & HAS_MAX) == 0 || get(from, &ret_table->most)) && ret_table->least <= WASM_ENTRIES_MAX;
}

/* How many entries N tables have at least; UINT64_MAX: they are not valid. */
static uint64_t
count_entries(struct buf tables, uint32_t n)
{
	uint64_t least = 0;
	struct table t;

	while (n-- > 0) {
		if (!get_table(&tables, &t))
			return UINT64_MAX;
		least += t.least;
	}
	return buf_left(&tables) > 0 ? UINT64_MAX : least;
}

/* What the tables may grow by is shared out evenly. */
static int
bound_tables(struct buf *from, struct buf *to, struct err *err)
{
	OWN(buf_free) struct buf section = BUF(WASM_MODULE_MAX);
	struct table t;
	uint64_t least;
	uint32_t n, more;

	if (!get(from, &n))
		return invalid(err);
	least = count_entries(*from, n);
	if (least == UINT64_MAX)
		return err_set(err, EINVAL, "the module has another kind of table than a WASI command");
	if (least > WASM_ENTRIES_MAX)
		return err_set(err, E2BIG, "the module needs tables of more than %u entries", WASM_ENTRIES_MAX);
	more = n > 0 ? (uint32_t)(WASM_ENTRIES_MAX - least) / n : 0;
	put(&section, n);
	for (uint32_t i = 0; i < n && get_table(from, &t); i++) {
		buf_put(&section, &t.type, 1);
		put(&section, HAS_MAX);
		put(&section, t.least);
		put(&section, t.most < t.least + more ? t.most : t.least + more);
	}
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
	int r;

	if (!get(from, &n) || n > buf_left(from))
		return invalid(err);
	buf_init_borrowed(&section, from->data + from->pos, n);
	from->pos += n;
	if (kind == TAGS)
		return err_set(err, EINVAL, "the module has exceptions, whose memory cannot be limited: build it without them");
	r = kind == TYPES ? check_types(section, err) : 0;
	if (r < 0)
		return r;
	buf_put(to, &kind, 1);
	if (kind == MEMORIES)
		return bound_memory(&section, to, err);
	if (kind == TABLES)
		return bound_tables(&section, to, err);
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

/* vault_file.c - reads and replaces the vault's files, and encodes their content. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "vault/vault_parts.h"

static const unsigned char magic[8] = { 'c', 'l', 'o', 'i', 's', 't', 'e', 'r' };
#define VERSION 1

/* ---- whole files ---- */

int
vault_read_own(int folder, const char *name, size_t max, struct guard *ret_text, struct err *err)
{
	OWN(closep) int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	OWN(guard_free) struct guard g = {0};
	struct stat st;
	int r;

	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot open '%s' of the vault", name);
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0 || st.st_nlink != 1)
		return err_set(err, EPERM, "'%s' of the vault can be read by others, or is not yours: look "
		               "who had it, then `chmod 600` it", name);
	if ((uint64_t)st.st_size > max)
		return err_set(err, EFBIG, "'%s' of the vault is over %zu bytes", name, max);
	r = guard_alloc(&g, (size_t)st.st_size, err);
	r = r == 0 ? guard_read(&g, fd, err) : r;
	if (r < 0)
		return err_wrap(err, "'%s' of the vault", name);
	*ret_text = guard_take(&g);
	return 0;
}

int
vault_write_own(int folder, const char *name, const void *data, size_t len, struct err *err)
{
	OWN(closep) int fd = -1;
	int r;

	/* A process that was killed here left it; we hold the lock. */
	unlinkat(folder, VAULT_NEW, 0);
	fd = openat(folder, VAULT_NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_errno(err, "cannot write '%s' of the vault", name);
	r = write_all(fd, data, len, err);
	if (r == 0 && (fsync(fd) < 0 || renameat(folder, VAULT_NEW, folder, name) < 0 ||
	               fsync(folder) < 0))
		r = err_errno(err, "cannot write");
	if (r == 0)
		return 0;
	unlinkat(folder, VAULT_NEW, 0);
	return err_wrap(err, "'%s' of the vault stays as it was", name);
}

/* ---- the header ---- */

static void
put_u32(unsigned char *at, uint32_t v)
{
	for (unsigned i = 0; i < 4; i++)
		at[i] = (unsigned char)(v >> (8 * i));
}

static uint32_t
get_u32(const unsigned char *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

void
vault_header_put(const struct vault_header *h, unsigned char ret_bytes[VAULT_HEADER])
{
	memset(ret_bytes, 0, VAULT_HEADER);
	memcpy(ret_bytes, magic, sizeof(magic));
	put_u32(ret_bytes + 8, VERSION);
	put_u32(ret_bytes + 12, h->key);
	put_u32(ret_bytes + 16, h->cost);
	memcpy(ret_bytes + 20, h->salt, SEAL_SALT);
	memcpy(ret_bytes + 36, h->check, sizeof(h->check));
}

int
vault_header_get(const void *bytes, size_t len, struct vault_header *ret_header, struct err *err)
{
	const unsigned char *at = bytes;
	struct vault_header h;

	if (len < VAULT_HEADER || memcmp(at, magic, sizeof(magic)) != 0)
		return err_set(err, EBADMSG, "the vault is not a vault, or is cut short");
	if (get_u32(at + 8) != VERSION)
		return err_set(err, EBADMSG, "the vault is of version %u; this cloister knows %d",
		               get_u32(at + 8), VERSION);
	h.key = get_u32(at + 12) < VAULT_KEYS ? get_u32(at + 12) : VAULT_KEYS;
	h.cost = get_u32(at + 16);
	memcpy(h.salt, at + 20, SEAL_SALT);
	memcpy(h.check, at + 36, sizeof(h.check));
	/* A foreign cost could make us stretch for hours. */
	if (h.key == VAULT_KEYS || get_u32(at + 52) != 0 ||
	    (h.key == VAULT_KEY_PASSPHRASE ? h.cost < SEAL_COST_MIN || h.cost > SEAL_COST_MAX
	                                   : h.cost != 0))
		return err_set(err, EBADMSG, "the vault's header is not as this version writes it");
	*ret_header = h;
	return 0;
}

/* ---- sealed content ---- */

void
vault_item_free(struct vault_item *item)
{
	secret_free(item->secret);
	for (size_t i = 0; i < SECRET_FIELDS; i++)
		free(item->sealed[i]);
	*item = (struct vault_item){0};
}

void
vault_items_put(struct buf *b, const struct vault_item *items, size_t n)
{
	buf_put_u32(b, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		secret_put(b, items[i].secret);
		buf_put_u64(b, items[i].entry.added);
		buf_put_u64(b, items[i].entry.changed);
		buf_put_str(b, items[i].entry.print);
		for (size_t f = 0; f < SECRET_FIELDS; f++) {
			buf_put_u32(b, (uint32_t)items[i].n_sealed[f]);
			buf_put(b, items[i].sealed[f], items[i].n_sealed[f]);
		}
	}
}

static int
get_sealed(struct buf *b, unsigned char **ret_sealed, size_t *ret_n)
{
	uint32_t n;

	if (buf_get_u32(b, &n) < 0 || n > buf_left(b) || n > SECRET_VALUE_MAX + SEAL_EXTRA ||
	    (n > 0 && n < SEAL_EXTRA))
		return -EBADMSG;
	if (n == 0)
		return 0;
	*ret_sealed = malloc(n);
	if (*ret_sealed == NULL)
		return -ENOMEM;
	memcpy(*ret_sealed, b->data + b->pos, n);
	b->pos += n;
	*ret_n = n;
	return 0;
}

static int
get_item(struct buf *b, struct vault_item *item)
{
	const char *print;
	int r = secret_get(b, &item->secret, NULL);

	if (r < 0 || buf_get_u64(b, &item->entry.added) < 0 ||
	    buf_get_u64(b, &item->entry.changed) < 0 || buf_get_str(b, &print) < 0 ||
	    strlen(print) >= VAULT_PRINT_MAX)
		return -EBADMSG;
	memcpy(item->entry.print, print, strlen(print) + 1);
	item->entry.secret = item->secret;
	for (size_t f = 0; r == 0 && f < SECRET_FIELDS; f++)
		r = get_sealed(b, &item->sealed[f], &item->n_sealed[f]);
	return r;
}

int
vault_items_get(struct buf *b, struct vault_item **ret_items, size_t *ret_n, struct err *err)
{
	struct vault_item *items;
	uint32_t n = 0, got = 0;
	int r = buf_get_u32(b, &n);

	if (r < 0 || n > VAULT_SECRETS_MAX)
		return err_set(err, EBADMSG, "the vault is not as this version writes it");
	items = calloc(n + 1, sizeof(*items));
	if (items == NULL)
		return err_set(err, ENOMEM, "out of memory");
	while (r == 0 && got < n)
		r = get_item(b, &items[got++]);
	for (uint32_t i = 1; r == 0 && i < n; i++)
		if (strcmp(items[i - 1].secret->name, items[i].secret->name) >= 0)
			r = -EBADMSG;
	if (r < 0 || buf_left(b) != 0) {
		for (uint32_t i = 0; i < got; i++)
			vault_item_free(&items[i]);
		free(items);
		return err_set(err, EBADMSG, "the vault is not as this version writes it");
	}
	*ret_items = items;
	*ret_n = n;
	return 0;
}

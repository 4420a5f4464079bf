/* store_made.c - which image was made of a file, so that the file is not read again while it stays as it is.
 *
 * An entry is a small file: its name is the hash of everything that stat() says about the file, and it has the image's
 * digest and name in it.  It counts while the image is in the store. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "image/ref.h"
#include "image/store_parts.h"

#define ENTRY_MAX (HASH_NAME + 1 + IMAGE_NAME_MAX + 1)

int
store_made_key(const char *kind, const char *path, struct store_key *ret_key)
{
	OWN(freep) char *real = realpath(path, NULL), *text = NULL;
	unsigned char hash[HASH_LEN];
	char name[HASH_NAME + 1];
	struct stat st;

	if (real == NULL || stat(real, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	text = str_format("%s %llu %llu %llu %lld.%09ld %lld.%09ld %s", kind, (unsigned long long)st.st_dev,
	                  (unsigned long long)st.st_ino, (unsigned long long)st.st_size, (long long)st.st_mtim.tv_sec,
	                  st.st_mtim.tv_nsec, (long long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec, real);
	if (text == NULL)
		return -ENOMEM;
	hash_of(text, strlen(text), hash);
	hash_name(hash, name);
	memcpy(ret_key->hex, store_hex(name), sizeof(ret_key->hex));
	return 0;
}

/* DIGEST and the name behind it, or NULL. */
static int
read_entry(const struct store *s, const char *hex, char ret_digest[HASH_NAME + 1], char **ret_name)
{
	OWN(freep) char *path = str_format(STORE_MADE "/%s", hex), *text = NULL;
	unsigned char hash[HASH_LEN];
	size_t len;

	if (path == NULL || read_file_at(s->top, path, ENTRY_MAX, &text, &len, NULL) < 0 || len <= HASH_NAME ||
	    text[HASH_NAME] != ' ')
		return -ENOENT;
	text[HASH_NAME] = '\0';
	if (!hash_parse_name(text, hash))
		return -ENOENT;
	memcpy(ret_digest, text, HASH_NAME + 1);
	if (ret_name == NULL)
		return 0;
	*ret_name = len == HASH_NAME + 1 ? NULL : strdup(text + HASH_NAME + 1);
	return 0;
}

int
store_made_find(const struct store *s, const struct store_key *key, struct image_descriptor *ret_found)
{
	OWN(store_found_free) struct image_descriptor found = {0};
	OWN(freep) char *name = NULL;
	char digest[HASH_NAME + 1];
	int r = read_entry(s, key->hex, digest, &name);

	if (r == 0)
		r = store_find(s, name != NULL ? name : digest, &found, NULL);
	if (r < 0 || strcmp(found.digest, digest) != 0)
		return -ENOENT;
	*ret_found = found;
	found = (struct image_descriptor){0};
	return 0;
}

void
store_made_note(const struct store *s, const struct store_key *key, const char *digest, const char *name)
{
	OWN(freep) char *path = str_format(STORE_MADE "/%s", key->hex), *text = NULL;
	char new[STORE_NEW_MAX];

	text = str_format("%s %s", digest, name != NULL ? name : "");
	if (path == NULL || text == NULL || (mkdirat(s->top, STORE_MADE, 0700) < 0 && errno != EEXIST) ||
	    store_new_name(new, NULL) < 0)
		return;
	if (create_file_at(s->top, new, 0600, text, NULL) < 0 || renameat(s->top, new, s->top, path) < 0)
		(void)unlinkat(s->top, new, 0);
}

bool
store_made_digest(const struct store *s, const char *hex, char ret_digest[HASH_NAME + 1])
{
	return read_entry(s, hex, ret_digest, NULL) == 0;
}

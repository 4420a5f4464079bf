/* blobs_ask.c - the questions, each a few requests.
 *
 * A blob has the key PREFIXblobs/ab/cdef...  A removed one is moved to PREFIXtrash/ab/cdef..., where it stays for a day: whoever
 * referred to it in the moment of its removal gets it from there.  So nobody has to wait for anybody else. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/own.h"
#include "ipc/blobs_channel.h"
#include "proc/blobs/blobs_proc.h"

#define BLOB_MAX (UINT64_C(1) << 30)
#define GETS "s3:GetObject and s3:ListBucket"
#define PUTS "s3:PutObject"

static const char blobs_folder[] = "blobs/", trash_folder[] = "trash/";

static void
key_of(const struct blobs *b, const char *folder, const unsigned char hash[HASH_LEN], char ret_key[BLOBS_KEY_MAX])
{
	char hex[HASH_HEX + 1];

	codec_hex(hash, HASH_LEN, hex);
	snprintf(ret_key, BLOBS_KEY_MAX, "%s%s%.2s/%s", b->place.prefix, folder, hex, hex + 2);
}

void
blobs_add_encryption(const struct blobs *b, struct exchange *x)
{
	if (b->place.sse[0] != '\0')
		exchange_field(x, "x-amz-server-side-encryption", b->place.sse);
	if (b->place.kms_key[0] != '\0')
		exchange_field(x, "x-amz-server-side-encryption-aws-kms-key-id", b->place.kms_key);
}

static int
failed(enum blobs_next next, const struct err *err)
{
	return next == BLOBS_OK ? 0 : err->code != 0 ? -err->code : -EIO;
}

/* ---- requests ---- */

static enum blobs_next
head(struct blobs *b, const char *key, uint64_t *ret_size, int64_t *ret_age, struct err *err)
{
	OWN(exchange_free) struct exchange x = {0};
	enum blobs_next next;

	exchange_begin(&x, b, "HEAD", key, "", GETS);
	next = exchange_run(b, &x, err);
	if (next != BLOBS_OK)
		return next;
	*ret_size = x.size;
	/* By the server's clock alone. */
	*ret_age = x.date >= 0 && x.modified >= 0 ? x.date - x.modified : INT64_MAX;
	return BLOBS_OK;
}

/* The server copies FROM to TO, which may be the same: then it becomes young. */
static enum blobs_next
copy(struct blobs *b, const char *from, const char *to, struct err *err)
{
	OWN(exchange_free) struct exchange x = {0};
	char source[BLOBS_KEY_MAX + S3_BUCKET_MAX + 2];

	snprintf(source, sizeof(source), "/%s/%s", b->place.bucket, from);
	exchange_begin(&x, b, "PUT", to, "", "s3:GetObject and s3:PutObject");
	exchange_field(&x, "x-amz-copy-source", source);
	exchange_field(&x, "x-amz-metadata-directive", "REPLACE");
	blobs_add_encryption(b, &x);
	return exchange_run(b, &x, err);
}

static enum blobs_next
drop(struct blobs *b, const char *key, struct err *err)
{
	OWN(exchange_free) struct exchange x = {0};
	enum blobs_next next;

	exchange_begin(&x, b, "DELETE", key, "", "s3:DeleteObject");
	next = exchange_run(b, &x, err);
	return next == BLOBS_MISSING ? BLOBS_OK : next;
}

static enum blobs_next
put_whole(struct blobs *b, const char *key, const unsigned char hash[HASH_LEN], uint64_t size, int fd, bool anew,
          struct err *err)
{
	OWN(exchange_free) struct exchange x = {0};

	exchange_begin(&x, b, "PUT", key, "", PUTS);
	codec_hex(hash, HASH_LEN, x.payload);
	x.from = fd;
	x.length = size;
	blobs_add_encryption(b, &x);
	if (anew)
		exchange_field(&x, "if-none-match", "*");
	return exchange_run(b, &x, err);
}

/* ---- questions ---- */

/* Whether it is there; and where it is, and where it would be once it was removed. */
static enum blobs_next
find(struct blobs *b, const unsigned char hash[HASH_LEN], char ret_key[BLOBS_KEY_MAX], char ret_trash[BLOBS_KEY_MAX],
     uint64_t *ret_size, bool *ret_is_young, struct err *err)
{
	enum blobs_next next;
	int64_t age = 0;

	key_of(b, blobs_folder, hash, ret_key);
	key_of(b, trash_folder, hash, ret_trash);
	next = head(b, ret_key, ret_size, &age, err);
	*ret_is_young = next == BLOBS_OK && age < BLOBS_RENEW_S;
	return next;
}

/* 0: it is there, with that size, and young. */
static int
renew(struct blobs *b, const unsigned char hash[HASH_LEN], uint64_t *ret_size, struct err *err)
{
	char key[BLOBS_KEY_MAX], trash[BLOBS_KEY_MAX];
	bool is_young;
	enum blobs_next next = find(b, hash, key, trash, ret_size, &is_young, err);

	if (is_young)
		return 0;
	if (next == BLOBS_OK)
		return failed(copy(b, key, key, err), err);
	if (next != BLOBS_MISSING)
		return failed(next, err);
	next = copy(b, trash, key, err);
	if (next == BLOBS_OK)
		next = find(b, hash, key, trash, ret_size, &is_young, err);
	return next == BLOBS_MISSING ? err_set(err, ENOENT, "there is no such blob in %s", b->place_text) : failed(next, err);
}

int
blobs_put(struct blobs *b, const unsigned char hash[HASH_LEN], uint64_t size, int fd, struct err *err)
{
	char key[BLOBS_KEY_MAX];
	enum blobs_next next;
	uint64_t there = 0;
	int64_t age;

	key_of(b, blobs_folder, hash, key);
	next = head(b, key, &there, &age, err);
	if (next == BLOBS_OK && there == size && age >= BLOBS_RENEW_S) {
		next = copy(b, key, key, err);
		next = next == BLOBS_OK ? head(b, key, &there, &age, err) : next;
	}
	/* Not every server makes it young by a copy. */
	if (next == BLOBS_OK && there == size && age < BLOBS_RENEW_S)
		return 0;
	if (next == BLOBS_FAIL)
		return failed(next, err);
	/* One of another size is damaged, and is replaced. */
	next = size > BLOBS_WHOLE_MAX ? blobs_put_parts(b, key, size, fd, err) :
	       put_whole(b, key, hash, size, fd, next == BLOBS_MISSING, err);
	return next == BLOBS_THERE ? 0 : failed(next, err);
}

int
blobs_get(struct blobs *b, const unsigned char hash[HASH_LEN], int fd, uint64_t *ret_size, struct err *err)
{
	char key[BLOBS_KEY_MAX];
	uint64_t size;

	key_of(b, blobs_folder, hash, key);
	for (int i = 0; i < 2; i++) {
		OWN(exchange_free) struct exchange x = {0};
		enum blobs_next next;

		exchange_begin(&x, b, "GET", key, "", GETS);
		x.to = fd;
		x.max = BLOB_MAX;
		next = exchange_run(b, &x, err);
		if (next == BLOBS_OK) {
			*ret_size = x.at;
			return ftruncate(fd, (off_t)x.at) < 0 ? err_errno(err, "cannot write a blob that was fetched") : 0;
		}
		if (next != BLOBS_MISSING || i > 0)
			return failed(next, err);
		/* It was moved away in the very moment in which somebody began to refer to it. */
		if (renew(b, hash, &size, err) < 0)
			return -err->code;
	}
	return -ENOENT;
}

int
blobs_touch(struct blobs *b, const unsigned char hash[HASH_LEN], uint64_t *ret_size, struct err *err)
{
	return renew(b, hash, ret_size, err);
}

int
blobs_remove(struct blobs *b, const unsigned char hash[HASH_LEN], uint64_t *ret_size, struct err *err)
{
	char key[BLOBS_KEY_MAX], trash[BLOBS_KEY_MAX];
	bool is_young;
	enum blobs_next next = find(b, hash, key, trash, ret_size, &is_young, err);

	/* Somebody may have put it again since it was listed. */
	if (is_young)
		return err_set(err, EBUSY, "the blob is in use again");
	next = next == BLOBS_OK ? copy(b, key, trash, err) : next;
	next = next == BLOBS_OK ? drop(b, key, err) : next;
	return failed(next, err);
}

int
blobs_purge(struct blobs *b, const unsigned char hash[HASH_LEN], bool put_back, struct err *err)
{
	char trash[BLOBS_KEY_MAX];
	uint64_t size;
	int r;

	key_of(b, trash_folder, hash, trash);
	r = put_back ? renew(b, hash, &size, err) : 0;
	return r < 0 ? r : failed(drop(b, trash, err), err);
}

static void
escape(const char *key, char ret_text[3 * BLOBS_KEY_MAX])
{
	char *out = ret_text;

	for (; *key != '\0'; key++)
		out += codec_percent((unsigned char)*key, out);
	*out = '\0';
}

/* The keys of a query are in order: a signature covers them so. */
static void
make_query(const struct blobs *b, bool trash, const unsigned char *after, unsigned most, char *query, size_t size)
{
	const char *folder = trash ? trash_folder : blobs_folder;
	char key[BLOBS_KEY_MAX], prefix[3 * BLOBS_KEY_MAX], last[3 * BLOBS_KEY_MAX] = "";

	snprintf(key, sizeof(key), "%s%s", b->place.prefix, folder);
	escape(key, prefix);
	if (after != NULL) {
		key_of(b, folder, after, key);
		escape(key, last);
	}
	snprintf(query, size, "list-type=2&max-keys=%u&prefix=%s%s%s", most, prefix, after != NULL ? "&start-after=" : "", last);
}

int
blobs_list(struct blobs *b, bool trash, const unsigned char *after, struct s3_page *ret_page, int64_t *ret_now,
           struct err *err)
{
	OWN(exchange_free) struct exchange x = {0};
	char query[BLOBS_PATH_MAX - S3_BUCKET_MAX - 8], folder[S3_PREFIX_MAX + 16];
	enum blobs_next next;
	int r;

	make_query(b, trash, after, S3_PAGE_MAX, query, sizeof(query));
	exchange_begin(&x, b, "GET", "", query, "s3:ListBucket");
	next = exchange_run(b, &x, err);
	if (next != BLOBS_OK)
		return failed(next, err);
	snprintf(folder, sizeof(folder), "%s%s", b->place.prefix, trash ? trash_folder : blobs_folder);
	*ret_now = x.date;
	r = s3_page_read((char *)x.body.data, x.body.len, folder, ret_page, err);
	return r == 0 && x.date < 0 ? err_set(err, EBADMSG, "'%s' does not say what time it is", b->host) : r;
}

/* The object "owner" has the name of the database whose blobs these are. */
int
blobs_own(struct blobs *b, const unsigned char id[HASH_LEN], struct err *err)
{
	char key[BLOBS_KEY_MAX], hex[HASH_HEX + 1];
	enum blobs_next next = BLOBS_FAIL;

	codec_hex(id, HASH_LEN, hex);
	snprintf(key, sizeof(key), "%sowner", b->place.prefix);
	/* After it was put, it is read: another one may have been faster. */
	for (int i = 0; i < 2; i++) {
		OWN(exchange_free) struct exchange x = {0}, put = {0};
		unsigned char digest[HASH_LEN];

		exchange_begin(&x, b, "GET", key, "", GETS);
		next = exchange_run(b, &x, err);
		if (next == BLOBS_OK && x.body.len == HASH_HEX && memcmp(x.body.data, hex, HASH_HEX) == 0)
			return 0;
		if (next == BLOBS_OK)
			return err_set(err, EPERM, "the blobs in %s are those of another database, which would remove this one's: give "
			               "this one a prefix of its own. If the other one is gone for good, remove the object '%s'",
			               b->place_text, key);
		if (next != BLOBS_MISSING)
			break;
		exchange_begin(&put, b, "PUT", key, "", PUTS);
		put.data = hex;
		put.length = HASH_HEX;
		hash_of(hex, HASH_HEX, digest);
		codec_hex(digest, HASH_LEN, put.payload);
		blobs_add_encryption(b, &put);
		exchange_field(&put, "if-none-match", "*");
		next = exchange_run(b, &put, err);
		if (next == BLOBS_FAIL)
			break;
	}
	return failed(next, err);
}

/* One object, in a place where nobody looks for blobs. */
int
blobs_check(struct blobs *b, struct err *err)
{
	static const unsigned char empty[HASH_LEN] = { 0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99,
		0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55 };
	OWN(exchange_free) struct exchange x = {0};
	char query[BLOBS_PATH_MAX - S3_BUCKET_MAX - 8], key[BLOBS_KEY_MAX];
	enum blobs_next next;

	make_query(b, false, NULL, 1, query, sizeof(query));
	exchange_begin(&x, b, "GET", "", query, "s3:ListBucket");
	next = exchange_run(b, &x, err);
	snprintf(key, sizeof(key), "%scheck", b->place.prefix);
	next = next == BLOBS_OK ? put_whole(b, key, empty, 0, 0, false, err) : next;
	next = next == BLOBS_OK ? drop(b, key, err) : next;
	return failed(next, err);
}

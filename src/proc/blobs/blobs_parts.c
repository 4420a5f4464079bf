/* blobs_parts.c - puts a large blob in parts, each of which is sent again by itself. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/own.h"
#include "proc/blobs/blobs_proc.h"

#define PUTS "s3:PutObject"
#define TAG_MAX S3_WORD_MAX

struct parts {
	char id[3 * S3_UPLOAD_MAX + 1];         /* escaped */
	char tags[BLOBS_PARTS_MAX][TAG_MAX + 1];
	unsigned n;
};

static enum blobs_next
begin(struct blobs *b, const char *key, struct parts *p, struct err *err)
{
	OWN(exchange_free) struct exchange x = {0};
	char id[S3_UPLOAD_MAX + 1], *out = p->id;
	enum blobs_next next;

	exchange_begin(&x, b, "POST", key, "uploads=", PUTS);
	blobs_add_encryption(b, &x);
	next = exchange_run(b, &x, err);
	if (next != BLOBS_OK)
		return next;
	if (s3_upload_read((char *)x.body.data, x.body.len, id, err) < 0)
		return BLOBS_FAIL;
	for (const char *at = id; *at != '\0'; at++)
		out += codec_percent((unsigned char)*at, out);
	*out = '\0';
	return BLOBS_OK;
}

static int
hash_part(int fd, uint64_t offset, uint64_t length, char ret_hex[HASH_HEX + 1], struct err *err)
{
	OWN(freep) unsigned char *block = malloc(256 * 1024);
	unsigned char digest[HASH_LEN];
	struct hash h;

	if (block == NULL)
		return err_set(err, ENOMEM, "out of memory");
	hash_begin(&h);
	for (uint64_t done = 0; done < length;) {
		size_t want = length - done < 256 * 1024 ? (size_t)(length - done) : 256 * 1024;
		ssize_t n = pread(fd, block, want, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? err_errno(err, "cannot read the blob") : err_set(err, EIO, "the blob became shorter");
		hash_add(&h, block, (size_t)n);
		done += (uint64_t)n;
	}
	hash_end(&h, digest);
	codec_hex(digest, HASH_LEN, ret_hex);
	return 0;
}

static enum blobs_next
put_part(struct blobs *b, const char *key, struct parts *p, uint64_t size, int fd, struct err *err)
{
	OWN(exchange_free) struct exchange x = {0};
	char query[sizeof(p->id) + 64];
	uint64_t offset = (uint64_t)p->n * BLOBS_PART;
	enum blobs_next next;

	snprintf(query, sizeof(query), "partNumber=%u&uploadId=%s", p->n + 1, p->id);
	exchange_begin(&x, b, "PUT", key, query, PUTS);
	x.from = fd;
	x.offset = offset;
	x.length = size - offset < BLOBS_PART ? size - offset : BLOBS_PART;
	if (hash_part(fd, offset, x.length, x.payload, err) < 0)
		return BLOBS_FAIL;
	next = exchange_run(b, &x, err);
	if (next == BLOBS_OK && x.etag[0] == '\0') {
		(void)err_set(err, EBADMSG, "'%s' does not name the part that it has got", b->host);
		return BLOBS_FAIL;
	}
	memcpy(p->tags[p->n++], x.etag, sizeof(x.etag));
	return next;
}

static enum blobs_next
complete(struct blobs *b, const char *key, const struct parts *p, struct err *err)
{
	OWN(buf_free) struct buf list = BUF(BLOBS_PARTS_MAX * (TAG_MAX + 128));
	OWN(exchange_free) struct exchange x = {0};
	unsigned char digest[HASH_LEN];
	char query[sizeof(p->id) + 16];

	buf_put_text(&list, "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
	for (unsigned i = 0; i < p->n; i++) {
		buf_put_text(&list, "<Part><PartNumber>");
		buf_put_decimal(&list, i + 1);
		buf_put_text(&list, "</PartNumber><ETag>");
		buf_put_text(&list, p->tags[i]);
		buf_put_text(&list, "</ETag></Part>");
	}
	buf_put_text(&list, "</CompleteMultipartUpload>");
	if (buf_failed(&list)) {
		(void)err_set(err, ENOMEM, "out of memory");
		return BLOBS_FAIL;
	}
	snprintf(query, sizeof(query), "uploadId=%s", p->id);
	exchange_begin(&x, b, "POST", key, query, PUTS);
	x.data = list.data;
	x.length = list.len;
	hash_of(list.data, list.len, digest);
	codec_hex(digest, HASH_LEN, x.payload);
	return exchange_run(b, &x, err);
}

/* Parts that nobody completes cost money. */
static void
abandon(struct blobs *b, const char *key, const struct parts *p)
{
	OWN(exchange_free) struct exchange x = {0};
	char query[sizeof(p->id) + 16];

	snprintf(query, sizeof(query), "uploadId=%s", p->id);
	exchange_begin(&x, b, "DELETE", key, query, "s3:AbortMultipartUpload");
	(void)exchange_run(b, &x, NULL);
}

enum blobs_next
blobs_put_parts(struct blobs *b, const char *key, uint64_t size, int fd, struct err *err)
{
	OWN(freep) struct parts *p = calloc(1, sizeof(*p));
	enum blobs_next next;

	if (p == NULL || size > (uint64_t)BLOBS_PART * BLOBS_PARTS_MAX) {
		(void)err_set(err, p == NULL ? ENOMEM : EFBIG, p == NULL ? "out of memory" : "the blob is too large");
		return BLOBS_FAIL;
	}
	next = begin(b, key, p, err);
	if (next != BLOBS_OK)
		return next;
	while (next == BLOBS_OK && (uint64_t)p->n * BLOBS_PART < size)
		next = put_part(b, key, p, size, fd, err);
	next = next == BLOBS_OK ? complete(b, key, p, err) : next;
	if (next != BLOBS_OK)
		abandon(b, key, p);
	return next;
}

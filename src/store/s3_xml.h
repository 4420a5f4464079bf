/* s3_xml.h - reads the few elements of S3's responses that matter here: an error, a page of a list, an upload's id.
 *
 * A server wrote them, so nothing is trusted: text that is not as expected is passed over or refused.  No entity is
 * decoded, because none can be in what is looked for.  Pure. */
#ifndef CLOISTER_STORE_S3_XML_H
#define CLOISTER_STORE_S3_XML_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "canon/hash.h"

struct err;

#define S3_XML_MAX (4u << 20)           /* bytes of a response: 1000 keys of 1024 bytes, and more */
#define S3_WORD_MAX 127
#define S3_MESSAGE_MAX 255
#define S3_UPLOAD_MAX 1023

struct s3_error {
	/* "" if it is missing.  Only printable ASCII. */
	char code[S3_WORD_MAX + 1], region[S3_WORD_MAX + 1], message[S3_MESSAGE_MAX + 1];
};
void s3_error_read(const char *text, size_t len, struct s3_error *ret_error);

struct s3_object {
	unsigned char hash[HASH_LEN];
	uint64_t size;
	int64_t modified;               /* seconds since 1970 */
};
#define S3_PAGE_MAX 1000

struct s3_page {
	struct s3_object at[S3_PAGE_MAX];
	size_t n;
	bool more;
	unsigned char last[HASH_LEN];   /* of the last of its blobs, if MORE */
};
/* Read the response to ListObjectsV2 for the keys FOLDER "ab/cdef...": other keys are passed over.  -EBADMSG if it is no
 * such response, or if there are more keys behind it and it has no blob from which to go on. */
int s3_page_read(const char *text, size_t len, const char *folder, struct s3_page *ret_page, struct err *err);

/* The id of a multipart upload: -EBADMSG if there is none, or one with characters that need an escape in a query other
 * than those of base64. */
int s3_upload_read(const char *text, size_t len, char ret_id[S3_UPLOAD_MAX + 1], struct err *err);

/* The text of the first element NAME; false: there is none, or it is longer than SIZE allows. */
bool s3_word_read(const char *text, size_t len, const char *name, char *ret_word, size_t size);

/* Whether a response with status 200 is an error nevertheless, as those to copies and completed uploads can be. */
bool s3_is_error(const char *text, size_t len);

/* "Thu, 19 Nov 2026 04:11:56 GMT" and "2026-11-19T04:11:56.000Z", in seconds since 1970; -1: it is neither. */
int64_t s3_time_read(const char *text);
#endif

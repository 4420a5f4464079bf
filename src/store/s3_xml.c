/* s3_xml.c - see s3_xml.h. */
#include "store/s3_xml.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/num.h"

struct part {
	const char *at, *end;
};

/* The text between the first <NAME> of P and the next </NAME>.  Attributes are not expected in what is looked for, but
 * for a namespace on the root, which is never asked for here.  With REST, that is what follows it. */
static bool
find(struct part p, const char *name, struct part *ret_text, struct part *rest)
{
	char open[40], close[40];
	const char *from, *to;
	int n = snprintf(open, sizeof(open), "<%s>", name), m = snprintf(close, sizeof(close), "</%s>", name);

	from = p.at == p.end ? NULL : memmem(p.at, (size_t)(p.end - p.at), open, (size_t)n);
	if (from == NULL)
		return false;
	from += n;
	to = memmem(from, (size_t)(p.end - from), close, (size_t)m);
	if (to == NULL)
		return false;
	*ret_text = (struct part){ from, to };
	if (rest != NULL)
		*rest = (struct part){ to + m, p.end };
	return true;
}

/* False: it is missing, or longer than SIZE allows. */
static bool
take(struct part p, const char *name, char *to, size_t size)
{
	struct part text;

	to[0] = '\0';
	if (!find(p, name, &text, NULL) || (size_t)(text.end - text.at) >= size)
		return false;
	memcpy(to, text.at, (size_t)(text.end - text.at));
	to[text.end - text.at] = '\0';
	return strlen(to) == (size_t)(text.end - text.at);
}

/* ---- errors ---- */

static void
take_shown(struct part p, const char *name, char *to, size_t size)
{
	struct part text = { NULL, NULL };
	size_t n = 0;

	if (find(p, name, &text, NULL))
		for (; text.at < text.end && n + 1 < size; text.at++)
			to[n++] = (char)(*text.at >= ' ' && *text.at < 0x7f ? *text.at : '?');
	to[n] = '\0';
}

void
s3_error_read(const char *text, size_t len, struct s3_error *ret_error)
{
	const struct part all = { text, text + len };

	take_shown(all, "Code", ret_error->code, sizeof(ret_error->code));
	take_shown(all, "Region", ret_error->region, sizeof(ret_error->region));
	take_shown(all, "Message", ret_error->message, sizeof(ret_error->message));
}

bool
s3_word_read(const char *text, size_t len, const char *name, char *ret_word, size_t size)
{
	return take((struct part){ text, text + len }, name, ret_word, size);
}

bool
s3_is_error(const char *text, size_t len)
{
	return len > 0 && memmem(text, len, "<Error", 6) != NULL;
}

/* ---- lists ---- */

int64_t
s3_time_read(const char *text)
{
	static const char *const forms[] = { "%a, %d %b %Y %H:%M:%S GMT", "%Y-%m-%dT%H:%M:%S" };

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct tm tm = {0};
		const char *end = strptime(text, forms[i], &tm);

		if (end == NULL || (*end != '\0' && *end != '.' && *end != 'Z'))
			continue;
		return (int64_t)timegm(&tm);
	}
	return -1;
}

/* "ab/cdef...", behind FOLDER. */
static bool
read_key(const char *key, const char *folder, unsigned char ret_hash[HASH_LEN])
{
	size_t len = strlen(folder);

	return strncmp(key, folder, len) == 0 && strlen(key + len) == HASH_HEX + 1 && key[len + 2] == '/' &&
	       codec_unhex_lower(key + len, ret_hash, 1) && codec_unhex_lower(key + len + 3, ret_hash + 1, HASH_LEN - 1);
}

static bool
read_object(struct part p, const char *folder, struct s3_object *ret_object)
{
	char key[1025], number[24], when[64];
	struct s3_object o;

	if (!take(p, "Key", key, sizeof(key)) || !read_key(key, folder, o.hash) || !take(p, "Size", number, sizeof(number)) ||
	    num_parse_count(number, 0, INT64_MAX, &o.size, NULL) < 0 || !take(p, "LastModified", when, sizeof(when)) ||
	    (o.modified = s3_time_read(when)) < 0)
		return false;
	*ret_object = o;
	return true;
}

int
s3_page_read(const char *text, size_t len, const char *folder, struct s3_page *ret_page, struct err *err)
{
	struct part rest = { text, text + len }, entry;
	char truncated[8];

	ret_page->n = 0;
	if (memmem(text, len, "<ListBucketResult", 17) == NULL || !take(rest, "IsTruncated", truncated, sizeof(truncated)))
		return err_set(err, EBADMSG, "the server's list cannot be read");
	while (ret_page->n < S3_PAGE_MAX && find(rest, "Contents", &entry, &rest))
		if (read_object(entry, folder, &ret_page->at[ret_page->n]))
			ret_page->n++;
	ret_page->more = strcmp(truncated, "true") == 0 || ret_page->n == S3_PAGE_MAX;
	if (ret_page->more && ret_page->n == 0)
		return err_set(err, EUCLEAN, "under '%s' there are a thousand objects that are no blobs: remove them", folder);
	if (ret_page->more)
		memcpy(ret_page->last, ret_page->at[ret_page->n - 1].hash, HASH_LEN);
	return 0;
}

/* ---- uploads ---- */

int
s3_upload_read(const char *text, size_t len, char ret_id[S3_UPLOAD_MAX + 1], struct err *err)
{
	bool ok = take((struct part){ text, text + len }, "UploadId", ret_id, S3_UPLOAD_MAX + 1) && ret_id[0] != '\0';

	for (const char *at = ret_id; ok && *at != '\0'; at++)
		ok = codec_is_unreserved((unsigned char)*at) || strchr("+/=", *at) != NULL;
	return ok ? 0 : err_set(err, EBADMSG, "the server's answer to an upload in parts cannot be read");
}

/* store_s3_xml.c - tests of reading S3's responses. */
#include "store/s3_xml.h"

#include <errno.h>

#include "base/err.h"
#include "base/io.h"
#include "test.h"

#define HEX "7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define BLOB(key, size, when) "<Contents><Key>" key "</Key><LastModified>" when "</LastModified><ETag>&quot;e&quot;</ETag>" \
	"<Size>" size "</Size></Contents>"
#define LIST(more, inside) "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"x\"><IsTruncated>" more "</IsTruncated>" \
	inside "</ListBucketResult>"
#define WHEN "2026-11-19T04:11:56.000Z"

TEST(s3_page_read)
{
	static const char text[] = LIST("false", BLOB("p/blobs/ba/" HEX, "3", WHEN) BLOB("p/blobs/note.txt", "1", WHEN)
	                                BLOB("q/blobs/ba/" HEX, "3", WHEN) BLOB("p/blobs/bb/" HEX, "12", WHEN)
	                                BLOB("p/blobs/bc/" HEX, "-1", WHEN) BLOB("p/blobs/bd/" HEX, "1", "yesterday"));
	OWN(freep) struct s3_page *page = calloc(1, sizeof(*page));

	CHECK_OK(s3_page_read(text, strlen(text), "p/blobs/", page, NULL));
	CHECK(page->n == 2 && !page->more);
	CHECK(page->at[0].hash[0] == 0xba && page->at[0].hash[1] == 0x78 && page->at[1].hash[0] == 0xbb);
	CHECK_U64(page->at[1].size, 12);
	CHECK(page->at[0].modified == 1795061516);
}

TEST(s3_page_goes_on)
{
	static const char text[] = LIST("true", BLOB("blobs/ba/" HEX, "3", WHEN)), none[] = LIST("true", "<Contents/>");
	OWN(freep) struct s3_page *page = calloc(1, sizeof(*page));

	CHECK_OK(s3_page_read(text, strlen(text), "blobs/", page, NULL));
	CHECK(page->more && page->last[0] == 0xba);
	CHECK_ERR(s3_page_read(none, strlen(none), "blobs/", page, NULL), EUCLEAN);
	CHECK_ERR(s3_page_read("<html/>", 7, "blobs/", page, NULL), EBADMSG);
	CHECK_ERR(s3_page_read("", 0, "blobs/", page, NULL), EBADMSG);
}

/* A server that sends more than it may is cut, and asked for the rest. */
TEST(s3_page_too_long)
{
	static const char one[] = BLOB("blobs/ba/" HEX, "3", WHEN);
	OWN(freep) char *text = calloc(S3_PAGE_MAX + 10, sizeof(one));
	OWN(freep) struct s3_page *page = calloc(1, sizeof(*page));
	size_t n = (size_t)snprintf(text, 100, "<ListBucketResult><IsTruncated>false</IsTruncated>");

	for (int i = 0; i < S3_PAGE_MAX + 5; i++)
		n += (size_t)snprintf(text + n, sizeof(one), "%s", one);
	CHECK_OK(s3_page_read(text, n, "blobs/", page, NULL));
	CHECK(page->n == S3_PAGE_MAX && page->more);
}

TEST(s3_error_read)
{
	static const char text[] = "<?xml version='1.0'?><Error><Code>PermanentRedirect</Code><Message>Elsewhere\x1b[m!</Message>"
		"<Region>eu-west-1</Region></Error>";
	struct s3_error e;

	s3_error_read(text, strlen(text), &e);
	CHECK_STR(e.code, "PermanentRedirect");
	CHECK_STR(e.region, "eu-west-1");
	CHECK_STR(e.message, "Elsewhere?[m!");
	CHECK(s3_is_error(text, strlen(text)));
	s3_error_read("<Code>", 6, &e);
	CHECK(e.code[0] == '\0' && e.region[0] == '\0');
	CHECK(!s3_is_error("<CopyObjectResult/>", 19));
}

TEST(s3_upload_read)
{
	char id[S3_UPLOAD_MAX + 1];

	CHECK_OK(s3_upload_read("<UploadId>a+b/c==~</UploadId>", 29, id, NULL));
	CHECK_STR(id, "a+b/c==~");
	CHECK_ERR(s3_upload_read("<UploadId></UploadId>", 21, id, NULL), EBADMSG);
	CHECK_ERR(s3_upload_read("<UploadId>a&b</UploadId>", 24, id, NULL), EBADMSG);
	CHECK_ERR(s3_upload_read("<UploadId>a", 11, id, NULL), EBADMSG);
}

TEST(s3_time_read)
{
	CHECK(s3_time_read("Thu, 19 Nov 2026 04:11:56 GMT") == 1795061516);
	CHECK(s3_time_read("2026-11-19T04:11:56Z") == 1795061516);
	CHECK(s3_time_read("2026-11-19T04:11:56.123456") == 1795061516);
	CHECK(s3_time_read("soon") == -1 && s3_time_read("") == -1);
}

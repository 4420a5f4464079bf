/* fuzz_s3_xml.c - the responses of an S3 server. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "store/s3_xml.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct s3_page page;
	OWN(freep) char *copy = NULL;
	const char *text = (const char *)data;
	char id[S3_UPLOAD_MAX + 1];
	struct s3_error e;

	s3_error_read(text, size, &e);
	for (const char *at = e.message; *at != '\0'; at++)
		assert(*at >= ' ' && *at < 0x7f);
	assert(memchr(e.code, '\0', sizeof(e.code)) != NULL && memchr(e.region, '\0', sizeof(e.region)) != NULL);
	if (s3_page_read(text, size, "p/blobs/", &page, NULL) == 0) {
		assert(page.n <= S3_PAGE_MAX && (!page.more || page.n > 0));
		for (size_t i = 0; i < page.n; i++)
			assert(page.at[i].modified >= 0 && page.at[i].size <= INT64_MAX);
	}
	if (s3_upload_read(text, size, id, NULL) == 0)
		assert(id[0] != '\0' && strpbrk(id, "&<> \r\n") == NULL);
	copy = malloc(size + 1);
	if (copy != NULL) {
		memcpy(copy, text, size);
		copy[size] = '\0';
		(void)s3_time_read(copy);
	}
	(void)s3_is_error(text, size);
	return 0;
}

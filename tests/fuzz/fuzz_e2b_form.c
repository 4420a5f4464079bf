/* fuzz_e2b_form.c - uploads to E2B's API: the boundary of a form, and its parts.
 *
 * Up to the first newline it is the content type, behind it the body. */
#include <assert.h>

#include "proc/serve/e2b_files.c"

#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *line = size > 0 ? memchr(data, '\n', size) : NULL;
	struct serve_request q = {0};
	struct e2b_call e = {0};
	struct api_call c = { .q = &q, .e2b = &e };
	char boundary[BOUNDARY_MAX], name[PATH_MAX];
	const char *body;
	size_t len, end = 0;

	if (line == NULL)
		return 0;
	q.head.fields[0] = (struct http_field){ { "content-type", 12 }, { (const char *)data, (size_t)(line - data) } };
	q.head.n_fields = 1;
	if (!read_boundary(&q, boundary))
		return 0;
	assert(strlen(boundary) > 2 && strlen(boundary) < sizeof(boundary));
	body = (const char *)line + 1;
	len = size - (size_t)(line + 1 - data);
	while (next_part(&c, body, len, boundary, name) > 0) {
		assert(e.part >= body + end && e.part + e.part_len <= body + len && e.at > end && e.at <= len);
		assert(strlen(name) < sizeof(name));
		end = e.at;
	}
	return 0;
}

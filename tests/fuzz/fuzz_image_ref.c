/* fuzz_image_ref.c - references to images: a full name is its own full name, and no part of it leads elsewhere. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "image/ref.h"

static void
check_name(const struct image_name *n)
{
	struct image_name again;

	assert(image_name_parse(n->full, &again, NULL) == 0);
	assert(strcmp(again.full, n->full) == 0 && strcmp(again.registry, n->registry) == 0);
	assert(strcmp(again.repository, n->repository) == 0 && strcmp(again.tag, n->tag) == 0);
	assert(n->repository[0] != '/' && strstr(n->repository, "..") == NULL && strstr(n->repository, "//") == NULL);
	assert(strchr(n->registry, '/') == NULL && strchr(n->tag, '/') == NULL);
	for (const char *c = n->full; *c != '\0'; c++)
		assert(*c > ' ' && *c < 0x7f);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image_ref ref;
	char *text;

	if (size > 2 * IMAGE_REF_MAX)
		return 0;
	text = malloc(size + 1);
	assert(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	if (image_ref_parse(text, &ref, NULL) == 0) {
		assert(strlen(ref.path) <= IMAGE_REF_MAX && strlen(ref.tag) <= IMAGE_REF_MAX);
		assert(ref.path[0] != '\0' || ref.name.full[0] != '\0');
		if (ref.name.full[0] != '\0')
			check_name(&ref.name);
	}
	free(text);
	return 0;
}

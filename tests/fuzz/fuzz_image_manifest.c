/* fuzz_image_manifest.c - the documents of images: whatever is accepted has digests, bounds and no control characters. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "image/manifest.h"

static void
check_descriptor(const struct image_descriptor *d)
{
	unsigned char hash[HASH_LEN];

	assert(hash_parse_name(d->digest, hash) && d->size <= IMAGE_BLOB_MAX);
	assert(strpbrk(d->media_type, "\n\033") == NULL && strpbrk(d->architecture, "\n\033") == NULL);
}

static void
check_index(const char *text, size_t len)
{
	OWN(image_index_free) struct image_index index = {0};
	const struct image_descriptor *chosen;

	if (image_index_parse(text, len, &index, NULL) < 0)
		return;
	assert(index.n <= IMAGE_INDEX_MAX);
	for (size_t i = 0; i < index.n; i++)
		check_descriptor(&index.list[i]);
	if (image_index_choose(&index, "amd64", &chosen, NULL) == 0)
		assert(chosen >= index.list && chosen < index.list + index.n);
}

static void
check_manifest(const char *text, size_t len)
{
	OWN(image_manifest_free) struct image_manifest m = {0};
	enum image_document kind;

	if (image_manifest_parse(text, len, &m, NULL) < 0)
		return;
	assert(image_document_kind(text, len, NULL, &kind, NULL) == 0 && kind == IMAGE_DOCUMENT_MANIFEST);
	assert(m.n_layers <= IMAGE_LAYERS_MAX && m.config.size <= IMAGE_DOCUMENT_MAX);
	check_descriptor(&m.config);
	for (size_t i = 0; i < m.n_layers; i++)
		check_descriptor(&m.layers[i]);
}

static void
check_config(const char *text, size_t len)
{
	OWN(image_config_free) struct image_config c = {0};
	unsigned char hash[HASH_LEN];

	if (image_config_parse(text, len, &c, NULL) < 0)
		return;
	assert(c.config != NULL && c.config[0] == '{' && c.n_diff_ids <= IMAGE_LAYERS_MAX);
	for (size_t i = 0; i < c.n_diff_ids; i++)
		assert(hash_parse_name(c.diff_ids[i], hash));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;

	if (size > 64 * 1024)
		return 0;
	check_index(text, size);
	check_manifest(text, size);
	check_config(text, size);
	return 0;
}

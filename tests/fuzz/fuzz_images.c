/* fuzz_images.c - `images` of a policy, as YAML and as text: both mean the same. */
#include <assert.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "policy/policy_images.h"
#include "policy/policy_yaml.h"

static void
check(const struct policy_images *images)
{
	char text[POLICY_IMAGES_TEXT_MAX + 1], two[POLICY_IMAGES_TEXT_MAX + 1];
	struct policy_images again, sum = {0};

	policy_images_text(images, text);
	assert(policy_images_parse(text, &again, NULL) == 0);
	assert(strcmp(policy_images_text(&again, two), text) == 0);
	assert(policy_images_add(&sum, images, NULL) == 0 && policy_images_add(&sum, images, NULL) == 0);
	assert(strcmp(policy_images_text(&sum, two), text) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(node_freep) struct node *root = NULL;
	OWN(freep) char *text = strndup((const char *)data, size);
	struct policy_images images;

	if (text != NULL && policy_images_parse(text, &images, NULL) == 0)
		check(&images);
	if (node_parse("f", (const char *)data, size, &root, NULL) == 0 && policy_images_read(root, &images, NULL) == 0)
		check(&images);
	return 0;
}

/* fuzz_oci_layers.c - the kernel's list of mounts, with paths that an engine chose. */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "proc/oci/oci.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(freep) char *text = strndup((const char *)data, size);
	OWN(json_decrefp) json_t *layers = json_array();
	bool metacopy = false;
	struct err err = {0};
	int r = text == NULL ? -1 : oci_parse_layers(text, "/m", layers, &metacopy, &err);

	assert(r < 0 || json_array_size(layers) > 0);
	for (size_t i = 0; i < json_array_size(layers); i++)
		assert(json_string_value(json_array_get(layers, i))[0] == '/');
	return 0;
}

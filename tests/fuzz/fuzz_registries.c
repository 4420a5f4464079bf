/* fuzz_registries.c - registries.yaml: every name in it is one that an address can be made of. */
#include <assert.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "image/registries.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(registries_free) struct registries r = {0};

	if (registries_parse("f", (const char *)data, size, &r, NULL) < 0)
		return 0;
	assert(r.n <= REGISTRIES_MAX);
	for (size_t i = 0; i < r.n; i++) {
		const struct registries_row *row = &r.rows[i];

		assert(registries_is_name(row->name, false) && registries_find(&r, row->name) != NULL);
		assert(row->n_mirrors <= REGISTRIES_MIRRORS_MAX && (row->ca == NULL || row->ca[0] == '/'));
		for (size_t m = 0; m < row->n_mirrors; m++)
			assert(registries_is_name(row->mirrors[m], true) && strstr(row->mirrors[m], "..") == NULL);
	}
	return 0;
}

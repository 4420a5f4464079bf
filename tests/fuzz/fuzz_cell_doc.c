/* fuzz_cell_doc.c - a cell document from a file: once written, it is read and written the same. */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "canon/canon_check.h"
#include "cell/cell_doc.h"
#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(json_decrefp) json_t *doc = NULL, *again = NULL;
	OWN(freep) char *text = NULL, *same = NULL;
	struct err err = {0};
	size_t len, same_len;
	int r = cell_doc_read((const char *)data, size, &doc, &err);

	assert((r == 0) == (err.text[0] == '\0') && r == -err.code);
	if (r < 0)
		return 0;
	assert(cell_doc_write(doc, &text, &len, &err) == 0);
	assert(canon_check_object(text, len));
	assert(cell_doc_read(text, len, &again, &err) == 0);
	assert(cell_doc_write(again, &same, &same_len, &err) == 0);
	assert(same_len == len && memcmp(same, text, len) == 0);
	return 0;
}

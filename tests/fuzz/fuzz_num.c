/* fuzz_num.c - numbers: the first byte says which kind, the rest is the text. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "fuzz.h"

/* What we print of a number can be typed in again, and means nearly the same. */
static void
check_size(uint64_t bytes)
{
	char text[NUM_TEXT_MAX];
	uint64_t again;

	num_format_size(text, bytes);
	assert(strlen(text) < NUM_TEXT_MAX - 1);
	if (strchr(text, '.') == NULL && bytes < UINT64_C(1) << 60) {
		assert(num_parse_size(text, &again, NULL) == 0);
		assert(again <= bytes + bytes / 16 && again >= bytes - bytes / 16);
	}
}

static void
check_duration(uint64_t ms)
{
	char text[NUM_TEXT_MAX];
	uint64_t again;

	num_format_duration(text, ms);
	assert(strlen(text) < NUM_TEXT_MAX - 1);
	assert(num_parse_duration(text, &again, NULL) == 0);
	assert(again <= ms && again >= ms / 2);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(freep) char *text = NULL;
	struct err err = {0};
	uint64_t n = 0;
	int r = 0;

	if (size == 0)
		return 0;
	text = malloc(size);
	if (text == NULL)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	switch (data[0] % 4) {
	case 0:
		r = num_parse_count(text, 10, 1000, &n, &err);
		assert(r < 0 || (n >= 10 && n <= 1000));
		break;
	case 1:
		r = num_parse_size(text, &n, &err);
		check_size(n);
		break;
	case 2:
		r = num_parse_duration(text, &n, &err);
		check_duration(n);
		break;
	case 3:
		r = num_parse_milli(text, &n, &err);
		break;
	}
	assert((r == 0) == (err.text[0] == '\0') && r == -err.code);
	return 0;
}

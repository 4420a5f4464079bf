/* fuzz_link_token.c - a token that somebody pasted: what is taken is written again as it was. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "link/link_token.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(freep) char *text = strndup((const char *)data, size);
	char again[LINK_TOKEN_MAX];
	struct link_address address;
	struct link_token t;

	assert(text != NULL);
	if (link_token_parse(text, &t, NULL) < 0)
		return 0;
	link_token_format(&t, again);
	assert(strcmp(again, text) == 0 && link_address_parse(t.address, false, &address, NULL) == 0);
	return 0;
}

/* fuzz_token.c - a token that a server gave: whatever it is, there is a placeholder for it that
 * is none, and that can be written anywhere. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "vault/placeholder.h"

#define TOKEN_MAX (32 * 1024)

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const shapes[] = { "jwt", "tk_{w20+}", "base64", "pem" };
	struct policy_list list = { .n = 0 };
	OWN(freep) char *real = NULL, *text = NULL;
	struct guard value;
	struct err err = {0};

	/* The first byte says what it is said to look like. */
	if (size < 2 || size > TOKEN_MAX || memchr(data + 1, '\0', size - 1) != NULL)
		return 0;
	if (data[0] % 5 < 4)
		list = (struct policy_list){ &shapes[data[0] % 5], 1 };
	real = strndup((const char *)data + 1, size - 1);
	assert(real != NULL);
	value = (struct guard){ real, size - 1, size - 1 };
	if (placeholder_mint_token(&list, &value, data[0], &text, &err) < 0) {
		assert(err.text[0] != '\0');
		return 0;
	}
	assert(strlen(text) >= 16 && strcmp(text, real) != 0);
	for (const char *c = text; *c != '\0'; c++)
		assert(*c > ' ' && *c <= '~' && *c != '"' && *c != '<' && *c != '&');
	return 0;
}

/* fuzz_secret.c - definitions of secrets as text: what loads is what its message says. */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "vault/secret.h"

static void
check(const struct secret *s)
{
	OWN(secret_freep) struct secret *again = NULL;
	OWN(buf_free) struct buf b, c;
	struct err err = {0};
	char places[64];

	buf_init(&b, SECRET_ENCODED_MAX);
	buf_init(&c, SECRET_ENCODED_MAX);
	secret_put(&b, s);
	if (buf_failed(&b))
		return;
	assert(secret_get(&b, &again, &err) == 0 && buf_left(&b) == 0);
	secret_put(&c, again);
	assert(b.len == c.len && memcmp(b.data, c.data, b.len) == 0);
	secret_places_text(s, places, sizeof(places));
	assert(*secret_scope_text(s) != '\0');
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(secret_list_free) struct secret_list list = {0};
	OWN(secret_freep) struct secret *defined = NULL;
	struct secret_short given;
	char text[512];
	struct err err = {0};
	int r = secret_load_text("fuzz", (const char *)data, size, &list, &err);

	assert((r == 0) == (err.text[0] == '\0') && r == -err.code);
	for (size_t i = 0; i < list.n; i++)
		check(list.at[i]);
	/* The same bytes as the short form of the command line. */
	if (size >= sizeof(text))
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (secret_short_parse(text, &given, NULL) == 0 &&
	    secret_short_define(&given, &defined, NULL) == 0)
		check(defined);
	return 0;
}

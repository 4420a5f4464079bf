/* fuzz_source.c - what a program printed: its fields, when they end, and placeholders for them.
 *
 * The first byte says for which secret, and whether placeholders are minted. */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "vault/placeholder.h"
#include "vault/source.h"

#define NOW UINT64_C(1790000000)

static const char definitions[] =
	"version: 1\n"
	"secrets:\n"
	"  pair: {scheme: sigv4, hosts: [a.x], members: {id: /A, secret: /S/0, token: /T},"
	" expires: /Expiration, from: 'cmd:x'}\n"
	"  lines: {scheme: sigv4, hosts: [a.x]}\n"
	"  token: {hosts: [a.x], shape: jwt}\n"
	"  any: {hosts: [a.x]}\n"
	"  basic: {scheme: basic, hosts: [a.x], id: me}\n";

/* Making a key is slow, and OpenSSL's to test. */
static bool
has_key(const struct secret_values *values)
{
	for (size_t i = 0; i < SECRET_FIELDS; i++)
		if (values->field[i].len > 0 &&
		    memmem(values->field[i].at, values->field[i].len, "-----", 5) != NULL)
			return true;
	return false;
}

static void
mint(const struct secret *s, const struct secret_values *values)
{
	OWN(placeholder_free) struct placeholder fake = {0};
	struct err err = {0};
	int r;

	if (has_key(values))
		return;
	r = placeholder_mint(s, values, &fake, &err);
	assert((r == 0) == (err.text[0] == '\0') && r == -err.code);
	if (r < 0)
		return;
	for (size_t i = 0; i < SECRET_FIELDS; i++)
		assert((fake.field[i] != NULL) == (values->field[i].len > 0) || s->id[0] != '\0');
	if (fake.field[SECRET_SECRET] != NULL && values->field[SECRET_SECRET].len >= PLACEHOLDER_MIN)
		assert(strcmp(fake.field[SECRET_SECRET], values->field[SECRET_SECRET].at) != 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct secret_list list;
	OWN(secret_values_free) struct secret_values values = {0};
	OWN(guard_free) struct guard text = {0};
	char time[64];
	struct err err = {0};
	const struct secret *s;
	int r;

	if (list.n == 0)
		assert(secret_load_text("fuzz", definitions, sizeof(definitions) - 1, &list, &err) == 0);
	if (size < 2 || size > SOURCE_OUTPUT_MAX || guard_copy(&text, data + 1, size - 1, NULL) < 0)
		return 0;
	s = list.at[(data[0] & 127) % list.n];
	r = source_fields(s, &text, NOW, &values, &err);
	assert((r == 0) == (err.text[0] == '\0') && r == -err.code);
	if (r == 0) {
		assert(values.field[SECRET_SECRET].len > 0);
		assert(source_due(NOW, values.expires) <= values.expires);
		if (data[0] & 128)
			mint(s, &values);
	}
	if (size <= sizeof(time)) {
		memcpy(time, data + 1, size - 1);
		time[size - 1] = '\0';
		(void)source_time(time);
	}
	return 0;
}

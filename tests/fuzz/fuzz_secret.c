/* fuzz_secret.c - definitions of secrets as text: what loads is what its message says. */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "policy/policy_yaml.h"
#include "vault/secret_wants.h"

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

/* As what stands under `secrets` in a policy. */
static void
check_wants(const char *text, size_t size)
{
	OWN(secret_wants_free) struct secret_wants wants = {0};
	OWN(node_freep) struct node *root = NULL;
	struct err err = {0};
	int r;

	if (node_parse("fuzz", text, size, &root, NULL) < 0 || root->kind == NODE_SCALAR)
		return;
	r = secret_wants_read(&wants, root, &err);
	assert((r == 0) == (err.text[0] == '\0'));
	for (size_t i = 0; i < wants.n; i++) {
		assert(secret_name_ok(wants.at[i].said.name));
		if (wants.at[i].secret != NULL)
			check(wants.at[i].secret);
	}
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
	check_wants((const char *)data, size);
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

/* fuzz_audit_statement.c - bytes that may be a statement in an envelope: what nobody signed says
 * nothing, and what is signed says what was written. */
#include <assert.h>
#include <nettle/base64.h>
#include <string.h>

#include "audit/statement.h"
#include "base/buf.h"
#include "base/own.h"
#include "fuzz.h"

static void
put(struct buf *b, const char *text)
{
	buf_put(b, text, strlen(text));
}

/* The same bytes as a payload that is signed. */
static void
sign(struct buf *b, const struct audit_key *key, const uint8_t *data, size_t size)
{
	char text[AUDIT_SIGNATURE_TEXT];
	unsigned char signature[AUDIT_SIGNATURE], *at;
	OWN(buf_free) struct buf pae;

	buf_init(&pae, AUDIT_ENVELOPE_MAX);
	audit_statement_pae(&pae, data, size);
	audit_key_sign(key, pae.data, pae.len, signature);
	audit_signature_put(signature, text);
	put(b, "{\"payload\":\"");
	at = buf_add(b, BASE64_ENCODE_RAW_LENGTH(size));
	assert(at != NULL);
	base64_encode_raw((char *)at, size, data);
	put(b, "\",\"payloadType\":\"" AUDIT_PAYLOAD_TYPE "\",\"signatures\":[{\"sig\":\"");
	buf_put(b, text, sizeof(text));
	put(b, "\"}]}");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned char seed[AUDIT_KEY] = "a key that has signed one thing";
	struct audit_cell said = {0};
	struct audit_key key;
	OWN(buf_free) struct buf b = {0};

	audit_key_from_seed(seed, &key);
	assert(audit_statement_read((const char *)data, size, key.public, &said, NULL) < 0);
	assert(said.id[0] == '\0');
	if (size == 0 || size > AUDIT_STATEMENT_MAX)
		return 0;
	buf_init(&b, AUDIT_ENVELOPE_MAX);
	sign(&b, &key, data, size);
	assert(!buf_failed(&b));
	if (audit_statement_read((const char *)b.data, b.len, key.public, &said, NULL) == 0)
		assert(memmem(data, size, said.id, strlen(said.id)) != NULL && said.has_chain &&
		       audit_statement_check(&said, &said, NULL) == 0);
	return 0;
}

/* envelope.c - see envelope.h. */
#include "audit/envelope.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "audit/fields.h"
#include "base/buf.h"
#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"

void
audit_envelope_pae(struct buf *b, const char *type, const void *payload, size_t len)
{
	char head[AUDIT_ENVELOPE_TYPE_MAX + 64];
	int n = snprintf(head, sizeof(head), "DSSEv1 %zu %.*s %zu ", strlen(type), AUDIT_ENVELOPE_TYPE_MAX, type, len);

	buf_put(b, head, (size_t)n);
	buf_put(b, payload, len);
}

void
audit_envelope_put(struct buf *b, const char *type, const void *payload, size_t len, const struct audit_key *key)
{
	unsigned char signature[AUDIT_SIGNATURE];
	char hex[2 * AUDIT_KEY + 1];
	OWN(buf_free) struct buf pae = BUF(AUDIT_ENVELOPE_LEN(len));

	audit_envelope_pae(&pae, type, payload, len);
	if (buf_failed(&pae)) {
		b->failed = true;
		return;
	}
	audit_key_sign(key, pae.data, pae.len, signature);
	codec_hex(key->public, AUDIT_KEY, hex);
	buf_put_text(b, "{\"payload\":\"");
	codec_put_base64(b, payload, len);
	buf_put_text(b, "\",\"payloadType\":\"");
	buf_put_text(b, type);
	buf_put_text(b, "\",\"signatures\":[{\"keyid\":\"");
	buf_put_text(b, hex);
	buf_put_text(b, "\",\"sig\":\"");
	codec_put_base64(b, signature, sizeof(signature));
	buf_put_text(b, "\"}]}\n");
}

static int
bad(const char *what, struct err *err)
{
	return err_set(err, EBADMSG, "its %s is missing, or none", what);
}

static int
decode(struct http_text raw, struct buf *ret_payload, struct err *err)
{
	unsigned char *at = buf_add(ret_payload, CODEC_BYTES_LEN(raw.len));
	size_t len;

	if (at == NULL || raw.len == 0 ||
	    codec_unbase64(CODEC_BASE64, raw.at, raw.len, at, ret_payload->len, &len) < 0)
		return bad("payload", err);
	ret_payload->len = len;
	return 0;
}

/* One signature by KEY is enough.  The key id of a signature proves nothing, so each is tried
 * whatever its key id. */
static int
check_signatures(struct http_text array, const unsigned char key[AUDIT_KEY], const struct buf *pae,
                 struct err *err)
{
	unsigned char signature[AUDIT_SIGNATURE], named[AUDIT_KEY];
	struct json_walk_item item, sig;
	bool is_named = false;
	struct json_walk w;

	json_walk_begin(&w, array);
	while (json_walk_next(&w, &item) == 1) {
		if (item.kind != JSON_WALK_CLOSE || item.depth != 1)
			continue;
		is_named |= audit_field_hash(item.raw, "keyid", named) && memcmp(named, key, AUDIT_KEY) == 0;
		if (audit_field(item.raw, "sig", JSON_WALK_STRING, &sig) &&
		    sig.raw.len == AUDIT_SIGNATURE_TEXT && audit_signature_get(sig.raw.at, signature) &&
		    audit_key_verify(key, pae->data, pae->len, signature))
			return 0;
	}
	return err_set(err, EBADMSG, is_named ? "the signature does not hold: what is signed was something "
	               "else" : "it is not signed with the operator's key, but with "
	               "another or none");
}

int
audit_envelope_read(const char *text, size_t len, const char *type, const unsigned char key[AUDIT_KEY],
                    struct buf *ret_payload, struct err *err)
{
	OWN(buf_free) struct buf pae = BUF(AUDIT_ENVELOPE_LEN(len));
	struct http_text whole = { text, len };
	struct json_walk_item item;
	int r;

	r = json_walk_member(whole, "payloadType", &item);
	if (r < 0 && r != -EEXIST)
		return err_set(err, EBADMSG, "this is no DSSE envelope, as it is no JSON object");
	if (r != 1 || item.kind != JSON_WALK_STRING || !json_walk_is(item.raw, type))
		return err_set(err, EBADMSG, "its payloadType is not %s", type);
	if (!audit_field(whole, "payload", JSON_WALK_STRING, &item))
		return bad("payload", err);
	r = decode(item.raw, ret_payload, err);
	if (r < 0)
		return r;
	if (!audit_field(whole, "signatures", JSON_WALK_ARRAY, &item))
		return bad("signatures", err);
	audit_envelope_pae(&pae, type, ret_payload->data, ret_payload->len);
	return buf_failed(&pae) ? err_set(err, ENOMEM, "out of memory") :
	       check_signatures(item.raw, key, &pae, err);
}

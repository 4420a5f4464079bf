/* state_sign.c - signatures in SSH's form (OpenSSH's PROTOCOL.sshsig), by the key that signs the operator's timeline. */
#include <nettle/sha2.h>
#include <string.h>

#include "base/codec.h"
#include "ssh/ssh_wire.h"
#include "state/state_parts.h"

#define MAGIC "SSHSIG"
#define VERSION 1
#define NAMESPACE "git"
#define HASH_NAME_SSH "sha512"
#define KEY_TYPE "ssh-ed25519"
#define LINE 70                         /* digits in a line, as ssh-keygen has it */
#define BEGIN "-----BEGIN SSH SIGNATURE-----\n"
#define END "-----END SSH SIGNATURE-----"

static struct http_text
bytes(const void *data, size_t len)
{
	return (struct http_text){ data, len };
}

/* As a string that holds the key. */
static void
put_key(struct buf *b, const unsigned char key[AUDIT_KEY])
{
	ssh_put_str(b, KEY_TYPE);
	ssh_put_string(b, bytes((const char *)key, AUDIT_KEY));
}

/* The bytes that are signed. */
static void
put_signed(struct buf *b, const void *text, size_t len)
{
	unsigned char digest[SHA512_DIGEST_SIZE];
	struct sha512_ctx sha;

	sha512_init(&sha);
	sha512_update(&sha, len, text);
	sha512_digest(&sha, sizeof(digest), digest);
	buf_put_text(b, MAGIC);
	ssh_put_str(b, NAMESPACE);
	ssh_put_str(b, "");
	ssh_put_str(b, HASH_NAME_SSH);
	ssh_put_string(b, bytes((const char *)digest, sizeof(digest)));
}

static void
put_blob(struct buf *b, const unsigned char key[AUDIT_KEY], const unsigned char signature[AUDIT_SIGNATURE])
{
	OWN(buf_free) struct buf part = BUF(STATE_SIGNATURE_MAX);

	buf_put_text(b, MAGIC);
	ssh_put_u32(b, VERSION);
	put_key(&part, key);
	ssh_put_string(b, bytes((const char *)part.data, part.len));
	ssh_put_str(b, NAMESPACE);
	ssh_put_str(b, "");
	ssh_put_str(b, HASH_NAME_SSH);
	buf_reset(&part);
	ssh_put_str(&part, KEY_TYPE);
	ssh_put_string(&part, bytes((const char *)signature, AUDIT_SIGNATURE));
	ssh_put_string(b, bytes((const char *)part.data, part.len));
}

static void
put_armor(struct buf *out, const unsigned char key[AUDIT_KEY], const unsigned char signature[AUDIT_SIGNATURE])
{
	OWN(buf_free) struct buf blob = BUF(STATE_SIGNATURE_MAX);
	char digits[CODEC_BASE64_LEN(STATE_SIGNATURE_MAX) + 1];
	size_t len;

	put_blob(&blob, key, signature);
	len = codec_base64(CODEC_BASE64, blob.data, blob.len, digits);
	buf_put_text(out, BEGIN);
	for (size_t at = 0; at < len; at += LINE) {
		buf_put(out, digits + at, len - at < LINE ? len - at : LINE);
		buf_put_text(out, "\n");
	}
	buf_put_text(out, END "\n");
}

void
state_sign(const struct audit_key *key, const void *text, size_t len, struct buf *out)
{
	OWN(buf_free) struct buf b = BUF(STATE_SIGNATURE_MAX);
	unsigned char signature[AUDIT_SIGNATURE];

	put_signed(&b, text, len);
	audit_key_sign(key, b.data, b.len, signature);
	put_armor(out, key->public, signature);
}

/* Digits of all lines between the first and the last. */
static size_t
take_digits(const char *armor, size_t len, char *ret, size_t size)
{
	size_t begin = strlen(BEGIN), out = 0;

	for (size_t i = begin; i < len && armor[i] != '-' && out < size; i++)
		if (armor[i] != '\n' && armor[i] != ' ')
			ret[out++] = armor[i];
	return out;
}

bool
state_verify_signature(const unsigned char key[AUDIT_KEY], const void *text, size_t len, const char *armor, size_t armor_len)
{
	OWN(buf_free) struct buf b = BUF(STATE_SIGNATURE_MAX), again = BUF(STATE_SIGNATURE_MAX);
	char digits[CODEC_BASE64_LEN(STATE_SIGNATURE_MAX)];
	unsigned char blob[STATE_SIGNATURE_MAX];
	size_t n, blob_len;

	if (armor_len < strlen(BEGIN) || memcmp(armor, BEGIN, strlen(BEGIN)) != 0)
		return false;
	n = take_digits(armor, armor_len, digits, sizeof(digits));
	if (codec_unbase64(CODEC_BASE64, digits, n, blob, sizeof(blob), &blob_len) < 0 || blob_len < AUDIT_SIGNATURE)
		return false;
	/* There is one text for a key and a signature, which is its end. */
	put_blob(&again, key, blob + blob_len - AUDIT_SIGNATURE);
	if (again.len != blob_len || memcmp(again.data, blob, blob_len) != 0)
		return false;
	put_signed(&b, text, len);
	return audit_key_verify(key, b.data, b.len, blob + blob_len - AUDIT_SIGNATURE);
}

void
state_signer_line(const unsigned char key[AUDIT_KEY], struct buf *out)
{
	OWN(buf_free) struct buf b = BUF(STATE_SIGNATURE_MAX);

	put_key(&b, key);
	buf_put_text(out, STATE_SIGNER " namespaces=\"" NAMESPACE "\" " KEY_TYPE " ");
	codec_put_base64(out, b.data, b.len);
}

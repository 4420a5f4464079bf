/* signature.c - see signature.h. */
#include "image/signature.h"

#include <errno.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

#define TYPE "cosign container image signature"
#define RSA_BITS_LEAST 2048
#define RSA_BITS_MOST 8192

struct signature_key {
	EVP_PKEY *key;
};

/* ---- keys ---- */

static bool
is_usable(EVP_PKEY *key)
{
	char curve[64] = "";
	int kind = EVP_PKEY_get_base_id(key), bits = EVP_PKEY_get_bits(key);

	if (kind == EVP_PKEY_RSA)
		return bits >= RSA_BITS_LEAST && bits <= RSA_BITS_MOST;
	if (kind != EVP_PKEY_EC)
		return kind == EVP_PKEY_ED25519;
	if (EVP_PKEY_get_group_name(key, curve, sizeof(curve), NULL) != 1)
		return false;
	return strcmp(curve, "prime256v1") == 0 || strcmp(curve, "secp384r1") == 0 || strcmp(curve, "secp521r1") == 0;
}

int
signature_read_key(const char *pem, size_t len, struct signature_key **ret_key, struct err *err)
{
	OWN(signature_key_freep) struct signature_key *key = calloc(1, sizeof(*key));
	BIO *in = len <= SIGNATURE_KEY_MAX ? BIO_new_mem_buf(pem, (int)len) : NULL;

	if (key != NULL && in != NULL)
		key->key = PEM_read_bio_PUBKEY(in, NULL, NULL, NULL);
	BIO_free(in);
	if (key == NULL || key->key == NULL)
		return err_set(err, EINVAL, "there is no public key in it (PEM, \"BEGIN PUBLIC KEY\")");
	if (!is_usable(key->key))
		return err_set(err, EINVAL, "its key is of a kind that is not used for images: ECDSA with P-256, Ed25519 or "
		               "RSA of %d bits", RSA_BITS_LEAST);
	*ret_key = TAKE(key);
	return 0;
}

void
signature_key_free(struct signature_key *key)
{
	if (key != NULL)
		EVP_PKEY_free(key->key);
	free(key);
}

bool
signature_is_by(struct signature_key *key, const void *payload, size_t payload_len,
                const void *signature, size_t signature_len)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	const EVP_MD *hash = EVP_PKEY_get_base_id(key->key) == EVP_PKEY_ED25519 ? NULL : EVP_sha256();
	bool is = ctx != NULL && EVP_DigestVerifyInit(ctx, NULL, hash, NULL, key->key) == 1 &&
	          EVP_DigestVerify(ctx, signature, signature_len, payload, payload_len) == 1;

	EVP_MD_CTX_free(ctx);
	return is;
}

/* ---- the payload ---- */

/* Docker's registry has more names than one. */
static const char *
skip_hub(const char *reference)
{
	static const char *const names[] = { "docker.io/", "index.docker.io/", "registry-1.docker.io/" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strncmp(reference, names[i], strlen(names[i])) == 0)
			return reference + strlen(names[i]);
	return NULL;
}

/* REFERENCE is the repository, or has ":TAG" or "@DIGEST" behind it. */
static bool
is_identity(const char *reference, const char *repository, const char *tag, const char *digest)
{
	const char *hub = skip_hub(repository), *other = skip_hub(reference);
	size_t n;

	if ((hub == NULL) != (other == NULL))
		return false;
	repository = hub != NULL ? hub : repository;
	reference = other != NULL ? other : reference;
	n = strlen(repository);
	if (strncmp(reference, repository, n) != 0)
		return false;
	reference += n;
	return *reference == '\0' || (*reference == '@' && strcmp(reference + 1, digest) == 0) ||
	       (*reference == ':' && tag != NULL && strcmp(reference + 1, tag) == 0);
}

static const char *
get_text(const json_t *critical, const char *part, const char *name)
{
	const json_t *object = part != NULL ? json_object_get(critical, part) : critical;
	const json_t *member = json_object_get(object, name);
	const char *text = json_string_value(member);

	return text != NULL && strlen(text) == json_string_length(member) ? text : "";
}

int
signature_check_payload(const char *text, size_t len, const char *digest, const char *repository,
                        const char *tag, struct err *err)
{
	OWN(json_decrefp) json_t *root = len <= SIGNATURE_PAYLOAD_MAX ?
	                               json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
	const json_t *critical = json_object_get(root, "critical");
	const char *reference = get_text(critical, "identity", "docker-reference");
	const char *signed_digest = get_text(critical, "image", "docker-manifest-digest");

	if (!json_is_object(critical) || strcmp(get_text(critical, NULL, "type"), TYPE) != 0)
		return err_set(err, EBADMSG, "the signature's payload is not of the kind '" TYPE "'");
	if (strcmp(signed_digest, digest) != 0)
		return err_set(err, EPERM, "the signature is of the image '%.80s', not of '%s'", signed_digest, digest);
	if (!is_identity(reference, repository, tag, digest))
		return err_set(err, EPERM, "the signature is for '%.200s', not for '%.200s'", reference, repository);
	return 0;
}

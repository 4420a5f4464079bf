/* audit_chain.c - tests of audit/chain and audit/key. */
#include "audit/chain.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "audit/key.h"
#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "canon/hash.h"
#include "test.h"

/* The trees of Certificate Transparency's own tests (RFC 6962's reference implementation). */
static const struct {
	const char *leaf;               /* in hex */
	const char *root;               /* of the tree that it is the last of */
} ct[] = {
	{ "", "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d" },
	{ "00", "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125" },
	{ "10", "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77" },
	{ "2021", "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7" },
	{ "3031", "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4" },
	{ "40414243", "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef" },
	{ "5051525354555657", "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c" },
	{ "606162636465666768696a6b6c6d6e6f",
	  "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328" },
};

TEST(audit_tree_as_certificate_transparency)
{
	unsigned char leaf[16], root[AUDIT_HASH];
	struct audit_chain chain = {0};
	char hex[AUDIT_HEX + 1];

	audit_tree_root(&chain.tree, root);
	codec_hex(root, AUDIT_HASH, hex);
	CHECK_STR(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	for (size_t i = 0; i < ARRAY_LEN(ct); i++) {
		size_t len = strlen(ct[i].leaf) / 2;

		CHECK(codec_unhex_lower(ct[i].leaf, leaf, len));
		audit_chain_add(&chain, (const char *)leaf, len);
		audit_tree_root(&chain.tree, root);
		codec_hex(root, AUDIT_HASH, hex);
		CHECK_STR(hex, ct[i].root);
	}
}

TEST(audit_paths)
{
	static unsigned char leaves[70][AUDIT_HASH];
	unsigned char root[AUDIT_HASH], want[AUDIT_HASH];

	for (size_t i = 0; i < ARRAY_LEN(leaves); i++)
		hash_of(&i, sizeof(i), leaves[i]);
	for (size_t size = 1; size <= ARRAY_LEN(leaves); size++) {
		struct audit_tree tree = {0};

		for (size_t i = 0; i < size; i++)
			audit_tree_add(&tree, leaves[i]);
		audit_tree_root(&tree, want);
		for (size_t i = 0; i < size; i++) {
			struct audit_path p;

			audit_path_begin(&p, i);
			for (size_t k = 0; k < size; k++)
				audit_path_add(&p, leaves[k]);
			audit_path_end(&p, root);
			CHECK(memcmp(root, want, AUDIT_HASH) == 0);
			CHECK(audit_path_leads(leaves[i], i, size, p.hash, p.n, root));
			CHECK(!audit_path_leads(leaves[(i + 1) % 70], i, size, p.hash, p.n, root));
			CHECK(!audit_path_leads(leaves[i], i, size, p.hash, p.n + 1, root));
			CHECK(p.n == 0 || !audit_path_leads(leaves[i], i, size, p.hash, p.n - 1, root));
			CHECK(!audit_path_leads(leaves[i], size, size, p.hash, p.n, root));
			if (p.n > 0) {
				CHECK(!audit_path_leads(leaves[i], (i + 1) % size, size, p.hash, p.n, root));
				p.hash[p.n - 1][7] ^= 1;
				CHECK(!audit_path_leads(leaves[i], i, size, p.hash, p.n, root));
			}
		}
	}
}

TEST(audit_key_as_rfc_8032)
{
	unsigned char seed[AUDIT_KEY], signature[AUDIT_SIGNATURE];
	char hex[2 * AUDIT_SIGNATURE + 1];
	struct audit_key key;

	CHECK(codec_unhex_lower("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60", seed, 32));
	audit_key_from_seed(seed, &key);
	codec_hex(key.public, AUDIT_KEY, hex);
	CHECK_STR(hex, "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
	audit_key_sign(&key, "", 0, signature);
	codec_hex(signature, AUDIT_SIGNATURE, hex);
	CHECK_STR(hex, "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
	               "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b");
	CHECK(audit_key_verify(key.public, "", 0, signature));
	CHECK(!audit_key_verify(key.public, "x", 1, signature));
	signature[63] ^= 1;
	CHECK(!audit_key_verify(key.public, "", 0, signature));
}

TEST(audit_signature_has_one_text)
{
	unsigned char signature[AUDIT_SIGNATURE], back[AUDIT_SIGNATURE];
	char text[AUDIT_SIGNATURE_TEXT];

	memset(signature, 0xa5, sizeof(signature));
	audit_signature_put(signature, text);
	CHECK(audit_signature_get(text, back) && memcmp(back, signature, sizeof(back)) == 0);
	for (size_t i = 0; i < sizeof(text); i++) {
		for (int bit = 0; bit < 8; bit++) {
			text[i] = (char)(text[i] ^ 1 << bit);
			CHECK(!audit_signature_get(text, back) ||
			      memcmp(back, signature, sizeof(back)) != 0);
			text[i] = (char)(text[i] ^ 1 << bit);
		}
	}
}

TEST(audit_key_file)
{
	OWN(closep) int dir = open(test_dir(), O_RDONLY | O_DIRECTORY);
	struct audit_key key, again;
	struct err err = {0};
	struct stat st;

	CHECK_ERR(audit_key_load(dir, "key", false, &key, &err), ENOENT);
	CHECK_OK(audit_key_load(dir, "key", true, &key, &err));
	CHECK_OK(audit_key_load(dir, "key", true, &again, &err));
	CHECK(memcmp(&key, &again, sizeof(key)) == 0);
	CHECK(fstatat(dir, "key", &st, 0) == 0 && (st.st_mode & 0777) == 0600 && st.st_size == 32);
	CHECK(fchmodat(dir, "key", 0640, 0) == 0);
	CHECK_ERR(audit_key_load(dir, "key", true, &again, &err), EPERM);
	CHECK(unlinkat(dir, "key", 0) == 0);
	CHECK_OK(create_file_at(dir, "key", 0600, "short", &err));
	CHECK_ERR(audit_key_load(dir, "key", true, &again, &err), EBADMSG);
	CHECK(unlinkat(dir, "key", 0) == 0 && symlinkat("other", dir, "key") == 0);
	CHECK_ERR(audit_key_load(dir, "key", true, &again, &err), ELOOP);
}

/* vault_placeholder.c - tests of vault/placeholder: minting, and the files of tools. */
#include <errno.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "base/err.h"
#include "credential/shape.h"
#include "inspect/secrets_parts.h"
#include "test.h"
#include "vault/placeholder.h"

static char *
mint(const char *like, const char *real)
{
	OWN(secret_freep) struct secret *s = NULL;
	OWN(guard_free) struct guard g = {0};
	struct secret_short given = {0};
	struct err err = {0};
	char *text = NULL;

	snprintf(given.name, sizeof(given.name), "%s", like != NULL ? like : "k");
	given.hosts = "a.x";
	CHECK_OK(secret_short_define(&given, &s, &err));
	CHECK_OK(guard_copy(&g, real, strlen(real), &err));
	if (placeholder_mint_text(&s->shapes[SECRET_SECRET], &g, &text, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", real, err.text);
	return text;
}

static const struct { const char *like, *real, *shape; } cases[] = {
	{ "github", "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", "ghp_{w30}{crc62}" },
	{ "github", "github_pat_11ABCDEFG0abcdefghijkl_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	  "0123456", "github_pat_{w22}_{w59}" },
	{ "anthropic", "sk-ant-api03-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefghij"
	  "klmnopqrstuvwxyzABCDEAA", "sk-ant-{a5}-{u93}AA" },
	{ "openai", "sk-proj-0123456789012345678901234567890123456789T3BlbkFJ0123456789012345678901234567890"
	  "123456789", "sk-proj-{u40}T3BlbkFJ{u40}" },
	{ "telegram", "123456789:AAabcdefghijklmnopqrstuvwxyz0123456", "{d9}:AA{u33}" },
	{ "slack", "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx", "xoxb-{d12}-{d13}-{w24}" },
	{ "stripe", "sk_test_4eC39HqLyjWDarjtT1zdp7dc", "sk_test_{w24}" },
	{ "sendgrid", "SG.abcdefghijklmnopqrstuv.abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG",
	  "SG.{u22}.{u43}" },
	{ NULL, "3fa85f64-5717-4562-b3fc-2c963f66afa6", "{h8}-{d4}-{d4}-{h4}-{h12}" },
	{ NULL, "0123456789abcdef0123456789abcdef", "{h32}" },
	/* Not of the shape that is known: guessed. */
	{ "stripe", "whatever_AbCdEfGhIjKl0123456789", "{u31}" },
	/* Too short to be told from what is there by chance. */
	{ NULL, "1234", "{w16}" },
};

/* As a server gives them: a JWT keeps its algorithm and has the end that was said. */
TEST(placeholder_of_a_token)
{
	static const struct { const char *shape, *real, *begins; } tokens[] = {
		{ NULL, "eyJraWQiOiJ4IiwgImFsZyIgOiAiRVMyNTYifQ.eyJleHAiOjF9.AAECAwQFBgcICQoLDA0ODw",
		  "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9." },
		/* No word: then it is one that most have. */
		{ NULL, "eyJhbGciOiI8JiJ9.e30.AAECAwQFBgcICQoLDA0ODw", "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9." },
		{ "ghs_{w36}", "ghs_0123456789012345678901234567890pV6Ps", "ghs_" },
		{ "jwt", "what.it.is", "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9." },
		{ NULL, "-----BEGIN PRIVATE KEY-----", "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
		struct policy_list shapes = { &tokens[i].shape, tokens[i].shape != NULL };
		struct guard real = { (char *)(uintptr_t)tokens[i].real, strlen(tokens[i].real), 0 };
		OWN(freep) char *text = NULL;

		CHECK_OK(placeholder_mint_token(&shapes, &real, 1700000000, &text, NULL));
		CHECK(strncmp(text, tokens[i].begins, strlen(tokens[i].begins)) == 0);
		CHECK(strcmp(text, tokens[i].real) != 0);
	}
}

TEST(placeholder_has_the_shape)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(freep) char *one = mint(cases[i].like, cases[i].real);
		OWN(freep) char *two = mint(cases[i].like, cases[i].real);
		struct shape shape, exact;

		CHECK_OK(shape_parse(cases[i].shape, &shape, NULL));
		if (!shape_fit(&shape, one, strlen(one), &exact) || strcmp(one, two) == 0 ||
		    strcmp(one, cases[i].real) == 0)
			test_fail(__FILE__, __LINE__, "%s: %s, %s", cases[i].real, one, two);
	}
}

/* What the scanner of secrets takes for a GitHub token is one by its checksum. */
TEST(placeholder_passes_the_scanner)
{
	OWN(freep) char *text = mint("github", cases[0].real);
	struct secrets_view view = { (unsigned char *)text, strlen(text) };
	const struct secrets_shape *github = &secrets_shapes[0];

	CHECK_U64(strlen(text), 40);
	CHECK(secrets_match(github, &view, 0));
	text[20] ^= 1;
	CHECK(!secrets_match(github, &view, 0));
}

/* Of thousands of digits, some eight in a row would turn up again in every sixth placeholder. */
TEST(placeholder_shares_nothing)
{
	static char real[SHAPE_TEXT_MAX + 1];

	for (int round = 0; round < 60; round++) {
		OWN(freep) char *text = NULL;

		for (size_t i = 0; i < sizeof(real) - 1; i++)
			real[i] = (char)('0' + random() % 10);
		text = mint(NULL, real);
		CHECK_U64(strlen(text), strlen(real));
		for (size_t i = 0; i + PLACEHOLDER_PART <= strlen(real); i++)
			CHECK(memmem(real, sizeof(real) - 1, text + i, PLACEHOLDER_PART) == NULL);
	}
}

TEST(placeholder_is_base64)
{
	static const char *const reals[] = { "q83vEjRWeJCrze8SNFZ4kA==", "AAECAwQFBgcICQoLDA0ODxAREhM=",
		"AAECAwQFBgcICQoLDA0ODxARE+/v" };

	for (size_t i = 0; i < ARRAY_LEN(reals); i++) {
		OWN(freep) char *text = mint("azure-storage", reals[i]);
		unsigned char bytes[64], again[64];
		int n = EVP_DecodeBlock(bytes, (unsigned char *)text, (int)strlen(text));
		size_t pad = (strchr(reals[i], '=') != NULL) + (strstr(reals[i], "==") != NULL);

		CHECK_U64(strlen(text), strlen(reals[i]));
		CHECK(n > 0);
		/* The bits behind the last byte are zero: strict decoders insist. */
		EVP_EncodeBlock(again, bytes, n - (int)pad);
		CHECK_STR((char *)again, text);
	}
}

TEST(placeholder_is_a_jwt)
{
	/* {"alg":"RS256","typ":"JWT","kid":"secret-kid"} {"sub":"someone","exp":1900000000} */
	static const char real[] = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InNlY3JldC1raWQifQ."
		"eyJzdWIiOiJzb21lb25lIiwiZXhwIjoxOTAwMDAwMDAwfQ.c2lnbmF0dXJlLXRoYXQtaXMtbG9uZy1lbm91Z2g";
	OWN(freep) char *text = mint(NULL, real);
	char *first = strchr(text, '.'), *second = first != NULL ? strchr(first + 1, '.') : NULL;
	unsigned char claims[512] = {0};
	char part[512];
	json_t *json;
	size_t n;

	CHECK(second != NULL && strchr(second + 1, '.') == NULL && strchr(text, '=') == NULL);
	CHECK_U64(strlen(second + 1), strlen(strrchr(real, '.') + 1));
	n = (size_t)(second - first - 1);
	memset(part, '=', sizeof(part));
	memcpy(part, first + 1, n);
	CHECK(EVP_DecodeBlock(claims, (unsigned char *)part, (int)(n + 3) / 4 * 4) > 0);
	json = json_loads((char *)claims, JSON_DISABLE_EOF_CHECK, NULL);
	CHECK(json != NULL);
	CHECK_U64((uint64_t)json_integer_value(json_object_get(json, "exp")), 1900000000);
	CHECK(json_object_get(json, "sub") != NULL && strstr((char *)claims, "someone") == NULL);
	json_decref(json);
}

static char *
pem_of(EVP_PKEY *key, bool old)
{
	BIO *out = BIO_new(BIO_s_mem());
	char *at, *text;
	long n;

	CHECK((old ? PEM_write_bio_PrivateKey_traditional(out, key, NULL, NULL, 0, NULL, NULL)
	           : PEM_write_bio_PKCS8PrivateKey(out, key, NULL, NULL, 0, NULL, NULL)) == 1);
	n = BIO_get_mem_data(out, &at);
	text = strndup(at, (size_t)n);
	BIO_free(out);
	return text;
}

static void
check_key(EVP_PKEY *key, bool old)
{
	OWN(freep) char *real = pem_of(key, old), *text = mint(NULL, real);
	BIO *in = BIO_new_mem_buf(text, -1);
	EVP_PKEY *again = PEM_read_bio_PrivateKey(in, NULL, NULL, NULL);

	CHECK(again != NULL);
	CHECK_STR(EVP_PKEY_get0_type_name(again), EVP_PKEY_get0_type_name(key));
	CHECK_U64((uint64_t)EVP_PKEY_get_bits(again), (uint64_t)EVP_PKEY_get_bits(key));
	CHECK(EVP_PKEY_eq(again, key) != 1);
	/* In the same wrapping. */
	CHECK(strncmp(text, real, strcspn(real, "\n")) == 0);
	EVP_PKEY_free(again);
	EVP_PKEY_free(key);
	BIO_free(in);
}

TEST(placeholder_is_a_key)
{
	check_key(EVP_RSA_gen(2048), false);
	check_key(EVP_RSA_gen(1024), true);
	check_key(EVP_EC_gen("P-256"), false);
	check_key(EVP_EC_gen("P-384"), true);
	check_key(EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), false);
}

TEST(placeholder_refuses_keys)
{
	static const char *const reals[] = {
		"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----\n",
		"-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n",
		"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIBvTBXBgkqhkiG9w0=\n-----END ENCRYPTED PRIVATE KEY-----\n",
	};

	for (size_t i = 0; i < ARRAY_LEN(reals); i++) {
		OWN(guard_free) struct guard g = {0};
		struct err err = {0};
		char *text;

		CHECK_OK(guard_copy(&g, reals[i], strlen(reals[i]), &err));
		CHECK_ERR(placeholder_mint_text(NULL, &g, &text, &err), EINVAL);
		CHECK(strstr(err.text, "hunter2") == NULL);
	}
}

static const char definition[] =
	"{version: 1, secrets: {a: {like: aws}, b: {hosts: a.x, scheme: basic, id: me}, "
	"c: {hosts: a.x, scheme: sigv4, id: AKIAABCDEFGH234567QR, shape: {id: 'AKIA{b16}'}}}}";

TEST(placeholder_of_all_fields)
{
	OWN(secret_list_free) struct secret_list list = {0};
	OWN(secret_values_free) struct secret_values v = {0}, w = {0};
	OWN(guard_free) struct guard text = {0};
	struct placeholder p;
	struct err err = {0};
	static const char lines[] = "AKIAABCDEFGH234567QR\nwJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

	CHECK_OK(secret_load_text("s", definition, sizeof(definition) - 1, &list, &err));
	CHECK_OK(guard_copy(&text, lines, sizeof(lines) - 1, &err));
	CHECK_OK(source_fields(list.at[0], &text, 0, &v, &err));
	CHECK_OK(placeholder_mint(list.at[0], &v, &p, &err));
	CHECK(strncmp(p.field[SECRET_ID], "AKIA", 4) == 0 && strlen(p.field[SECRET_ID]) == 20);
	CHECK(strcmp(p.field[SECRET_ID], "AKIAABCDEFGH234567QR") != 0);
	CHECK_U64(strlen(p.field[SECRET_SECRET]), 40);
	CHECK(p.field[SECRET_TOKEN] == NULL);
	placeholder_free(&p);

	CHECK_OK(guard_copy(&w.field[SECRET_SECRET], "a password of some length", 25, &err));
	CHECK_OK(placeholder_mint(list.at[1], &w, &p, &err));
	CHECK_STR(p.field[SECRET_ID], "me");
	placeholder_free(&p);
	/* An id that is said in the definition is as much a name of the key as one that is not. */
	CHECK_OK(placeholder_mint(list.at[2], &w, &p, &err));
	CHECK(strncmp(p.field[SECRET_ID], "AKIA", 4) == 0);
	CHECK(strcmp(p.field[SECRET_ID], "AKIAABCDEFGH234567QR") != 0);
	placeholder_free(&p);
}

/* OAuth's two secrets are two in the cell, too. */
TEST(placeholder_of_a_pair)
{
	static const char text[] = "{version: 1, secrets: {a: {hosts: a.x, scheme: oauth1, id: me}}}";
	static const struct { const char *real; size_t first, second; } pairs[] = {
		{ "0123456789abcdef0123&AbCdEfGhIjKlMnOpQrStUvWx0", 20, 25 },
		{ "0123456789abcdef0123&", 20, 0 },
		{ "0123456789abcdef0123", 20, SIZE_MAX },
	};
	OWN(secret_list_free) struct secret_list list = {0};
	struct err err = {0};

	CHECK_OK(secret_load_text("s", text, sizeof(text) - 1, &list, &err));
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		OWN(secret_values_free) struct secret_values v = {0};
		OWN(placeholder_free) struct placeholder p = {0};
		const char *mark;

		CHECK_OK(guard_copy(&v.field[SECRET_SECRET], pairs[i].real, strlen(pairs[i].real), &err));
		CHECK_OK(placeholder_mint(list.at[0], &v, &p, &err));
		mark = strchr(p.field[SECRET_SECRET], '&');
		CHECK_U64(mark != NULL ? (size_t)(mark - p.field[SECRET_SECRET]) :
		          strlen(p.field[SECRET_SECRET]), pairs[i].first);
		CHECK_U64(mark != NULL ? strlen(mark + 1) : SIZE_MAX, pairs[i].second);
		CHECK(strcmp(p.field[SECRET_SECRET], pairs[i].real) != 0);
	}
}

static char *
file_text(const char *name, const struct placeholder_facts *facts)
{
	struct err err = {0};
	char *text = NULL;

	CHECK(placeholder_file_find(name) != NULL);
	if (placeholder_file_text(placeholder_file_find(name), facts, 1, &text, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", name, err.text);
	return text;
}

TEST(placeholder_files_are_as_tools_expect)
{
	static const char *const region[] = { "region", "eu-west-1", NULL };
	static const char *const hosts[] = { "h.example", NULL };
	static const struct placeholder_facts facts = { .id = "me", .secret = "s3cret", .token = "tok",
		.hosts = hosts, .with = region };
	static const struct placeholder_facts bare = { .secret = "s3cret" };
	static const struct { const char *name; const struct placeholder_facts *facts; const char *text; }
	files[] = {
		{ "aws-credentials", &facts, "[default]\naws_access_key_id = me\naws_secret_access_key = s3cret\n"
		  "aws_session_token = tok\nregion = eu-west-1\n" },
		{ "netrc", &facts, "machine h.example\nlogin me\npassword s3cret\n" },
		{ "npmrc", &bare, "//registry.npmjs.org/:_authToken=s3cret\n" },
		{ "npmrc", &facts, "//h.example/:_authToken=s3cret\n" },
		{ "pypirc", &bare, "[distutils]\nindex-servers =\n    pypi\n\n[pypi]\n"
		  "repository = https://upload.pypi.org/legacy/\nusername = __token__\npassword = s3cret\n" },
		{ "gh-hosts", &bare, "github.com:\n    git_protocol: https\n    users:\n        x-access-token:\n"
		  "            oauth_token: s3cret\n    user: x-access-token\n    oauth_token: s3cret\n" },
		{ "docker-config", &facts, "{\"auths\":{\"h.example\":{\"auth\":\"bWU6czNjcmV0\"}}}\n" },
		{ "claude-login", &bare, "{\"claudeAiOauth\":{\"accessToken\":\"s3cret\",\"refreshToken\":"
		  "\"kept-outside-the-cell\",\"expiresAt\":4102444800000,\"scopes\":[\"user:inference\",\"user:profile\"]}}\n" },
		{ "codex-login", &facts, "{\"auth_mode\":\"chatgpt\",\"OPENAI_API_KEY\":null,\"tokens\":{\"id_token\":"
		  "\"eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.e30.bm9ib2R5\",\"access_token\":\"s3cret\",\"refresh_token\":"
		  "\"kept-outside-the-cell\",\"account_id\":\"me\"},\"last_refresh\":\"2100-01-01T00:00:00Z\"}\n" },
		{ "gemini-login", &bare, "{\"access_token\":\"s3cret\",\"refresh_token\":\"kept-outside-the-cell\","
		  "\"token_type\":\"Bearer\",\"expiry_date\":4102444800000}\n" },
		{ "docker-config", &bare, "{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":"
		  "\"dG9rZW46czNjcmV0\"}}}\n" },
	};

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		OWN(freep) char *text = file_text(files[i].name, files[i].facts);

		CHECK_STR(text, files[i].text);
	}
}

TEST(placeholder_file_of_google)
{
	static const struct placeholder_facts facts = { .id = "robot@my-proj.iam.gserviceaccount.com",
		.secret = "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n" };
	OWN(freep) char *text = file_text("google-service-account", &facts);
	json_t *json = json_loads(text, 0, NULL);

	CHECK(json != NULL);
	CHECK_STR(json_string_value(json_object_get(json, "type")), "service_account");
	CHECK_STR(json_string_value(json_object_get(json, "project_id")), "my-proj");
	CHECK_STR(json_string_value(json_object_get(json, "private_key")), facts.secret);
	CHECK_STR(json_string_value(json_object_get(json, "client_email")), facts.id);
	CHECK_U64(json_string_length(json_object_get(json, "private_key_id")), 40);
	json_decref(json);
}

/* Each has its place; what two would have under one name is refused. */
TEST(placeholder_files_of_two)
{
	static const char *const one[] = { "a.example", "b.example:8443", "a.example", NULL };
	static const char *const two[] = { "c.example", NULL };
	static const char *const profile[] = { "profile", "other", NULL };
	static const struct placeholder_facts facts[] = {
		{ .id = "x@y.z", .secret = "s1", .hosts = one },
		{ .id = "m@y.z", .secret = "s2", .hosts = two, .with = profile },
	};
	const struct placeholder_facts same[] = { facts[0], facts[0] };
	static const char *const texts[PLACEHOLDER_FORMATS] = {
		[PLACEHOLDER_AWS] = "[default]\naws_access_key_id = x@y.z\naws_secret_access_key = s1\n"
			"[other]\naws_access_key_id = m@y.z\naws_secret_access_key = s2\n",
		[PLACEHOLDER_NETRC] = "machine a.example\nlogin x@y.z\npassword s1\n"
			"machine b.example\nlogin x@y.z\npassword s1\nmachine c.example\nlogin m@y.z\npassword s2\n",
		[PLACEHOLDER_NPMRC] = "//a.example/:_authToken=s1\n//b.example:8443/:_authToken=s1\n"
			"//c.example/:_authToken=s2\n",
		[PLACEHOLDER_PYPIRC] = "[distutils]\nindex-servers =\n    a.example\n    c.example\n\n"
			"[a.example]\nrepository = https://a.example/legacy/\nusername = x@y.z\npassword = s1\n\n"
			"[c.example]\nrepository = https://c.example/legacy/\nusername = m@y.z\npassword = s2\n",
		[PLACEHOLDER_DOCKER] = "{\"auths\":{\"a.example\":{\"auth\":\"eEB5Lno6czE=\"},"
			"\"b.example:8443\":{\"auth\":\"eEB5Lno6czE=\"},"
			"\"c.example\":{\"auth\":\"bUB5Lno6czI=\"}}}\n",
	};

	for (size_t i = 0; i < PLACEHOLDER_FORMATS; i++) {
		OWN(freep) char *text = NULL, *never = NULL;
		struct err err = {0};
		int r = placeholder_file_text(&placeholder_files[i], facts, 2, &text, &err);

		CHECK(r == (i == PLACEHOLDER_GOOGLE || i >= PLACEHOLDER_CLAUDE ? -EEXIST : 0));
		if (texts[i] != NULL)
			CHECK_STR(text, texts[i]);
		CHECK_ERR(placeholder_file_text(&placeholder_files[i], same, 2, &never, &err), EEXIST);
	}
}

/* A line end in a value must not become a line of the file. */
TEST(placeholder_files_refuse)
{
	static const char *const hosts[] = { "h.example", NULL };
	static const struct placeholder_facts evil = { .id = "me", .secret = "a\nmachine evil",
		.hosts = hosts }, none = { .hosts = hosts };

	for (size_t i = 0; i < PLACEHOLDER_FORMATS; i++) {
		const struct placeholder_file *f = &placeholder_files[i];
		struct err err = {0};
		char *text = NULL;

		CHECK_ERR(placeholder_file_text(f, &none, 1, &text, &err), EINVAL);
		if (strcmp(f->name, "docker-config") != 0)
			CHECK_ERR(placeholder_file_text(f, &evil, 1, &text, &err), EINVAL);
		CHECK(text == NULL && strstr(err.text, "evil") == NULL);
	}
}

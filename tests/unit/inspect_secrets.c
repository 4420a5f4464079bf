/* inspect_secrets.c - tests of inspect/secrets: every kind of the catalogue is found, in
 * whatever wrapping, and what only looks like one is not.
 *
 * No credential is written down here: they are made up, with their checksums, and those
 * that are not are written in two parts, for the sake of other scanners. */
#include "inspect/inspect.h"

#include "credential/shape.h"
#include "inspect/secrets_parts.h"
#include "test.h"

#define TEXT_MAX 4096

/* ---- making keys up ---- */

static uint32_t chance_state = 12345;

static uint32_t
chance(uint32_t below)
{
	chance_state = chance_state * 1664525u + 1013904223u;
	return (chance_state >> 8) % below;
}

static void
put_class(char *text, char class, size_t n)
{
	for (text += strlen(text); n > 0;) {
		unsigned char c = (unsigned char)chance(128);

		if (!shape_class_has(class, c))
			continue;
		*text++ = (char)c;
		n--;
	}
	*text = '\0';
}

static void
put_crc62(char *text, const char *body)
{
	static const char digits[] =
		"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	uint32_t crc = 0xffffffff;
	char sum[7] = "";

	for (const char *p = body; *p != '\0'; p++) {
		crc ^= (unsigned char)*p;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
	}
	crc = ~crc;
	for (int i = 5; i >= 0; i--, crc /= 62)
		sum[i] = digits[crc % 62];
	snprintf(text + strlen(text), 7, "%.6s", sum);
}

static void
put_tail(char *text, const char *tail)
{
	struct shape_item item;

	while (*tail != '\0') {
		tail = shape_next_item(tail, &item);
		CHECK(tail != NULL);
		if (item.class == 'c')
			put_crc62(text, text + strlen(text) - SHAPE_CHECKED);
		else if (item.class != 0)
			put_class(text, item.class, item.min);
		else
			strncat(text, item.at, item.min);
	}
}

/* A key of this shape; false if a test of its own makes one. */
static bool
make_key(const struct secrets_shape *s, char text[TEXT_MAX])
{
	text[0] = '\0';
	strncat(text, s->mark, TEXT_MAX - 1);
	if (s->check == secrets_check_slack) {
		put_tail(text, "{d12}-{d12}-{w24}");
		return true;
	}
	if ((s->check != NULL && s->check != secrets_check_azure_key) || s->tail == NULL)
		return false;
	put_tail(text, s->tail);
	return true;
}

/* ---- wrappings ---- */

static const char *
find_all(const void *data, size_t len)
{
	struct secrets_scan scan = { .n_tail = 0 };

	return secrets_find(&scan, data, len);
}

static const char *
find_text(const char *text)
{
	return find_all(text, strlen(text));
}

/* In pieces of N bytes. */
static const char *
find_in_pieces(const char *text, size_t n)
{
	struct secrets_scan scan = { .n_tail = 0 };
	size_t len = strlen(text);
	const char *name = NULL;

	for (size_t i = 0; i < len && name == NULL; i += n)
		name = secrets_find(&scan, text + i, len - i < n ? len - i : n);
	return name;
}

static void
put_base64(char *out, const char *text, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < len; i += 3) {
		uint32_t v = 0;

		for (size_t j = 0; j < 3; j++)
			v = v << 8 | (i + j < len ? (unsigned char)text[i + j] : 0);
		for (int j = 3; j >= 0; j--)
			*out++ = digits[v >> 6 * j & 63];
	}
	*out = '\0';
}

static void
check_found(const struct secrets_shape *s, const char *text, const char *where)
{
	const char *name = find_text(text);

	if (name == NULL)
		test_fail(__FILE__, __LINE__, "%s (%s) is not found %s: %s", s->name, s->mark, where,
		          text);
}

static void
check_wrapped(const struct secrets_shape *s, const char *key)
{
	static char text[8 * TEXT_MAX], more[8 * TEXT_MAX];
	size_t len = strlen(key);

	snprintf(text, sizeof(text), "{\"text\":\"one\\n%s\\nthree\"}", key);
	check_found(s, text, "in JSON");
	snprintf(text, sizeof(text), "a=1&key=%%22%s%%22&b=2", key);
	check_found(s, text, "in a form");

	text[0] = '\0';
	for (size_t i = 0; i < len; i++)
		snprintf(text + 3 * i, 4, "%%%02X", (unsigned char)key[i]);
	check_found(s, text, "as a form escapes it");
	for (size_t i = 0; i < len; i++)
		snprintf(text + 6 * i, 7, "\\u%04x", (unsigned char)key[i]);
	check_found(s, text, "as JSON escapes it");

	/* Base64 of less than four characters of a mark is too little to go by. */
	for (size_t before = 0; before < 3; before++) {
		if (strlen(s->mark) < 4)
			break;
		snprintf(text, sizeof(text), "%.*s%s and more", (int)before, "(\"", key);
		if (before == 2)
			snprintf(text, sizeof(text), "={%s;", key);
		put_base64(more, text, strlen(text));
		check_found(s, more, "in base64");
	}
}

/* One character more of the last kind, and it is something else. */
static void
check_longer(const struct secrets_shape *s, char *key)
{
	struct shape_item last = {0};

	for (const char *tail = s->tail; *tail != '\0';)
		tail = shape_next_item(tail, &last);
	if ((s->flags & SHAPE_SURE) != 0 || last.class == 0 || last.min != last.max)
		return;
	put_class(key, last.class, 1);
	if (find_text(key) != NULL)
		test_fail(__FILE__, __LINE__, "%s is found with a character too many: %s", s->name,
		          key);
}

TEST(secrets_catalogue)
{
	static char key[TEXT_MAX], text[2 * TEXT_MAX];

	for (size_t i = 0; i < secrets_n_shapes; i++) {
		const struct secrets_shape *s = &secrets_shapes[i];

		if (!make_key(s, key))
			continue;
		check_found(s, key, "alone");
		CHECK(find_in_pieces(key, 1) != NULL);
		snprintf(text, sizeof(text), "export KEY='%s'\n", key);
		check_found(s, text, "in a script");
		check_wrapped(s, key);
		check_longer(s, key);
	}
}

/* Wherever a body is cut. */
TEST(secrets_across_pieces)
{
	static char key[TEXT_MAX], text[TEXT_MAX];

	CHECK(make_key(&secrets_shapes[0], key));
	memset(text, ' ', sizeof(text));
	memcpy(text + 1500, key, strlen(key));
	text[3000] = '\0';
	for (size_t n = 1; n < 700; n++)
		CHECK(find_in_pieces(text, n) != NULL);
	for (size_t cut = 1490; cut < 1550; cut++) {
		struct secrets_scan scan = { .n_tail = 0 };
		const char *first = secrets_find(&scan, text, cut);

		CHECK(first != NULL || secrets_find(&scan, text + cut, 3000 - cut) != NULL);
	}
}

/* A key is found before the first of its bytes is further back than what is held back. */
TEST(secrets_tail_is_enough)
{
	static char key[TEXT_MAX], text[3 * TEXT_MAX];

	for (size_t i = 0; i < secrets_n_shapes; i++) {
		const struct secrets_shape *s = &secrets_shapes[i];
		struct secrets_scan scan = { .n_tail = 0 };
		const char *name = NULL;
		size_t sent = 0;

		if (!make_key(s, key))
			continue;
		snprintf(text, sizeof(text), "%2000s%s%2000s", "\"", key, "\"");
		for (; text[sent] != '\0' && name == NULL; sent++)
			name = secrets_find(&scan, text + sent, 1);
		CHECK(name != NULL);
		CHECK(sent - 2000 <= SECRETS_TAIL);
	}
}

/* ---- the others, one by one ---- */

#define BASE64_OF_KEY                                                    \
	"MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgevZzL1gdAFr8"       \
	"8hb2OF4L5k9oVxUq1cTz7pBnWmJyQd3hRANCAARKsiXeJtG6fPvZ0uLwY2Mb"

static const struct {
	const char *text, *want;        /* NULL: nothing */
} cases[] = {
	/* private keys */
	{ "-----BEGIN PRIVATE KEY-----\n" BASE64_OF_KEY, "private key" },
	{ "-----BEGIN EC PRIVATE KEY-----\r\n" BASE64_OF_KEY, "private key" },
	{ "{\"k\":\"-----BEGIN PRIVATE KEY-----\\n" BASE64_OF_KEY "\\n\"}", "private key" },
	{ "\"{\\\"k\\\":\\\"-----BEGIN PRIVATE KEY-----\\\\n" BASE64_OF_KEY, "private key" },
	{ "k=-----BEGIN+PRIVATE+KEY-----%0AMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQ"
	  "gevZzL1gdAFr88hb2OF4L5k9oVxUq1cTz7pBnWmJyQd3h", "private key" },
	{ "k = \"-----BEGIN PRIVATE KEY-----\\n\" +\n    \"MIGHAgEAMBMGByqGSM49AgEGCCqGSM49\" +\n"
	  "    \"AwEHBG0wawIBAQQgevZzL1gdAFr88hb2OF4L5k9oVxUq\"", "private key" },
	{ "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,"
	  "0A1B2C\n\n" BASE64_OF_KEY, "private key" },
	{ "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAA"
	  "AAABAAAAMwAAAAtzc2gtZWQyNTUxOQ", "private key" },
	{ "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\n\nlQVYBGRr1zgBDADJzR0oT2vPmW8xqk3L"
	  "nVb7yHcQe5sUfKdA9wXoZt4jGp6Mi1rBhN2a", "private key" },
	{ "-----BEGIN PRIVATE KEY-----", NULL },
	{ "if (strstr(s, \"-----BEGIN PRIVATE KEY-----\")) return load_private_key_from(s, s + "
	  "strlen(s), NULL, NULL); else return -1;", NULL },
	{ "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG...\n-----END PRIVATE KEY-----", NULL },
	{ "-----BEGIN PUBLIC KEY-----\n" BASE64_OF_KEY, NULL },
	{ "-----END PRIVATE KEY-----\n" BASE64_OF_KEY, NULL },
	{ "-----BEGIN PRIVATE KEY-----\nA" BASE64_OF_KEY, NULL },
	{ "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: a\nPublic-Lines: 2\nA",
	  "private key" },
	{ "s = 'PuTTY-User-Key-File-2: ' + a + '\\r\\nEncryption: ' + e + '\\r\\nPublic-Lines: ' + n;",
	  NULL },
	{ "The file begins with PuTTY-User-Key-File-3: and the algorithm", NULL },
	{ "{\"kty\":\"EC\",\"crv\":\"P-256\",\"d\":\"9fZ1k2Pq7sWxB4nYc0TjRvLh3mUeKd8aGoIyJtCbXw5\"}",
	  "private key" },
	{ "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"9fZ1k2Pq7sWxB4nYc0TjRvLh3mUeKd8aGoIyJtCbXw5\"}",
	  NULL },
	{ "PrivateKey = qDm0Yk3vN8sT1wXzB5rJ7fLcHgUeAoPiKdMnVbQyRU8=", "WireGuard key" },
	{ "PrivateKey = rDm0Yk3vN8sT1wXzB5rJ7fLcHgUeAoPiKdMnVbQyRc8=", NULL },

	/* AWS */
	{ "aws_access_key_id = AKIA" "Q3EGRT7XZLP5WVNM", "AWS access key" },
	{ "AKIAIOSFODNN7EXAMPLE", NULL },
	{ "AKIA" "Q3EGRT7XZLP5WVNMX", NULL },
	{ "XAKIA" "Q3EGRT7XZLP5WVNM", NULL },
	{ "AKIA" "Q3EGRT7XZL05WVNM", NULL },
	{ "X-Amz-Credential=AKIA" "Q3EGRT7XZLP5WVNM%2F20240101%2Fus-east-1%2Fs3%2Faws4_request", NULL },
	{ "Credential=AKIA" "Q3EGRT7XZLP5WVNM/20240101/us-east-1/s3/aws4_request", NULL },
	{ "ASIA" "Q3EGRT7XZLP5WVNM", NULL },
	{ "ASIA" "Q3EGRT7XZLP5WVNM,k9Tz/Wq3vR7mXb2Y" "pLs8NcJd+4GhUeAoPiKfMnVB", "AWS session key" },
	{ "ASIA" "Q3EGRT7XZLP5WVNM 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12", NULL },
	{ "\"SecretAccessKey\": \"k9Tz/Wq3vR7mXb2Y" "pLs8NcJd+4GhUeAoPiKfMnVB\"", "AWS secret key" },
	{ "\"SecretAccessKey\":\"k9Tz\\/Wq3vR7mXb2YpLs8NcJd+4GhUeAoPiKfMnVB\"", "AWS secret key" },
	{ "AWS_SECRET_ACCESS_KEY=k9Tz/Wq3vR7mXb2Y" "pLs8NcJd+4GhUeAoPiKfMnVB", "AWS secret key" },
	{ "AWS_SECRET_ACCESS_KEY=k9Tz%2FWq3vR7mXb2YpLs8NcJd%2B4GhUeAoPiKfMnVB", "AWS secret key" },
	{ "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", NULL },
	{ "aws_secret_access_key: Optional[str] = None", NULL },

	/* in the middle of a key, or with its surroundings */
	{ "sk-k9TzWq3vR7mXb2YpLs8NT3Blbk" "FJcJd4GhUeAoPiKfMnVBxz", "OpenAI key" },
	{ "T3BlbkFJ", NULL },
	{ "AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHB"
	  "eksoGMGw==", NULL },
	{ "k9T8Q" "~Wq3vR7mXb2YpLs8NcJd4GhUeAoPiKfMn", "Azure client secret" },
	{ "123456789" ":AAk9TzWq3vR7mXb2YpLs8NcJd_4GhUeAoPi", "Telegram bot token" },
	{ "12" ":AAk9TzWq3vR7mXb2YpLs8NcJd_4GhUeAoPi", NULL },
	{ "k9TzWq3vR7mXb2.atlas" "v1.YpLs8NcJd4GhUeAoPiKfMnVBxzk9TzWq3vR7mXb2YpLs8NcJd4GhUeAoPiKf",
	  "Terraform token" },
	{ "mailgun: key-3ax6xnjp29jd6fds4gc373sgvjxteol0", NULL },
	{ "mailgun: key" "-d41c8f98e00b7204e9801998ecf8427e", "Mailgun key" },
	{ "cache key" "-d41c8f98e00b7204e9801998ecf8427e", NULL },
	{ "AGE-SECRET" "-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX", "age key" },
	{ "AGE-SECRET" "-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEY", NULL },
	{ "{\"auths\":{\"r.example\":{\"auth\":\"bWU6azlUeldxM3ZSN21YYjJZcA==\"}}}", "Docker login" },
	{ "{\"auths\":{\"r.example\":{\"auth\":\"dXNlcm5hbWU6cGFzc3dvcmQ=\"}}}", NULL },

	/* A JWT is one of ours only by its claims. */
	{ "eyJhbGciOiJSUzI1NiIsImtpZCI6IiJ9.eyJpc3MiOiJrdWJlcm5ldGVzL3NlcnZpY2VhY2NvdW50Iiwia3"
	  "ViZXJuZXRlcy5pby9zZXJ2aWNlYWNjb3VudC9uYW1lc3BhY2UiOiJkIn0.c2ln", "service's JWT" },
	{ "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG"
	  "9lIn0.c2ln", NULL },

	{ "curl -H 'Authorization: Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0."
	  "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U'", "bearer token" },
	{ "Authorization: Bearer eyJhbGciOi...", NULL },

	/* Anybody's, by its name. */
	{ "api_key=q8Zt3vKx0Lw7Rb2Nf5Yc9Hd4", "API key" },
	{ "SERVICE_API_KEY='q8Zt3vKx0Lw7Rb2Nf5Yc9Hd4'", "API key" },
	{ "{\"apiKey\": \"q8Zt3vKx0Lw7Rb2Nf5Yc9Hd4\"}", "API key" },
	{ "DJANGO_SECRET_KEY: q8Zt3vKx0Lw7Rb2Nf5Yc9Hd4Mj6", "secret key" },
	{ "auth_token=eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0."
	  "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U", "token" },
	{ "api_key=your-api-key-goes-in-here-please", NULL },
	{ "api_key=os.environ.get('SERVICE_API_KEY')", NULL },
	{ "{\"api_key\":\"phc_q8Zt3vKx0Lw7Rb2Nf5Yc9Hd4q8Zt3vKx0Lw7Rb2Nf5\"}", NULL },
	{ "the api_key q8Zt3vKx0Lw7Rb2Nf5Yc9Hd4 is", NULL },
	{ "api_key=aaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL },

	/* what stands where a key would be */
	{ "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", NULL },
	{ "ghp_abcdefghijklmnopqrstuvwxyz0123456789", NULL },
	{ "ghp_16C7e42F292c6912E7710c838347Ae178B4a", NULL },
	{ "glpat-XXXXXXXXXXXXXXXXXXXX", NULL },
	{ "glpat-Kz9mnopqrstQw2Lp8RtX", NULL },
	{ "glpat-Kz9mQw2Lp8Kz9mQw2Lp8", NULL },
	{ "glpat-your-token-goes-in-here", NULL },
	{ "sk-ant-api03-your-key-here", NULL },
	{ "sk_live_xxxxxxxxxxxxxxxxxxxxxxxx", NULL },
	{ "AIzaSyXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX", NULL },
	{ "task-0123456789abcdef0123456789abcdef", NULL },
	{ "disk-d41c8f98e00b7204e9801998ecf8427e", NULL },
	{ "hf_transfer_enabled_by_default_in_this_version", NULL },
	{ "npm_config_registry=https://registry.example/", NULL },
	{ "xoxb-your-token", NULL },
	{ "dapiVersion: apps/v1", NULL },
	{ "", NULL },
};

TEST(secrets_cases)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *got = find_text(cases[i].text);

		if ((got == NULL) != (cases[i].want == NULL) ||
		    (got != NULL && strcmp(got, cases[i].want) != 0))
			test_fail(__FILE__, __LINE__, "'%s' is %s, not %s", cases[i].text,
			          got == NULL ? "nothing" : got,
			          cases[i].want == NULL ? "nothing" : cases[i].want);
	}
}

/* A file that was put into base64, with line ends, and that into a string. */
TEST(secrets_key_in_base64)
{
	static const char key[] = "\n\n-----BEGIN EC PRIVATE KEY-----\n" BASE64_OF_KEY "\n";
	static const char *const line_ends[] = { "\n", "\r\n", "\\n" };
	static char plain[TEXT_MAX], text[TEXT_MAX];

	for (size_t skip = 0; skip < 3; skip++) {
		put_base64(plain, key + skip, strlen(key + skip));
		CHECK_STR(find_text(plain), "private key");
		for (size_t i = 0; i < ARRAY_LEN(line_ends); i++) {
			text[0] = '\0';
			for (size_t at = 0; at < strlen(plain); at += 76) {
				snprintf(text + strlen(text), sizeof(text) - strlen(text), "%.76s%s",
				         plain + at, line_ends[i]);
			}
			CHECK_STR(find_text(text), "private key");
		}
	}
}

TEST(secrets_extra)
{
	static const struct secrets_extra extra[] = {
		{ "a placeholder", "cell-5-key", 10 },
		{ "another", "\0\1\2", 3 },
	};
	struct secrets_scan scan = { .extra = extra, .n_extra = 2 };

	CHECK(secrets_find(&scan, "nothing here, cell-5", 20) == NULL);
	CHECK_STR(secrets_find(&scan, "-key and more", 13), "a placeholder");
	scan.n_tail = 0;
	CHECK_STR(secrets_find(&scan, "a\0\1\2b", 5), "another");
}

/* Chance makes no key: 16 MiB of random bytes, as they are and in base64. */
TEST(secrets_noise)
{
	static unsigned char data[1 << 20];
	static char text[(1 << 20) * 4 / 3 + 8];
	struct secrets_scan scan = { .n_tail = 0 }, scan64 = { .n_tail = 0 };

	for (int round = 0; round < 8; round++) {
		for (size_t i = 0; i < sizeof(data); i++)
			data[i] = (unsigned char)chance(256);
		CHECK(secrets_find(&scan, data, sizeof(data)) == NULL);
		put_base64(text, (const char *)data, sizeof(data) - 1);
		CHECK(secrets_find(&scan64, text, strlen(text)) == NULL);
	}
}

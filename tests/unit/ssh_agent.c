/* ssh_agent.c - tests of ssh/ssh_agent and ssh/ssh_wire: what is read, and what is not. */
#include "ssh/ssh_agent.h"

#include <errno.h>

#include "test.h"

#define SESSION "0123456789abcdef0123456789abcdef"
#define ED "ssh-ed25519"
#define BOUND_TO "publickey-hostbound-v00@openssh.com"

/* A request to sign a login; what is NULL is as it should be. */
struct login {
	const char *session, *service, *method, *algorithm, *other_key, *host_key, *behind;
	uint32_t flags;
	bool rsa;
};

static void
put_or(struct buf *b, const char *said, const char *usual)
{
	ssh_put_str(b, said != NULL ? said : usual);
}

static void
put_key(struct buf *b, const char *type)
{
	OWN(buf_free) struct buf key;

	buf_init(&key, 256);
	ssh_put_str(&key, type);
	ssh_put_str(&key, "whatever it is");
	ssh_put_string(b, (struct http_text){ (char *)key.data, key.len });
}

static void
put_sign(struct buf *b, const struct login *l)
{
	OWN(buf_free) struct buf data;
	const char *type = l->rsa ? "ssh-rsa" : ED;

	buf_init(&data, 4096);
	put_or(&data, l->session, SESSION);
	ssh_put_u8(&data, 50);
	ssh_put_str(&data, "git");
	put_or(&data, l->service, "ssh-connection");
	put_or(&data, l->method, "publickey");
	ssh_put_u8(&data, 1);
	put_or(&data, l->algorithm, l->rsa ? "rsa-sha2-512" : ED);
	put_key(&data, l->other_key != NULL ? l->other_key : type);
	if (l->host_key != NULL)
		ssh_put_str(&data, l->host_key);
	buf_put(&data, l->behind, l->behind != NULL ? strlen(l->behind) : 0);
	ssh_put_u8(b, 13);
	put_key(b, type);
	ssh_put_string(b, (struct http_text){ (char *)data.data, data.len });
	ssh_put_u32(b, l->flags);
}

static const struct {
	struct login login;
	const char *why;                /* in the sentence; NULL: it is fine */
} logins[] = {
	{ { 0 }, NULL },
	{ { .method = BOUND_TO, .host_key = "its key" }, NULL },
	{ { .rsa = true, .flags = 4 }, NULL },
	{ { .rsa = true, .flags = 2, .algorithm = "rsa-sha2-256" }, NULL },
	{ { .rsa = true, .flags = 0, .algorithm = "ssh-rsa" }, "SHA-1" },
	{ { .rsa = true, .flags = 4, .algorithm = "rsa-sha2-256" }, "another algorithm" },
	{ { .rsa = true, .flags = 2, .algorithm = "ssh-rsa" }, "another algorithm" },
	{ { .session = "too short" }, "neither a login" },
	{ { .service = "ssh-userauth" }, "another service" },
	{ { .method = "password" }, "another method" },
	{ { .method = "hostbased", .host_key = "its key" }, "another method" },
	{ { .method = BOUND_TO }, "no host's key" },
	{ { .method = BOUND_TO, .host_key = "" }, "no host's key" },
	{ { .host_key = "its key" }, "another key" },
	{ { .other_key = "ssh-dss" }, "another key" },
	{ { .algorithm = "ssh-ed448" }, "another algorithm" },
	{ { .behind = "x" }, "another key" },
};

TEST(ssh_agent_login)
{
	for (size_t i = 0; i < ARRAY_LEN(logins); i++) {
		OWN(buf_free) struct buf b, again;
		struct ssh_request r;
		const char *why = "";
		int e;

		buf_init(&b, 8192);
		buf_init(&again, 8192);
		put_sign(&b, &logins[i].login);
		e = ssh_request_read((struct http_text){ (char *)b.data, b.len }, &r, &why);
		if ((e == 0) != (logins[i].why == NULL))
			test_fail(__FILE__, __LINE__, "case %zu: %s", i, why);
		if (e < 0) {
			CHECK(strstr(why, logins[i].why) != NULL);
			continue;
		}
		CHECK(r.asks == SSH_ASKS_LOGIN);
		CHECK_STR(r.user, "git");
		CHECK(http_text_is(r.session, SESSION));
		ssh_put_login(&again, &r);
		CHECK(memmem(b.data, b.len, again.data, again.len) != NULL);
		/* No shorter message is one. */
		for (size_t n = 1; n < b.len; n++)
			CHECK(ssh_request_read((struct http_text){ (char *)b.data, n }, &r, &why) < 0);
	}
}

static const struct {
	const char *space, *reserved, *hash;
	size_t digest;
	bool fine;
} texts[] = {
	{ "git", "", "sha512", 64, true }, { "file", "", "sha256", 32, true },
	{ "git", "", "sha512", 32, false }, { "git", "", "sha1", 20, false },
	{ "", "", "sha512", 64, false }, { "git", "x", "sha512", 64, false },
};

TEST(ssh_agent_text)
{
	static const char digest[64];

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		OWN(buf_free) struct buf b, data;
		struct ssh_request r;
		const char *why;
		int e;

		buf_init(&b, 4096);
		buf_init(&data, 4096);
		buf_put(&data, "SSHSIG", 6);
		ssh_put_str(&data, texts[i].space);
		ssh_put_str(&data, texts[i].reserved);
		ssh_put_str(&data, texts[i].hash);
		ssh_put_string(&data, (struct http_text){ digest, texts[i].digest });
		ssh_put_u8(&b, 13);
		put_key(&b, ED);
		ssh_put_string(&b, (struct http_text){ (char *)data.data, data.len });
		ssh_put_u32(&b, 0);
		e = ssh_request_read((struct http_text){ (char *)b.data, b.len }, &r, &why);
		CHECK((e == 0) == texts[i].fine);
		if (e == 0)
			CHECK(r.asks == SSH_ASKS_TEXT && strcmp(r.space, texts[i].space) == 0);
	}
}

static const struct {
	const char *data;
	size_t len;
	int want;                       /* enum ssh_asks, or -EBADMSG */
} others[] = {
	{ "\x0b", 1, SSH_ASKS_LIST }, { "\x0bx", 2, -EBADMSG }, { "", 0, -EBADMSG },
	{ "\x11 add", 5, SSH_ASKS_OTHER }, { "\x13", 1, SSH_ASKS_OTHER }, { "\x09", 1, SSH_ASKS_OTHER },
	{ "\x1b\0\0\0\5query", 10, SSH_ASKS_OTHER }, { "\x1b\0\0\0\6query", 10, -EBADMSG },
	{ "\x1b\0\0\0\x18session-bind@openssh.com", 29, -EBADMSG },
};

TEST(ssh_agent_others)
{
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		struct ssh_request r;
		const char *why;
		int e = ssh_request_read((struct http_text){ others[i].data, others[i].len }, &r, &why);

		CHECK((e < 0 ? e : (int)r.asks) == others[i].want);
	}
}

static const struct { const char *bytes; size_t len; bool fine; } numbers[] = {
	{ "\0\0\0\1\1", 5, true }, { "\0\0\0\2\0\x80", 6, true }, { "\0\0\0\0", 4, false },
	{ "\0\0\0\1\0", 5, false }, { "\0\0\0\1\x80", 5, false }, { "\0\0\0\2\0\1", 6, false },
	{ "\0\0\0\3\1", 5, false },
};

TEST(ssh_wire_numbers_have_one_form)
{
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		struct http_text rest = { numbers[i].bytes, numbers[i].len }, v;
		OWN(buf_free) struct buf b;

		buf_init(&b, 64);
		CHECK(ssh_get_mpint(&rest, &v) == numbers[i].fine);
		if (!numbers[i].fine)
			continue;
		ssh_put_mpint(&b, v);
		CHECK(b.len == numbers[i].len && memcmp(b.data, numbers[i].bytes, b.len) == 0);
	}
}

TEST(ssh_wire_plain_messages)
{
	static const char said[] = "A word\r\nSSH-2.0-x\r\n" "\0\0\0\3\1\x14z" "\0\0\0\2\1\x15" "\0\0\0\2\1\1";
	const size_t lines = 19, first = 7, keys = 6;

	/* Whole lines and packets only, and nothing behind new keys. */
	for (size_t n = 0; n < sizeof(said); n++)
		CHECK_U64(ssh_clear_len((struct http_text){ said, n }), n < lines ? 0 :
		          n < lines + first ? lines : n < lines + first + keys ? lines + first :
		          lines + first + keys);
	CHECK_U64(ssh_clear_len((struct http_text){ "SSH-2\n\0\0\0\1z\0\0\0\2\1\x15", 17 }), 6);
	CHECK_U64(ssh_clear_len((struct http_text){ "SSH-2\n\xff\xff\xff\xff\1\x15", 12 }), 6);
}

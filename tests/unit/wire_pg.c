/* wire_pg.c - tests of the beginning of Postgres connections, on both sides. */
#include "wire/pg.h"

#include <errno.h>

#include "base/err.h"
#include "test.h"
#include "wire/pg_login.h"

#define BYTES(literal) literal, sizeof(literal) - 1
#define V3 "\0\3\0\0"

/* ---- clients ---- */

static const struct {
	const char *bytes;
	size_t len;
	int want;
	const char *said;       /* user/database/parameters, or NULL */
} starts[] = {
	{ BYTES("\0\0\0\x11" V3 "user\0me\0\0"), 0, "me/me/" },
	{ BYTES("\0\0\0\x1c" V3 "user\0me\0database\0a\0\0"), 0, "me/a/" },
	{ BYTES("\0\0\0\x1b" V3 "user\0me\0database\0\0\0"), 0, "me/me/" },
	{ BYTES("\0\0\0\x1c" V3 "user\0me\0a\0b\0cd\0ef\0\0\0"), -EBADMSG, NULL },
	{ BYTES("\0\0\0\x1b" V3 "user\0me\0a\0b\0cd\0ef\0\0"), 0, "me/me/a=b,cd=ef," },
	{ BYTES("\0\0\0\x14" V3 "user\0me\0a\0\0\0"), 0, "me/me/a=," },
	{ BYTES("\0\0\0\x1a" "\0\3\0\2" "user\0me\0_pq_.x\0y\0\0"), 0, "me/me/" },
	/* what is none */
	{ BYTES("\0\0\0\x09" V3 "\0"), -EBADMSG, NULL },
	{ BYTES("\0\0\0\x08" V3), -EBADMSG, NULL },
	{ BYTES("\0\0\0\x07" V3), -EBADMSG, NULL },
	{ BYTES("\0\0\x27\x11" V3), -EBADMSG, NULL },
	{ BYTES("\xff\xff\xff\xff" V3), -EBADMSG, NULL },
	{ BYTES("\0\0\0\x10" V3 "user\0me\0"), -EBADMSG, NULL },
	{ BYTES("\0\0\0\x0f" V3 "user\0\0\0"), -EBADMSG, NULL },
	{ BYTES("\0\0\0\x0e" V3 "user\0\0"), -EBADMSG, NULL },
	{ BYTES("\0\0\0\x0d" V3 "user\0"), -EBADMSG, NULL },
	{ BYTES("\0\0\0\x0c" V3 "user"), -EBADMSG, NULL },
	{ BYTES("\0\0\0\x1a" V3 "user\0me\0user\0you\0\0"), -EBADMSG, NULL },
	{ BYTES("\0\0\0\x19" V3 "user\0me\0a\0b\0a\0b\0\0"), -EBADMSG, NULL },
	{ BYTES("\0\0\0\x12" V3 "user\0me\0\0\0"), -EBADMSG, NULL },
	{ BYTES("\0\0\0\x0d" V3 "a\0b\0\0"), -EBADMSG, NULL },
	{ BYTES("\0\0\0\x11" "\0\2\0\0" "user\0me\0\0"), -EBADMSG, NULL },
	{ BYTES("\0\0\0\x11" "\0\4\0\0" "user\0me\0\0"), -EBADMSG, NULL },
	{ BYTES("\0\0\0\x09" "\x04\xd2\x16\x2f" "x"), -EBADMSG, NULL },
	{ BYTES("\0\0\0\x0c" "\x04\xd2\x16\x2e" "\0\0\0\1"), -EBADMSG, NULL },
	{ BYTES("GET / HTTP/1.1\r\n"), -EBADMSG, NULL },
};

/* As the gate reads: never more than is asked for. */
static int
read_first(const char *bytes, size_t len, struct pg_first *first, size_t *ret_len)
{
	const unsigned char *data = (const unsigned char *)bytes;
	size_t have = 0, need = 0;
	int r;

	while ((r = pg_first_read(data, have, &need, first, NULL)) == -EAGAIN) {
		CHECK(need > have);
		if (need > len)
			return -EAGAIN;
		have = need;
	}
	*ret_len = have;
	return r;
}

TEST(pg_starts)
{
	struct pg_first first;
	char said[256];
	size_t len;

	for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
		int r = read_first(starts[i].bytes, starts[i].len, &first, &len);

		if (r != starts[i].want)
			test_fail(__FILE__, __LINE__, "case %zu: %d", i, r);
		if (r < 0)
			continue;
		CHECK(len == starts[i].len && first.kind == PG_START);
		snprintf(said, sizeof(said), "%s/%s/", first.start.user, first.start.database);
		for (size_t k = 0; k < first.start.n; k++)
			snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s=%s,",
			         first.start.parameters[k].name, first.start.parameters[k].value);
		CHECK_STR(said, starts[i].said);
	}
}

TEST(pg_requests)
{
	struct pg_first first;
	size_t len;

	/* What follows is not touched. */
	CHECK_OK(read_first(BYTES("\0\0\0\x08\x04\xd2\x16\x2f" "rest"), &first, &len));
	CHECK(first.kind == PG_SSL && len == 8);
	CHECK_OK(read_first(BYTES("\0\0\0\x08\x04\xd2\x16\x30" "rest"), &first, &len));
	CHECK(first.kind == PG_GSS && len == 8);
	CHECK_OK(read_first(BYTES("\0\0\0\x10\x04\xd2\x16\x2e\0\0\1\2keys" "rest"), &first, &len));
	CHECK(first.kind == PG_CANCEL && len == 16 && first.pid == 0x102 && first.n_key == 4 &&
	      memcmp(first.key, "keys", 4) == 0);
	CHECK_OK(read_first(BYTES("\0\0\0\x1a\0\3\0\2user\0me\0_pq_.x\0y\0\0"), &first, &len));
	CHECK(first.minor == 2 && first.n_options == 1);
	CHECK_STR(first.options[0], "_pq_.x");
}

TEST(pg_passwords)
{
	static const struct {
		const char *bytes;
		size_t len;
		int want;
	} cases[] = {
		{ BYTES("p\0\0\0\x07" "ab\0"), 0 }, { BYTES("p\0\0\0\x05\0"), 0 },
		{ BYTES("p\0\0\0\x07" "ab"), -EAGAIN }, { BYTES("p\0\0"), -EAGAIN },
		{ BYTES("p\0\0\0\x04"), -EBADMSG }, { BYTES("p\0\0\0\x03"), -EBADMSG },
		{ BYTES("Q\0\0\0\x07" "ab\0"), -EBADMSG }, { BYTES("p\0\0\0\x07" "abc"), -EBADMSG },
		{ BYTES("p\0\0\0\x07" "a\0\0"), -EBADMSG }, { BYTES("p\0\0\x80\x06"), -EBADMSG },
		{ BYTES("p\xff\xff\xff\xff"), -EBADMSG },
	};
	const char *password;
	size_t need;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int r = pg_password_read((const unsigned char *)cases[i].bytes, cases[i].len, &need,
		                         &password, NULL);

		if (r != cases[i].want)
			test_fail(__FILE__, __LINE__, "case %zu: %d", i, r);
		CHECK(r != 0 || need == cases[i].len);
	}
}

TEST(pg_between_processes)
{
	struct pg_start start = { .user = "me", .database = "app", .n = 1,
	                          .parameters = { { "a", "b" } } }, again;
	OWN(buf_free) struct buf b;
	const char *password;

	buf_init(&b, 4096);
	pg_start_encode(&b, &start, "word");
	CHECK_OK(pg_start_decode(&b, &again, &password));
	CHECK_STR(password, "word");
	CHECK_STR(again.user, "me");
	CHECK_STR(again.database, "app");
	CHECK(again.n == 1);
	/* A gate that is somebody else's. */
	for (int i = 0; i < 5; i++) {
		struct pg_start bad = start;

		if (i == 0)
			bad.user = "";
		else if (i == 1)
			bad.database = "";
		else
			bad.parameters[0].name = i == 2 ? "user" : i == 3 ? "_pq_.a" : "";
		buf_reset(&b);
		pg_start_encode(&b, &bad, "word");
		CHECK_ERR(pg_start_decode(&b, &again, &password), EBADMSG);
	}
	buf_reset(&b);
	pg_start_encode(&b, &start, "word");
	buf_put(&b, "x", 1);
	CHECK_ERR(pg_start_decode(&b, &again, &password), EBADMSG);
}

TEST(pg_starts_are_written_as_they_are_read)
{
	struct pg_start start = { .user = "me", .database = "app", .n = 1,
	                          .parameters = { { "a", "b" } } };
	OWN(buf_free) struct buf b;
	struct pg_first first;
	size_t len;

	buf_init(&b, 4096);
	pg_put_start(&b, &start);
	CHECK_OK(read_first((const char *)b.data, b.len, &first, &len));
	CHECK(len == b.len && first.kind == PG_START && first.minor == 0 && first.start.n == 1);
	CHECK_STR(first.start.database, "app");
	buf_reset(&b);
	pg_put_cancel(&b, 7, (const unsigned char *)"1234", 4);
	CHECK_OK(read_first((const char *)b.data, b.len, &first, &len));
	CHECK(first.kind == PG_CANCEL && first.pid == 7 && first.n_key == 4);
}

/* ---- servers ---- */

#define R(n, code) "R\0\0\0" n "\0\0\0" code
#define OK R("\x08", "\0")
#define ERROR_SAYING(n, text) "E\0\0\0" n "SFATAL\0M" text "\0\0"
#define NOTICE "N\0\0\0\x05\0"

static const struct {
	const char *bytes;
	size_t len;
	bool tls;
	int want;
	const char *sent;       /* in it, or NULL: nothing */
} logins[] = {
	{ BYTES(OK), false, 1, NULL },
	{ BYTES(NOTICE "v\0\0\0\x0c\0\0\0\0\0\0\0\0" OK), false, 1, NULL },
	{ BYTES(R("\x08", "\3")), true, 0, "word" },
	{ BYTES(R("\x08", "\3") OK), true, 1, "word" },
	{ BYTES(R("\x08", "\3")), false, -EPROTO, NULL },       /* in the clear */
	/* md5(md5("word" + "me") + "salt"), computed with md5sum */
	{ BYTES(R("\x0c", "\5") "salt" OK), false, 1, "md5ee0fbfe7056b01eb5e0e97790ca58a81" },
	{ BYTES(R("\x0b", "\5") "sal"), false, -EPROTO, NULL },
	{ BYTES(R("\x17", "\x0a") "SCRAM-SHA-256\0\0"), false, 0, "n,,n=,r=abc" },
	{ BYTES(R("\x17", "\x0a") "SCRAM-SHA-256\0\0"), true, 0, "y,,n=,r=abc" },
	{ BYTES(R("\x2a", "\x0a") "SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"), true, 0,
	  "p=tls-server-end-point,,n=,r=abc" },
	{ BYTES(R("\x2a", "\x0a") "SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"), false, 0, "n,,n=,r=abc" },
	{ BYTES(R("\x1c", "\x0a") "SCRAM-SHA-256-PLUS\0\0"), false, -EPROTO, NULL },
	{ BYTES(R("\x0a", "\x0a") "X\0"), true, -EPROTO, NULL },
	{ BYTES(R("\x08", "\x07")), true, -EPROTO, NULL },      /* GSSAPI */
	/* A login that was begun is not skipped. */
	{ BYTES(R("\x17", "\x0a") "SCRAM-SHA-256\0\0" OK), false, -EPROTO, NULL },
	{ BYTES(R("\x17", "\x0a") "SCRAM-SHA-256\0\0" R("\x08", "\3")), true, -EPROTO, NULL },
	{ BYTES(R("\x17", "\x0a") "SCRAM-SHA-256\0\0" R("\x08", "\x0c")), true, -EPROTO, NULL },
	{ BYTES(R("\x08", "\3") R("\x08", "\3")), true, -EPROTO, NULL },
	{ BYTES(R("\x08", "\x0b")), true, -EPROTO, NULL },
	{ BYTES(ERROR_SAYING("\x14", "no way")), false, -EACCES, NULL },
	/* no server at all */
	{ BYTES("HTTP/1.1 400"), false, -EPROTO, NULL },
	{ BYTES("S"), false, 0, NULL }, { BYTES("R\0\0\0\3"), false, 0, NULL },
	{ BYTES("R\0\0\0\3x"), false, -EPROTO, NULL }, { BYTES("R\0\0\0\4"), false, -EPROTO, NULL },
	{ BYTES("R\0\1\0\0x"), false, -EPROTO, NULL }, { BYTES("Z\0\0\0\5I"), false, -EPROTO, NULL },
};

/* In pieces of SIZE. */
static int
log_in(struct pg_login *l, const char *bytes, size_t len, size_t size, struct buf *out)
{
	const unsigned char *at = (const unsigned char *)bytes;
	struct err err = {0};
	size_t used;
	int r = 0;

	for (; r == 0 && len > 0; at += used, len -= used)
		r = pg_login_read(l, at, len < size ? len : size, &used, out, &err);
	CHECK(r != -EPROTO || err.text[0] != '\0');
	CHECK(strstr(err.text, "word\"") == NULL);
	return r;
}

TEST(pg_logins)
{
	for (size_t i = 0; i < ARRAY_LEN(logins); i++) {
		for (size_t size = 1; size < 64; size += 31) {
			OWN(freep) struct pg_login *l = calloc(1, sizeof(*l));
			OWN(buf_free) struct buf out;
			int r;

			CHECK(l != NULL);
			l->user = "me";
			l->password = "word";
			l->nonce = "abc";
			l->is_private = logins[i].tls;
			l->binding.len = logins[i].tls ? 32 : 0;
			buf_init(&out, 65536);
			r = log_in(l, logins[i].bytes, logins[i].len, size, &out);
			if (r != logins[i].want)
				test_fail(__FILE__, __LINE__, "case %zu: %d", i, r);
			if (logins[i].sent == NULL ? r > 0 && out.len > 0 :
			    memmem(out.data, out.len, logins[i].sent, strlen(logins[i].sent)) == NULL)
				test_fail(__FILE__, __LINE__, "case %zu sent something else", i);
		}
	}
}

TEST(pg_login_refused)
{
	OWN(freep) struct pg_login *l = calloc(1, sizeof(*l));
	OWN(buf_free) struct buf out;

	CHECK(l != NULL);
	l->user = l->password = l->nonce = "x";
	buf_init(&out, 65536);
	CHECK_ERR(log_in(l, BYTES(ERROR_SAYING("\x14", "no\nway")), 999, &out), EACCES);
	CHECK_STR(l->refusal, "no way");
	/* Who was told the password is not quoted. */
	memset(l, 0, sizeof(*l));
	l->user = l->password = l->nonce = "x";
	l->is_private = true;
	CHECK_ERR(log_in(l, BYTES(R("\x08", "\3") ERROR_SAYING("\x14", "hunter")), 999, &out), EACCES);
	CHECK_STR(l->refusal, "");
}

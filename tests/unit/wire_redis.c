/* wire_redis.c - tests of what Redis clients send. */
#include "wire/redis.h"

#include <errno.h>

#include "base/err.h"
#include "test.h"

#define PING "*1\r\n$4\r\nPING\r\n"

/* What passes, with "<...>" for a login: AUTH or HELLO, version, user, password, name; "-" is
 * none.  NULL: it is refused. */
static const struct {
	const char *in, *out;
} cases[] = {
	{ "", "" },
	{ PING, PING },
	{ PING PING, PING PING },
	{ "*2\r\n$3\r\nGET\r\n$0\r\n\r\n" PING, "*2\r\n$3\r\nGET\r\n$0\r\n\r\n" PING },
	{ "*0\r\n" PING, "*0\r\n" PING },
	{ "*2\r\n$4\r\nECHO\r\n$6\r\n*1\r\n$4\r\n" PING,
	  "*2\r\n$4\r\nECHO\r\n$6\r\n*1\r\n$4\r\n" PING },
	/* logins */
	{ "*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n", "<AUTH - - pw ->" },
	{ "*3\r\n$4\r\nauth\r\n$2\r\nme\r\n$2\r\npw\r\n" PING, "<AUTH - me pw ->" PING },
	{ PING "*2\r\n$4\r\nAuTh\r\n$0\r\n\r\n" PING, PING "<AUTH - -  ->" PING },
	{ "*2\r\n$4\r\nAUTH\r\n$4\r\n\r\n\r\n\r\n", "<AUTH - - \r\n\r\n ->" },
	{ "*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nauth\r\n$2\r\nme\r\n$2\r\npw\r\n", "<HELLO 3 me pw ->" },
	{ "*7\r\n$5\r\nhello\r\n$1\r\n3\r\n$7\r\nsetname\r\n$1\r\nn\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$2\r\npw\r\n",
	  "<HELLO 3 me pw n>" },
	/* nearly */
	{ "*1\r\n$4\r\nAUTH\r\n", "*1\r\n$4\r\nAUTH\r\n" },
	{ "*4\r\n$4\r\nAUTH\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n",
	  "*4\r\n$4\r\nAUTH\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n" },
	{ "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n" },
	{ "*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nwhat\r\n$2\r\nme\r\n$2\r\npw\r\n",
	  "*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nwhat\r\n$2\r\nme\r\n$2\r\npw\r\n" },
	{ "*2\r\n$5\r\nAUTHX\r\n$2\r\npw\r\n", "*2\r\n$5\r\nAUTHX\r\n$2\r\npw\r\n" },
	{ "*3\r\n$3\r\nSET\r\n$4\r\nAUTH\r\n$2\r\npw\r\n",
	  "*3\r\n$3\r\nSET\r\n$4\r\nAUTH\r\n$2\r\npw\r\n" },
	/* lines */
	{ "PING\r\n", PING },
	{ "\n\r\n  PING \n", PING },
	{ "echo  a\tb\r\n", "*3\r\n$4\r\necho\r\n$1\r\na\r\n$1\r\nb\r\n" },
	{ "echo \"a b\\n\\x41\\\"\\q\"\n", "*2\r\n$4\r\necho\r\n$7\r\na b\nA\"q\r\n" },
	{ "echo 'a \\'\\n\"'\n", "*2\r\n$4\r\necho\r\n$6\r\na '\\n\"\r\n" },
	{ "echo a\"b c\"\n", "*2\r\n$4\r\necho\r\n$4\r\nab c\r\n" },
	{ "echo \"\" ''\n", "*3\r\n$4\r\necho\r\n$0\r\n\r\n$0\r\n\r\n" },
	{ "echo \\x41\n", "*2\r\n$4\r\necho\r\n$4\r\n\\x41\r\n" },
	{ "$4\r\n", "*1\r\n$2\r\n$4\r\n" },
	{ "AUTH pw\r\nPING\r\n", "<AUTH - - pw ->" PING },
	{ "'au\"th' x\n", "*2\r\n$5\r\nau\"th\r\n$1\r\nx\r\n" },
	{ "\"\\x41UTH\" me 'p w'\n", "<AUTH - me p w ->" },
	{ "hello 3 auth me pw setname n\n", "<HELLO 3 me pw n>" },
	/* what is read in more than one way, or in none */
	{ "*1\n$4\r\nPING\r\n", NULL }, { "*1\r$4\r\nPING\r\n", NULL }, { "*01\r\n", NULL },
	{ "*-1\r\n", NULL }, { "*+1\r\n", NULL }, { "*\r\n", NULL }, { "* 1\r\n", NULL },
	{ "*1x\r\n", NULL }, { "*2147483648\r\n", NULL }, { "*99999999999999999999999\r\n", NULL },
	{ "*1\r\n*1\r\n", NULL }, { "*1\r\n$-1\r\n", NULL }, { "*1\r\n$3\r\nPING\r\n", NULL },
	{ "*1\r\n$4\r\nPING\n\n", NULL }, { "*1\r\nPING\r\n", NULL },
	{ "echo \"a\"b\n", NULL }, { "echo \"a\n", NULL }, { "echo 'a\n", NULL }, { "echo \"a\\\n", NULL },
};

static void
put(struct buf *b, struct redis_text text, bool has)
{
	buf_put(b, " ", 1);
	buf_put(b, has ? text.at : "-", has ? text.len : 1);
}

/* Through the reader in pieces of SIZE. */
static int
follow(const char *in, size_t len, size_t size, struct buf *out)
{
	struct redis_reader r;
	struct redis_login l;
	struct redis_text piece;
	struct err err = {0};
	size_t used;
	int got = 0;

	redis_reader_init(&r);
	while (len > 0 && got >= 0) {
		got = redis_read(&r, (const unsigned char *)in, len < size ? len : size, &used, &piece, &l,
		                 &err);
		if (got == REDIS_PASS) {
			buf_put(out, piece.at, piece.len);
		} else if (got == REDIS_LOGIN) {
			buf_put(out, l.is_hello ? "<HELLO" : "<AUTH", l.is_hello ? 6 : 5);
			put(out, l.version, l.is_hello);
			put(out, l.user, l.has_user);
			put(out, l.password, true);
			put(out, l.name, l.has_name);
			buf_put(out, ">", 1);
		}
		CHECK(got >= 0 ? got != REDIS_MORE || used == (len < size ? len : size) :
		                 err.text[0] != '\0');
		in += used;
		len -= used;
	}
	redis_reader_free(&r);
	return got < 0 ? got : 0;
}

TEST(redis_commands)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (size_t size = 1; size < 200; size += size < 8 ? 1 : 95) {
			OWN(buf_free) struct buf out;
			int r;

			buf_init(&out, 65536);
			r = follow(cases[i].in, strlen(cases[i].in), size, &out);
			buf_put(&out, "", 1);
			if (cases[i].out == NULL ? r != -EBADMSG : r != 0)
				test_fail(__FILE__, __LINE__, "%s: %d", cases[i].in, r);
			if (cases[i].out != NULL)
				CHECK_STR((char *)out.data, cases[i].out);
		}
}

TEST(redis_bounds)
{
	OWN(freep) char *text = malloc(REDIS_LOGIN_MAX + 64);
	OWN(buf_free) struct buf out;
	int n;

	CHECK(text != NULL);
	buf_init(&out, 1024 * 1024);
	memset(text, 'a', REDIS_LOGIN_MAX + 64);
	CHECK_ERR(follow(text, REDIS_LINE_MAX + 1, 1000, &out), EBADMSG);
	/* As many words as there may be, and one more. */
	for (int i = 0; i < 2 * REDIS_WORDS_MAX; i += 2)
		memcpy(text + i, "a ", 2);
	memcpy(text + (size_t)2 * REDIS_WORDS_MAX, "\nb", 2);
	CHECK_OK(follow(text, (size_t)2 * REDIS_WORDS_MAX + 1, 999, &out));
	memcpy(text + (size_t)2 * REDIS_WORDS_MAX, "b\n", 2);
	CHECK_ERR(follow(text, (size_t)2 * REDIS_WORDS_MAX + 2, 999, &out), EBADMSG);
	/* A login that has no end. */
	memset(text, 'a', REDIS_LOGIN_MAX + 64);
	n = snprintf(text, REDIS_LOGIN_MAX, "*2\r\n$4\r\nAUTH\r\n$100000\r\n");
	text[n] = 'a';
	CHECK_ERR(follow(text, REDIS_LOGIN_MAX + 64, 5000, &out), EBADMSG);
	/* A NUL ends a line for servers. */
	CHECK_ERR(follow("echo a\0b\n", 9, 9, &out), EBADMSG);
}

TEST(redis_logins_between_processes)
{
	struct redis_login l = { .is_hello = true, .has_user = true, .version = { "3", 1 },
	                         .user = { "me", 2 }, .password = { "p\0w", 3 } }, again;
	struct redis_text user = { "root", 4 };
	OWN(buf_free) struct buf b, written;

	buf_init(&b, 4096);
	buf_init(&written, 4096);
	redis_login_encode(&b, &l);
	CHECK_OK(redis_login_decode(&b, &again));
	CHECK(again.password.len == 3 && again.is_hello && !again.has_name);
	redis_login_write(&written, &again, &user, (struct redis_text){ "real", 4 });
	buf_put(&written, "", 1);
	CHECK_STR((char *)written.data,
	          "*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$4\r\nroot\r\n$4\r\nreal\r\n");
	/* A gate that is somebody else's. */
	for (int i = 0; i < 5; i++) {
		struct redis_login bad = l;

		bad.has_user = i != 0;
		bad.is_hello = i != 1;
		bad.name = (struct redis_text){ "n", i == 2 };
		buf_reset(&b);
		redis_login_encode(&b, &bad);
		if (i == 3)
			b.len--;
		else if (i == 4)
			buf_put(&b, "x", 1);
		CHECK_ERR(redis_login_decode(&b, &again), EBADMSG);
	}
}

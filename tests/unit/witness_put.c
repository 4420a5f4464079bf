/* witness_put.c - tests of witness/put: acts as members of a record. */
#include "witness/put.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "canon/members.h"
#include "test.h"

#define TEXT(s) { s, sizeof(s) - 1, false }

static const char *
put(const struct act *act, const struct put_more *more, size_t *ret_count)
{
	static struct buf b;
	const char *type;
	size_t len, count;

	buf_free(&b);
	buf_init(&b, PUT_MAX + 1);
	CHECK_OK(put_act(&b, act, more, ret_count != NULL ? ret_count : &count));
	CHECK(members_check((char *)b.data, b.len, &type, &len));
	CHECK(len == strlen(put_type(act->kind)) && memcmp(type, put_type(act->kind), len) == 0);
	buf_put(&b, "", 1);
	return (char *)b.data;
}

TEST(witness_put_members)
{
	static const unsigned char hash[HASH_LEN] = { 0xab };
	static const struct act_count counts[] = { { SYS_read, 100 }, { SYS_getpid, 1 } };
	static const struct {
		struct act act;
		struct put_more more;
		const char *want;
	} cases[] = {
		{ { .kind = ACT_EXEC, .pid = 7, .parent = 1, .path = TEXT("/bin/sh"), .argv = TEXT("sh\0-c\0x\ny\0"), .n_argv = 3,
		    .cwd = TEXT("/work"), .from_writable = true }, { .program = hash },
		  "\"argv\":[\"sh\",\"-c\",\"x\\ny\"],\"cwd\":\"/work\",\"from\":\"writable\",\"parent\":1,\"path\":\"/bin/sh\","
		  "\"pid\":7,\"sha256\":\"ab00000000000000000000000000000000000000000000000000000000000000\",\"type\":\"exec\"" },
		{ { .kind = ACT_EXEC, .pid = 7, .path = TEXT("/x"), .argv = { "a\0b", 3, true }, .n_argv = 9, .error = ENOENT,
		    .asked = true }, { .unhashed = "it had ended" },
		  "\"argv\":[\"a\",\"b\"],\"asked\":true,\"error\":\"ENOENT\",\"n_argv\":9,\"path\":\"/x\",\"pid\":7,"
		  "\"type\":\"exec\",\"unhashed\":\"it had ended\"" },
		{ { .kind = ACT_EXEC, .pid = 7, .path = TEXT("/x"), .error = ENOENT }, { .counted = true },
		  "\"count\":1,\"error\":\"ENOENT\",\"path\":\"/x\",\"pid\":7,\"type\":\"exec\"" },
		{ { .kind = ACT_EXEC, .pid = 7, .path = TEXT("/x") }, { .searched = 3 },
		  "\"path\":\"/x\",\"pid\":7,\"searched\":3,\"type\":\"exec\"" },
		{ { .kind = ACT_EXIT, .pid = 7, .status = 3, .ran_ns = 5000000, .peak = 4096 }, { 0 },
		  "\"ms\":5,\"peak\":4096,\"pid\":7,\"status\":3,\"type\":\"exit\"" },
		{ { .kind = ACT_EXIT, .pid = 7, .status = SIGKILL, .signalled = true }, { 0 },
		  "\"pid\":7,\"signal\":\"KILL\",\"type\":\"exit\"" },
		{ { .kind = ACT_FILE, .pid = 7, .file = ACT_RENAME, .path = TEXT("/w/a"), .to = TEXT("/w/b\x1b[0m") },
		  { .grant = "/w" },
		  "\"act\":\"rename\",\"count\":1,\"grant\":\"/w\",\"path\":\"/w/a\",\"pid\":7,\"to\":\"/w/b\\u001b[0m\","
		  "\"type\":\"file\"" },
		{ { .kind = ACT_NET, .pid = 7, .net = ACT_CONNECT, .family = AF_INET, .address = { 10, 0, 0, 1 }, .port = 443,
		    .local = 50000 }, { 0 },
		  "\"act\":\"connect\",\"address\":\"10.0.0.1\",\"count\":1,\"local\":50000,\"pid\":7,\"port\":443,"
		  "\"type\":\"net\"" },
		{ { .kind = ACT_NET, .pid = 7, .net = ACT_BIND, .family = AF_UNIX, .path = TEXT("\0x") }, { 0 },
		  "\"act\":\"bind\",\"address\":\"@x\",\"count\":1,\"pid\":7,\"type\":\"net\"" },
		{ { .kind = ACT_REFUSED, .pid = 7, .nr = SYS_openat, .args = { (uint64_t)AT_FDCWD, 1, O_RDONLY },
		    .text = TEXT("/etc/\"s"), .error = EPERM, .by = ACT_BY_LANDLOCK }, { 0 },
		  "\"args\":\"AT_FDCWD, \\\"/etc/\\\"s\\\", O_RDONLY\",\"by\":\"landlock\",\"call\":\"openat\",\"count\":1,"
		  "\"error\":\"EPERM\",\"pid\":7,\"type\":\"refused\"" },
		{ { .kind = ACT_CALLS, .pid = 7, .counts = counts, .n_counts = 2, .since_ns = 1000000000 }, { 0 },
		  "\"counts\":[\"read 100\",\"getpid 1\"],\"ms\":1000,\"pid\":7,\"type\":\"calls\"" },
		{ { .kind = ACT_LOST, .lost = ACT_FILE, .n_lost = 12 }, { .why = "so" },
		  "\"count\":12,\"type\":\"lost\",\"what\":\"file\",\"why\":\"so\"" },
		{ { .kind = ACT_LOST, .lost = ACT_KINDS, .n_lost = 12 }, { .why = "so" },
		  "\"count\":12,\"type\":\"lost\",\"what\":\"acts\",\"why\":\"so\"" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK_STR(put(&cases[i].act, &cases[i].more, NULL), cases[i].want);
}

TEST(witness_put_count_is_found)
{
	struct act act = { .kind = ACT_FILE, .path = TEXT("\"count\":1"), .file = ACT_WRITE };
	const struct put_more none = {0};
	const char *text;
	size_t at;

	text = put(&act, &none, &at);
	CHECK_STR(text + at, "1,\"path\":\"\\\"count\\\":1\",\"pid\":0,\"type\":\"file\"");
	act.kind = ACT_EXIT;
	(void)put(&act, &none, &at);
	CHECK(at == 0);
}

/* Every byte becomes six. */
TEST(witness_put_worst_texts_fit)
{
	static char bytes[ACT_PATH_MAX];
	const struct act_text all = { bytes, sizeof(bytes), true };
	struct act act = { .kind = ACT_EXEC, .path = all, .argv = all, .n_argv = UINT32_MAX, .cwd = all, .script = all };
	const struct put_more none = {0};

	memset(bytes, 1, sizeof(bytes));
	CHECK(strlen(put(&act, &none, NULL)) <= PUT_MAX);
	memset(bytes, 0, sizeof(bytes));
	CHECK(strlen(put(&act, &none, NULL)) <= PUT_MAX);
	act = (struct act){ .kind = ACT_FILE, .path = all, .to = all };
	memset(bytes, 0x80, sizeof(bytes));
	CHECK(strlen(put(&act, &none, NULL)) <= PUT_MAX);
}

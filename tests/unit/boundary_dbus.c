/* boundary_dbus.c - tests of boundary/cgroup/dbus: what is written, and peers that answer otherwise. */
#include "boundary/cgroup/dbus.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/own.h"
#include "test.h"

/* Every part begins where D-Bus wants it: systemd itself reads it in tests/scenario/cell/test_systemd.py. */
TEST(dbus_put_scope)
{
	OWN(buf_free) struct buf b = BUF(DBUS_MESSAGE_MAX), small = BUF(64);
	static const unsigned char head[] = { 'l', 1, 0, 1 };
	size_t body, fields;

	dbus_put_scope(&b, 7, "cloister-x.scope", 4711, true);
	CHECK(!buf_failed(&b) && b.len > 16 && memcmp(b.data, head, 4) == 0 && b.data[8] == 7);
	body = (size_t)b.data[4] | (size_t)b.data[5] << 8;
	fields = (size_t)b.data[12] | (size_t)b.data[13] << 8;
	CHECK_U64(16 + fields + (8 - fields % 8) % 8 + body, b.len);
	CHECK(memmem(b.data, b.len, "ssa(sv)a(sa(sv))", 17) != NULL && memmem(b.data, b.len, "Delegate\0\1b\0", 12) != NULL);
	CHECK(memmem(b.data, b.len, "org.freedesktop.systemd1\0", 25) != NULL);
	dbus_put_scope(&small, 7, "cloister-x.scope", 4711, true);
	CHECK(buf_failed(&small));
}

static int
await_bytes(const void *bytes, size_t len)
{
	int ends[2], r;

	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	CHECK(write(ends[1], bytes, len) == (ssize_t)len);
	close(ends[1]);
	r = dbus_await_answer(ends[0]);
	close(ends[0]);
	return r;
}

TEST(dbus_await_answer)
{
	/* A signal with fields and a body, then an answer or an error. */
#define SIGNAL "l\4\0\1\3\0\0\0\1\0\0\0\5\0\0\0" "fffff\0\0\0" "bbb"
	static const char answer[] = SIGNAL "l\2\0\1\0\0\0\0\1\0\0\0\0\0\0", error[] = "l\3\0\1\0\0\0\0\1\0\0\0\0\0\0";
	static const char huge[] = "l\2\0\1\0\0\0\0\1\0\0\0\377\377\377\177", other[] = "B\2\0\1\0\0\0\0\1\0\0\0\0\0\0";

	CHECK_OK(await_bytes(answer, sizeof(answer)));
	CHECK_ERR(await_bytes(error, sizeof(error)), EREMOTEIO);
	CHECK_ERR(await_bytes(huge, sizeof(huge) - 1), EBADMSG);
	CHECK_ERR(await_bytes(other, sizeof(other)), EBADMSG);
	CHECK(await_bytes(answer, sizeof(SIGNAL) - 2) < 0 && await_bytes("", 0) < 0);
}

static int
log_in(const char *answer)
{
	char said[64] = "";
	int ends[2], r;

	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	CHECK(write(ends[1], answer, strlen(answer)) == (ssize_t)strlen(answer));
	shutdown(ends[1], SHUT_WR);
	r = dbus_log_in(ends[0], 1000);
	CHECK(read(ends[1], said, sizeof(said) - 1) > 0);
	CHECK(said[0] == '\0');
	CHECK(strncmp(said + 1, "AUTH EXTERNAL 31303030\r\n", 24) == 0);
	close(ends[0]);
	close(ends[1]);
	return r;
}

TEST(dbus_log_in)
{
	char endless[1024];

	CHECK_OK(log_in("OK 1234deadbeef\r\n"));
	CHECK_ERR(log_in("REJECTED EXTERNAL\r\n"), EACCES);
	CHECK(log_in("OK") < 0);
	memset(endless, 'x', sizeof(endless) - 1);
	endless[sizeof(endless) - 1] = '\0';
	CHECK_ERR(log_in(endless), EBADMSG);
}

/* upstream_dial.c - tests of upstream/dial, on loopback. */
#include "upstream/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

#include "test.h"

struct outcome {
	struct loop *loop;
	int fd, error;
	struct address address;
	size_t calls;
};

static void
done(void *arg, int fd, const struct address *address, int error)
{
	struct outcome *o = arg;

	o->fd = fd;
	o->error = error;
	o->address = *address;
	o->calls++;
	loop_quit(o->loop);
}

/* A port of 127.0.0.1 that listens, or whose connections are refused. */
static uint16_t
make_port(bool listens, int *ret_fd)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
	                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(to);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&to, &len) == 0);
	if (listens)
		CHECK(listen(fd, 8) == 0);
	*ret_fd = fd;
	return ntohs(to.sin_port);
}

static void
dial(const char *const *texts, size_t n, uint16_t port, struct outcome *o)
{
	struct address list[DIAL_ADDRESSES_MAX];
	struct dial d;

	for (size_t i = 0; i < n; i++)
		CHECK(address_parse(texts[i], &list[i]));
	*o = (struct outcome){ .fd = -1 };
	CHECK_OK(loop_new(&o->loop, NULL));
	dial_start(&d, o->loop, list, n, port, done, o);
	CHECK(o->calls == 0);
	CHECK_OK(loop_run(o->loop, NULL));
	CHECK(o->calls == 1);
	dial_drop(&d);
	loop_free(o->loop);
}

TEST(dial_connects)
{
	static const char *const texts[] = { "127.0.0.1" };
	char text[ADDRESS_TEXT_MAX];
	struct outcome o;
	int fd;

	dial(texts, 1, make_port(true, &fd), &o);
	CHECK(o.fd >= 0 && o.error == 0);
	CHECK_STR(address_format(&o.address, text), "127.0.0.1");
	close(o.fd);
	close(fd);
}

TEST(dial_gives_the_reason)
{
	static const char *const texts[] = { "127.0.0.1", "127.0.0.2" };
	struct outcome o;
	int fd;

	dial(texts, 2, make_port(false, &fd), &o);
	CHECK(o.fd == -1 && o.error == ECONNREFUSED);
	close(fd);
}

/* The next address is tried at once when one fails, not only after a while. */
TEST(dial_goes_on)
{
	static const char *const texts[] = { "127.0.0.2", "::1", "127.0.0.1" };
	char text[ADDRESS_TEXT_MAX];
	uint64_t began = loop_now_ms();
	struct outcome o;
	int fd;

	dial(texts, 3, make_port(true, &fd), &o);
	CHECK(o.fd >= 0);
	CHECK_STR(address_format(&o.address, text), "127.0.0.1");
	CHECK(loop_now_ms() - began < DIAL_STAGGER_MS);
	close(o.fd);
	close(fd);
}

/* A full backlog swallows connections, as a firewall does. */
TEST(dial_does_not_wait_for_the_silent)
{
	static const char *const texts[] = { "127.0.0.2", "127.0.0.1" };
	struct sockaddr_in to = { .sin_family = AF_INET };
	char text[ADDRESS_TEXT_MAX];
	int fd, silent, full[8];
	uint16_t port = make_port(true, &fd);
	uint64_t began = loop_now_ms();
	struct outcome o;

	silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	to.sin_port = htons(port);
	CHECK(bind(silent, (struct sockaddr *)&to, sizeof(to)) == 0 && listen(silent, 0) == 0);
	for (size_t i = 0; i < ARRAY_LEN(full); i++) {
		full[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		(void)connect(full[i], (struct sockaddr *)&to, sizeof(to));
	}
	dial(texts, 2, port, &o);
	CHECK(o.fd >= 0);
	CHECK_STR(address_format(&o.address, text), "127.0.0.1");
	CHECK(loop_now_ms() - began >= DIAL_STAGGER_MS);
	close(o.fd);
	close(fd);
	close(silent);
	for (size_t i = 0; i < ARRAY_LEN(full); i++)
		close(full[i]);
}

static void
quit(void *arg)
{
	loop_quit(arg);
}

TEST(dial_can_be_dropped)
{
	struct address list[1];
	struct outcome o = { .fd = -1 };
	struct loop_timer timer = { .due = quit };
	struct dial d;
	int fd;

	CHECK(address_parse("127.0.0.1", &list[0]));
	CHECK_OK(loop_new(&o.loop, NULL));
	dial_start(&d, o.loop, list, 1, make_port(true, &fd), done, &o);
	dial_drop(&d);
	dial_drop(&d);
	timer.arg = o.loop;
	loop_set_timer(o.loop, &timer, 20);
	CHECK_OK(loop_run(o.loop, NULL));
	CHECK(o.calls == 0);
	loop_free(o.loop);
	close(fd);
}

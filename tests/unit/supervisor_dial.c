/* supervisor_dial.c - cloister-publish, which may be compromised, asks for connections into the cell. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/port/port.h"
#include "ipc/init_channel.h"
#include "ipc/publish_channel.h"
#include "proc/supervisor/supervisor.h"
#include "test.h"

/* The walls are their port. */
static struct port *
port_of(const struct walls *w)
{
	return (struct port *)(uintptr_t)w;
}

static int
ask(struct supervisor *sv, uint32_t type, const uint32_t *fields, size_t n)
{
	OWN(ipc_message_free) struct ipc_message message = { .type = type };

	buf_init(&message.body, 64);
	for (size_t i = 0; i < n; i++)
		buf_put_u32(&message.body, fields[i]);
	return supervisor_take_dial(sv, &message);
}

TEST(supervisor_dials_published_ports_alone)
{
	static const struct boundary boundary = { .port = port_of };
	static const struct { uint32_t type, fields[3]; size_t n; int want; } cases[] = {
		{ PUBLISH_CONNECT, { 1, 8000 }, 2, 0 },
		{ PUBLISH_CONNECT, { 1, 8001 }, 2, 0 },
		{ PUBLISH_CONNECT, { 1, 8002 }, 2, -EBADMSG },
		{ PUBLISH_CONNECT, { 1, 18000 }, 2, -EBADMSG },                 /* the host's */
		{ PUBLISH_CONNECT, { 1, 8000 | 1u << 16 }, 2, -EBADMSG },
		{ PUBLISH_CONNECT, { 1, 0 }, 2, -EBADMSG },
		{ PUBLISH_CONNECT, { 1, 8000, 0 }, 3, -EBADMSG },
		{ PUBLISH_CONNECT, { 1 }, 1, -EBADMSG },
		{ PUBLISH_CONNECTED, { 1, 0 }, 2, -EBADMSG },
	};
	static struct supervisor sv = { .spec = { .n_ports = 2, .ports = { { 8000, 18000 }, { 8001, 18001 } } } };
	OWN(loop_freep) struct loop *loop = NULL;
	OWN(buf_free) struct buf ready;
	struct port *port = NULL;
	int ends[2];

	ipc_begin(&ready, INIT_READY);
	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	CHECK_OK(ipc_write(ends[1], &ready, NULL));
	CHECK_OK(loop_new(&loop, NULL));
	CHECK_OK(port_by_stream(loop, ends[0], 0, &port, NULL));
	sv.boundary = &boundary;
	sv.walls = (struct walls *)port;
	sv.dials.fd = -1;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK(ask(&sv, cases[i].type, cases[i].fields, cases[i].n) == cases[i].want);
	port_free(port);
	close(ends[1]);
}

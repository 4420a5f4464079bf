/* boundary_port.c - tests of boundary/port against an init that keeps the rules, and one that does not. */
#include "boundary/port/port.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/io.h"
#include "boundary/boundary.h"
#include "ipc/courier_channel.h"
#include "ipc/init_channel.h"
#include "ipc/ipc.h"
#include "ipc/mux.h"
#include "loop/loop.h"
#include "test.h"

struct seen {
	struct loop *loop;
	unsigned broken;
	uint32_t handle, error, exited, status;
	bool ended_first;               /* the output had ended when the exit was reported */
	int output;
	struct port *starts;            /* the exit of process 7 starts process 8; NULL: it does not */
	uint32_t number, refused;       /* the last connection, and why there is none */
	int connection;
	uint64_t killed;
	bool full;
	unsigned held;
};

static void
start_process(struct port *port, uint32_t handle, int *ret_output)
{
	OWN(buf_free) struct buf spawn;
	int in[2], out[2];

	ipc_begin(&spawn, INIT_SPAWN);
	buf_put_u32(&spawn, handle);
	CHECK_OK(pipe2(in, O_CLOEXEC));
	CHECK_OK(pipe2(out, O_CLOEXEC));
	CHECK_OK(port_start(port, &spawn, (const int[]){ in[0], out[1], out[1] }, 3, NULL));
	close(in[0]);
	close(in[1]);
	close(out[1]);
	*ret_output = out[0];
}

static int
started(void *arg, uint32_t handle, uint32_t error, int terminal)
{
	struct seen *seen = arg;

	CHECK(terminal < 0);
	seen->handle = handle;
	seen->error = error;
	return 0;
}

static int
exited(void *arg, uint32_t handle, uint32_t status)
{
	struct seen *seen = arg;
	char text[16] = "";

	seen->exited = handle;
	seen->status = status;
	loop_quit(seen->loop);
	if (seen->starts != NULL && handle == 7) {
		close(seen->output);
		start_process(seen->starts, 8, &seen->output);
	}
	if (seen->starts != NULL)
		return 0;
	seen->ended_first = read(seen->output, text, sizeof(text)) == 5 && strcmp(text, "words") == 0;
	return 0;
}

static void
connected(void *arg, uint32_t number, uint32_t error, int fd)
{
	struct seen *seen = arg;

	CHECK((error == 0) == (fd >= 0));
	seen->number = number;
	seen->refused = error;
	seen->connection = fd;
	loop_quit(seen->loop);
}

static void
limits(void *arg, uint64_t killed, bool full)
{
	struct seen *seen = arg;

	seen->killed = killed;
	seen->full = full;
}

static void
broken(void *arg)
{
	struct seen *seen = arg;

	seen->broken++;
	loop_quit(seen->loop);
}

static void
held(void *arg)
{
	struct seen *seen = arg;

	seen->held++;
	loop_quit(seen->loop);
}

static void
finished(void *arg)
{
	(void)arg;
}

static const struct port_handler handler = { started, exited, connected, limits, held, broken, finished };

static void
put_first(int fd, const struct buf *message)
{
	uint32_t len = htole32((uint32_t)message->len);

	CHECK_OK(write_all(fd, &len, sizeof(len), NULL));
	CHECK_OK(write_all(fd, message->data, message->len, NULL));
}

static void
put_frame(int fd, uint32_t id, uint32_t type, const void *body, uint32_t len)
{
	const uint32_t header[] = { htole32(id), htole32(type), htole32(len) };

	CHECK_OK(write_all(fd, header, sizeof(header), NULL));
	CHECK_OK(write_all(fd, body, len, NULL));
}

/* A port whose other end is *ret_peer, and process 7 behind it, whose output is SEEN->output. */
static struct port *
open_port(struct seen *seen, int *ret_peer)
{
	OWN(buf_free) struct buf ready;
	struct port *port = NULL;
	int ends[2];

	ipc_begin(&ready, INIT_READY);
	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	CHECK_OK(loop_new(&seen->loop, NULL));
	put_first(ends[1], &ready);
	CHECK_OK(port_by_stream(seen->loop, ends[0], 0, &port, NULL));
	CHECK_OK(port_watch(port, &handler, seen, NULL));
	start_process(port, 7, &seen->output);
	*ret_peer = ends[1];
	return port;
}

TEST(port_stream_explains_why_init_is_not_ready)
{
	OWN(loop_freep) struct loop *loop = NULL;
	OWN(buf_free) struct buf failed;
	struct port *port = NULL;
	struct err err = {0};
	int ends[2];

	ipc_begin(&failed, INIT_FAILED);
	buf_put_u32(&failed, EPERM);
	buf_put_str(&failed, "no filter");
	CHECK_OK(loop_new(&loop, NULL));
	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	put_first(ends[1], &failed);
	CHECK_ERR(port_by_stream(loop, ends[0], 0, &port, &err), EPERM);
	CHECK_STR(err.text, "no filter");
	close(ends[1]);
	CHECK_ERR(port_by_stream(loop, ends[0], 0, &port, &err), EPIPE);
	close(ends[0]);
}

TEST(port_stream_reports_an_exit_behind_the_output)
{
	const uint32_t runs[] = { htole32(7), 0, htole32(2) }, ended[] = { htole32(7), htole32(0x300) };
	struct seen seen = {0};
	int peer;
	struct port *port = open_port(&seen, &peer);

	put_frame(peer, 0, INIT_FRAME(INIT_SPAWNED), runs, sizeof(runs));
	put_frame(peer, 1, 1, "words", 5);
	put_frame(peer, 0, INIT_FRAME(INIT_EXITED), ended, sizeof(ended));
	CHECK_OK(loop_run(seen.loop, NULL));
	CHECK(seen.handle == 7 && seen.error == 0 && seen.broken == 0);
	CHECK(seen.exited == 7 && seen.status == 0x300 && seen.ended_first);
	port_free(port);
	close(peer);
	close(seen.output);
	loop_free(seen.loop);
}

/* The list of processes changes while the exit is reported. */
TEST(port_stream_starts_a_process_at_an_exit)
{
	const uint32_t runs[][3] = { { htole32(7), 0, htole32(2) }, { htole32(8), 0, htole32(2) } };
	const uint32_t ended[][2] = { { htole32(7), 0 }, { htole32(8), htole32(0x200) } };
	struct seen seen = {0};
	int peer;

	seen.starts = open_port(&seen, &peer);
	/* All its streams have ended, so that it is freed with its exit. */
	put_frame(peer, 0, INIT_FRAME(INIT_SPAWNED), runs[0], sizeof(runs[0]));
	put_frame(peer, 1, INIT_FRAME(INIT_END), "", 0);
	put_frame(peer, 1, INIT_FRAME(INIT_SHUT), "", 0);
	put_frame(peer, 0, INIT_FRAME(INIT_EXITED), ended[0], sizeof(ended[0]));
	CHECK_OK(loop_run(seen.loop, NULL));
	CHECK(seen.exited == 7 && seen.broken == 0);
	put_frame(peer, 0, INIT_FRAME(INIT_SPAWNED), runs[1], sizeof(runs[1]));
	put_frame(peer, 0, INIT_FRAME(INIT_EXITED), ended[1], sizeof(ended[1]));
	CHECK_OK(loop_run(seen.loop, NULL));
	CHECK(seen.broken == 0 && seen.handle == 8 && seen.exited == 8 && seen.status == 0x200);
	port_free(seen.starts);
	close(peer);
	close(seen.output);
	loop_free(seen.loop);
}

TEST(port_stream_breaks_at_anything_else)
{
	static const struct { uint32_t id, type; const char *body; uint32_t len; } cases[] = {
		{ 0, INIT_FRAME(INIT_SPAWN), "", 0 },                           /* not init's to send */
		{ 0, INIT_FRAME(INIT_SPAWNED), "\x08\0\0\0\0\0\0\0\0\0\0\0", 12 },      /* an unknown process */
		{ 0, INIT_FRAME(INIT_SPAWNED), "\x07\0\0\0\0\x10\0\0\0\0\0\0", 12 },    /* no errno */
		{ 0, INIT_FRAME(INIT_SPAWNED), "\x07\0\0\0", 4 },
		{ 0, INIT_FRAME(INIT_EXITED), "\x07\0\0\0\0\0\x01\0", 8 },      /* no status */
		{ 0, INIT_FRAME(INIT_EXITED), "\x08\0\0\0\0\0\0\0", 8 },
		{ 0, INIT_FRAME(INIT_END), "", 0 },                             /* on no stream */
		{ 1, INIT_FRAME(INIT_END), "x", 1 },
		{ 0, INIT_FRAME(INIT_HELD), "", 0 },                            /* nobody asked for it */
		{ 0, INIT_FRAME(99), "", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct seen seen = {0};
		int peer;
		struct port *port = open_port(&seen, &peer);

		put_frame(peer, cases[i].id, cases[i].type, cases[i].body, cases[i].len);
		CHECK_OK(loop_run(seen.loop, NULL));
		CHECK(seen.broken == 1);
		port_free(port);
		close(peer);
		close(seen.output);
		loop_free(seen.loop);
	}
}

/* ---- the end ---- */

static void
check_over(const void *body, uint32_t len, bool is_right)
{
	struct seen seen = {0};
	int peer;
	struct port *port = open_port(&seen, &peer);

	put_frame(peer, 0, INIT_FRAME(INIT_OVER), body, len);
	while (seen.broken == 0 && seen.killed == 0)
		CHECK_OK(loop_turn(seen.loop, NULL));
	CHECK((seen.broken == 0) == is_right);
	CHECK((seen.killed == 3 && seen.full) == is_right);
	port_free(port);
	close(peer);
	close(seen.output);
	loop_free(seen.loop);
}

TEST(port_stream_reports_the_limits_that_a_guest_reached)
{
	static const unsigned char right[] = { 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0 };
	static const unsigned char neither[] = { 3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0 };

	check_over(right, 12, true);
	check_over(right, 11, false);
	check_over(right, 13, false);
	check_over(neither, 12, false);
	check_over("", 0, false);
}

/* ---- standing still ---- */

/* Nothing follows the request to hold still, until the port is released. */
TEST(port_stream_holds_still)
{
	struct { uint32_t zero, header[3], handle, number; } after = { .zero = 1 };
	struct seen seen = {0};
	uint32_t header[3] = {0};
	char rest[MUX_FRAME_MAX];
	int peer;
	struct port *port = open_port(&seen, &peer);

	CHECK_OK(port_hold(port, NULL));
	port_signal(port, 7, 15);
	while (le32toh(header[1]) != INIT_FRAME(INIT_HOLD)) {
		CHECK_OK(read_exactly(peer, header, sizeof(header), NULL));
		CHECK_OK(read_exactly(peer, rest, le32toh(header[2]), NULL));
	}
	put_frame(peer, 0, INIT_FRAME(INIT_HELD), "", 0);
	CHECK_OK(loop_run(seen.loop, NULL));
	CHECK(seen.held == 1 && recv(peer, rest, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	port_release(port);
	CHECK_OK(read_exactly(peer, &after, sizeof(after), NULL));
	CHECK(after.zero == 0 && le32toh(after.header[1]) == INIT_FRAME(INIT_SIGNAL) && le32toh(after.handle) == 7);
	/* A second answer breaks the rules. */
	put_frame(peer, 0, INIT_FRAME(INIT_HELD), "", 0);
	CHECK_OK(loop_run(seen.loop, NULL));
	CHECK(seen.held == 1 && seen.broken == 1);
	port_free(port);
	close(peer);
	close(seen.output);
	loop_free(seen.loop);
}

/* ---- connections ---- */

/* Reads frames until one of TYPE comes; returns its stream, or the first word of its body for a message.
 * BODY has room for MUX_FRAME_MAX. */
static uint32_t
await_frame(int fd, uint32_t type, char *body)
{
	uint32_t header[3], id;

	do {
		CHECK_OK(read_exactly(fd, header, sizeof(header), NULL));
		CHECK(le32toh(header[2]) <= MUX_FRAME_MAX);
		CHECK_OK(read_exactly(fd, body, le32toh(header[2]), NULL));
	} while (le32toh(header[1]) != type);
	memcpy(&id, header[0] == 0 ? (const void *)body : &header[0], sizeof(id));
	return le32toh(id);
}

static void
put_connected(int fd, uint32_t id, uint32_t error)
{
	const uint32_t body[] = { htole32(id), htole32(error) };

	put_frame(fd, 0, INIT_FRAME(INIT_CONNECTED), body, sizeof(body));
}

static void
close_port(struct seen *seen, struct port *port, int peer)
{
	port_free(port);
	close(peer);
	close(seen->output);
	loop_free(seen->loop);
}

/* Turns the loop for as long as there is something to do. */
static void
turn(struct seen *seen)
{
	struct pollfd p = { .fd = loop_fd(seen->loop), .events = POLLIN };

	while (poll(&p, 1, 0) == 1)
		CHECK_OK(loop_turn(seen->loop, NULL));
}

TEST(port_stream_carries_a_connection)
{
	static char body[MUX_FRAME_MAX];
	struct seen seen = {0};
	uint32_t id, to;
	int peer;
	struct port *port = open_port(&seen, &peer);

	CHECK(port_carries(port));
	CHECK_OK(port_connect(port, 33, 8000, NULL));
	id = await_frame(peer, INIT_FRAME(INIT_CONNECT), body);
	memcpy(&to, body + 4, sizeof(to));
	CHECK(id > 1 && le32toh(to) == 8000);
	put_connected(peer, id, 0);
	put_frame(peer, id, MUX_DATA, "words", 5);
	put_frame(peer, id, INIT_FRAME(INIT_END), "", 0);
	CHECK_OK(loop_run(seen.loop, NULL));
	CHECK(seen.broken == 0 && seen.number == 33 && seen.refused == 0);
	turn(&seen);
	CHECK(read(seen.connection, body, sizeof(body)) == 5 && memcmp(body, "words", 5) == 0);
	/* Its end, and the way back is still open. */
	CHECK(read(seen.connection, body, sizeof(body)) == 0);
	CHECK(write(seen.connection, "answer", 6) == 6);
	CHECK_OK(shutdown(seen.connection, SHUT_WR));
	turn(&seen);
	CHECK(await_frame(peer, MUX_DATA, body) == id && memcmp(body, "answer", 6) == 0);
	CHECK(await_frame(peer, INIT_FRAME(INIT_END), body) == id);
	close(seen.connection);
	close_port(&seen, port, peer);
}

TEST(port_stream_reports_that_nobody_listens)
{
	static char body[MUX_FRAME_MAX];
	struct seen seen = {0};
	int peer;
	struct port *port = open_port(&seen, &peer);

	CHECK_OK(port_connect(port, 1, 8000, NULL));
	put_connected(peer, await_frame(peer, INIT_FRAME(INIT_CONNECT), body), ECONNREFUSED);
	CHECK_OK(loop_run(seen.loop, NULL));
	CHECK(seen.broken == 0 && seen.number == 1 && seen.refused == ECONNREFUSED && seen.connection < 0);
	close_port(&seen, port, peer);
}

TEST(port_stream_has_a_limit_on_connections)
{
	static char body[MUX_FRAME_MAX];
	struct seen seen = {0};
	uint32_t id = 0;
	int peer;
	struct port *port = open_port(&seen, &peer);

	for (uint32_t i = 0; i < PORT_CONNECTS_MAX; i++)
		CHECK_OK(port_connect(port, i, 8000, NULL));
	CHECK_ERR(port_connect(port, 1000, 8000, NULL), EAGAIN);
	/* One that could not be made makes room, as does one that is over. */
	for (size_t i = 0; i < 2; i++) {
		id = await_frame(peer, INIT_FRAME(INIT_CONNECT), body);
		put_connected(peer, id, i == 0 ? ECONNREFUSED : 0);
		CHECK_OK(loop_run(seen.loop, NULL));
		CHECK(seen.broken == 0);
		if (i == 1) {
			CHECK_ERR(port_connect(port, 1000, 8000, NULL), EAGAIN);
			put_frame(peer, id, INIT_FRAME(INIT_END), "", 0);
			close(seen.connection);
			turn(&seen);
		}
		CHECK_OK(port_connect(port, 1000, 8000, NULL));
		CHECK_ERR(port_connect(port, 1001, 8000, NULL), EAGAIN);
	}
	close_port(&seen, port, peer);
}

/* A client that init accepts goes to the gate.  Init is asked for the next one only while there is room. */
TEST(port_stream_accepts_clients)
{
	static char body[MUX_FRAME_MAX];
	struct seen seen = {0};
	uint32_t ids[PORT_CLIENTS_MAX];
	int peer, gate[2], clients[PORT_CLIENTS_MAX];
	struct port *port = open_port(&seen, &peer);

	CHECK_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, gate));
	port_accept(port, gate[1]);
	for (size_t i = 0; i < PORT_CLIENTS_MAX; i++) {
		OWN(ipc_message_free) struct ipc_message message = {0};

		ids[i] = await_frame(peer, INIT_FRAME(INIT_ACCEPT), body);
		put_connected(peer, ids[i], 0);
		turn(&seen);
		CHECK_OK(ipc_receive(gate[0], &message, NULL));
		CHECK(message.type == GATE_CLIENT && message.n_fds == 1);
		clients[i] = ipc_take_fd(&message, 0);
	}
	CHECK(recv(peer, body, sizeof(body), MSG_DONTWAIT) < 0 && errno == EAGAIN);
	/* The first one goes. */
	CHECK(write(clients[0], "bye", 3) == 3);
	close(clients[0]);
	put_frame(peer, ids[0], INIT_FRAME(INIT_END), "", 0);
	turn(&seen);
	CHECK(await_frame(peer, MUX_DATA, body) == ids[0] && memcmp(body, "bye", 3) == 0);
	CHECK(await_frame(peer, INIT_FRAME(INIT_ACCEPT), body) > ids[PORT_CLIENTS_MAX - 1]);
	CHECK(seen.broken == 0);
	for (size_t i = 1; i < PORT_CLIENTS_MAX; i++)
		close(clients[i]);
	close(gate[0]);
	close_port(&seen, port, peer);
}

/* Init opens no stream, and uses none before it has said that it is joined. */
TEST(port_stream_breaks_at_other_connections)
{
	static const struct { uint32_t id, type; const char *body; uint32_t len; } cases[] = {
		{ 0, INIT_FRAME(INIT_CONNECT), "\x09\0\0\0\x50\0\0\0", 8 },   /* not init's to send */
		{ 0, INIT_FRAME(INIT_ACCEPT), "\x09\0\0\0", 4 },
		{ 0, INIT_FRAME(INIT_CONNECTED), "\x09\0\0\0\0\0\0\0", 8 },   /* an unknown stream */
		{ 0, INIT_FRAME(INIT_CONNECTED), "\x01\0\0\0\0\0\0\0", 8 },   /* a process's */
		{ 0, INIT_FRAME(INIT_CONNECTED), "\x02\0\0\0\0\x10\0\0", 8 }, /* no errno */
		{ 0, INIT_FRAME(INIT_CONNECTED), "\x02\0\0\0", 4 },
		{ 0, INIT_FRAME(INIT_CONNECTED), "\x02\0\0\0\0\0\0\0\0", 9 },
		{ 2, MUX_DATA, "words", 5 },                                    /* not joined yet */
		{ 2, INIT_FRAME(INIT_END), "", 0 },
		{ 2, INIT_FRAME(INIT_SHUT), "", 0 },
		{ 3, MUX_DATA, "words", 5 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct seen seen = {0};
		int peer, gate[2];
		struct port *port = open_port(&seen, &peer);

		CHECK_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, gate));
		CHECK_OK(port_connect(port, 1, 8000, NULL));
		port_accept(port, gate[1]);
		put_frame(peer, cases[i].id, cases[i].type, cases[i].body, cases[i].len);
		CHECK_OK(loop_run(seen.loop, NULL));
		CHECK(seen.broken == 1);
		close(gate[0]);
		close_port(&seen, port, peer);
	}
}

/* The answer is given once. */
TEST(port_stream_breaks_at_a_second_answer)
{
	static char body[MUX_FRAME_MAX];
	struct seen seen = {0};
	uint32_t id;
	int peer;
	struct port *port = open_port(&seen, &peer);

	CHECK_OK(port_connect(port, 1, 8000, NULL));
	id = await_frame(peer, INIT_FRAME(INIT_CONNECT), body);
	put_connected(peer, id, 0);
	CHECK_OK(loop_run(seen.loop, NULL));
	CHECK(seen.broken == 0 && seen.connection >= 0);
	put_connected(peer, id, 0);
	CHECK_OK(loop_run(seen.loop, NULL));
	CHECK(seen.broken == 1);
	close(seen.connection);
	close_port(&seen, port, peer);
}

TEST(boundary_names_are_listed)
{
	struct err err = {0};

	CHECK_OK(policy_boundary_check_name(BOUNDARY_DEFAULT, NULL));
	CHECK(boundary_find("", NULL) == &boundary_namespace && boundary_find("namespace", NULL) == &boundary_namespace);
	CHECK(boundary_find("cardboard", &err) == NULL);
	CHECK_STR(err.text, "there is no boundary 'cardboard': use namespace, oci, gvisor, microvm, docker or process");
}

/* boundary_microvm.c - tests of boundary/microvm: requests to a monitor, and the bytes of a guest's port. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "boundary/microvm/vm.h"
#include "boundary/microvm/vm_api.h"
#include "test.h"

#define SOME ((size_t)3 << 20)

static const struct {
	const char *answer;
	int want;
	const char *text;               /* in the error */
} api_cases[] = {
	{ "HTTP/1.1 204 No Content\r\n\r\n", 0, "" },
	{ "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 0, "" },
	{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 0, "" },
	{ "HTTP/1.1 400 Bad Request\r\nContent-Length: 9\r\n\r\n[\"no\x1b\n.\"]", EIO, "M refused /x (400): [\"no  .\"]" },
	{ "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", EIO, "M refused /x (404): no reason was given" },
	{ "HTTP/1.1 301 Moved\r\nContent-Length: 0\r\n\r\n", EIO, "(301)" },
	{ "{\"QMP\": {}}\r\n\r\n", EBADMSG, "M does not answer in HTTP" },
	{ "HTTP/1.1 204 No Content\r\n", EPIPE, "ended" },
	{ "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", EPIPE, "ended" },
	{ "", EPIPE, "ended" },
};

/* The monitor's answer is there before it is asked, byte by byte or at once. */
static void
check_answer(const char *answer, int want, const char *text)
{
	struct err err = {0};
	int ends[2], r;

	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	CHECK_OK(write_all(ends[1], answer, strlen(answer), &err));
	CHECK_OK(shutdown(ends[1], SHUT_WR));
	r = vm_api_ask(&(struct vm_control){ .fd = ends[0] }, "M", "PUT", "/x", NULL, -1, &err);
	if (r != -want || strstr(err.text, text) == NULL)
		test_fail(__FILE__, __LINE__, "%d, \"%s\" for \"%s\"", r, err.text, answer);
	close(ends[0]);
	close(ends[1]);
}

TEST(vm_api_answers)
{
	for (size_t i = 0; i < ARRAY_LEN(api_cases); i++)
		check_answer(api_cases[i].answer, api_cases[i].want, api_cases[i].text);
}

TEST(vm_api_long_reasons_are_cut)
{
	OWN(freep) char *body = malloc(100001);
	OWN(freep) char *answer = NULL;

	memset(body, 'x', 100000);
	body[100000] = '\0';
	answer = str_format("HTTP/1.1 500 Oh\r\nContent-Length: 100000\r\n\r\n%s", body);
	check_answer(answer, EIO, "(500): xxx");
}

TEST(vm_api_request)
{
	OWN(vm_body_free) struct vm_body body = {0};
	char text[512] = "";
	int ends[2];

	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	CHECK_OK(vm_body_begin(&body, NULL));
	json_u64(&body.json, "n", 1);
	CHECK(write(ends[1], "HTTP/1.1 204 X\r\n\r\n", 18) == 18);
	CHECK_OK(vm_api_ask(&(struct vm_control){ .fd = ends[0] }, "M", "PUT", "/x", &body, -1, NULL));
	CHECK(read(ends[1], text, sizeof(text) - 1) > 0);
	CHECK_STR(text, "PUT /x HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n"
	          "Content-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"n\":1}");
}

static void
send_some(int fd, unsigned char first)
{
	unsigned char bytes[1000];

	for (size_t sent = 0; sent < SOME; sent += sizeof(bytes)) {
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (unsigned char)(first + (sent + i) % 251);
		if (write_all(fd, bytes, sizeof(bytes), NULL) < 0)
			_exit(1);
	}
}

static pid_t
start_writer(int fd, unsigned char first)
{
	pid_t pid = fork();

	if (pid == 0) {
		send_some(fd, first);
		_exit(0);
	}
	return pid;
}

static void
receive_some(int fd, unsigned char first)
{
	unsigned char bytes[1000];

	for (size_t got = 0; got < SOME; got += sizeof(bytes)) {
		CHECK_OK(read_exactly(fd, bytes, sizeof(bytes), NULL));
		for (size_t i = 0; i < sizeof(bytes); i++)
			CHECK(bytes[i] == (unsigned char)(first + (got + i) % 251));
	}
}

static pid_t
start_relay(int listener, int stream, int other)
{
	pid_t pid = fork();

	if (pid == 0) {
		close(other);
		_exit(vm_relay(listener, stream, NULL) < 0);
	}
	return pid;
}

static int
connect_guest(const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int guest = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	CHECK_OK(connect(guest, (struct sockaddr *)&at, sizeof(at)));
	return guest;
}

/* As much as everything on the way takes. */
static size_t
fill(int fd)
{
	struct pollfd wait = { fd, POLLOUT, 0 };
	static const char bytes[4096];
	size_t sent = 0;

	while (poll(&wait, 1, 100) == 1) {
		ssize_t n = send(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

		sent += n > 0 ? (size_t)n : 0;
	}
	return sent;
}

/* A guest that ends has still sent what nobody has read yet, also if somebody writes to it meanwhile. */
TEST(vm_relay_passes_last_bytes_on)
{
	OWN(freep) char *path = str_format("%s/port", test_dir());
	int ends[2], listener, guest, status;
	char bytes[4096];
	size_t sent, got = 0;
	pid_t relay;

	CHECK_OK(vm_listen(path, &listener, NULL));
	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	relay = start_relay(listener, ends[1], ends[0]);
	close(ends[1]);
	guest = connect_guest(path);
	sent = fill(guest);
	close(guest);
	CHECK_OK(write_all(ends[0], "unread", 6, NULL));
	for (ssize_t n; (n = read(ends[0], bytes, sizeof(bytes))) > 0;)
		got += (size_t)n;
	CHECK_U64(got, sent);
	CHECK(waitpid(relay, &status, 0) == relay && status == 0);
}

/* Both sides send a lot at the same time. */
TEST(vm_relay_carries_both_ways)
{
	OWN(freep) char *path = str_format("%s/port", test_dir());
	int ends[2], listener, guest, status;
	pid_t relay, writers[2];
	char byte;

	CHECK_OK(vm_listen(path, &listener, NULL));
	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	relay = start_relay(listener, ends[1], ends[0]);
	close(ends[1]);
	guest = connect_guest(path);
	writers[0] = start_writer(guest, 7);
	writers[1] = start_writer(ends[0], 9);
	receive_some(guest, 9);
	close(guest);
	receive_some(ends[0], 7);
	CHECK(read(ends[0], &byte, 1) == 0);
	CHECK(waitpid(relay, &status, 0) == relay && status == 0);
	for (size_t i = 0; i < ARRAY_LEN(writers); i++)
		CHECK(waitpid(writers[i], &status, 0) == writers[i] && status == 0);
}

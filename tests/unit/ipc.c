/* ipc.c - tests of ipc/ipc. */
#include "ipc/ipc.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "test.h"

struct pair {
	int ends[2];
};

static struct pair
make_pair(void)
{
	struct pair p;

	CHECK_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p.ends));
	return p;
}

static void
close_pair(struct pair *p)
{
	closep(&p->ends[0]);
	closep(&p->ends[1]);
}

TEST(ipc_message_with_descriptors)
{
	OWN(close_pair) struct pair p = make_pair();
	OWN(buf_free) struct buf out;
	OWN(ipc_message_free) struct ipc_message in = {0};
	OWN(closep) int taken = -1;
	int pipe_ends[2];
	const char *s;
	char byte;

	CHECK_OK(pipe(pipe_ends));
	ipc_begin(&out, 7);
	buf_put_str(&out, "hello");
	CHECK_OK(ipc_send(p.ends[0], &out, pipe_ends, 2, NULL));
	CHECK_OK(ipc_receive(p.ends[1], &in, NULL));
	CHECK(in.type == 7 && in.n_fds == 2);
	CHECK_OK(buf_get_str(&in.body, &s));
	CHECK_STR(s, "hello");
	CHECK(buf_left(&in.body) == 0);
	CHECK((fcntl(in.fds[0], F_GETFD) & FD_CLOEXEC) != 0);
	CHECK(write(pipe_ends[1], "x", 1) == 1);
	taken = ipc_take_fd(&in, 0);
	CHECK(taken >= 0 && in.fds[0] == -1 && ipc_take_fd(&in, 2) == -1);
	CHECK(read(taken, &byte, 1) == 1 && byte == 'x');
	close(pipe_ends[0]);
	close(pipe_ends[1]);
}

TEST(ipc_end_and_nothing_yet)
{
	OWN(close_pair) struct pair p = make_pair();
	struct ipc_message in = {0};

	CHECK_OK(fcntl(p.ends[1], F_SETFL, O_NONBLOCK));
	CHECK_ERR(ipc_receive(p.ends[1], &in, NULL), EAGAIN);
	close(p.ends[0]);
	p.ends[0] = -1;
	CHECK_ERR(ipc_receive(p.ends[1], &in, NULL), EPIPE);
}

/* The last words of a process that did not listen. */
TEST(ipc_last_words_are_heard)
{
	OWN(close_pair) struct pair p = make_pair();
	OWN(ipc_message_free) struct ipc_message in = {0};
	OWN(buf_free) struct buf out;

	ipc_begin(&out, 5);
	CHECK_OK(ipc_send(p.ends[0], &out, NULL, 0, NULL));
	CHECK_OK(ipc_send(p.ends[1], &out, NULL, 0, NULL));
	close(p.ends[0]);
	p.ends[0] = -1;
	CHECK_OK(ipc_receive(p.ends[1], &in, NULL));
	CHECK(in.type == 5);
}

TEST(ipc_refuses_malformed_messages)
{
	OWN(close_pair) struct pair p = make_pair();
	OWN(freep) char *big = calloc(1, IPC_MESSAGE_MAX + 1);
	struct ipc_message in = {0};
	OWN(buf_free) struct buf out;

	CHECK(send(p.ends[0], "abc", 3, 0) == 3);
	CHECK_ERR(ipc_receive(p.ends[1], &in, NULL), EBADMSG);
	CHECK(send(p.ends[0], big, IPC_MESSAGE_MAX + 1, 0) == IPC_MESSAGE_MAX + 1);
	CHECK_ERR(ipc_receive(p.ends[1], &in, NULL), EBADMSG);
	CHECK(in.body.data == NULL);
	ipc_begin(&out, 1);
	buf_put(&out, big, IPC_MESSAGE_MAX);
	CHECK_ERR(ipc_send(p.ends[0], &out, NULL, 0, NULL), E2BIG);
}

/* More descriptors than a message may have are not kept open. */
TEST(ipc_too_many_descriptors)
{
	OWN(close_pair) struct pair p = make_pair();
	struct ipc_message in = {0};
	char bytes[CMSG_SPACE(sizeof(int) * 8)] = {0};
	struct iovec iov = { .iov_base = (char[]){ 1, 0, 0, 0 }, .iov_len = 4 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = bytes,
	                      .msg_controllen = sizeof(bytes) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	int before, after, fds[8];

	for (size_t i = 0; i < 8; i++)
		fds[i] = STDIN_FILENO;
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(cmsg), fds, sizeof(fds));
	before = dup(STDIN_FILENO);
	close(before);
	CHECK(sendmsg(p.ends[0], &msg, 0) == 4);
	CHECK_ERR(ipc_receive(p.ends[1], &in, NULL), EBADMSG);
	after = dup(STDIN_FILENO);
	close(after);
	CHECK(before == after);
}

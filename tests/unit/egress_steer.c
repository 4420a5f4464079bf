/* egress_steer.c - tests of egress/steer with a supervisor that reads slowly. */
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "egress_lab.h"
#include "ipc/ipc.h"
#include "test.h"

static struct lab lab;

static void
say(void)
{
	struct buf message;

	ipc_begin(&message, COURIER_WITHDRAW);
	buf_put_u64(&message, 1);
	courier_say(&lab.courier, &message);
}

static void
hear(size_t n)
{
	char data[64];

	/* So that it ends with who speaks. */
	close(lab.supervisor_end);
	close(lab.courier.events.fd);
	while (n > 0 && recv(lab.supervisor, data, sizeof(data), 0) > 0)
		n--;
	_exit(n > 0);
}

/* An agent makes as much of it as it likes: the courier waits, and does not end over it. */
TEST(courier_waits_for_a_supervisor_that_is_behind)
{
	size_t n = 0;
	int status = -1;
	pid_t pid;

	lab_start(&lab, "  - allow: " LAB_HOST ":PORT\n");
	while (lab.courier.steered.n < STEERED_WAITING_MAX) {
		say();
		n++;
	}
	pid = fork();
	if (pid == 0)
		hear(n + 1);
	say();
	CHECK(lab.courier.steered.n < STEERED_WAITING_MAX);
	courier_say_all(&lab.courier);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	lab_end(&lab);
}

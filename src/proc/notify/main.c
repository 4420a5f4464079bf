/* main.c - cloister-notify: sends notifications for one cell.
 *
 * The supervisor starts it with the cell if the operator has a notify.yaml.  It runs until the cell
 * has ended and everything is delivered.  Each delivery is a process of its own, so that one that
 * hangs does not delay the others. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "cell/cell_notify.h"
#include "ipc/ipc.h"
#include "proc/notify/notify.h"

#define WORKERS_MAX 16                  /* at once; beyond them the channel waits */

static const unsigned pauses[NOTIFY_TRIES - 1] = { 1, 5, 20, 60 };       /* in seconds */

/* Reports to people, and to the cell's timeline as long as there is one. */
static void
complain(const char *text)
{
	OWN(buf_free) struct buf message;

	fprintf(stderr, "cloister-notify: %s\n", text);
	ipc_begin(&message, CELL_NOTIFY_FAILED);
	buf_put_str(&message, text);
	(void)ipc_send(CELL_NOTIFY_FD, &message, NULL, 0, NULL);
}

_Noreturn static void
work(const struct notify_target *target, const struct notify_message *message)
{
	struct err err = {0};
	int r = -EIO;

	signal(SIGCHLD, SIG_DFL);
	for (size_t i = 0; r < 0 && r != -ECANCELED && i < NOTIFY_TRIES; i++) {
		if (i > 0)
			sleep(pauses[i - 1]);
		r = notify_send(target, message, &err);
	}
	if (r < 0)
		complain(err.text);
	_exit(r < 0);
}

static void
make_id(char ret_id[NOTIFY_ID_MAX])
{
	unsigned char bytes[12] = {0};
	char digits[2 * sizeof(bytes) + 1];

	if (getrandom(bytes, sizeof(bytes), 0) < 0)
		abort();
	codec_hex(bytes, sizeof(bytes), digits);
	snprintf(ret_id, NOTIFY_ID_MAX, "msg_%s", digits);
}

/* {"type":"ask","timestamp":"...","data":{...}}: the format of Standard Webhooks. */
static void
put_body(struct buf *b, const char *event, const void *data, size_t len)
{
	time_t now = time(NULL);
	char text[128], stamp[32];
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", &tm);
	snprintf(text, sizeof(text), "{\"type\":\"%.32s\",\"timestamp\":\"%s\",\"data\":", event, stamp);
	buf_put_text(b, text);
	buf_put(b, data, len);
	buf_put(b, "}", 1);
}

/* Returns how many processes were started. */
static size_t
tell(const char *event, const void *data, size_t len)
{
	OWN(notify_config_free) struct notify_config config = {0};
	OWN(freep) char *file = cell_notify_file();
	OWN(buf_free) struct buf body = BUF(CELL_NOTIFY_DATA_MAX + 256);
	struct notify_message message = { .event = event };
	struct err err = {0};
	size_t n = 0;
	pid_t pid;

	/* The file may have changed since the last time. */
	if (file == NULL || notify_config_load(file, &config, &err) < 0) {
		complain(file == NULL ? "there is no folder for notify.yaml" : err.text);
		return 0;
	}
	put_body(&body, event, data, len);
	message.body = (char *)body.data;
	message.len = body.len;
	for (size_t i = 0; !buf_failed(&body) && i < config.n; i++) {
		if ((config.targets[i].on & notify_event_bit(event)) == 0)
			continue;
		make_id(message.id);
		pid = fork();
		if (pid == 0)
			work(&config.targets[i], &message);
		n += pid > 0;
	}
	return n;
}

/* False: the supervisor is gone. */
static bool
hear(size_t *workers)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	const char *event;
	uint32_t len;

	if (ipc_receive(CELL_NOTIFY_FD, &message, NULL) < 0)
		return false;
	if (message.type != CELL_NOTIFY || buf_get_str(&message.body, &event) < 0 ||
	    buf_get_u32(&message.body, &len) < 0 || buf_left(&message.body) != len ||
	    len > CELL_NOTIFY_DATA_MAX || notify_event_bit(event) == 0)
		return false;
	*workers += tell(event, message.body.data + message.body.pos, len);
	return true;
}

static void
caught(int number)
{
	(void)number;
}

static void
serve(void)
{
	struct sigaction action = { .sa_handler = caught };
	sigset_t chld, none;
	size_t workers = 0;
	bool open = true;

	sigemptyset(&none);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	sigaction(SIGCHLD, &action, NULL);
	while (open || workers > 0) {
		struct pollfd p = { .fd = open && workers < WORKERS_MAX ? CELL_NOTIFY_FD : -1,
		                    .events = POLLIN };

		if (ppoll(&p, 1, NULL, &none) > 0 && !hear(&workers))
			open = false;
		while (workers > 0 && waitpid(-1, NULL, WNOHANG) > 0)
			workers--;
	}
}

int
main(void)
{
	if (fcntl(CELL_NOTIFY_FD, F_GETFD) < 0) {
		fprintf(stderr, "cloister-notify is started by cloister-supervisor only\n");
		return 125;
	}
	/* A delivery under way is completed, whatever happens to the cell. */
	prctl(PR_SET_PDEATHSIG, 0);
	(void)fcntl(CELL_NOTIFY_FD, F_SETFD, FD_CLOEXEC);
	signal(SIGPIPE, SIG_IGN);
	serve();
	return 0;
}

/* terminal.c - types for the operator, and changes the operator's terminal. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "probe.h"

static int
type(int fd, unsigned long request, const char *text)
{
	for (const char *c = text; *c != '\0'; c++)
		if (syscall(SYS_ioctl, fd, request, c) < 0)
			return -1;
	return 0;
}

/* TEXT: type it as if the operator had, here and on the controlling terminal. */
static int
probe_type(int argc, char **argv)
{
	int fds[] = { 0, 1, 2, open("/dev/tty", O_RDWR | O_CLOEXEC) };
	char line[256];

	(void)argc;
	snprintf(line, sizeof(line), "%s\n", argv[0]);
	report_ready();
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (type(fds[i], TIOCSTI, line) == 0)
			return report_won("TIOCSTI");
		report_lost("TIOCSTI");
		if (type(fds[i], TIOCSTI | 1UL << 32, line) == 0)
			return report_won("TIOCSTI with upper bits");
	}
	return report_lost("TIOCSTI");
}

/* REQUEST (hexadecimal): does the terminal layer answer it? */
static int
probe_request(int argc, char **argv)
{
	char arg[64] = "\n";   /* typed, it is not seen; as a number, it is no line discipline */

	(void)argc;
	if (!isatty(0))
		return report_lost("no terminal");
	report_ready();
	if (reached(syscall(SYS_ioctl, 0, strtoul(argv[0], NULL, 16), arg)))
		return report_won("%s", argv[0]);
	return report_lost(argv[0]);
}

static int
probe_resize(int argc, char **argv)
{
	struct winsize ws = { .ws_row = (unsigned short)atoi(argv[0]), .ws_col = 77 };

	(void)argc;
	report_ready();
	for (int fd = 0; fd < 3; fd++)
		if (ioctl(fd, TIOCSWINSZ, &ws) == 0)
			report_won("fd %d", fd);
	return 0;
}

/* TEXT: write to the terminal of the session one was started in. */
static int
probe_session(int argc, char **argv)
{
	int fd;

	(void)argc;
	report_ready();
	fd = open("/dev/tty", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return report_lost("/dev/tty");
	return put(fd, argv[0]) < 0 ? report_lost("write") : report_won("/dev/tty");
}

const struct probe probes_terminal[] = {
	{ "type",    "TEXT",    probe_type,    1 },
	{ "request", "REQUEST", probe_request, 1 },
	{ "resize",  "ROWS",    probe_resize,  1 },
	{ "session", "TEXT",    probe_session, 1 },
	{ 0 }
};

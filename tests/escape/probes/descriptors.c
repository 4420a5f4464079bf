/* descriptors.c - uses what was left open for it: descriptors, standard input
 * and output, the working directory. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe.h"

static void
use_descriptor(int fd, const struct stat *st)
{
	char text[512];
	int file;
	ssize_t n;

	if (S_ISDIR(st->st_mode)) {
		file = openat(fd, "canary", O_RDONLY | O_CLOEXEC);
		if (file >= 0)
			spill_fd(file, 4096);
	} else if (S_ISREG(st->st_mode)) {
		n = pread(fd, text, sizeof(text) - 1, 0);
		if (n > 0 && write(1, text, (size_t)n) < 0)
			report_lost("stdout");
	} else if (S_ISSOCK(st->st_mode) || S_ISFIFO(st->st_mode)) {
		if (put(fd, probe_nonce) < 0)
			report_lost("send");
	}
}

static int
probe_descriptors(int argc, char **argv)
{
	struct stat st;

	(void)argc, (void)argv;
	report_ready();
	for (int fd = 3; fd < 1024; fd++) {
		if (fstat(fd, &st) < 0)
			continue;
		report_won("fd %d mode %o", fd, st.st_mode);
		use_descriptor(fd, &st);
	}
	return 0;
}

/* TEXT: standard input was opened for reading: write to it all the same. */
static int
probe_stdin_write(int argc, char **argv)
{
	static const int flags[] = { O_WRONLY, O_RDWR, O_WRONLY | O_APPEND };

	(void)argc;
	report_ready();
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		/* A relayed pipe has no reader behind its read end: never wait for one. */
		int fd = open("/proc/self/fd/0", flags[i] | O_NONBLOCK | O_CLOEXEC);

		if (fd >= 0 && put(fd, argv[0]) == 0)
			return report_won("reopened");
	}
	return report_lost("reopen");
}

/* NAME: standard input is a folder of the host. */
static int
probe_stdin_folder(int argc, char **argv)
{
	char path[4096];
	int fd;

	(void)argc;
	report_ready();
	fd = openat(0, argv[0], O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		spill_fd(fd, 4096);
	snprintf(path, sizeof(path), "/proc/self/fd/0/%s", argv[0]);
	spill_path(path);
	if (fchdir(0) == 0)
		spill_path(argv[0]);
	return 0;
}

/* PORT: standard input is a socket of the host's network: point it elsewhere. */
static int
probe_stdin_socket(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[0])) };
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	(void)argc;
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	report_ready();
	if (connect(0, &none, sizeof(none)) < 0)
		report_lost("disconnect");
	if (connect(0, (struct sockaddr *)&to, sizeof(to)) < 0)
		return report_lost("connect");
	return put(0, probe_nonce) < 0 ? report_lost("send") : report_won("connected");
}

/* Standard output goes to a file: read what was in it, then empty it. */
static int
probe_stdout_file(int argc, char **argv)
{
	char text[4096];
	ssize_t n;
	int fd;

	(void)argc, (void)argv;
	report_ready();
	fd = open("/proc/self/fd/1", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		report_lost("reopen");
	else if ((n = read(fd, text, sizeof(text) - 1)) > 0 && write(2, text, (size_t)n) > 0)
		report_won("read");
	if (ftruncate(1, 0) == 0)
		return report_won("emptied");
	return report_lost("ftruncate");
}

/* FILE: by the working directory one was started in. */
static int
probe_cwd(int argc, char **argv)
{
	char cwd[4096], path[8192];

	(void)argc;
	report_ready();
	if (getcwd(cwd, sizeof(cwd)) != NULL)
		puts(cwd);
	fflush(stdout);
	spill_path(argv[0]);
	snprintf(path, sizeof(path), "/proc/self/cwd/%s", argv[0]);
	spill_path(path);
	return 0;
}

static int
probe_environment(int argc, char **argv)
{
	(void)argc, (void)argv;
	report_ready();
	for (char **e = environ; *e != NULL; e++)
		puts(*e);
	fflush(stdout);
	spill_path("/proc/1/environ");
	return 0;
}

const struct probe probes_descriptors[] = {
	{ "descriptors",  "",     probe_descriptors,  0 },
	{ "stdin-write",  "TEXT", probe_stdin_write,  1 },
	{ "stdin-folder", "NAME", probe_stdin_folder, 1 },
	{ "stdin-socket", "PORT", probe_stdin_socket, 1 },
	{ "stdout-file",  "",     probe_stdout_file,  0 },
	{ "cwd",          "FILE", probe_cwd,          1 },
	{ "environment",  "",     probe_environment,  0 },
	{ 0 }
};

/* main.c - picks the probe by its name. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe.h"

static const struct probe *const groups[] = {
	probes_files, probes_proc, probes_namespaces, probes_surface, probes_sockets,
	probes_descriptors, probes_terminal, probes_ipc, probes_resources, probes_exhaust,
	probes_network,
};

const char *probe_nonce;

/* One write per line, so that lines of several processes do not mix. */
static void
report(const char *text)
{
	char line[1024];
	int n = snprintf(line, sizeof(line), "@%s\n", text);

	if (n >= (int)sizeof(line))
		n = sizeof(line) - 1;
	if (write(2, line, (size_t)n) < 0)
		_exit(99);
}

void
report_ready(void)
{
	report("ready");
}

int
report_won(const char *format, ...)
{
	char text[900], line[1000];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	snprintf(line, sizeof(line), "won %s", text);
	report(line);
	return 0;
}

int
report_lost(const char *what)
{
	char line[512];

	snprintf(line, sizeof(line), "lost %s: %s", what, strerror(errno));
	report(line);
	return 1;
}

int
reached(long r)
{
	return r >= 0 || (errno != EPERM && errno != EACCES && errno != ENOSYS);
}

int
put(int fd, const char *text)
{
	return write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

size_t
spill_fd(int fd, size_t limit)
{
	char buf[4096];
	size_t total = 0;
	ssize_t n;

	while (total < limit && (n = read(fd, buf, sizeof(buf))) > 0) {
		if (write(1, buf, (size_t)n) < 0)
			break;
		total += (size_t)n;
	}
	if (total > 0 && write(1, "\n", 1) < 0)
		return 0;
	return total;
}

size_t
spill_path(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	size_t n;

	if (fd < 0) {
		report_lost(path);
		return 0;
	}
	n = spill_fd(fd, 1 << 20);
	close(fd);
	return n;
}

int
hold(void)
{
	unsigned left = HOLD_SECONDS;

	while (left > 0)
		left = sleep(left);
	return 0;
}

static int
run(const struct probe *p, int argc, char **argv)
{
	char line[128];

	if (argc < p->min_args) {
		fprintf(stderr, "usage: probe NONCE %s %s\n", p->name, p->args);
		return 2;
	}
	snprintf(line, sizeof(line), "start %s", probe_nonce);
	report(line);
	return p->run(argc, argv);
}

int
main(int argc, char **argv)
{
	int woken = argc > 2 && strcmp(argv[2], "+wake") == 0;

	if (argc - woken < 3) {
		fprintf(stderr, "usage: probe NONCE [+wake] NAME [ARG...]\n");
		return 2;
	}
	probe_nonce = argv[1];
	/* Who helps the box starts at the first question: they are to be there. */
	if (woken && wake_resolver() < 0)
		return report_lost("no answer from the resolver");
	argc -= woken;
	argv += woken;
	for (size_t g = 0; g < ARRAY_LEN(groups); g++)
		for (const struct probe *p = groups[g]; p->name != NULL; p++)
			if (strcmp(p->name, argv[2]) == 0)
				return run(p, argc - 3, argv + 3);
	fprintf(stderr, "probe: there is no probe '%s'\n", argv[2]);
	return 2;
}

/* supervisor_say.c - prints lines for the user without blocking for long. */
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/text.h"
#include "proc/supervisor/supervisor.h"

#define COMPLAIN_MS 500                 /* how long a line waits for its reader */

void
supervisor_print(const char *text, size_t len)
{
	static int patience_ms = COMPLAIN_MS;
	struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };
	ssize_t n;

	while (len > 0) {
		if (poll(&out, 1, patience_ms) != 1) {
			patience_ms = 0;
			return;
		}
		/* A writable pipe takes this much at once. */
		n = write(STDERR_FILENO, text, len < PIPE_BUF ? len : PIPE_BUF);
		if (n <= 0)
			return;
		text += n;
		len -= (size_t)n;
	}
}

void
supervisor_complain(const char *text)
{
	OWN(freep) char *line = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&line, &len);
	struct termios t;
	/* In raw mode, which the agent may have set, a newline does not return the carriage. */
	bool raw = tcgetattr(STDERR_FILENO, &t) == 0 && (t.c_oflag & OPOST) == 0;

	if (out == NULL)
		return;
	fputs(raw ? "\r\ncloister: " : "cloister: ", out);
	text_print_safe(out, text, strlen(text), false);
	fputs(raw ? "\r\n" : "\n", out);
	if (fclose(out) == 0)
		supervisor_print(line, len);
}

void
supervisor_say(const struct supervisor *sv, const char *fmt, ...)
{
	char line[ERR_TEXT_MAX + 64];
	va_list args;

	if (sv->spec.quiet || sv->spec.detached)
		return;
	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	supervisor_complain(line);
}

uint64_t
supervisor_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

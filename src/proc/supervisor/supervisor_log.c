/* supervisor_log.c - stores a detached cell's output: in its log, or in a file for each stream. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/since.h"
#include "proc/supervisor/supervisor.h"

static int
make_file(const struct supervisor *sv, const char *name, struct err *err)
{
	int fd = openat(sv->state, name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);

	return fd < 0 ? err_errno(err, "cannot make the cell's '%s'", name) : fd;
}

/* The log itself has no times, so that it stays as the agent wrote it. */
static void
note_time(struct supervisor *sv, char stream, uint64_t offset)
{
	uint64_t *last = &sv->times.last_ms[stream == 'o' ? 1 : stream == 'e' ? 2 : 0], now = since_now_ms();
	char line[64];
	int n;

	if (sv->times.n >= CELL_TIMES_MAX || (stream != 'r' && now - *last < CELL_TIMES_STEP_MS))
		return;
	if (sv->times.fd == 0)
		sv->times.fd = make_file(sv, CELL_TIMES, NULL);
	n = snprintf(line, sizeof(line), "%c %" PRIu64 " %" PRIu64 "\n", stream, offset, now);
	if (sv->times.fd > 0 && write_all(sv->times.fd, line, (size_t)n, NULL) == 0)
		sv->times.n++;
	*last = now;
}

/* The file always holds the beginning, without a gap: after the first failure nothing more is
 * written.  The agent goes on. */
static ssize_t
store(struct stream *stream, const unsigned char *data, size_t len)
{
	size_t room = CELL_STREAM_MAX - stream->size, part = len < room ? len : room;

	if (stream->cut)
		return (ssize_t)len;
	note_time(stream->sv, stream == &stream->sv->streams[0] ? 'o' : 'e', stream->size);
	if (stream->fd < 0)
		stream->fd = make_file(stream->sv, stream->name, NULL);
	stream->cut = stream->fd < 0 || write_all(stream->fd, data, part, NULL) < 0 || part < len;
	stream->size += part;
	return (ssize_t)len;
}

/* A full log is rotated, so that a flood of lines costs no more than two logs. */
ssize_t
supervisor_log(struct supervisor *sv, const unsigned char *data, size_t len)
{
	if (sv->spec.streams)
		return store(&sv->streams[0], data, len);
	if (sv->log_size + len > SUPERVISOR_LOG_MAX) {
		closep(&sv->log);
		(void)renameat(sv->state, CELL_LOG, sv->state, CELL_LOG ".1");
		sv->log = openat(sv->state, CELL_LOG, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND |
		                 O_CLOEXEC, 0600);
		sv->log_size = 0;
		note_time(sv, 'r', sv->log_total);
	}
	note_time(sv, 'l', sv->log_total);
	/* A full disk must not stop the agent: output that cannot be stored is lost. */
	if (sv->log >= 0 && write_all(sv->log, data, len, NULL) == 0) {
		sv->log_size += len;
		sv->log_total += len;
	}
	return (ssize_t)len;
}

static ssize_t
log_sink(void *arg, const unsigned char *data, size_t len)
{
	return supervisor_log(arg, data, len);
}

/* The agent's output is stored only after its start was noted: the agent may be quicker than init's
 * report. */
static bool
is_early(const struct supervisor *sv)
{
	return sv->setup.steps >= 0 && !sv->setup.runs && !sv->agent_ran && sv->spawn_error == 0 &&
	       !sv->dead;
}

static ssize_t
stream_sink(void *arg, const unsigned char *data, size_t len)
{
	struct stream *stream = arg;

	if (!is_early(stream->sv))
		return store(stream, data, len);
	errno = EAGAIN;
	return -1;
}

int
supervisor_open_log(struct supervisor *sv, int ret_inside[3], struct err *err)
{
	const struct stdio_sink log = { log_sink, sv };
	const struct stdio_sink streams[] = { { stream_sink, &sv->streams[0] },
	                                      { stream_sink, &sv->streams[1] } };

	sv->streams[0] = (struct stream){ .sv = sv, .name = CELL_STDOUT, .fd = -1 };
	sv->streams[1] = (struct stream){ .sv = sv, .name = CELL_STDERR, .fd = -1 };
	/* The terminal comes once the agent runs. */
	if (sv->spec.tty) {
		ret_inside[0] = ret_inside[1] = ret_inside[2] = -1;
		return 0;
	}
	if (sv->spec.streams)
		return stdio_open_sinks(&sv->stdio, &streams[0], &streams[1], sv->spec.input, ret_inside,
		                        err);
	return stdio_open_sinks(&sv->stdio, &log, NULL, sv->spec.input, ret_inside, err);
}

int
supervisor_make_logs(struct supervisor *sv, struct err *err)
{
	const struct { bool wanted; const char *name; int *fd; } files[] = {
		{ sv->spec.detached && !sv->spec.streams, CELL_LOG, &sv->log },
		{ sv->spec.claim || sv->spec.streams, CELL_STEPS, &sv->setup.steps },
	};

	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (files[i].wanted && (*files[i].fd = make_file(sv, files[i].name, err)) < 0)
			return *files[i].fd;
	return 0;
}

/* dispatcher_tail.c - turns what a cell prints and does into events, as it happens. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "canon/canon.h"
#include "dispatch/dispatcher_parts.h"

#define TAIL_BLOCK 65536
#define STEPS_MAX (1u << 20)

/* Streams that do not exist yet come later. */
static void
open_streams(struct drive *drive)
{
	for (int i = 0; i < TARGET_STREAMS; i++)
		if (drive->streams[i] <= 0)
			drive->streams[i] = drive->dispatcher->target->stream(drive->d.cell, (enum target_stream)i);
}

static uint64_t
stream_size(const struct drive *drive, enum dispatch_stream stream)
{
	struct stat st;

	return drive->streams[stream] <= 0 || fstat(drive->streams[stream], &st) < 0 ? 0 :
	       (uint64_t)st.st_size;
}

/* Up to END. */
static bool
tail_stream(struct drive *drive, enum dispatch_stream stream, uint64_t end)
{
	char data[TAIL_BLOCK];
	uint64_t before = drive->log.output[stream], at = before;
	ssize_t n;

	while (!drive->log.cut[stream] && at < end &&
	       (n = pread(drive->streams[stream], data, end - at < sizeof(data) ? end - at : sizeof(data),
	                  (off_t)at)) > 0) {
		if (dispatch_log_output(&drive->log, stream, data, (size_t)n,
		                        drive->phase != DRIVE_HARVESTS, NULL) < 0 ||
		    drive->log.output[stream] == at)
			break;
		at = drive->log.output[stream];
	}
	return at > before;
}

/* One line of TARGET_STEPS: {"event":"setup.ran",...}. */
static void
tell_step(struct drive *drive, const char *text, size_t len)
{
	OWN(json_decrefp) json_t *line = NULL;
	OWN(freep) char *name = NULL;

	if (canon_read(text, len, &line, NULL) < 0)
		return;
	name = strdup(dispatch_text(line, "event"));
	json_object_set_new(line, "step", json_integer((json_int_t)drive->steps_read));
	if (name != NULL && dispatch_log_put(&drive->log, name, TAKE(line), false, NULL) == 0)
		drive->log.steps = drive->steps_read;
}

static bool
tail_steps(struct drive *drive)
{
	OWN(freep) char *text = NULL;
	bool told = false;
	char *end, *at;
	size_t len;

	if (drive->streams[TARGET_STEPS] <= 0 ||
	    read_whole(drive->streams[TARGET_STEPS], STEPS_MAX, &text, &len, NULL) < 0)
		return false;
	drive->steps_read = 0;
	for (at = text; (end = memchr(at, '\n', len - (size_t)(at - text))) != NULL; at = end + 1) {
		drive->steps_read++;
		if (drive->steps_read <= drive->log.steps)
			continue;
		tell_step(drive, at, (size_t)(end - at));
		told = true;
	}
	return told;
}

void
drive_tail(struct drive *drive)
{
	uint64_t out, errors;
	bool told;

	if (!drive->appeared)
		return;
	open_streams(drive);
	/* Output that arrives while the steps are read must wait: a step may come before it. */
	out = stream_size(drive, DISPATCH_STDOUT);
	errors = stream_size(drive, DISPATCH_STDERR);
	told = tail_steps(drive);
	told = tail_stream(drive, DISPATCH_STDOUT, out) || told;
	told = tail_stream(drive, DISPATCH_STDERR, errors) || told;
	if (told)
		dispatcher_tell(drive);
}

void
drive_tail_close(struct drive *drive)
{
	for (int i = 0; i < TARGET_STREAMS; i++)
		close_fd(&drive->streams[i]);
	drive->appeared = false;
}

void
drive_last_line(struct drive *drive, enum dispatch_stream stream, char ret_line[DISPATCH_REASON_MAX])
{
	char text[DISPATCH_REASON_MAX], *line;
	off_t end = drive->streams[stream] <= 0 ? 0 : lseek(drive->streams[stream], 0, SEEK_END);
	off_t at = end > (off_t)sizeof(text) - 1 ? end - (off_t)sizeof(text) + 1 : 0;
	ssize_t n = end <= 0 ? 0 : pread(drive->streams[stream], text, sizeof(text) - 1, at);

	while (n > 0 && text[n - 1] == '\n')
		n--;
	if (n <= 0)
		return;
	text[n] = '\0';
	line = strrchr(text, '\n');
	snprintf(ret_line, DISPATCH_REASON_MAX, "%s", line != NULL ? line + 1 : text);
}

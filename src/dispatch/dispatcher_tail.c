/* dispatcher_tail.c - turns what a cell prints and does into events, as it happens. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/own.h"
#include "base/utf8.h"
#include "canon/canon.h"
#include "dispatch/dispatcher_parts.h"

#define TAIL_BLOCK 65536
#define STEPS_MAX (1u << 20)
#define SETUP_OUTPUT_MAX 65536          /* bytes of each stream in an event */

/* Streams that do not exist yet come later. */
static void
open_streams(struct drive *drive)
{
	for (int i = 0; i < TARGET_STREAMS; i++)
		if (drive->streams[i] <= 0)
			drive->streams[i] = drive->at->target->stream(drive->d.cell, (enum target_stream)i);
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

/* DATA as text: a byte that is none becomes U+FFFD. */
static json_t *
as_text(const unsigned char *data, size_t len)
{
	OWN(buf_free) struct buf b = BUF(3 * SETUP_OUTPUT_MAX + 1);
	uint32_t code;
	size_t step;

	for (size_t at = 0; at < len; at += step) {
		step = utf8_next((const char *)data + at, len - at, &code);
		if (step == 0 || code == 0) {
			buf_put(&b, "\xef\xbf\xbd", 3);
			step = 1;
		} else {
			buf_put(&b, data + at, step);
		}
	}
	return buf_failed(&b) ? NULL : json_stringn((const char *)b.data, b.len);
}

/* What a setup wrote to STREAM, of which LINE has the place, becomes a member of LINE. */
static void
add_setup_output(struct drive *drive, json_t *line, enum dispatch_stream stream)
{
	static const char *const names[] = { "stdout", "stderr" }, *const from[] = { "stdout_from", "stderr_from" },
	                  *const to[] = { "stdout_to", "stderr_to" }, *const cut[] = { "stdout_cut", "stderr_cut" };
	OWN(freep) unsigned char *data = malloc(SETUP_OUTPUT_MAX);
	off_t at = (off_t)json_integer_value(json_object_get(line, from[stream]));
	off_t end = (off_t)json_integer_value(json_object_get(line, to[stream]));
	size_t len = end - at > SETUP_OUTPUT_MAX ? SETUP_OUTPUT_MAX : (size_t)(end - at);
	ssize_t n = data == NULL || end <= at || drive->streams[stream] <= 0 ? 0 :
	            pread(drive->streams[stream], data, len, at);

	json_object_set_new(line, names[stream], n > 0 ? as_text(data, (size_t)n) : json_string(""));
	if (end - at > SETUP_OUTPUT_MAX)
		json_object_set_new(line, cut[stream], json_true());
	(void)json_object_del(line, from[stream]);
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
	if (strcmp(dispatch_text(line, "event"), "setup.ran") == 0) {
		open_streams(drive);
		add_setup_output(drive, line, DISPATCH_STDOUT);
		add_setup_output(drive, line, DISPATCH_STDERR);
	}
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

static uint64_t
lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
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
	/* No event has the output of both a setup and the agent. */
	told = tail_stream(drive, DISPATCH_STDOUT, lesser(out, drive->log.setup[DISPATCH_STDOUT])) || told;
	told = tail_stream(drive, DISPATCH_STDERR, lesser(errors, drive->log.setup[DISPATCH_STDERR])) || told;
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

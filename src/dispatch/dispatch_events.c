/* dispatch_events.c - the events of a dispatch, line by line, in a file that only grows. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/utf8.h"
#include "canon/canon.h"
#include "dispatch/dispatch_parts.h"
#include "registry/registry.h"

#define OUTPUT_EVENT_MAX 16384          /* bytes of output in one event */
#define END_MAX (2 * DISPATCH_RESULT_MAX)       /* of dispatch.finished */
#define LOG_OUTPUT_MAX (64u << 20)      /* a longer file gets no more output */
#define LOG_MAX (256u << 20)            /* the most that is read back when a dispatch is adopted */

static int
log_open(int folder, const char *id, struct dispatch_log *ret_log, struct err *err)
{
	struct dispatch_log log = {0};

	snprintf(log.id, sizeof(log.id), "%s", id);
	log.fd = openat(folder, DISPATCH_EVENTS_FILE, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC |
	                O_NOFOLLOW, 0600);
	if (log.fd < 0)
		return err_errno(err, "cannot open the events of dispatch %s", id);
	*ret_log = log;
	return 0;
}

void
dispatch_log_close(struct dispatch_log *log)
{
	close_fd(&log->fd);
	json_decref(log->end);
	log->end = NULL;
}

int
dispatch_log_make(int folder, const char *id, struct dispatch_log *ret_log, struct err *err)
{
	OWN(dispatch_log_close) struct dispatch_log log = {0};
	int r = log_open(folder, id, &log, err);
	off_t size = r < 0 ? 0 : lseek(log.fd, 0, SEEK_END);

	if (r < 0 || size != 0)
		return r < 0 ? r : err_set(err, EEXIST, "dispatch %s has events already", id);
	*ret_log = log;
	log = (struct dispatch_log){0};
	return 0;
}

/* ---- reading back ---- */

static void
note_output(struct dispatch_log *log, const json_t *line)
{
	unsigned stream = strcmp(dispatch_text(line, "stream"), "stderr") == 0;
	uint64_t end = (uint64_t)json_integer_value(json_object_get(line, "offset")) +
	               (uint64_t)json_integer_value(json_object_get(line, "size"));

	if (end > log->output[stream])
		log->output[stream] = end;
	log->cut[stream] = log->cut[stream] || json_is_true(json_object_get(line, "cut"));
}

/* A new attempt begins. */
static void
note_boot(struct dispatch_log *log, const json_t *line)
{
	snprintf(log->cell, sizeof(log->cell), "%s", dispatch_text(line, "cell"));
	log->steps = log->output[0] = log->output[1] = log->setup[0] = log->setup[1] = 0;
	log->cut[0] = log->cut[1] = false;
}

static void
note_setup(struct dispatch_log *log, const json_t *line)
{
	log->setup[DISPATCH_STDOUT] = (uint64_t)json_integer_value(json_object_get(line, "stdout_to"));
	log->setup[DISPATCH_STDERR] = (uint64_t)json_integer_value(json_object_get(line, "stderr_to"));
}

/* Takes from a complete line how far the dispatch had come. */
static int
note_line(struct dispatch_log *log, const char *text, size_t len, struct err *err)
{
	OWN(json_decrefp) json_t *line = NULL;
	const char *event;

	if (canon_read(text, len, &line, err) < 0)
		return err_set(err, EBADMSG, "the events of dispatch %s are damaged", log->id);
	log->n = (uint64_t)json_integer_value(json_object_get(line, "n"));
	event = dispatch_text(line, "event");
	json_decref(log->end);
	log->end = NULL;
	if (strcmp(event, "dispatch.finished") == 0) {
		log->end = json_incref(line);
	} else if (strcmp(event, "cell.boot") == 0) {
		note_boot(log, line);
	} else if (json_is_integer(json_object_get(line, "step"))) {
		log->steps = (uint64_t)json_integer_value(json_object_get(line, "step"));
		if (strcmp(event, "setup.ran") == 0)
			note_setup(log, line);
	} else if (strcmp(event, "agent.output") == 0) {
		note_output(log, line);
	}
	return 0;
}

int
dispatch_log_open(const char *id, struct dispatch_log *ret_log, struct err *err)
{
	OWN(dispatch_log_close) struct dispatch_log log = {0};
	OWN(closep) int folder = dispatch_folder(id, true, err);
	OWN(freep) char *text = NULL;
	size_t len = 0, at = 0;
	int r = folder < 0 ? folder : log_open(folder, id, &log, err);

	if (r == 0)
		r = read_file_at(folder, DISPATCH_EVENTS_FILE, LOG_MAX, &text, &len, err);
	while (r == 0 && at < len) {
		const char *end = memchr(text + at, '\n', len - at);

		if (end == NULL)
			break;
		r = note_line(&log, text + at, (size_t)(end - text) - at, err);
		at = (size_t)(end - text) + 1;
	}
	if (r == 0 && at < len && ftruncate(log.fd, (off_t)at) < 0)
		r = err_errno(err, "cannot mend the events of dispatch %s", id);
	if (r < 0)
		return r;
	log.size = at;
	*ret_log = log;
	log = (struct dispatch_log){0};
	return 0;
}

/* ---- writing ---- */

static int
append(struct dispatch_log *log, const struct buf *line, bool sync, struct err *err)
{
	struct stat st;
	int r;

	if (fstat(log->fd, &st) < 0)
		return err_errno(err, "cannot write the events of dispatch %s", log->id);
	r = write_all(log->fd, line->data, line->len, err);
	log->size = (uint64_t)st.st_size + line->len;
	if (r == 0 && sync && fdatasync(log->fd) < 0)
		r = err_errno(err, "cannot write the events of dispatch %s", log->id);
	/* Half a line would corrupt the next one. */
	if (r < 0 && ftruncate(log->fd, st.st_size) < 0)
		return r;
	return r;
}

/* The kind of an event has a name that other dispatchers of agents use too. */
static const char *
kind_of(const char *event, const json_t *line)
{
	if (strcmp(event, "cell.boot") == 0)
		return "worker.boot";
	if (strcmp(event, "setup.ran") != 0)
		return event;
	return strcmp(dispatch_text(line, "path"), DISPATCH_TOOLS) == 0 ? "tools.checked" : "setup-script.ran";
}

/* The members by which others know an event: its kind, and the exit code as `exitCode`. */
static int
put_kind(json_t *line, const char *event)
{
	json_t *code = json_object_get(line, strcmp(event, "setup.ran") == 0 ? "status" : "exit_code");

	if (code != NULL && json_object_set(line, "exitCode", code) < 0)
		return -ENOMEM;
	return json_object_set_new(line, "kind", json_string(kind_of(event, line)));
}

int
dispatch_put_line(struct buf *b, const char *id, uint64_t n, const char *event, json_t *line, struct err *err)
{
	char time[DISPATCH_TIME_MAX];
	int r;

	dispatch_show_time(time, dispatch_now_ms());
	if (json_object_set_new(line, "dispatch", json_string(id)) < 0 ||
	    json_object_set_new(line, "event", json_string(event)) < 0 ||
	    json_object_set_new(line, "n", json_integer((json_int_t)n)) < 0 ||
	    json_object_set_new(line, "time", json_string(time)) < 0 || put_kind(line, event) < 0)
		return err_set(err, ENOMEM, "out of memory");
	r = canon_put(b, line, err);
	buf_put(b, "\n", 1);
	return r == 0 && buf_failed(b) ? err_set(err, E2BIG, "an event of dispatch %s is too large", id) : r;
}

int
dispatch_log_put(struct dispatch_log *log, const char *event, json_t *members, bool sync,
                 struct err *err)
{
	OWN(json_decrefp) json_t *line = members != NULL ? members : json_object();
	OWN(buf_free) struct buf b = BUF(DISPATCH_LINE_MAX);
	int r = line == NULL ? err_set(err, ENOMEM, "out of memory") :
	        dispatch_put_line(&b, log->id, log->n + 1, event, line, err);

	if (r == 0)
		r = append(log, &b, sync, err);
	if (r < 0)
		return r;
	log->n++;
	if (strcmp(event, "cell.boot") == 0)
		note_boot(log, line);
	if (strcmp(event, "setup.ran") == 0)
		note_setup(log, line);
	/* Whatever fails from here on, the dispatch is over, and that is not recorded again. */
	if (strcmp(event, "dispatch.finished") == 0)
		log->end = json_incref(line);
	return 0;
}

/* ---- output ---- */

static json_t *
base64(const void *data, size_t len)
{
	OWN(freep) char *text = malloc(CODEC_BASE64_LEN(len) + 1);

	return text == NULL ? NULL : json_stringn(text, codec_base64(CODEC_BASE64, data, len, text));
}

/* The length of the text in DATA: whole characters, no NUL. */
static size_t
text_len(const char *data, size_t len)
{
	size_t at = 0, step;
	uint32_t code;

	while (at < len && (step = utf8_next(data + at, len - at, &code)) > 0 && code != 0)
		at += step;
	return at;
}

/* Whether DATA is an incomplete character. */
static bool
is_begun(const char *data, size_t len)
{
	unsigned char lead = (unsigned char)data[0];
	size_t whole = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 1;

	for (size_t i = 1; i < len; i++)
		if (((unsigned char)data[i] & 0xc0) != 0x80)
			return false;
	return lead <= 0xf4 && len < whole;
}

int
dispatch_log_output(struct dispatch_log *log, enum dispatch_stream stream, const char *data,
                    size_t len, bool more, struct err *err)
{
	int r = 0;

	while (r == 0 && len > 0 && !log->cut[stream]) {
		size_t part = len < OUTPUT_EVENT_MAX ? len : OUTPUT_EVENT_MAX, text;
		uint64_t room = DISPATCH_EVENTS_OUTPUT_MAX - log->output[stream];
		bool full = log->size >= LOG_OUTPUT_MAX, cut = part >= room || full;
		json_t *event = json_object();

		part = part < room ? part : room;
		text = text_len(data, part);
		/* A character that the end of the part splits waits for its rest. */
		if (text < part && is_begun(data + text, part - text)) {
			if (text == 0 && more) {
				json_decref(event);
				return 0;
			}
			part = text > 0 ? text : part;
			cut = full || (cut && text == 0);
		}
		json_object_set_new(event, "offset", json_integer((json_int_t)log->output[stream]));
		json_object_set_new(event, "size", json_integer((json_int_t)part));
		json_object_set_new(event, "stream",
		                    json_string(stream == DISPATCH_STDOUT ? "stdout" : "stderr"));
		if (text >= part)
			json_object_set_new(event, "text", json_stringn(data, part));
		else
			json_object_set_new(event, "base64", base64(data, part));
		if (cut)
			json_object_set_new(event, "cut", json_true());
		r = dispatch_log_put(log, "agent.output", event, false, err);
		if (r < 0)
			return r;
		log->output[stream] += part;
		log->cut[stream] = cut;
		data += part;
		len -= part;
	}
	return r;
}

/* ---- for others ---- */

json_t *
dispatch_read_end(const char *line, size_t len)
{
	OWN(json_decrefp) json_t *event = NULL;

	return canon_read(line, len, &event, NULL) == 0 && strcmp(dispatch_text(event, "event"), "dispatch.finished") == 0 ?
	       TAKE(event) : NULL;
}

json_t *
dispatch_peek_end(const char *id)
{
	OWN(closep) int folder = dispatch_folder(id, false, NULL);
	OWN(closep) int fd = folder < 0 ? -1 : openat(folder, DISPATCH_EVENTS_FILE, O_RDONLY | O_CLOEXEC |
	                                              O_NOFOLLOW);
	OWN(freep) char *text = malloc(END_MAX);
	const char *line;
	struct stat st;
	ssize_t n;

	if (fd < 0 || text == NULL || fstat(fd, &st) < 0)
		return NULL;
	n = pread(fd, text, END_MAX, st.st_size > END_MAX ? st.st_size - END_MAX : 0);
	if (n < 2 || text[n - 1] != '\n')
		return NULL;
	line = memrchr(text, '\n', (size_t)n - 1);
	line = line != NULL ? line + 1 : text;
	return dispatch_read_end(line, (size_t)(text + n - 1 - line));
}

int
dispatch_open_events(struct registry *reg, const char *id, struct err *err)
{
	OWN(dispatch_free) struct dispatch d = {0};
	OWN(closep) int folder = -1;
	int fd, r = dispatch_get(reg, id, &d, err);

	if (r == 0 && target_pool(d.target) != NULL && (d.away || dispatch_state_is_over(d.state)))
		r = dispatch_mirror(registry_db(reg), d.id, err);
	if (r < 0)
		return r;
	folder = dispatch_folder(d.id, false, err);
	if (folder < 0)
		return folder;
	fd = openat(folder, DISPATCH_EVENTS_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? err_errno(err, "cannot open the events of dispatch %s", d.id) : fd;
}

char *
dispatch_events_path(const char *id, struct err *err)
{
	return dispatch_path(id, DISPATCH_EVENTS_FILE, err);
}

/* dispatch_pool.c - dispatches of a pool: who has which, for how long, and what all machines know of them.
 *
 * A row without a home waits for a worker.  A worker makes its data folder the row's home, and renews this
 * claim; nobody else changes the row meanwhile, and it itself does so only while it is the home.  The times are
 * the database's, so that the machines' clocks do not matter. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "dispatch/dispatch_parts.h"
#include "store/db.h"
#include "target/target.h"

#define NOW "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
#define BACK_MAX 64                     /* in one round */
#define LINES_MAX 256                   /* events in one question */
#define FILE_MAX (256u << 20)           /* of events */
#define PUT_ENOUGH (1u << 20)           /* of events, in one statement */
#define PUT_MAX (PUT_ENOUGH + 2 * DISPATCH_LINE_MAX)

/* ---- events ---- */

static int
last_event(struct db *db, const char *id, uint64_t *ret_n, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, "SELECT coalesce(max(n), 0) FROM events WHERE dispatch = ?", "s", id);

	r = r == 0 ? db_next(&q, err) : r;
	*ret_n = r > 0 ? (uint64_t)db_int(&q, 0) : 0;
	return r < 0 ? r : 0;
}

/* The number of an event's line. */
static uint64_t
number_of(const char *line, size_t len)
{
	OWN(json_decrefp) json_t *event = json_loadb(line, len, 0, NULL);

	return (uint64_t)json_integer_value(json_object_get(event, "n"));
}

/* Puts whole lines of TEXT, until they are PUT_ENOUGH bytes: in one statement, so that many events do not keep others
 * waiting.  *ret_len: how long they are; 0 without any.  Returns how many were new, which is none if HOME is not the
 * row's. */
static int
put_lines(struct db *db, const char *id, const char *home, const char *text, size_t len, size_t *ret_len,
          struct err *err)
{
	OWN(buf_free) struct buf numbers = BUF(PUT_MAX), lines = BUF(PUT_MAX);
	const char *end;
	size_t at = 0;

	while (at < PUT_ENOUGH && (end = memchr(text + at, '\n', len - at)) != NULL) {
		size_t n = (size_t)(end - text) - at;
		char number[24];

		snprintf(number, sizeof(number), "%s%llu", at == 0 ? "" : ",", (unsigned long long)number_of(text + at, n));
		buf_put_text(&numbers, number);
		at += n + 1;
	}
	*ret_len = at;
	if (at == 0)
		return 0;
	buf_put(&numbers, "", 1);
	buf_put(&lines, text, at - 1);
	buf_put(&lines, "", 1);
	if (buf_failed(&numbers) || buf_failed(&lines))
		return err_set(err, ENOMEM, "out of memory");
	return db_do(db, err, "INSERT INTO events (dispatch, n, line) SELECT d.id, l.n, l.line FROM (SELECT id FROM "
	             "dispatches WHERE id = ? AND home = ? FOR UPDATE) AS d, unnest(string_to_array(?, ',')::bigint[], "
	             "string_to_array(?, chr(10))) AS l (n, line) ON CONFLICT DO NOTHING", "ssss", id, home,
	             (const char *)numbers.data, (const char *)lines.data);
}

static int
read_events(const char *id, uint64_t from, char **ret_text, size_t *ret_len, struct err *err)
{
	OWN(closep) int folder = dispatch_folder(id, false, err);
	OWN(closep) int fd = -1;
	OWN(freep) char *text = NULL;
	struct stat st;
	ssize_t n;

	if (folder < 0)
		return folder;
	fd = openat(folder, DISPATCH_EVENTS_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot read the events of dispatch %s", id);
	if ((uint64_t)st.st_size <= from || st.st_size > FILE_MAX) {
		*ret_text = NULL;
		*ret_len = 0;
		return 0;
	}
	text = malloc((size_t)st.st_size - from);
	n = text == NULL ? -1 : pread(fd, text, (size_t)st.st_size - from, (off_t)from);
	if (n < 0)
		return err_errno(err, "cannot read the events of dispatch %s", id);
	*ret_text = TAKE(text);
	*ret_len = (size_t)n;
	return 0;
}

/* Puts all whole lines of TEXT; *ret_len: how long those are that were put. */
static int
put_events(struct db *db, const char *id, const char *home, const char *text, size_t len, size_t *ret_len,
           struct err *err)
{
	size_t put = 1;
	int n = 0, r = 0;

	for (*ret_len = 0; r >= 0 && put > 0; *ret_len += r < 0 ? 0 : put) {
		r = put_lines(db, id, home, text + *ret_len, len - *ret_len, &put, err);
		n += r > 0 ? r : 0;
	}
	return r < 0 ? r : n;
}

int
dispatch_offer(struct db *db, const char *id, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len, put;
	int r = read_events(id, 0, &text, &len, err);

	r = r == 0 && text != NULL ? put_events(db, id, "", text, len, &put, err) : r;
	/* Workers listen; it is sent when the row is there. */
	return r < 0 ? r : db_tell(db, DB_WORK, id, err);
}

/* Whether the row is this data folder's. */
static int
is_ours(struct db *db, const char *id, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, "SELECT 1 FROM dispatches WHERE id = ? AND home = ?", "ss", id, db_home(db));

	return r < 0 ? r : db_next(&q, err);
}

int
dispatch_upload(struct db *db, const char *id, uint64_t *upto, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len, put = 0;
	int n = 0, r = read_events(id, *upto, &text, &len, err);

	if (r < 0 || text == NULL)
		return r;
	r = n = put_events(db, id, db_home(db), text, len, &put, err);
	/* They may be there already, if an answer was lost. */
	if (n == 0)
		r = is_ours(db, id, err);
	if (r == 0)
		return err_set(err, ESTALE, "dispatch %s is another worker's now", id);
	if (r > 0) {
		*upto += put;
		r = n > 0 ? db_tell(db, DB_EVENTS, id, err) : 0;
	}
	return r < 0 ? r : 0;
}

/* The number of the last line in the file, which ends with a whole line then. */
static int
last_in_file(int fd, uint64_t *ret_n, struct err *err)
{
	OWN(freep) char *text = NULL;
	struct stat st;
	const char *line;
	size_t len, rest;

	*ret_n = 0;
	if (fstat(fd, &st) < 0)
		return err_errno(err, "cannot read events");
	len = st.st_size > (off_t)(2 * DISPATCH_LINE_MAX) ? 2 * DISPATCH_LINE_MAX : (size_t)st.st_size;
	text = malloc(len + 1);
	if (text == NULL || pread(fd, text, len, st.st_size - (off_t)len) != (ssize_t)len)
		return err_errno(err, "cannot read events");
	for (rest = 0; len > 0 && text[len - 1] != '\n'; rest++)
		len--;
	/* Whoever wrote the rest of the last line was killed, or the disk was full. */
	if (rest > 0 && ftruncate(fd, st.st_size - (off_t)rest) < 0)
		return err_errno(err, "cannot mend events");
	if (len == 0)
		return 0;
	line = memrchr(text, '\n', len - 1);
	line = line == NULL ? text : line + 1;
	*ret_n = number_of(line, (size_t)(text + len - line));
	return 0;
}

static int
append_events(struct db *db, const char *id, int fd, uint64_t *n, bool *ret_more, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int rows = 0, r = db_ask(db, &q, err, "SELECT n, line FROM events WHERE dispatch = ? AND n > ? ORDER BY n LIMIT ?",
	                         "sii", id, (int64_t)*n, (int64_t)LINES_MAX);

	while (r == 0 && (r = db_next(&q, err)) > 0) {
		OWN(buf_free) struct buf b = BUF(2 * DISPATCH_LINE_MAX);
		const char *line = db_text(&q, 1);

		*n = (uint64_t)db_int(&q, 0);
		rows++;
		buf_put_text(&b, line);
		buf_put(&b, "\n", 1);
		/* One with another number is nobody's of ours, and would be copied again each time. */
		if (number_of(line, strlen(line)) == *n)
			r = buf_failed(&b) ? err_set(err, ENOMEM, "out of memory") : write_all(fd, b.data, b.len, err);
		else
			r = 0;
	}
	*ret_more = rows == LINES_MAX;
	return r;
}

int
dispatch_mirror(struct db *db, const char *id, struct err *err)
{
	OWN(closep) int folder = dispatch_folder(id, true, err);
	OWN(closep) int fd = folder < 0 ? -1 : openat(folder, DISPATCH_EVENTS_FILE, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC |
	                                              O_NOFOLLOW, 0600);
	bool more = true;
	uint64_t n;
	int r;

	if (folder < 0)
		return folder;
	/* A service and a command may do so at the same time. */
	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		return err_errno(err, "cannot open the events of dispatch %s", id);
	r = last_in_file(fd, &n, err);
	while (r == 0 && more)
		r = append_events(db, id, fd, &n, &more, err);
	return r;
}

/* ---- claims ---- */

int
dispatch_claim(struct db *db, const char *pool, char ret_id[DISPATCH_ID_LEN + 1], struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	char target[sizeof(TARGET_POOL) + TARGET_POOL_NAME_MAX];
	int r;

	snprintf(target, sizeof(target), TARGET_POOL "%s", pool);
	r = db_ask(db, &q, err, "UPDATE dispatches SET home = ?, claims = claims + 1, lease_ms = " NOW " + ? WHERE id = "
	           "(SELECT id FROM dispatches WHERE target = ? AND state = 0 AND home = '' AND cancel = 0 AND "
	           "not_before_ms <= " NOW " ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id", "sis", db_home(db),
	           (int64_t)DISPATCH_LEASE_MS, target);
	r = r == 0 ? db_next(&q, err) : r;
	if (r > 0)
		snprintf(ret_id, DISPATCH_ID_LEN + 1, "%s", db_text(&q, 0));
	return r;
}

int
dispatch_renew_claims(struct db *db, struct err *err)
{
	int r = db_do(db, err, "UPDATE dispatches SET lease_ms = " NOW " + ? WHERE home = ? AND state < 3 AND target LIKE "
	              "'pool:%'", "is", (int64_t)DISPATCH_LEASE_MS, db_home(db));

	return r < 0 ? r : 0;
}

int
dispatch_release_claim(struct db *db, const char *id, struct err *err)
{
	int r = db_do(db, err, "UPDATE dispatches SET home = '', lease_ms = 0 WHERE id = ? AND home = ? AND state = 0 AND "
	              "target LIKE 'pool:%'", "ss", id, db_home(db));

	return r < 0 ? r : 0;
}

int
dispatch_release_claims(struct db *db, struct err *err)
{
	int r = db_do(db, err, "UPDATE dispatches SET home = '', lease_ms = 0 WHERE home = ? AND state = 0 AND target LIKE "
	              "'pool:%'", "s", db_home(db));

	return r < 0 ? r : 0;
}

/* ---- taking back ---- */

struct lost {
	char id[DISPATCH_ID_LEN + 1], home[DB_HOME_MAX];
	enum dispatch_state state;
	unsigned retries, attempts;
	bool cancel;
};

/* Its last event, as its worker would have recorded it. */
static int
put_finished(struct db *db, const struct lost *l, const char *state, const char *reason, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(DISPATCH_LINE_MAX);
	OWN(json_decrefp) json_t *line = json_pack("{s:i,s:s,s:n,s:s?,s:n}", "attempts", (int)l->attempts, "state", state,
	                                           "exit_code", "reason", *reason != '\0' ? reason : NULL, "result");
	uint64_t n = 0;
	size_t len;
	int r = line == NULL ? err_set(err, ENOMEM, "out of memory") : last_event(db, l->id, &n, err);

	r = r == 0 ? dispatch_put_line(&b, l->id, n + 1, "dispatch.finished", line, err) : r;
	r = r == 0 ? put_lines(db, l->id, l->home, (const char *)b.data, b.len, &len, err) : r;
	return r < 0 ? r : 0;
}

/* Its last event, if that is dispatch.finished; the caller owns it. */
static int
read_end(struct db *db, const char *id, json_t **ret_event, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, "SELECT line FROM events WHERE dispatch = ? ORDER BY n DESC LIMIT 1", "s", id);

	r = r == 0 ? db_next(&q, err) : r;
	if (r > 0)
		*ret_event = dispatch_read_end(db_text(&q, 0), strlen(db_text(&q, 0)));
	return r < 0 ? r : 0;
}

/* The caller's transaction holds the row. */
static int
take_back(struct db *db, const struct lost *l, struct err *err)
{
	OWN(json_decrefp) json_t *end = NULL;
	struct dispatch_ending ending;
	bool ran = l->state != DISPATCH_QUEUED, ends = l->cancel || (ran && l->attempts > l->retries);
	const char *reason = l->cancel ? "" : "its worker was lost while it ran, and it is not to be run twice";
	enum dispatch_state state = l->cancel ? DISPATCH_CANCELLED : DISPATCH_FAILED;
	int r = read_end(db, l->id, &end, err);

	if (r < 0)
		return r;
	/* Its worker was lost between the event and the row. */
	if (end != NULL) {
		dispatch_ending_of(end, &ending);
		return dispatch_set_end_of(db, l->id, l->home, &ending, err);
	}
	if (!ends)
		r = db_do(db, err, "UPDATE dispatches SET home = '', state = 0, lease_ms = 0, token_hash = '' WHERE id = ? AND "
		          "home = ?", "ss", l->id, l->home);
	else
		r = db_do(db, err, "UPDATE dispatches SET state = ?, exit_code = -1, reason = ?, ended_ms = " NOW ", "
		          "token_hash = '' WHERE id = ? AND home = ?", "isss", (int64_t)state, reason, l->id, l->home);
	return r > 0 && ends ? put_finished(db, l, dispatch_state_name(state), reason, err) : r < 0 ? r : 0;
}

static int
find_lost(struct db *db, struct lost lost[BACK_MAX], size_t *ret_n, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	size_t n = 0;
	int r = db_ask(db, &q, err, "SELECT id, home, state, retries, attempts, cancel FROM dispatches WHERE target LIKE "
	               "'pool:%' AND state < 3 AND ((home <> '' AND lease_ms < " NOW ") OR (home = '' AND cancel > 0)) "
	               "LIMIT ? FOR UPDATE SKIP LOCKED", "i", (int64_t)BACK_MAX);

	while (r == 0 && n < BACK_MAX && (r = db_next(&q, err)) > 0) {
		struct lost *l = &lost[n++];

		*l = (struct lost){ .state = (enum dispatch_state)db_int(&q, 2), .retries = (unsigned)db_int(&q, 3),
		                    .attempts = (unsigned)db_int(&q, 4), .cancel = db_int(&q, 5) > 0 };
		snprintf(l->id, sizeof(l->id), "%s", db_text(&q, 0));
		snprintf(l->home, sizeof(l->home), "%s", db_text(&q, 1));
		r = 0;
	}
	*ret_n = n;
	return r;
}

int
dispatch_take_back(struct db *db, struct err *err)
{
	OWN(freep) struct lost *lost = calloc(BACK_MAX, sizeof(*lost));
	size_t n = 0;
	int r = lost == NULL ? err_set(err, ENOMEM, "out of memory") : db_begin(db, err);

	if (r < 0)
		return r;
	r = find_lost(db, lost, &n, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		if ((r = take_back(db, &lost[i], err)) == 0)
			r = db_tell(db, DB_WORK | DB_EVENTS, lost[i].id, err);
	return db_end(db, r < 0 ? r : 0, err);
}

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
#include "canon/canon.h"
#include "dispatch/dispatch_parts.h"
#include "loop/loop.h"
#include "policy/policy_boundary.h"
#include "store/db.h"
#include "target/target.h"

#define NOW "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
#define BACK_MAX DISPATCH_BACK_MAX
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

int
dispatch_read_events(const char *id, uint64_t from, char **ret_text, size_t *ret_len, struct err *err)
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

/* The columns of what is sent: a value for each dispatch, or for each line. */
struct sheet {
	struct buf ids, states, codes, times, reasons, results;
	struct buf of, numbers, lines;
};

static void
sheet_free(struct sheet *sheet)
{
	struct buf *all[] = { &sheet->ids, &sheet->states, &sheet->codes, &sheet->times, &sheet->reasons, &sheet->results,
	                      &sheet->of, &sheet->numbers, &sheet->lines };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		buf_free(all[i]);
}

static const char *
text_of(struct buf *b)
{
	buf_put(b, "", 1);
	return (const char *)b->data;
}

static void
put_number(struct buf *b, int64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%s%lld", b->len > 0 ? "," : "", (long long)n);
	buf_put_text(b, text);
}

/* Whole lines of its text, until all of what goes is PUT_ENOUGH bytes: so that many events do not keep others waiting. */
static void
put_lines(struct sheet *sheet, struct dispatch_sending *s)
{
	const char *end;

	for (s->put = 0; s->put < s->len && sheet->lines.len < PUT_ENOUGH; s->put = (size_t)(end - s->text) + 1) {
		const char *line = s->text + s->put;

		end = memchr(line, '\n', s->len - s->put);
		if (end == NULL)
			return;
		buf_put_text(&sheet->of, sheet->of.len > 0 ? "," : "");
		buf_put_text(&sheet->of, s->id);
		buf_put(&sheet->lines, "\n", sheet->numbers.len > 0);
		buf_put(&sheet->lines, line, (size_t)(end - line));
		put_number(&sheet->numbers, (int64_t)number_of(line, (size_t)(end - line)));
	}
}

/* The state can only go up: nothing else changes below DISPATCH_FINISHED. */
static int
put_state(struct sheet *sheet, const struct dispatch_sending *s, struct err *err)
{
	const struct dispatch_ending *end = s->end;
	bool ends = end != NULL && s->put == s->len;
	OWN(freep) char *result = NULL;
	size_t len;
	int r = ends && end->result != NULL ? canon_dump(end->result, DISPATCH_RESULT_MAX, &result, &len, err) : 0;

	buf_put(&sheet->reasons, "\n", sheet->ids.len > 0);
	buf_put(&sheet->results, "\n", sheet->ids.len > 0);
	buf_put_text(&sheet->ids, sheet->ids.len > 0 ? "," : "");
	buf_put_text(&sheet->ids, s->id);
	put_number(&sheet->states, ends ? end->state : s->runs ? DISPATCH_RUNNING : DISPATCH_QUEUED);
	put_number(&sheet->codes, ends ? end->exit_code : -1);
	put_number(&sheet->times, ends ? (int64_t)end->ended_ms : 0);
	buf_put_text(&sheet->reasons, ends ? end->reason : "");
	buf_put_text(&sheet->results, result != NULL ? result : "");
	return r;
}

/* One statement, whose parts are done together or not at all. */
#define SEND "WITH u AS MATERIALIZED (SELECT * FROM unnest(string_to_array(?1, ','), string_to_array(?2, ',')::bigint[], " \
	"string_to_array(?3, ',')::bigint[], string_to_array(?4, ',')::bigint[], string_to_array(?5, chr(10)), " \
	"string_to_array(?6, chr(10))) AS u (of_id, to_state, code, at_ms, why, said)), " \
	"d AS MATERIALIZED (SELECT id, state FROM dispatches WHERE id = ANY (string_to_array(?1, ',')) AND home = ?7 AND state < 3 " \
	"FOR UPDATE), " \
	"e AS (INSERT INTO events (dispatch, n, line) SELECT l.of_id, l.n, l.line FROM unnest(string_to_array(?8, ','), " \
	"string_to_array(?9, ',')::bigint[], string_to_array(?10, chr(10))) AS l (of_id, n, line) JOIN d ON d.id = l.of_id " \
	"ON CONFLICT DO NOTHING), " \
	"s AS (UPDATE dispatches SET state = u.to_state, exit_code = u.code, reason = coalesce(u.why, ''), " \
	"result = nullif(u.said, ''), ended_ms = u.at_ms, token_hash = '' FROM u, d WHERE dispatches.id = d.id AND " \
	"u.of_id = d.id AND u.to_state > d.state) " \
	"SELECT id, pg_notify('cloister_events', id) FROM d"

int
dispatch_send(struct db *db, const char *home, struct dispatch_sending *sendings, size_t n, struct err *err)
{
	OWN(sheet_free) struct sheet sheet = { BUF(PUT_MAX), BUF(PUT_MAX), BUF(PUT_MAX), BUF(PUT_MAX), BUF(PUT_MAX), BUF(PUT_MAX),
	                                       BUF(PUT_MAX), BUF(PUT_MAX), BUF(PUT_MAX) };
	OWN(db_finish) struct db_query q = {0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		sendings[i].ours = false;
		put_lines(&sheet, &sendings[i]);
		r = put_state(&sheet, &sendings[i], err);
	}
	if (r == 0 && (buf_failed(&sheet.ids) || buf_failed(&sheet.reasons) || buf_failed(&sheet.results) || buf_failed(&sheet.of) ||
	               buf_failed(&sheet.lines)))
		r = err_set(err, ENOMEM, "out of memory");
	r = r == 0 ? db_ask(db, &q, err, SEND, "ssssssssss", text_of(&sheet.ids), text_of(&sheet.states), text_of(&sheet.codes),
	                    text_of(&sheet.times), text_of(&sheet.reasons), text_of(&sheet.results), home, text_of(&sheet.of),
	                    text_of(&sheet.numbers), text_of(&sheet.lines)) : r;
	while (r == 0 && (r = db_next(&q, err)) > 0) {
		for (size_t i = 0; i < n; i++)
			sendings[i].ours |= strcmp(sendings[i].id, db_text(&q, 0)) == 0;
		r = 0;
	}
	return r;
}

int
dispatch_offer_events(const char *id, struct buf *numbers, struct buf *lines, struct err *err)
{
	struct dispatch_sending s = { .id = id };
	struct sheet sheet = { .of = BUF(PUT_MAX), .numbers = BUF(PUT_MAX), .lines = BUF(PUT_MAX) };
	OWN(freep) char *text = NULL;
	int r = dispatch_read_events(id, 0, &text, &s.len, err);

	s.text = text;
	put_lines(&sheet, &s);
	(void)text_of(&sheet.numbers);
	(void)text_of(&sheet.lines);
	buf_free(&sheet.of);
	*numbers = sheet.numbers;
	*lines = sheet.lines;
	return r == 0 && (buf_failed(numbers) || buf_failed(lines)) ? err_set(err, ENOMEM, "out of memory") : r;
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

/* *LAST: the number of the last line that was looked at. */
static int
append_line(uint64_t *last, int fd, uint64_t n, const char *line, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(2 * DISPATCH_LINE_MAX);

	*last = n;
	/* One with another number is nobody's of ours, and would be copied again each time. */
	if (number_of(line, strlen(line)) != n)
		return 0;
	buf_put_text(&b, line);
	buf_put(&b, "\n", 1);
	return buf_failed(&b) ? err_set(err, ENOMEM, "out of memory") : write_all(fd, b.data, b.len, err);
}

static int
append_events(struct db *db, const char *id, int fd, uint64_t *n, bool *ret_more, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int rows = 0, r = db_ask(db, &q, err, "SELECT n, line FROM events WHERE dispatch = ? AND n > ? ORDER BY n LIMIT ?",
	                         "sii", id, (int64_t)*n, (int64_t)LINES_MAX);

	for (; r == 0 && (r = db_next(&q, err)) > 0; rows++)
		r = append_line(n, fd, (uint64_t)db_int(&q, 0), db_text(&q, 1), err);
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

/* A file of events, to be written: nobody else writes it meanwhile. */
struct file {
	int fd;                         /* -1: it cannot be had */
	uint64_t n;                     /* of its last event */
};

static void
open_file(struct file *file, const char *id)
{
	OWN(closep) int folder = dispatch_folder(id, true, NULL);

	file->fd = folder < 0 ? -1 : openat(folder, DISPATCH_EVENTS_FILE, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	/* Whoever has the lock copies the same, and two might wait for each other. */
	if (file->fd >= 0 && (flock(file->fd, LOCK_EX | LOCK_NB) < 0 || last_in_file(file->fd, &file->n, NULL) < 0))
		close_fd(&file->fd);
}

static struct dispatch_mirrored *
find_mirrored(struct dispatch_mirrored *mirrored, size_t n, const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(mirrored[i].id, id) == 0)
			return &mirrored[i];
	return NULL;
}

/* Rows come first: one that is over has all of its events by then. */
static int
read_rows(struct db *db, struct dispatch_mirrored *mirrored, size_t n, const char *ids, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, "SELECT " DISPATCH_COLUMNS " FROM dispatches WHERE id = ANY (string_to_array(?, ','))", "s", ids);

	while (r == 0 && (r = db_next(&q, err)) > 0) {
		struct dispatch_mirrored *m = find_mirrored(mirrored, n, db_text(&q, 1));

		r = m == NULL || m->d.agent != NULL ? 0 : dispatch_read_row(&q, &m->d, err);
	}
	return r;
}

/* The next events of all of them, as many as LINES_MAX. */
static int
append_all(struct db *db, struct dispatch_mirrored *mirrored, struct file *files, size_t n, const char *ids, bool *ret_more,
           struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	OWN(buf_free) struct buf numbers = BUF(PUT_MAX);
	int rows = 0, r;

	for (size_t i = 0; i < n; i++)
		put_number(&numbers, files[i].fd < 0 ? INT64_MAX : (int64_t)files[i].n);
	r = db_ask(db, &q, err, "SELECT w.id, e.n, e.line FROM unnest(string_to_array(?1, ','), string_to_array(?2, ',')::bigint[]) "
	           "AS w (id, upto), LATERAL (SELECT n, line FROM events WHERE dispatch = w.id AND n > w.upto ORDER BY n LIMIT ?3) AS e "
	           "LIMIT ?3", "ssi", ids, text_of(&numbers), (int64_t)LINES_MAX);
	for (; r == 0 && (r = db_next(&q, err)) > 0; rows++) {
		struct dispatch_mirrored *m = find_mirrored(mirrored, n, db_text(&q, 0));

		r = m == NULL ? 0 : append_line(&files[m - mirrored].n, files[m - mirrored].fd, (uint64_t)db_int(&q, 1), db_text(&q, 2), err);
	}
	*ret_more = rows == LINES_MAX;
	return r;
}

int
dispatch_mirror_all(struct db *db, struct dispatch_mirrored *mirrored, size_t n, struct err *err)
{
	struct file files[DISPATCH_MIRROR_MAX] = {0};
	OWN(buf_free) struct buf ids = BUF(PUT_MAX);
	bool more = true;
	int r;

	for (size_t i = 0; i < n; i++) {
		open_file(&files[i], mirrored[i].id);
		buf_put_text(&ids, i > 0 ? "," : "");
		buf_put_text(&ids, mirrored[i].id);
	}
	r = buf_failed(&ids) ? err_set(err, ENOMEM, "out of memory") : read_rows(db, mirrored, n, text_of(&ids), err);
	while (r == 0 && more)
		r = append_all(db, mirrored, files, n, (const char *)ids.data, &more, err);
	for (size_t i = 0; i < n; i++) {
		/* A row that is over stays so until its events are here. */
		mirrored[i].done = r == 0 && mirrored[i].d.agent != NULL && files[i].fd >= 0;
		if (!mirrored[i].done)
			dispatch_free(&mirrored[i].d);
		if (files[i].fd >= 0)
			close_fd(&files[i].fd);
	}
	return r;
}

/* ---- claims ---- */

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#define WAITS "target = ? AND state = 0 AND home = '' AND cancel = 0 AND not_before_ms NOT BETWEEN " NOW " + 1 AND " NOW " + " \
	TEXT(DISPATCH_BACKOFF_MAX_MS)
/* It has no mounts, so no image; and nobody asked for another boundary. */
#define IS_BARE "coalesce(resolved::json->>'boundary', '" BOUNDARY_PROCESS "') = '" BOUNDARY_PROCESS "' AND " \
	"coalesce(resolved::json->>'root', 'host') = 'host'"
/* The first events come along, unless there may be many. */
#define CLAIM(which) "WITH w AS MATERIALIZED (SELECT id FROM dispatches WHERE " which " ORDER BY seq LIMIT least(?, greatest(0, ? - (SELECT count(*) FROM dispatches WHERE home = ? AND " \
	"state IN (1, 2)))) FOR UPDATE SKIP LOCKED), " \
	"c AS (SELECT w.id AS taken, n.cell AS begun_in FROM (SELECT id, row_number() OVER () AS i FROM w) AS w JOIN " \
	"unnest(string_to_array(?, ',')) WITH ORDINALITY AS n (cell, i) USING (i)) " \
	"UPDATE dispatches SET home = ?, claims = claims + 1, lease_ms = " NOW " + ?, state = 1, cell = c.begun_in, boot = ?, " \
	"token_hash = '', attempts = attempts + 1, started_ms = CASE started_ms WHEN 0 THEN ? ELSE started_ms END " \
	"FROM c WHERE id = c.taken RETURNING " DISPATCH_COLUMNS ", resolved, CASE claims WHEN 1 THEN " \
	"(SELECT string_agg(line || chr(10), '' ORDER BY n) FROM events WHERE dispatch = id) END"

static int
read_taken(const struct db_query *q, struct dispatch_taken *ret_taken, struct err *err)
{
	struct dispatch_taken taken = {0};
	int r = dispatch_read_row(q, &taken.d, err);

	if (r < 0)
		return r;
	taken.d.resolved = strdup(db_text(q, DISPATCH_N_COLUMNS));
	taken.events = db_is_null(q, DISPATCH_N_COLUMNS + 1) ? NULL : strdup(db_text(q, DISPATCH_N_COLUMNS + 1));
	*ret_taken = taken;
	return taken.d.resolved == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

void
dispatch_taken_free(struct dispatch_taken *taken)
{
	dispatch_free(&taken->d);
	free(taken->events);
	taken->events = NULL;
}

int
dispatch_claim(struct db *db, const char *pool, bool bare, unsigned limit, struct dispatch_taken *ret_taken, size_t max,
               struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	OWN(buf_free) struct buf cells = BUF(DISPATCH_CLAIMS_MAX * (CELL_ID_LEN + 1));
	char target[sizeof(TARGET_POOL) + TARGET_POOL_NAME_MAX], cell[CELL_ID_LEN + 1], boot[DISPATCH_BOOT_MAX];
	size_t n = 0;
	int r = 0;

	max = max > DISPATCH_CLAIMS_MAX ? DISPATCH_CLAIMS_MAX : max;
	for (size_t i = 0; r == 0 && i < max; i++) {
		r = cell_make_id(cell, err);
		buf_put_text(&cells, i > 0 ? "," : "");
		buf_put_text(&cells, cell);
	}
	snprintf(target, sizeof(target), TARGET_POOL "%s", pool);
	(void)dispatch_boot(boot);
	r = r == 0 ? db_ask(db, &q, err, bare ? CLAIM(WAITS " AND " IS_BARE) : CLAIM(WAITS), "siisssisi", target, (int64_t)max, (int64_t)limit, db_home(db), text_of(&cells),
	                    db_home(db), (int64_t)DISPATCH_LEASE_MS, boot, (int64_t)dispatch_now_ms()) : r;
	while (r == 0 && n < max && (r = db_next(&q, err)) > 0)
		r = read_taken(&q, &ret_taken[n++], err);
	return r < 0 ? r : (int)n;
}

int
dispatch_find_left(struct db *db, const char *pool, char ret_id[DISPATCH_ID_LEN + 1],
                   char ret_needs[DISPATCH_NEEDS_MAX], struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	char target[sizeof(TARGET_POOL) + TARGET_POOL_NAME_MAX];
	int r;

	snprintf(target, sizeof(target), TARGET_POOL "%s", pool);
	r = db_ask(db, &q, err, "SELECT id, resolved::json->>'boundary' FROM dispatches WHERE " WAITS " AND NOT (" IS_BARE ") "
	           "ORDER BY seq LIMIT 1", "s", target);
	r = r == 0 ? db_next(&q, err) : r;
	if (r > 0) {
		const char *boundary = db_text(&q, 1);

		snprintf(ret_id, DISPATCH_ID_LEN + 1, "%s", db_text(&q, 0));
		if (boundary == NULL || *boundary == '\0' || policy_boundary_check_name(boundary, NULL) < 0)
			snprintf(ret_needs, DISPATCH_NEEDS_MAX, "programs of its own");
		else
			snprintf(ret_needs, DISPATCH_NEEDS_MAX, "the boundary '%.40s'", boundary);
	}
	return r;
}

/* Renews those that were not renewed for a while, since each costs a row; and those that last longer than any, because the
 * database's clock was set back. */
#define KEEP "WITH mine AS MATERIALIZED (SELECT id, claims, lease_ms FROM dispatches WHERE home = ? AND state < 3 AND target LIKE " \
	"'pool:%'), " \
	"kept AS (UPDATE dispatches SET lease_ms = " NOW " + ? FROM mine WHERE dispatches.id = mine.id AND home = ? AND " \
	"(mine.lease_ms < " NOW " + ? OR mine.lease_ms > " NOW " + " TEXT(DISPATCH_LEASE_MS) ")) " \
	"SELECT id, claims FROM mine"

int
dispatch_keep_claims(struct db *db, struct db_query *ret_query, struct err *err)
{
	return db_ask(db, ret_query, err, KEEP, "sisi", db_home(db), (int64_t)DISPATCH_LEASE_MS, db_home(db),
	              (int64_t)(DISPATCH_LEASE_MS - DISPATCH_RENEW_MS));
}

int
dispatch_release_claim(struct db *db, const struct dispatch *d, struct err *err)
{
	int r = db_do(db, err, "UPDATE dispatches SET home = '', lease_ms = 0, state = 0, cell = '', attempts = attempts - 1, "
	              "started_ms = CASE attempts WHEN 1 THEN 0 ELSE started_ms END WHERE id = ? AND home = ? AND state = 1 AND "
	              "cell = ?", "sss", d->id, db_home(db), d->cell);

	return r < 0 ? r : 0;
}

int
dispatch_release_claims(struct db *db, struct err *err)
{
	int r = db_do(db, err, "UPDATE dispatches SET home = '', lease_ms = 0 WHERE home = ? AND state = 0 AND target LIKE "
	              "'pool:%'", "s", db_home(db));

	return r < 0 ? r : 0;
}

bool
dispatch_had_cell(struct db *db, const char *id, const char *cell, const char *worker)
{
	OWN(db_finish) struct db_query q = {0};
	bool had = false;
	int r = db_ask(db, &q, NULL, "SELECT line FROM events WHERE dispatch = ? AND line LIKE '%\"event\":\"cell.boot\"%' "
	               "ORDER BY n", "s", id);

	/* The first that names the cell counts: no other worker can have put that there. */
	while (r == 0 && db_next(&q, NULL) > 0) {
		OWN(json_decrefp) json_t *event = json_loads(db_text(&q, 0), 0, NULL);

		if (strcmp(dispatch_text(event, "event"), "cell.boot") == 0 && strcmp(dispatch_text(event, "cell"), cell) == 0) {
			had = strcmp(dispatch_text(event, "worker"), worker) == 0;
			break;
		}
	}
	return had;
}

/* ---- taking back ---- */

struct lost {
	char id[DISPATCH_ID_LEN + 1], home[DB_HOME_MAX];
	enum dispatch_state state;
	unsigned retries, attempts;
	bool cancel;
};

/* Its last event, as its worker would have recorded it, and its end. */
static int
put_finished(struct db *db, const struct lost *l, const struct dispatch_ending *end, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(DISPATCH_LINE_MAX);
	OWN(json_decrefp) json_t *line = json_pack("{s:i,s:s,s:n,s:s?,s:n}", "attempts", (int)l->attempts, "state",
	                                           dispatch_state_name(end->state), "exit_code", "reason",
	                                           *end->reason != '\0' ? end->reason : NULL, "result");
	struct dispatch_sending s = { .id = l->id, .end = end };
	uint64_t n = 0;
	int r = line == NULL ? err_set(err, ENOMEM, "out of memory") : last_event(db, l->id, &n, err);

	r = r == 0 ? dispatch_put_line(&b, l->id, n + 1, "dispatch.finished", line, err) : r;
	s.text = (const char *)b.data;
	s.len = b.len;
	return r == 0 ? dispatch_send(db, l->home, &s, 1, err) : r;
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
	int r = read_end(db, l->id, &end, err);

	if (r < 0)
		return r;
	/* Its worker was lost between the event and the row. */
	if (end != NULL) {
		dispatch_ending_of(end, &ending);
		return dispatch_set_end_of(db, l->id, l->home, &ending, err);
	}
	if (!ends) {
		r = db_do(db, err, "UPDATE dispatches SET home = '', state = 0, lease_ms = 0, token_hash = '' WHERE id = ? AND "
		          "home = ?", "ss", l->id, l->home);
		return r < 0 ? r : 0;
	}
	ending = (struct dispatch_ending){ .state = l->cancel ? DISPATCH_CANCELLED : DISPATCH_FAILED, .exit_code = -1,
		.reason = l->cancel ? "" : "its worker was lost while it ran, and it is not to be run twice",
		.ended_ms = dispatch_now_ms() };
	return put_finished(db, l, &ending, err);
}

/* By the clock of the database it is over, which may have been set.  Whoever has it renews it by then. */
static bool
stays_over(const struct dispatch_suspects *before, const char *id, int64_t lease, uint64_t *ret_since)
{
	for (size_t i = 0; i < before->n; i++)
		if (strcmp(before->at[i].id, id) == 0 && before->at[i].lease == lease) {
			*ret_since = before->at[i].since;
			return loop_now_ms() - before->at[i].since >= DISPATCH_SUSPECT_MS;
		}
	*ret_since = loop_now_ms();
	return false;
}

static void
note_suspect(struct dispatch_suspects *s, const char *id, int64_t lease, uint64_t since)
{
	snprintf(s->at[s->n].id, sizeof(s->at[0].id), "%s", id);
	s->at[s->n].lease = lease;
	s->at[s->n++].since = since;
}

/* Each with an index of its own: those with a claim, and those without that are cancelled. */
#define IS_LOST "target LIKE 'pool:%' AND state < 3 AND ((home > '' AND lease_ms < " NOW ") OR (home = '' AND cancel > 0))"
#define LOST "SELECT id FROM dispatches WHERE target LIKE 'pool:%' AND state < 3 AND home > '' AND lease_ms < " NOW " UNION ALL " \
	"SELECT id FROM dispatches WHERE target LIKE 'pool:%' AND state < 3 AND home = '' AND cancel > 0"

static int
find_lost(struct db *db, struct dispatch_suspects *suspects, struct lost lost[BACK_MAX], size_t *ret_n, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	const struct dispatch_suspects before = *suspects;
	uint64_t since;
	size_t n = 0;
	int r = db_ask(db, &q, err, "SELECT id, home, state, retries, attempts, cancel, lease_ms FROM dispatches WHERE id IN (" LOST ") AND "
	               IS_LOST " ORDER BY lease_ms LIMIT ? FOR UPDATE SKIP LOCKED", "i", (int64_t)BACK_MAX);

	suspects->n = 0;
	while (r == 0 && n < BACK_MAX && (r = db_next(&q, err)) > 0) {
		struct lost *l = &lost[n];

		r = 0;
		/* One that was cancelled is not run again: if its worker is there, that ends it. */
		if (*db_text(&q, 1) != '\0' && db_int(&q, 5) == 0 && !stays_over(&before, db_text(&q, 0), db_int(&q, 6), &since)) {
			if (suspects->n < BACK_MAX)
				note_suspect(suspects, db_text(&q, 0), db_int(&q, 6), since);
			continue;
		}
		*l = (struct lost){ .state = (enum dispatch_state)db_int(&q, 2), .retries = (unsigned)db_int(&q, 3),
		                    .attempts = (unsigned)db_int(&q, 4), .cancel = db_int(&q, 5) > 0 };
		snprintf(l->id, sizeof(l->id), "%s", db_text(&q, 0));
		snprintf(l->home, sizeof(l->home), "%s", db_text(&q, 1));
		n++;
	}
	*ret_n = n;
	return r;
}

static int
is_any_lost(struct db *db, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, LOST " LIMIT 1", "");

	return r < 0 ? r : db_next(&q, err);
}

int
dispatch_take_back(struct db *db, struct dispatch_suspects *suspects, struct err *err)
{
	OWN(freep) struct lost *lost = NULL;
	size_t n = 0;
	int r = is_any_lost(db, err);

	/* Nearly always: nobody has to wait for this. */
	if (r <= 0) {
		suspects->n = 0;
		return r;
	}
	lost = calloc(BACK_MAX, sizeof(*lost));
	r = lost == NULL ? err_set(err, ENOMEM, "out of memory") : db_begin(db, err);
	if (r < 0)
		return r;
	r = find_lost(db, suspects, lost, &n, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		if ((r = take_back(db, &lost[i], err)) == 0)
			r = db_tell(db, DB_WORK | DB_EVENTS, lost[i].id, err);
	return db_end(db, r < 0 ? r : 0, err);
}

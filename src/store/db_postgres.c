/* db_postgres.c - Postgres as cloister uses it.
 *
 * Transactions take one advisory lock first, so that they follow each other as SQLite's do; single
 * statements do not.  A lost connection is made again, and what only reads is asked again. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/timing.h"
#include "store/db_engine.h"
#include "store/pq.h"
#include "store/store_url.h"

/* Any two numbers that others hardly use. */
#define LOCK_CHANGES "7166351, 1"
#define LOCK_MIGRATION "7166351, 2"
#define ANSWER_MS (DB_BUSY_MS + 2000)    /* it may wait for a lock */
#define IDLE_MS 5000                    /* in a change, doing nothing: a process that is stopped does not stop all others */
#define RETRY_MS 200
#define TYPE_INT8 20
#define TYPE_TEXT 25
#define NUMBER_MAX 24
#define SQL_MAX (64 * 1024)
#define CONNECT_SECONDS "5"
#define IDLE_SECONDS "5"                /* then the other side is asked whether it is there */
#define UNHEARD_MS "5000"               /* a peer that acknowledges nothing for so long is lost */
#define REST_MS 1000                    /* between tries, for a process that has other things to do */
#define SYSTEM_CAS "/etc/ssl/certs/ca-certificates.crt"

struct kept {
	char *sql;                      /* NULL: none */
	bool prepared;                  /* in this connection */
};

struct post {
	struct db db;
	const struct pq *pq;
	struct pg_conn *connection;
	bool inside;                    /* a transaction */
	bool silent;                    /* the last question had no answer in time */
	unsigned kinds;                 /* of news that are listened for */
	uint64_t lost_ns, tried_ns;     /* when the connection was found lost, and last tried in vain; 0: it is not lost */
	struct kept kept[DB_KEPT_MAX];  /* the first ones that were used */
};

static struct post *
post_of(struct db *db)
{
	return (struct post *)db;
}

/* ---- errors ---- */

static const struct {
	const char *state;              /* an SQLSTATE, or its beginning */
	int code;
} states[] = {
	{ "23", EEXIST },               /* a constraint */
	{ "55P03", EBUSY },             /* a lock was not to be had in time */
	{ "40", EBUSY },                /* a deadlock, or a conflict */
	{ "53100", ENOSPC }, { "53200", ENOMEM }, { "53300", EAGAIN },
	{ "28", EACCES }, { "42501", EACCES }, { "25006", EROFS },
	{ "3D000", ENOENT },
	{ "08", EPIPE }, { "57P", EPIPE },
};

static int
errno_of(const char *state)
{
	for (size_t i = 0; state != NULL && i < ARRAY_LEN(states); i++)
		if (strncmp(state, states[i].state, strlen(states[i].state)) == 0)
			return states[i].code;
	return EIO;
}

/* The first line of what the library says, without its "FATAL:  ". */
static const char *
line_of(const char *text, int *ret_width)
{
	static const char *const words[] = { "ERROR:", "FATAL:", "PANIC:" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strncmp(text, words[i], strlen(words[i])) == 0)
			text += strlen(words[i]);
	while (*text == ' ')
		text++;
	*ret_width = (int)strcspn(text, "\n");
	return text;
}

static bool
is_lost(const struct post *post)
{
	return post->pq->status(post->connection) != PQ_CONNECTED;
}

static int
fail(struct post *post, const struct pg_result *result, struct err *err)
{
	const char *state = result == NULL ? NULL : post->pq->result_error(result, PQ_SQLSTATE);
	const char *text;
	int code = is_lost(post) ? EPIPE : errno_of(state), width;

	if (code == EBUSY)
		return err_set(err, EBUSY, "the registry has been busy with another change for %d s: "
		               "try again", DB_BUSY_MS / 1000);
	if (post->silent)
		return err_set(err, EPIPE, "the registry's Postgres has not answered for %d s", ANSWER_MS / 1000);
	text = line_of(post->pq->error(post->connection), &width);
	return err_set(err, code, "the registry's Postgres: %.*s", width, text);
}

/* ---- the connection ---- */

static void
say_nothing(void *arg, const char *message)
{
	(void)arg;
	(void)message;
}

static bool
is_good(const struct post *post, const struct pg_result *result)
{
	int status = post->pq->result_status(result);

	return status == PQ_DONE || status == PQ_ROWS;
}

/* Whether there is an answer to take; a server that does not answer in time is left. */
static bool
await_answer(struct post *post, uint64_t until)
{
	while (post->pq->is_busy(post->connection)) {
		uint64_t now = timing_now_ns();
		struct pollfd socket = { .fd = post->pq->socket(post->connection), .events = POLLIN };

		if (now >= until) {
			post->silent = true;
			(void)shutdown(socket.fd, SHUT_RDWR);
		} else if (poll(&socket, 1, (int)((until - now) / 1000000) + 1) == 0) {
			continue;
		}
		if (!post->pq->read(post->connection))
			return false;
	}
	return true;
}

/* The answer to what was SENT, the last if there are several: a failure is the last.  NULL: it is lost. */
static struct pg_result *
answer(struct post *post, int sent)
{
	uint64_t until = timing_now_ns() + ANSWER_MS * 1000000ull;
	struct pg_result *last = NULL, *next;

	post->silent = false;
	if (!sent)
		return NULL;
	while (await_answer(post, until) && (next = post->pq->result(post->connection)) != NULL) {
		post->pq->clear(last);
		last = next;
	}
	return last;
}

static struct pg_result *
run_sql(struct post *post, const char *sql)
{
	return answer(post, post->pq->send(post->connection, sql));
}

static int
run(struct post *post, const char *sql, struct err *err)
{
	struct pg_result *result = run_sql(post, sql);
	int r = is_good(post, result) ? 0 : fail(post, result, err);

	post->pq->clear(result);
	return r;
}

static const struct { enum db_news kind; const char *listen, *tell; } channels[] = {
	{ DB_WORK, "LISTEN cloister_work", "SELECT pg_notify('cloister_work', ?)" },
	{ DB_EVENTS, "LISTEN cloister_events", "SELECT pg_notify('cloister_events', ?)" },
};

static int
listen_again(struct post *post, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(channels); i++)
		if (post->kinds & channels[i].kind)
			r = run(post, channels[i].listen, err);
	return r;
}

/* What a connection needs before its first question.  Each statement is planned once, for any values, and perhaps while its
 * tables are empty: the plan uses indexes, as is right when they have grown. */
static int
prepare_session(struct post *post, struct err *err)
{
	char sql[512];
	int r;

	for (size_t i = 0; i < DB_KEPT_MAX; i++)
		post->kept[i].prepared = false;
	snprintf(sql, sizeof(sql), "SET search_path = cloister; SET standard_conforming_strings = on; "
	         "SET synchronous_commit = on; SET lock_timeout = %d; SET idle_in_transaction_session_timeout = %d; "
	         "SET client_encoding = 'UTF8'; SET jit = off; SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; "
	         "SET enable_hashjoin = off; SET enable_mergejoin = off", DB_BUSY_MS, IDLE_MS);
	r = run(post, sql, err);
	return r == 0 ? listen_again(post, err) : r;
}

/* Connects again, if the connection was lost, and waits a while for a server that restarts.  One that listens waits
 * once and not for each question: it has cells to look after. */
static int
revive(struct post *post, struct err *err)
{
	uint64_t now = timing_now_ns(), until;
	int r = 0;

	if (!is_lost(post))
		return 0;
	if (post->inside || (post->kinds != 0 && post->lost_ns != 0 && now - post->tried_ns < REST_MS * 1000000ull))
		return fail(post, NULL, err);
	if (post->lost_ns == 0 || post->kinds == 0)
		post->lost_ns = now;
	until = post->lost_ns + DB_BUSY_MS * 1000000ull;
	for (;;) {
		post->pq->reset(post->connection);
		r = is_lost(post) ? fail(post, NULL, err) : prepare_session(post, err);
		post->tried_ns = timing_now_ns();
		if (r == 0)
			post->lost_ns = 0;
		if (r == 0 || post->tried_ns >= until)
			return r;
		(void)poll(NULL, 0, RETRY_MS);
	}
}

/* ---- questions ---- */

/* "?" and "?N" as Postgres writes them. */
static int
translate(const char *sql, char **ret_sql, struct err *err)
{
	OWN(buf_free) struct buf out = BUF(SQL_MAX);
	bool quoted = false;
	uint64_t n = 0;

	for (const char *c = sql; *c != '\0'; c++) {
		quoted ^= *c == '\'';
		buf_put(&out, *c == '?' && !quoted ? "$" : c, 1);
		if (*c == '?' && !quoted && !isdigit((unsigned char)c[1]))
			buf_put_decimal(&out, ++n);
	}
	buf_put(&out, "", 1);
	if (buf_failed(&out))
		return err_set(err, ENOMEM, "out of memory");
	*ret_sql = (char *)TAKE(out.data);
	return 0;
}

/* The kept statement for SQL; NULL: all places are taken. */
static struct kept *
find_kept(struct post *post, const char *sql, struct err *err)
{
	struct kept *k = post->kept, *end = k + DB_KEPT_MAX;

	while (k < end && k->sql != NULL && strcmp(k->sql, sql) != 0)
		k++;
	if (k == end)
		return NULL;
	if (k->sql == NULL) {
		k->sql = strdup(sql);
		if (k->sql == NULL)
			(void)err_set(err, ENOMEM, "out of memory");
	}
	return k->sql == NULL ? NULL : k;
}

struct words {
	const char *at[DB_VALUES_MAX];
	unsigned types[DB_VALUES_MAX];
	char numbers[DB_VALUES_MAX][NUMBER_MAX];
};

static void
put_words(struct words *w, const struct db_value *values, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		w->types[i] = values[i].is_text ? TYPE_TEXT : TYPE_INT8;
		w->at[i] = values[i].is_text ? values[i].text : w->numbers[i];
		if (!values[i].is_text)
			snprintf(w->numbers[i], NUMBER_MAX, "%" PRId64, values[i].number);
	}
}

/* The answer, or the failure. */
static struct pg_result *
ask_once(struct post *post, struct kept *kept, const char *sql, const struct words *w, int n)
{
	OWN(freep) char *own = NULL;
	char name[NUMBER_MAX];
	struct pg_result *result;

	if ((kept == NULL || !kept->prepared) && translate(sql, &own, NULL) < 0)
		return NULL;
	if (kept == NULL)
		return answer(post, post->pq->send_with(post->connection, own, n, w->types, w->at, NULL, NULL, 0));
	snprintf(name, sizeof(name), "kept%td", kept - post->kept);
	if (!kept->prepared) {
		result = answer(post, post->pq->prepare(post->connection, name, own, n, w->types));
		if (!is_good(post, result))
			return result;
		post->pq->clear(result);
		kept->prepared = true;
	}
	return answer(post, post->pq->send_prepared(post->connection, name, n, w->at, NULL, NULL, 0));
}

static int
post_ask(struct db *db, struct db_query *q, const char *sql, const struct db_value *values, size_t n, struct err *err)
{
	struct post *post = post_of(db);
	struct kept *kept = find_kept(post, sql, err);
	/* It is not known what became of a change. */
	bool again = !post->inside && strncmp(sql, "SELECT", 6) == 0;
	struct words w;

	put_words(&w, values, n);
	for (;;) {
		int r = revive(post, err);

		if (r < 0)
			return r;
		q->rows = ask_once(post, kept, sql, &w, (int)n);
		if (is_good(post, q->rows))
			return 0;
		r = fail(post, q->rows, err);
		if (!again || !is_lost(post))
			return r;
		again = false;
		post->pq->clear(q->rows);
		q->rows = NULL;
	}
}

static int
post_next(struct db_query *q, struct err *err)
{
	(void)err;
	if (q->row + 1 >= post_of(q->db)->pq->rows(q->rows))
		return 0;
	q->row++;
	return 1;
}

static void
post_finish(struct db_query *q)
{
	post_of(q->db)->pq->clear(q->rows);
}

static const char *
post_text(const struct db_query *q, int column)
{
	const struct pq *pq = post_of(q->db)->pq;

	return pq->is_null(q->rows, q->row, column) ? NULL : pq->value(q->rows, q->row, column);
}

static int64_t
post_integer(const struct db_query *q, int column)
{
	const char *text = post_text(q, column);

	return text == NULL ? 0 : *text == 't' ? 1 : strtoll(text, NULL, 10);
}

static int
post_changed(const struct db_query *q)
{
	return (int)strtol(post_of(q->db)->pq->changed(q->rows), NULL, 10);
}

static int
post_script(struct db *db, const char *sql, struct err *err)
{
	return run(post_of(db), sql, err);
}

/* ---- news ---- */

static int
post_listen(struct db *db, unsigned kinds, struct err *err)
{
	post_of(db)->kinds = kinds;
	return listen_again(post_of(db), err);
}

static int
post_news_fd(const struct db *db)
{
	const struct post *post = (const struct post *)db;

	return post->pq->socket(post->connection);
}

static bool
post_take_news(struct db *db, char ret_about[DB_ABOUT_MAX])
{
	struct post *post = post_of(db);
	struct pq_notice *notice;

	/* A connection that is lost is made again by the next question. */
	(void)post->pq->read(post->connection);
	notice = post->pq->notice(post->connection);
	if (notice == NULL)
		return false;
	snprintf(ret_about, DB_ABOUT_MAX, "%s", notice->text);
	post->pq->free_text(notice);
	return true;
}

static int
post_tell(struct db *db, unsigned kinds, const char *about, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(channels); i++)
		if (kinds & channels[i].kind)
			r = db_do(db, err, channels[i].tell, "s", about);
	return r < 0 ? r : 0;
}

/* ---- changes ---- */

static int
post_begin(struct db *db, struct err *err)
{
	struct post *post = post_of(db);
	int r = revive(post, err);

	r = r == 0 ? run(post, "BEGIN; SELECT pg_advisory_xact_lock(" LOCK_CHANGES ")", err) : r;
	if (r < 0)
		post->pq->clear(run_sql(post, "ROLLBACK"));
	post->inside = r == 0;
	return r;
}

static int
post_commit(struct db *db, struct err *err)
{
	struct post *post = post_of(db);
	struct pg_result *result = run_sql(post, "COMMIT");
	int r = is_good(post, result) ? 0 : fail(post, result, err);

	/* That is how it answers if a statement failed before. */
	if (r == 0 && strcmp(post->pq->command(result), "ROLLBACK") == 0)
		r = err_set(err, EIO, "the registry's Postgres has undone a change: a part of it failed");
	post->pq->clear(result);
	post->inside = post->inside && r < 0;
	return r;
}

static void
post_rollback(struct db *db)
{
	struct post *post = post_of(db);

	post->pq->clear(run_sql(post, "ROLLBACK"));
	post->inside = false;
}

/* Addresses can be written in many ways.  A lock of a name that nobody else knows is the database's own. */
static int
post_is_same(struct db *a, struct db *b, struct err *err)
{
	OWN(db_finish) struct db_query own = {0}, other = {0};
	int64_t key;
	int r;

	if (getrandom(&key, sizeof(key), 0) != sizeof(key))
		return err_errno(err, "cannot get random bytes");
	r = db_ask(a, &own, err, "SELECT pg_advisory_xact_lock(?)", "i", key);
	r = r == 0 ? db_ask(b, &other, err, "SELECT pg_try_advisory_xact_lock(?)", "i", key) : r;
	r = r == 0 ? db_next(&other, err) : r;
	return r < 0 ? r : db_int(&other, 0) == 0;
}

/* ---- opening ---- */

static int
post_get_version(struct db *db, size_t *ret_version, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, "SELECT n FROM migrations", "");

	r = r == 0 ? db_next(&q, err) : r;
	if (r > 0)
		*ret_version = (size_t)db_int(&q, 0);
	return r < 0 ? r : 0;
}

static int
post_set_version(struct db *db, size_t version, struct err *err)
{
	int r = db_do(db, err, "UPDATE migrations SET n = ?", "i", (int64_t)version);

	return r < 0 ? r : 0;
}

static void
post_close(struct db *db)
{
	struct post *post = post_of(db);

	for (size_t i = 0; i < DB_KEPT_MAX; i++)
		free(post->kept[i].sql);
	post->pq->finish(post->connection);
	free(post);
}

static const struct db_engine engine = {
	.now = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
	.ask = post_ask, .next = post_next, .finish = post_finish,
	.integer = post_integer, .text = post_text, .changed = post_changed,
	.script = post_script, .get_version = post_get_version, .set_version = post_set_version,
	.is_same = post_is_same,
	.listen = post_listen, .news_fd = post_news_fd, .take_news = post_take_news, .tell = post_tell,
	.begin = post_begin, .commit = post_commit, .rollback = post_rollback, .close = post_close,
};

/* Whether what the option names stays on this machine. */
static bool
is_near(const char *host)
{
	return host == NULL || *host == '\0' || *host == '/' || *host == '@' || strcmp(host, "localhost") == 0 ||
	       strcmp(host, "127.0.0.1") == 0 || strcmp(host, "::1") == 0;
}

static const char *
option(const struct pq_option *options, const char *name)
{
	while (options->keyword != NULL && strcmp(options->keyword, name) != 0)
		options++;
	return options->keyword == NULL ? NULL : options->value;
}

/* Connects as URL says.  Where it says nothing about TLS, and Postgres is not on this machine, its certificate has to
 * be right. */
static int
reach(struct post *post, const char *url, struct err *err)
{
	static const char *const times[][2] = { { "connect_timeout", CONNECT_SECONDS }, { "keepalives_idle", IDLE_SECONDS },
		{ "keepalives_interval", IDLE_SECONDS }, { "tcp_user_timeout", UNHEARD_MS } };
	const char *words[10] = { "dbname" }, *values[10] = { url };
	struct pq_option *options;
	char *said = NULL;
	size_t n = 1;
	int r = store_url_check(url, err);

	if (r < 0)
		return r;
	options = post->pq->parse(url, &said);
	if (options == NULL) {
		int width;
		const char *text = line_of(said != NULL ? said : "out of memory", &width);

		/* It may quote a password. */
		r = store_url_is_plain(url) ? err_set(err, EINVAL, "the address of the store: %.*s", width, text) :
		    err_set(err, EINVAL, "the address of the store is malformed: write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with '%%25' "
		            "for each '%%' in a password");
		post->pq->free_text(said);
		return r;
	}
	words[n] = "application_name", values[n++] = "cloister";
	for (size_t i = 0; i < ARRAY_LEN(times); i++)
		if (option(options, times[i][0]) == NULL)
			words[n] = times[i][0], values[n++] = times[i][1];
	if (option(options, "sslmode") == NULL && getenv("PGSSLMODE") == NULL && !is_near(option(options, "host"))) {
		words[n] = "sslmode", values[n++] = "verify-full";
		if (option(options, "sslrootcert") == NULL && getenv("PGSSLROOTCERT") == NULL)
			words[n] = "sslrootcert", values[n++] = SYSTEM_CAS;
	}
	post->connection = post->pq->connect(words, values, 1);
	post->pq->free_options(options);
	if (post->connection == NULL)
		return err_set(err, ENOMEM, "out of memory");
	(void)post->pq->on_notice(post->connection, say_nothing, NULL);
	return is_lost(post) ? fail(post, NULL, err) : 0;
}

/* Two that come first at the same time must not do the same migration. */
static int
migrate(struct post *post, const char *const *scripts, struct err *err)
{
	int r = run(post, "SELECT pg_advisory_lock(" LOCK_MIGRATION ")", err);

	if (r < 0)
		return r;
	/* Where it exists, a role without the right to create anything will do. */
	r = run(post, "DO $$ BEGIN IF to_regclass('cloister.migrations') IS NULL THEN CREATE SCHEMA IF NOT EXISTS cloister; "
	        "CREATE TABLE cloister.migrations (n BIGINT NOT NULL); INSERT INTO cloister.migrations VALUES (0); END IF; END $$",
	        err);
	r = r == 0 ? prepare_session(post, err) : r;
	r = r == 0 ? db_migrate(&post->db, scripts, err) : r;
	(void)run(post, "SELECT pg_advisory_unlock(" LOCK_MIGRATION ")", NULL);
	return r;
}

int
db_reach_postgres(const char *url, struct db **ret_db, struct err *err)
{
	OWN(db_closep) struct db *db = NULL;
	const struct pq *pq;
	struct post *post;
	int r = pq_load(&pq, err);

	if (r < 0)
		return r;
	post = calloc(1, sizeof(*post));
	if (post == NULL)
		return err_set(err, ENOMEM, "out of memory");
	post->db.engine = &engine;
	post->pq = pq;
	db = &post->db;
	r = reach(post, url, err);
	if (r < 0)
		return r;
	*ret_db = TAKE(db);
	return 0;
}

int
db_open_postgres(const char *url, const char *home, const struct db_migrations *migrations, struct db **ret_db,
                 struct err *err)
{
	OWN(db_closep) struct db *db = NULL;
	int r = db_reach_postgres(url, &db, err);

	if (r == 0) {
		snprintf(db->home, sizeof(db->home), "%s", home);
		r = migrate(post_of(db), migrations->postgres, err);
	}
	if (r < 0)
		return r;
	*ret_db = TAKE(db);
	return 0;
}

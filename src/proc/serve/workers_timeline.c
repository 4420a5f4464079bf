/* workers_timeline.c - timelines of workers' cells and their output, as far as they are written, among those of ended cells here.
 *
 * Each line is verified before it is kept, and the operator's timeline names the cell's key and where its timeline ends: so
 * `cloister audit verify` proves here what came, whatever happens to the worker later. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "audit/fields.h"
#include "audit/operator.h"
#include "audit/verify.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cell/cell_dirs.h"
#include "dispatch/dispatch.h"
#include "ipc/ipc.h"
#include "proc/serve/workers_parts.h"

#define TIMELINE_MAX (1ull << 30)       /* bytes of one cell */
#define OUTPUT_MAX (64ull << 20)        /* of each stream of one cell */
#define TIMES_MAX (4ull << 20)
#define POLICY_FILE_MAX (4ull << 20)
#define LOCK_TRIES 50
#define FOLLOWED_MAX 16384              /* timelines, over one stream */
#define MIRRORS_MAX 512                 /* of one worker at once: its other cells wait */
#define FAR "far"                       /* in its entry: the data folder of the worker that has the cell */
#define TIED "tied"                     /* in its entry: the operator's timeline names its key */
#define KEPT "kept"                     /* all of it is there */

/* A cell whose timeline was, or will be, asked for over a stream. */
struct followed {
	char id[DISPATCH_ID_LEN + 1], cell[CELL_ID_LEN + 1];
	bool lives;
};

struct mirror {
	struct workers *workers;
	struct mirror *next;
	struct member *member;
	struct link_talk *talk;         /* NULL: it is over */
	enum worker_record record;
	int dir, fd;
	uint64_t size, status;
	struct audit_verify v;          /* of a timeline */
	bool over, tied, complete;
	char cell[CELL_ID_LEN + 1], grant[80];
};

/* ---- its end ---- */

static void
settle(struct mirror *m)
{
	if (m->over)
		return;
	m->over = true;
	if (m->talk != NULL)
		link_talk_finish(TAKE(m->talk));
	loop_at_round_end(m->workers->loop, &m->workers->sweep);
}

static void
give_up(struct mirror *m, const char *why)
{
	fprintf(stderr, "cloister: the %s of cell %s, from worker %s (%s), is not kept any more: %.300s\n",
	        m->record == WORKER_EVENTS ? "timeline" : "output", m->cell, m->member->who.id, m->member->who.name, why);
	settle(m);
}

static void
free_ended(struct workers *w)
{
	struct mirror **at = &w->mirrors, *m;

	while ((m = *at) != NULL) {
		if (!m->over) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		close_fd(&m->fd);
		close_fd(&m->dir);
		free(m);
	}
}

void
workers_lose_timelines(struct workers *w, const struct member *member)
{
	for (struct mirror *m = w->mirrors; m != NULL; m = m->next)
		if (member == NULL || m->member == member) {
			m->talk = NULL;
			m->over = true;
		}
	free_ended(w);
}

/* ---- lines ---- */

/* What the operator's timeline says of it. */
static void
note_members(struct mirror *m, const char *line, size_t len)
{
	struct audit_record record;
	char type[32];

	if (audit_record_read(line, len, &record, NULL) < 0 || !audit_field_text(record.event, "type", type, sizeof(type)))
		return;
	if (strcmp(type, "cell.boot") == 0)
		(void)audit_field_text(record.event, "hash", m->grant, sizeof(m->grant));
	else if (strcmp(type, "cell.end") == 0)
		(void)audit_field_number(record.event, "status", &m->status);
}

/* All of TEXT is whole lines. */
static int
verify(struct mirror *m, const char *text, size_t len)
{
	for (size_t at = 0; at < len;) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t n = end == NULL ? 0 : (size_t)(end - text) - at;

		if (end == NULL || n == 0 || n > AUDIT_LINE_MAX || audit_verify_line(&m->v, text + at, n) < 0)
			return -EBADMSG;
		note_members(m, text + at, n);
		at += n + 1;
	}
	return 0;
}

/* Its key is known with the first checkpoint. */
static int
tie(struct mirror *m, struct err *err)
{
	OWN(operator_close) struct operator op = {0};
	int r;

	if (m->tied || !m->v.has_key)
		return 0;
	r = operator_open(&op, err);
	r = r == 0 ? operator_cell_started(&op, m->cell, m->v.key, m->grant, err) : r;
	r = r == 0 ? create_file_at(m->dir, TIED, 0600, "", err) : r;
	m->tied = r == 0;
	return r;
}

static void
take_lines(struct mirror *m, const struct buf *body)
{
	const char *text = (const char *)body->data + body->pos;
	size_t len = buf_left(body);
	struct err err = {0};

	if (len == 0 || len > WORKER_PART_MAX || m->size + len > TIMELINE_MAX)
		give_up(m, "it is too large");
	else if (verify(m, text, len) < 0)
		give_up(m, *m->v.finding != '\0' ? m->v.finding : "it is malformed");
	else if (write_all(m->fd, text, len, &err) < 0 || tie(m, &err) < 0)
		give_up(m, err.text);
	m->size += len;
}

static int
finish(struct mirror *m, struct err *err)
{
	OWN(operator_close) struct operator op = {0};
	int r = 0;

	if (faccessat(m->dir, KEPT, F_OK, 0) == 0)
		return 0;
	if (audit_verify_end(&m->v) < 0 || !m->tied)
		return err_set(err, EBADMSG, "%s", *m->v.finding != '\0' ? m->v.finding : "nothing of it is signed");
	r = fdatasync(m->fd) < 0 ? err_errno(err, "cannot keep it") : operator_open(&op, err);
	r = r == 0 ? operator_cell_ended(&op, m->cell, &m->v.chain, (uint32_t)m->status, err) : r;
	return r == 0 ? create_file_at(m->dir, KEPT, 0600, "", err) : r;
}

static int
open_record(struct mirror *m, const char *name, struct err *err)
{
	m->fd = openat(m->dir, name, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return m->fd < 0 ? err_errno(err, "cannot open it") : 0;
}

/* Nobody verifies here what the agent printed; `cloister audit verify` compares the policy with the timeline. */
static void
take_output(struct mirror *m, const struct buf *body)
{
	const uint64_t most = m->record == WORKER_TIMES ? TIMES_MAX : m->record == WORKER_POLICY ? POLICY_FILE_MAX : OUTPUT_MAX;
	size_t len = buf_left(body);
	struct err err = {0};

	if (m->fd == 0 && open_record(m, CELL_POLICY, &err) < 0)
		give_up(m, err.text);
	else if (len == 0 || m->size + len > most)
		give_up(m, "it is too large");
	else if (write_all(m->fd, body->data + body->pos, len, &err) < 0)
		give_up(m, err.text);
	m->size += len;
}

static void fetch_policy(struct mirror *timeline);

/* All of the timeline is here, and the policy that it names. */
static void
conclude(struct mirror *m)
{
	OWN(buf_free) struct buf message = {0};
	struct err err = {0};

	if (finish(m, &err) < 0) {
		give_up(m, err.text);
		return;
	}
	ipc_begin(&message, WORKER_KEPT);
	link_talk_send(m->talk, &message);
	settle(m);
}

static void
take_complete(struct mirror *m)
{
	struct mirror *timeline = m->workers->mirrors;

	if (m->record == WORKER_EVENTS && !m->complete) {
		m->complete = true;
		fetch_policy(m);
		return;
	}
	settle(m);
	while (timeline != NULL && (timeline->over || !timeline->complete || strcmp(timeline->cell, m->cell) != 0))
		timeline = timeline->next;
	if (m->record == WORKER_POLICY && timeline != NULL)
		conclude(timeline);
}

static void
heard(void *arg, uint32_t type, struct buf *body)
{
	struct mirror *m = arg;

	if (m->over)
		return;
	if (type == WORKER_PART && m->record == WORKER_EVENTS && !m->complete)
		take_lines(m, body);
	else if (type == WORKER_PART && m->record != WORKER_EVENTS)
		take_output(m, body);
	else if (type == WORKER_COMPLETE)
		take_complete(m);
	else
		give_up(m, "it sent something else");
}

static void
closed(void *arg)
{
	struct mirror *m = arg;

	m->talk = NULL;
	settle(m);
}

/* ---- the beginning ---- */

/* One worker has a cell: no other goes on with what that one has sent. */
static int
check_far(int dir, const char *home, struct err *err)
{
	OWN(freep) char *text = NULL;
	int r = read_file_at(dir, FAR, LINK_HOME_MAX, &text, NULL, err);

	if (r == -ENOENT)
		return err_set(err, EEXIST, "a cell of this machine had that id");
	return r < 0 || strcmp(text, home) == 0 ? r : err_set(err, EEXIST, "a cell of another worker had that id");
}

static int
open_entry(const char *id, const char *cell, const char *home, struct err *err)
{
	OWN(closep) int state = cell_state_open(true, err), ended = -1;
	OWN(closep) int dir = -1;
	char name[CELL_ENTRY_MAX];
	bool new;
	int r;

	if (state < 0)
		return state;
	if (mkdirat(state, CELL_ENDED, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make the folder of ended cells");
	ended = cell_ended_open(state);
	snprintf(name, sizeof(name), "%s.", cell);
	new = ended >= 0 && mkdirat(ended, name, 0700) == 0;
	if (ended < 0 || (!new && errno != EEXIST))
		return err_errno(err, "cannot make its folder");
	dir = openat(ended, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir < 0 || (new && (create_file_at(dir, FAR, 0600, home, NULL) < 0 ||
	                        create_file_at(dir, CELL_DISPATCH, 0600, id, NULL) < 0)))
		return err_errno(err, "cannot make its folder");
	r = check_far(dir, home, err);
	return r < 0 ? r : TAKE_FD(dir);
}

/* A command that looks whether it is locked locks it for a moment. */
static int
lock_entry(int dir, struct err *err)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(dir, LOCK_EX | LOCK_NB) == 0)
			return 0;
		(void)nanosleep(&pause, NULL);
	}
	return err_errno(err, "another service has it");
}

/* What is there from before, but for a line that is not whole. */
static int
go_on(struct mirror *m, struct err *err)
{
	OWN(freep) char *text = malloc(WORKER_PART_MAX);
	const char *end;
	ssize_t n = 1;

	while (text != NULL && (n = pread(m->fd, text, WORKER_PART_MAX, (off_t)m->size)) > 0 &&
	       (end = memrchr(text, '\n', (size_t)n)) != NULL) {
		if (verify(m, text, (size_t)(end + 1 - text)) < 0)
			return err_set(err, EBADMSG, "what is there of it was changed: %s", m->v.finding);
		m->size += (uint64_t)(end + 1 - text);
	}
	if (text == NULL || n < 0 || ftruncate(m->fd, (off_t)m->size) < 0)
		return err_errno(err, "cannot read what is there of it");
	return tie(m, err);
}

static int
ask(struct mirror *m, struct err *err)
{
	OWN(buf_free) struct buf body = BUF(64);

	buf_put_str(&body, m->cell);
	buf_put_u32(&body, m->record);
	buf_put_u64(&body, m->size);
	m->talk = link_line_open(m->member->line, WORKER_FETCH, &body);
	if (m->talk == NULL)
		return err_set(err, ENOMEM, "out of memory");
	m->talk->max = WORKER_PART_MAX + sizeof(uint32_t);
	m->talk->heard = heard;
	m->talk->closed = closed;
	m->talk->arg = m;
	return 0;
}

/* To read again what is here may take long, so it is done once. */
static bool
note_followed(struct member *member, const char *id, const char *cell, bool lives)
{
	struct followed *more;

	for (size_t i = 0; i < member->n_followed; i++)
		if (strcmp(member->followed[i].cell, cell) == 0)
			return false;
	if (member->n_followed == FOLLOWED_MAX)
		return false;
	more = reallocarray(member->followed, member->n_followed + 1, sizeof(*more));
	if (more == NULL)
		return false;
	member->followed = more;
	more += member->n_followed++;
	snprintf(more->id, sizeof(more->id), "%s", id);
	snprintf(more->cell, sizeof(more->cell), "%s", cell);
	more->lives = lives;
	return true;
}

static struct mirror *
add(struct member *member, const char *cell, enum worker_record record)
{
	struct workers *w = member->workers;
	struct mirror *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	*m = (struct mirror){ .workers = w, .next = w->mirrors, .member = member, .record = record };
	snprintf(m->cell, sizeof(m->cell), "%s", cell);
	w->mirrors = m;
	return m;
}

static int
begin_timeline(struct mirror *m, const char *id, struct err *err)
{
	int r = m->dir = open_entry(id, m->cell, m->member->who.home, err);

	/* Whoever follows it sees that there is more to come. */
	r = r >= 0 ? lock_entry(m->dir, err) : r;
	r = r >= 0 ? open_record(m, CELL_EVENTS, err) : r;
	if (r == 0) {
		m->tied = faccessat(m->dir, TIED, F_OK, 0) == 0;
		snprintf(m->v.timeline, sizeof(m->v.timeline), "cell/%s", m->cell);
		r = go_on(m, err);
	}
	return r == 0 ? ask(m, err) : r;
}

static int
begin_output(struct mirror *m, const struct mirror *timeline, struct err *err)
{
	static const char *const names[] = { [WORKER_STDOUT] = CELL_STDOUT, [WORKER_STDERR] = CELL_STDERR,
	                                     [WORKER_TIMES] = CELL_TIMES };
	struct stat st;
	int r;

	/* With the entry's lock: the cell is over here when all of it has come. */
	m->dir = fcntl(timeline->dir, F_DUPFD_CLOEXEC, 0);
	r = m->dir < 0 ? err_errno(err, "cannot open it") : open_record(m, names[m->record], err);
	if (r == 0 && fstat(m->fd, &st) == 0)
		m->size = (uint64_t)st.st_size;
	return r == 0 ? ask(m, err) : r;
}

/* A cell without one has no such file. */
static int
begin_policy(struct mirror *m, const struct mirror *timeline, struct err *err)
{
	m->dir = fcntl(timeline->dir, F_DUPFD_CLOEXEC, 0);
	if (m->dir < 0)
		return err_errno(err, "cannot open it");
	(void)unlinkat(m->dir, CELL_POLICY, 0);
	return ask(m, err);
}

static void
fetch_policy(struct mirror *timeline)
{
	struct mirror *m = NULL;
	struct err err = {0};

	if (faccessat(timeline->dir, KEPT, F_OK, 0) == 0)
		conclude(timeline);
	else if ((m = add(timeline->member, timeline->cell, WORKER_POLICY)) == NULL)
		give_up(timeline, "out of memory");
	else if (begin_policy(m, timeline, &err) < 0) {
		give_up(m, err.text);
		settle(timeline);
	}
}

static bool
is_mirrored(const struct workers *w, const char *cell)
{
	const struct mirror *m = w->mirrors;

	while (m != NULL && (m->over || strcmp(m->cell, cell) != 0))
		m = m->next;
	return m != NULL;
}

static void
begin(struct member *member, const struct followed *f)
{
	struct mirror *timeline = is_mirrored(member->workers, f->cell) ? NULL : add(member, f->cell, WORKER_EVENTS), *m;
	struct err err = {0};

	if (timeline == NULL)
		return;
	if (begin_timeline(timeline, f->id, &err) < 0) {
		give_up(timeline, err.text);
		return;
	}
	/* Shows that its output is kept by streams. */
	if (f->lives && faccessat(timeline->dir, CELL_STEPS, F_OK, 0) < 0)
		(void)create_file_at(timeline->dir, CELL_STEPS, 0600, "", NULL);
	for (enum worker_record record = WORKER_STDOUT; f->lives && record <= WORKER_TIMES; record++)
		if ((m = add(member, f->cell, record)) != NULL && begin_output(m, timeline, &err) < 0)
			give_up(m, err.text);
}

/* Each mirror has descriptors of this process and memory for a part. */
static void
begin_waiting(struct member *member)
{
	size_t n = WORKER_RECORDS;

	for (const struct mirror *m = member->workers->mirrors; m != NULL; m = m->next)
		n += m->member == member;
	for (; !member->over && member->n_begun < member->n_followed && n <= MIRRORS_MAX; n += WORKER_RECORDS)
		begin(member, &member->followed[member->n_begun++]);
}

void
workers_follow(struct member *member, const char *id, const char *cell, bool lives)
{
	if (!is_mirrored(member->workers, cell) && note_followed(member, id, cell, lives))
		begin_waiting(member);
}

void
workers_sweep_timelines(struct workers *w)
{
	free_ended(w);
	for (struct member *member = w->members; member != NULL && !w->stopping; member = member->next)
		begin_waiting(member);
}

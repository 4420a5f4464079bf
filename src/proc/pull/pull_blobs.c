/* pull_blobs.c - fetches an image's layers and configuration: a few at once, each verified while it streams.
 *
 * A transfer that breaks off goes on where it ended, in this process or in the next.  A blob that is not what it
 * should be is dropped, and the pull ends. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "proc/pull/pull.h"

#define GAIN (1u << 20)                 /* so many bytes are progress: the tries are counted anew */
#define BUSY_MS 250                     /* between looks at a blob that another process fetches */

enum job_state { JOB_WAITS, JOB_RUNS, JOB_DONE };

struct job {
	const struct image_descriptor *what;
	enum job_state state;
	struct store_blob *blob;        /* NULL: not begun */
	struct pull_exchange x;
	unsigned tries;
	uint64_t gained_at;             /* where the tries began */
	int64_t due;                    /* io_now_ms() */
	bool was_resumed;               /* the first bytes are of another process */
	bool has_slot;
	size_t slot;                    /* among PULL_PARALLEL */
};

struct work {
	struct pull *pull;
	struct pull_source *source;
	struct job *jobs;
	size_t n, n_running;
	bool slots[PULL_PARALLEL];
};

/* ---- one blob ---- */

static int
take_bytes(void *arg, const void *data, size_t len, struct err *err)
{
	struct job *j = arg;

	return store_blob_write(j->blob, data, len, err);
}

/* The server may begin anew. */
static int
begin_bytes(void *arg, struct err *err)
{
	struct job *j = arg;

	if (j->x.from == store_blob_offset(j->blob))
		return 0;
	j->was_resumed = false;
	return store_blob_restart(j->blob, err);
}

static int
begin_job(struct work *w, struct job *j, struct err *err)
{
	int r;

	if (j->blob != NULL)
		return 0;
	if (store_has_blob(w->pull->store, j->what->digest))
		return 1;
	r = store_blob_begin(w->pull->store, j->what->digest, j->what->size, &j->blob, err);
	if (r == 0) {
		j->gained_at = store_blob_offset(j->blob);
		j->was_resumed = j->gained_at > 0;
	}
	return r;
}

static int
send_job(struct work *w, struct job *j, struct err *err)
{
	unsigned logins = j->x.logins, redirects = j->x.redirects;
	int r;

	/* Redirects of an earlier try may have expired. */
	if (j->x.url[0] == '\0' || redirects == 0) {
		j->x = (struct pull_exchange){ .source = w->source, .is_large = true, .body_max = j->what->size,
		                               .take = take_bytes, .begin = begin_bytes, .arg = j, .logins = logins };
		snprintf(j->x.url, sizeof(j->x.url), "%s/v2/%s/blobs/%s", w->source->base, w->source->repository,
		         j->what->digest);
	}
	j->x.from = store_blob_offset(j->blob);
	r = pull_send(w->pull, w->pull->large, &j->x, err);
	if (r == 0) {
		j->state = JOB_RUNS;
		w->n_running++;
	}
	return r;
}

static void
finish_job(struct work *w, struct job *j)
{
	j->state = JOB_DONE;
	w->slots[j->slot] = j->has_slot = false;
	pull_progress_leave(w->pull->progress, j->slot);
	pull_progress_add(w->pull->progress, j->what->size, 1);
}

/* All bytes are there: whether they are the right ones. */
static int
check_job(struct work *w, struct job *j, struct err *err)
{
	bool is_short = store_blob_offset(j->blob) < j->what->size;
	int r;

	if (is_short)
		return err_set(err, EBADMSG, "the server sends %" PRIu64 " bytes of %s, which should have %" PRIu64,
		               store_blob_offset(j->blob), j->what->digest, j->what->size);
	r = store_blob_finish(TAKE(j->blob), NULL, err);
	if (r == -EBADMSG && j->was_resumed) {
		j->was_resumed = false;
		j->state = JOB_WAITS;
		return 0;
	}
	if (r == 0)
		finish_job(w, j);
	return r;
}

static int
wait_for_retry(struct work *w, struct job *j, struct err *err)
{
	uint64_t at = store_blob_offset(j->blob);

	if (at >= j->gained_at + GAIN) {
		j->tries = 0;
		j->gained_at = at;
	}
	j->tries += pull_weight(&j->x);
	if (j->tries >= PULL_TRIES)
		return -err->code;
	pull_progress_retry(w->pull->progress, j->tries, err->text);
	j->due = io_now_ms() + pull_pause(&j->x, j->tries);
	j->x.url[0] = '\0';
	j->x.redirects = j->x.logins = 0;
	return 0;
}

static int
job_over(struct work *w, struct job *j, CURLcode code, struct err *err)
{
	enum pull_next next = pull_finish(w->pull, w->pull->large, &j->x, code, err);

	j->state = JOB_WAITS;
	w->n_running--;
	switch (next) {
	case PULL_DONE:
		return check_job(w, j, err);
	case PULL_AGAIN:
		return j->x.status == 416 ? store_blob_restart(j->blob, err) : 0;
	case PULL_RETRY:
		return wait_for_retry(w, j, err);
	default:
		return -err->code;
	}
}

/* ---- all of them ---- */

static size_t
find_slot(const struct work *w)
{
	size_t i = 0;

	while (i < PULL_PARALLEL && w->slots[i])
		i++;
	return i;
}

static int
start_job(struct work *w, struct job *j, struct err *err)
{
	size_t slot = find_slot(w);
	int r;

	/* A job that waits for its next try has its place. */
	if (!j->has_slot && slot == PULL_PARALLEL)
		return 0;
	r = begin_job(w, j, err);
	if (r == -EBUSY) {
		j->due = io_now_ms() + BUSY_MS;
		return 0;
	}
	if (r < 0)
		return r;
	if (!j->has_slot) {
		j->slot = slot;
		j->has_slot = w->slots[slot] = true;
	}
	if (r > 0) {
		finish_job(w, j);
		return 0;
	}
	/* It came whole, before its process was killed. */
	if (store_blob_offset(j->blob) == j->what->size && j->what->size > 0)
		return check_job(w, j, err);
	r = send_job(w, j, err);
	return r < 0 && err->code == EHOSTUNREACH ? wait_for_retry(w, j, err) : r;
}

static int
start_jobs(struct work *w, bool *ret_done, int *ret_wait, struct err *err)
{
	int64_t now = io_now_ms();
	int r = 0;

	*ret_done = true;
	*ret_wait = 500;
	for (size_t i = 0; r == 0 && i < w->n; i++) {
		struct job *j = &w->jobs[i];

		if (j->state == JOB_WAITS && j->due <= now)
			r = start_job(w, j, err);
		if (j->state == JOB_WAITS && j->due > now && j->due - now < *ret_wait)
			*ret_wait = (int)(j->due - now) + 1;
		if (j->state != JOB_DONE)
			*ret_done = false;
	}
	return r;
}

static int
reap(struct work *w, struct err *err)
{
	CURLMsg *message;
	struct job *j;
	int left, r = 0;

	while (r == 0 && (message = curl_multi_info_read(w->pull->large, &left)) != NULL) {
		struct pull_exchange *x = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&x);
		j = x->arg;
		r = job_over(w, j, message->data.result, err);
		if (r < 0)
			(void)err_wrap(err, "%.19s", j->what->digest);
	}
	return r;
}

static void
show(struct work *w)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->jobs[i].blob != NULL)
			pull_progress_blob(w->pull->progress, w->jobs[i].slot, w->jobs[i].what->digest,
			                   store_blob_offset(w->jobs[i].blob), w->jobs[i].what->size);
	pull_progress_draw(w->pull->progress, false);
}

static int
run(struct work *w, struct err *err)
{
	int running, wait, r = 0;
	bool is_done = false;

	while (r == 0) {
		r = start_jobs(w, &is_done, &wait, err);
		if (r < 0 || is_done)
			break;
		if (curl_multi_perform(w->pull->large, &running) != CURLM_OK)
			r = err_set(err, EIO, "cannot transfer anything");
		r = r == 0 ? reap(w, err) : r;
		show(w);
		if (r == 0)
			(void)curl_multi_poll(w->pull->large, NULL, 0, w->n_running < w->n ? (wait < 100 ? wait : 100) : 100, NULL);
	}
	return r;
}

/* Bytes that are wrong, or that found no room, are not kept. */
static void
stop(struct work *w, int r)
{
	for (size_t i = 0; i < w->n; i++) {
		struct job *j = &w->jobs[i];

		pull_drop(w->pull->large, &j->x);
		if (j->blob == NULL)
			continue;
		if (r == -EBADMSG || r == -EFBIG || r == -ENOSPC || r == -EDQUOT || store_blob_offset(j->blob) == 0)
			store_blob_abort(j->blob);
		else
			store_blob_suspend(j->blob);
		j->blob = NULL;
	}
}

/* ---- what is missing ---- */

static bool
is_listed(const struct work *w, const char *digest)
{
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->jobs[i].what->digest, digest) == 0)
			return true;
	return false;
}

static int
add_job(struct work *w, const struct image_descriptor *d, uint64_t *total, struct err *err)
{
	char size[NUM_TEXT_MAX], max[NUM_TEXT_MAX];
	const struct pull *p = w->pull;

	if (d->size > p->blob_max)
		return err_set(err, EFBIG, "%.19s has %s, and the limit of a blob is %s", d->digest,
		               num_format_size(size, d->size), num_format_size(max, p->blob_max));
	if (is_listed(w, d->digest))
		return 0;
	*total += d->size;
	if (*total > p->image_max)
		return err_set(err, EFBIG, "it has over %s, which is the limit of an image", num_format_size(max, p->image_max));
	w->jobs[w->n++].what = d;
	return 0;
}

int
pull_blobs(struct pull *p, struct pull_source *source, const struct image_manifest *manifest, struct err *err)
{
	OWN(freep) struct job *jobs = calloc(manifest->n_layers + 1, sizeof(*jobs));
	struct work w = { .pull = p, .source = source, .jobs = jobs };
	uint64_t total = 0;
	int r = jobs == NULL ? err_set(err, ENOMEM, "out of memory") : add_job(&w, &manifest->config, &total, err);

	for (size_t i = 0; r == 0 && i < manifest->n_layers; i++)
		r = add_job(&w, &manifest->layers[i], &total, err);
	if (r < 0)
		return r;
	pull_progress_begin(p->progress, p->name.full, total, w.n);
	r = run(&w, err);
	stop(&w, r);
	pull_progress_end(p->progress);
	return r;
}

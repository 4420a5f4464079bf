/* pull_progress.c - shows how far a pull is: bars on a terminal, lines of JSON for programs. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "proc/pull/pull.h"

#define DRAW_MS 100
#define BAR 24
#define COLUMNS_LEAST 60

struct blob_line {
	bool is_shown;
	char digest[HASH_NAME + 1];
	uint64_t done, size;
};

struct pull_progress {
	FILE *lines;                    /* NULL: none */
	bool is_drawn;                  /* there is a terminal */
	char name[IMAGE_NAME_MAX + 1];
	uint64_t total, done;
	size_t n_blobs, n_done;
	struct blob_line blobs[PULL_PARALLEL];
	unsigned on_screen;             /* lines */
	int64_t drawn_at, begun_at;
	uint64_t begun_with;
};

static bool
is_wide(void)
{
	struct winsize size;

	return isatty(STDERR_FILENO) && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= COLUMNS_LEAST;
}

int
pull_progress_new(int fd, bool quiet, struct pull_progress **ret_progress, struct err *err)
{
	struct pull_progress *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return err_set(err, ENOMEM, "out of memory");
	g->is_drawn = !quiet && is_wide();
	g->lines = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (fd >= 0 && g->lines == NULL) {
		free(g);
		return err_errno(err, "cannot write to descriptor %d", fd);
	}
	*ret_progress = g;
	return 0;
}

static uint64_t
received(const struct pull_progress *g)
{
	uint64_t done = g->done;

	for (size_t i = 0; i < PULL_PARALLEL; i++)
		done += g->blobs[i].is_shown ? g->blobs[i].done : 0;
	return done;
}

static void
begin_line(struct pull_progress *g, struct json *w, const char *event)
{
	*w = (struct json){ .out = g->lines };
	json_open(w, NULL, '{');
	json_str(w, "event", event);
}

static void
end_line(struct pull_progress *g, struct json *w)
{
	json_close(w, '}');
	fputc('\n', g->lines);
	(void)fflush(g->lines);
}

static void
write_line(struct pull_progress *g, const char *event)
{
	struct json w;

	begin_line(g, &w, event);
	json_str(&w, "name", g->name);
	json_u64(&w, "done", received(g));
	json_u64(&w, "total", g->total);
	json_u64(&w, "blobs_done", g->n_done);
	json_u64(&w, "blobs", g->n_blobs);
	end_line(g, &w);
}

void
pull_progress_note(struct pull_progress *g, const char *event, const char *text)
{
	struct json w;

	if (g->lines == NULL)
		return;
	begin_line(g, &w, event);
	json_str(&w, "text", text);
	end_line(g, &w);
}

void
pull_progress_begin(struct pull_progress *g, const char *name, uint64_t total, size_t blobs)
{
	snprintf(g->name, sizeof(g->name), "%s", name);
	g->total = total;
	g->done = 0;
	g->n_blobs = blobs;
	g->n_done = 0;
	memset(g->blobs, 0, sizeof(g->blobs));
	g->begun_at = io_now_ms();
	g->begun_with = UINT64_MAX;
	if (g->lines != NULL)
		write_line(g, "begin");
}

void
pull_progress_blob(struct pull_progress *g, size_t slot, const char *digest, uint64_t done, uint64_t size)
{
	struct blob_line *b = &g->blobs[slot];

	b->is_shown = true;
	snprintf(b->digest, sizeof(b->digest), "%s", digest);
	b->done = done;
	b->size = size;
}

void
pull_progress_leave(struct pull_progress *g, size_t slot)
{
	g->blobs[slot].is_shown = false;
}

void
pull_progress_add(struct pull_progress *g, uint64_t bytes, size_t blobs)
{
	g->done += bytes;
	g->n_done += blobs;
}

/* ---- the terminal ---- */

static void
draw_bar(uint64_t done, uint64_t total)
{
	char a[NUM_TEXT_MAX], b[NUM_TEXT_MAX];
	unsigned filled = total > 0 ? (unsigned)((long double)done * BAR / (long double)total) : BAR;

	fputc('[', stderr);
	for (unsigned i = 0; i < BAR; i++)
		fputc(i < filled ? '#' : '.', stderr);
	fprintf(stderr, "] %6s of %s", num_format_size(a, done), num_format_size(b, total));
}

static void
draw_lines(struct pull_progress *g)
{
	uint64_t done = received(g);
	int64_t ms = io_now_ms() - g->begun_at;
	char rate[NUM_TEXT_MAX];
	unsigned n = 1;

	if (g->begun_with == UINT64_MAX)
		g->begun_with = done;
	for (size_t i = 0; i < PULL_PARALLEL; i++) {
		if (!g->blobs[i].is_shown)
			continue;
		fprintf(stderr, "\r\033[K  %.12s ", g->blobs[i].digest + sizeof(HASH_PREFIX) - 1);
		draw_bar(g->blobs[i].done, g->blobs[i].size);
		fputc('\n', stderr);
		n++;
	}
	fprintf(stderr, "\r\033[K  %zu of %zu      ", g->n_done, g->n_blobs);
	draw_bar(done, g->total);
	if (ms > 500)
		fprintf(stderr, ", %s/s", num_format_size(rate, (done - g->begun_with) * 1000 / (uint64_t)ms));
	fputs("\n\033[J", stderr);
	g->on_screen = n;
}

static void
erase(struct pull_progress *g)
{
	if (g->on_screen > 0)
		fprintf(stderr, "\033[%uA\r", g->on_screen);
	g->on_screen = 0;
}

void
pull_progress_retry(struct pull_progress *g, unsigned tries, const char *text)
{
	pull_progress_note(g, "retry", text);
	if (!g->is_drawn)
		return;
	erase(g);
	fputs("\033[Jcloister: ", stderr);
	text_print_safe(stderr, text, strlen(text), false);
	fprintf(stderr, ": try %u of %d\n", tries + 1, PULL_TRIES);
	(void)fflush(stderr);
}

void
pull_progress_draw(struct pull_progress *g, bool now)
{
	int64_t at = io_now_ms();

	if (!now && at - g->drawn_at < DRAW_MS)
		return;
	g->drawn_at = at;
	if (g->lines != NULL)
		write_line(g, "progress");
	if (!g->is_drawn)
		return;
	erase(g);
	draw_lines(g);
	(void)fflush(stderr);
}

void
pull_progress_end(struct pull_progress *g)
{
	if (g->lines != NULL)
		write_line(g, "end");
	if (!g->is_drawn)
		return;
	erase(g);
	fputs("\033[J", stderr);
	(void)fflush(stderr);
}

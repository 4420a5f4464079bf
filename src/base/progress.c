/* progress.c - see progress.h. */
#include "base/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/num.h"
#include "base/text.h"

#define PATIENCE_MS 2000
#define REDRAW_MS 100
#define CLEAR_LINE "\r\033[K"

static struct {
	const char *what;
	int64_t began, drawn;
	bool is_drawn;
} now;

void
progress_begin(const char *what)
{
	if (now.began == 0)
		now.began = io_now_ms();
	now.what = what;
}

/* AMOUNT is that of TOTAL, or of DONE if there is no TOTAL. */
static void
draw(uint64_t done, uint64_t total, const char *amount)
{
	const int64_t t = io_now_ms();

	if (t - now.began < PATIENCE_MS || t - now.drawn < REDRAW_MS || !isatty(STDERR_FILENO))
		return;
	fputs(CLEAR_LINE, stderr);
	text_print_safe(stderr, now.what, strlen(now.what), false);
	if (total > 0)
		fprintf(stderr, ": %3" PRIu64 "%% of %s", done >= total ? 100 : done * 100 / total, amount);
	else
		fprintf(stderr, ": %s", amount);
	fflush(stderr);
	now.drawn = t;
	now.is_drawn = true;
}

void
progress_show(uint64_t done, uint64_t total)
{
	char text[NUM_TEXT_MAX];

	draw(done, total, num_format_size(text, total > 0 ? total : done));
}

void
progress_count(uint64_t done, uint64_t total)
{
	char text[NUM_TEXT_MAX];

	snprintf(text, sizeof(text), "%" PRIu64, total > 0 ? total : done);
	draw(done, total, text);
}

void
progress_end(void)
{
	if (now.is_drawn)
		fputs(CLEAR_LINE, stderr);
	now.is_drawn = false;
}

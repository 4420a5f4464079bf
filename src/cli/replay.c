/* replay.c - `cloister replay`: shows a cell's timeline and output again, as they happened. */
#include "cli/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/num.h"
#include "base/own.h"
#include "base/since.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/timeline.h"
#include "cli/timeline_acts.h"

#define GAP_MS 2000                     /* the longest pause, unless --max-gap */
#define SPEED_MAX 1000000               /* thousandths */

struct replay {
	bool step;
	uint64_t speed;                 /* thousandths */
	uint64_t max_gap_ms;
	struct timeline_types types;    /* --type */
	struct timeline t;
	struct timeline_event next;     /* if HAS_NEXT */
	bool has_next;
	struct replay_output output;
	size_t at;                      /* the next piece */
	struct replay_rows rows;
	uint64_t now_ms;                /* of what was shown last; 0: nothing yet */
	bool keys;                      /* the operator can press some */
	bool paused, over;
	char line[REPLAY_CELL_MAX];     /* of output, so far */
	size_t len;
	int escape;                     /* inside an escape sequence: see strip() */
};

const struct cli_option cli_replay_options[] = {
	{ "speed", 0, "N", "N times as fast as it happened (1)", 0 },
	{ "step", 0, NULL, "wait for a key before each event", CLI_FLAG(struct replay, step) },
	{ "max-gap", 0, "TIME", "wait at most this long between two events (2s)", 1 },
	{ "type", 0, "TYPE,...", "only events of these types, as with `events`", 2 },
	{0}
};

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct replay *r = arg;

	if (option->id == 2)
		return timeline_types_parse(value, &r->types, err);
	if (option->id == 1)
		return num_parse_duration(value, &r->max_gap_ms, err);
	if (option->id == 0 && (num_parse_milli(value, &r->speed, NULL) < 0 || r->speed == 0 || r->speed > SPEED_MAX))
		return err_set(err, EINVAL, "--speed takes a number such as 0.5, 2 or 10, not '%.32s'", value);
	return 0;
}

/* ---- the keyboard ---- */

static struct termios saved;
static volatile sig_atomic_t is_changed;

static void
restore(void)
{
	if (is_changed)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
	is_changed = 0;
}

static void
restore_and_end(int signal)
{
	restore();
	(void)raise(signal);            /* SA_RESETHAND: this ends the process */
}

static void
open_keys(struct replay *r)
{
	struct sigaction end = { .sa_handler = restore_and_end, .sa_flags = SA_RESETHAND | SA_NODEFER };
	struct termios plain;

	r->keys = r->rows.width > 0 && isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &saved) == 0;
	if (!r->keys)
		return;
	(void)sigaction(SIGINT, &end, NULL);
	(void)sigaction(SIGTERM, &end, NULL);
	(void)sigaction(SIGHUP, &end, NULL);
	plain = saved;
	plain.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	is_changed = 1;
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &plain) < 0)
		r->keys = false;
	(void)atexit(restore);
}

/* What a key does; true: go on with the next event. */
static bool
take_key(struct replay *r, char key)
{
	switch (key) {
	case 'q': r->over = true; return true;
	case ' ': r->paused = !r->paused; r->step = false; return !r->paused;
	case '+': r->speed = r->speed * 2 > SPEED_MAX ? SPEED_MAX : r->speed * 2; return false;
	case '-': r->speed = r->speed > 1 ? r->speed / 2 : 1; return false;
	case 's': r->step = true; return false;
	case 'c': r->step = false; return true;
	default: return key == '\n' || key == 'n';
	}
}

/* Waits MS, or for a key while the replay is paused. */
static void
wait_ms(struct replay *r, uint64_t ms)
{
	struct pollfd p = { .fd = r->keys ? STDIN_FILENO : -1, .events = POLLIN };
	char key;

	for (;;) {
		bool holds = r->keys && (r->paused || r->step);
		int n = poll(&p, 1, holds ? -1 : ms > INT32_MAX ? INT32_MAX : (int)ms);

		if (n == 0 || (n < 0 && errno != EINTR))
			return;
		if (n <= 0)
			continue;
		if (read(STDIN_FILENO, &key, 1) != 1) {
			r->keys = false;
			return;
		}
		if (take_key(r, key))
			return;
	}
}

/* ---- what is shown ---- */

static const char *
clock_text(uint64_t ms, char ret_text[TIMELINE_TIME_MAX])
{
	char time[SINCE_TEXT_MAX];

	since_format(ms, time);
	return ms != UINT64_MAX && timeline_format_time(ret_text, time, "%H:%M:%S") ? ret_text : "-";
}

static void
show_line(struct replay *r, uint64_t ms)
{
	char time[TIMELINE_TIME_MAX];

	r->line[r->len] = '\0';
	if (r->len > 0)
		replay_rows_put(&r->rows, clock_text(ms, time), REPLAY_OUTPUT, r->line);
	r->len = 0;
}

/* Whether C belongs to an escape sequence: colours and titles are left out, so that lines can be read. */
static bool
strip(struct replay *r, char c)
{
	enum { NONE, ESCAPED, CSI, OSC };

	switch (r->escape) {
	case NONE:
		r->escape = c == 033 ? ESCAPED : NONE;
		return c == 033;
	case ESCAPED:
		r->escape = c == '[' ? CSI : c == ']' ? OSC : NONE;
		return true;
	case CSI:
		r->escape = c >= '@' && c <= '~' ? NONE : CSI;
		return true;
	default:
		r->escape = c == '\a' ? NONE : c == 033 ? ESCAPED : OSC;
		return true;
	}
}

static void
show_piece(struct replay *r, const struct replay_piece *piece)
{
	char data[4096];
	uint64_t done = 0;
	ssize_t n;

	while (done < piece->len) {
		size_t want = piece->len - done < sizeof(data) ? (size_t)(piece->len - done) : sizeof(data);

		n = pread(piece->fd, data, want, (off_t)(piece->from + done));
		if (n <= 0)
			break;
		done += (uint64_t)n;
		for (ssize_t i = 0; i < n; i++) {
			if (strip(r, data[i]))
				continue;
			if (data[i] == '\n' || data[i] == '\r' || r->len == sizeof(r->line) - 1)
				show_line(r, piece->ms);
			if (data[i] != '\n' && data[i] != '\r')
				r->line[r->len++] = data[i] == '\t' ? ' ' : data[i];
		}
	}
	show_line(r, piece->ms);
}

static void
show_event(struct replay *r, uint64_t ms)
{
	const struct timeline_event *e = &r->next;
	OWN(freep) char *text = NULL;
	char time[TIMELINE_TIME_MAX];
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (out == NULL)
		return;
	timeline_print_what(out, e);
	if (timeline_is_refusal(e)) {
		fputs("  refused: ", out);
		timeline_print_cause(out, e);
	} else if (timeline_is_decision(e) && e->status != 0) {
		fprintf(out, "  %u", e->status);
	} else if (e->note[0] != '\0') {
		fprintf(out, "  %s", e->note);
	}
	if (fclose(out) == 0)
		replay_rows_put(&r->rows, clock_text(ms, time), timeline_act(e) != TIMELINE_NO_ACT || strncmp(e->type, "cell", 4) == 0 ?
		                REPLAY_PROCESSES : REPLAY_REQUESTS, text);
}

/* ---- the loop ---- */

/* Counts of calls and samples of resources are for --type. */
static bool
is_wanted(const struct replay *r, const struct timeline_event *e)
{
	enum timeline_act act = timeline_act(e);

	return timeline_types_have(&r->types, e->type) &&
	       (r->types.bits != 0 || (act != TIMELINE_CALLS && act != TIMELINE_RESOURCES));
}

static int
look_ahead(struct replay *r, struct err *err)
{
	int n = 1;

	while (!r->has_next && (n = timeline_next(&r->t, &r->next, err)) > 0) {
		r->has_next = is_wanted(r, &r->next);
		if (!r->has_next)
			timeline_event_free(&r->next);
	}
	return n < 0 ? n : 0;
}

static void
wait_until(struct replay *r, uint64_t ms)
{
	uint64_t gap = r->now_ms == 0 || ms == UINT64_MAX || ms <= r->now_ms ? 0 : (ms - r->now_ms) * 1000 / r->speed;

	gap = gap < r->max_gap_ms ? gap : r->max_gap_ms;
	if (ms != UINT64_MAX && ms > r->now_ms)
		r->now_ms = ms;
	/* Elsewhere than on a terminal, only the text is wanted. */
	if (r->rows.width == 0 || (gap == 0 && !r->step && !r->paused))
		return;
	replay_rows_flush(&r->rows);
	wait_ms(r, gap);
}

static int
play(struct replay *r, struct err *err)
{
	int n = 0;

	while (!r->over && (n = look_ahead(r, err)) == 0) {
		const struct replay_piece *piece = r->at < r->output.n ? &r->output.pieces[r->at] : NULL;
		uint64_t event_ms = UINT64_MAX;

		if (!r->has_next && piece == NULL)
			break;
		if (r->has_next && since_parse(r->next.time, 0, &event_ms, NULL) < 0)
			event_ms = r->now_ms;
		if (piece != NULL && (!r->has_next || piece->ms < event_ms)) {
			wait_until(r, piece->ms);
			if (!r->over)
				show_piece(r, piece);
			r->at++;
			continue;
		}
		wait_until(r, event_ms);
		if (!r->over)
			show_event(r, event_ms);
		timeline_event_free(&r->next);
		r->has_next = false;
	}
	replay_rows_flush(&r->rows);
	return n;
}

static void
replay_free(struct replay *r)
{
	if (r->has_next)
		timeline_event_free(&r->next);
	timeline_close(&r->t);
	replay_output_close(&r->output);
}

static void
open_rows(struct replay_rows *rows)
{
	struct winsize size = {0};

	rows->out = stdout;
	if (isatty(STDOUT_FILENO))
		rows->width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
	rows->wide = rows->width >= REPLAY_WIDE;
	rows->colour = text_wants_colour(stdout);
}

/* On standard error, so that the text stays what happened. */
static void
tell_notes(const struct replay *r, bool live)
{
	if (!r->output.is_kept)
		fprintf(stderr, "cloister: the output of cell %s was not kept: only detached cells (run -d) have a log\n",
		        timeline_cell(&r->t));
	else if (!r->output.has_times && r->output.n > 0)
		fputs("cloister: the output has no times, and is shown at the end\n", stderr);
	if (live)
		fputs("cloister: the cell still runs; this is what happened so far\n", stderr);
}

int
cmd_replay(int argc, char **argv)
{
	OWN(replay_free) struct replay r = { .speed = 1000, .max_gap_ms = GAP_MS };
	struct err err = {0};
	bool live;
	int rest;

	if (cli_parse(cli_replay_options, argc, argv, true, take_option, &r, &rest, &err) < 0)
		return cli_fail(&err);
	if (argc - rest > 1)
		return cli_failf("`replay` takes one cell: remove '%s'", argv[rest + 1]);
	if (timeline_open(rest < argc ? argv[rest] : NULL, &r.t, &err) < 0)
		return cli_fail(&err);
	live = timeline_is_live(&r.t);
	/* Reading an event opens the cell's state entry. */
	if (look_ahead(&r, &err) < 0 || replay_output_open(&r.output, r.t.dir > 0 ? r.t.dir : -1, &err) < 0)
		return cli_fail(&err);
	open_rows(&r.rows);
	open_keys(&r);
	tell_notes(&r, live);
	replay_rows_head(&r.rows);
	if (play(&r, &err) < 0)
		return cli_fail(&err);
	return 0;
}

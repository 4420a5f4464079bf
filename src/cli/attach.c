/* attach.c - `cloister attach`: joins the terminal of a detached cell's agent. */
#include "cli/attach.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "base/text.h"
#include "cell/cell_call.h"
#include "cell/cell_control.h"
#include "cell/cell_screen.h"
#include "cli/cli.h"
#include "loop/detach.h"
#include "loop/loop.h"
#include "loop/screen.h"
#include "loop/stdio.h"

struct attach {
	struct loop *loop;
	struct stdio stdio;
	struct screen screen;
	struct detach detach;
	struct loop_source source;      /* the supervisor */
	struct cell_entry entry;
	bool clipboard, joined, left, ended;
	uint32_t status;
	char cause[256];
	int signal;                     /* that ended this process's stay; 0: none */
	struct err err;
};

const struct cli_option cli_attach_options[] = {
	{ "detach-keys", 0, "KEYS", "leave with these keys, as `ctrl-a,d`; or none (ctrl-p,ctrl-q)", 0 },
	{ "clipboard", 0, NULL, "let the command set this terminal's clipboard", 1 },
	{0}
};

/* Sets this terminal as the agent's is, and shows the last output that came before. */
static void
show_before(struct attach *a, uint64_t size)
{
	OWN(buf_free) struct buf text = CELL_SCREEN_BUF;

	cell_screen_show(a->entry.id, size, &a->screen, &text);
	(void)write_all(STDOUT_FILENO, text.data, text.len, NULL);
}

/* ---- the supervisor ---- */

static void
check_end(void *arg)
{
	struct attach *a = arg;

	if (a->ended && (stdio_finish(&a->stdio) || stdio_is_idle(&a->stdio)))
		loop_quit(a->loop);
}

static void
resize(void *arg, unsigned rows, unsigned columns)
{
	struct attach *a = arg;

	/* The size of the first request is in force. */
	if (a->joined)
		cell_call_attach(a->source.fd, rows, columns, NULL);
}

static void
take_terminal(struct attach *a, struct cell_answer *answer)
{
	if (answer->message.n_fds != 1 || !answer->has_log)
		(void)err_set(&a->err, EBADMSG, "the cell's supervisor is of another version");
	else {
		a->stdio.detach = &a->detach;
		a->stdio.screen = &a->screen;
		(void)stdio_carry_terminal(&a->stdio, ipc_take_fd(&answer->message, 0), a->clipboard, &a->err);
		a->joined = true;
		/* Nothing of the new output is copied before the loop goes on. */
		show_before(a, answer->log_size);
	}
	if (a->err.code != 0)
		loop_quit(a->loop);
}

static void
take_end(struct attach *a, const struct cell_answer *answer)
{
	a->status = answer->number;
	snprintf(a->cause, sizeof(a->cause), "%s", answer->text);
	a->ended = true;
	loop_unwatch(a->loop, &a->source);
	check_end(a);
}

static void
fail(struct attach *a, int code, const char *text)
{
	(void)err_set(&a->err, code, "%s", text);
	loop_quit(a->loop);
}

static void
supervisor_ready(void *arg, uint32_t events)
{
	struct attach *a = arg;
	OWN(cell_answer_free) struct cell_answer answer;
	int r = cell_call_receive(a->source.fd, &answer, &a->err);

	(void)events;
	if (r < 0 && r != -EBADMSG) {
		(void)err_set(&a->err, EPIPE, "cell %s has no supervisor any more", a->entry.id);
		loop_quit(a->loop);
	} else if (r < 0 || answer.kind == CELL_ANSWER_EXITED) {
		fail(a, EBADMSG, "the cell's supervisor is of another version");
	} else if (answer.kind == CELL_ANSWER_STARTED) {
		take_terminal(a, &answer);
	} else if (answer.kind == CELL_ANSWER_ENDED) {
		take_end(a, &answer);
	} else if (answer.kind == CELL_ANSWER_REFUSED) {
		fail(a, (int)answer.number, answer.text);
	} else {
		fputs("cloister: ", stderr);
		text_print_safe(stderr, answer.text, strlen(answer.text), false);
		fputs("\r\n", stderr);
	}
}

/* ---- this terminal ---- */

static void
leave(void *arg)
{
	struct attach *a = arg;

	a->left = true;
	loop_quit(a->loop);
}

static void
caught(void *arg, const struct signalfd_siginfo *info)
{
	struct attach *a = arg;

	if (info->ssi_signo == SIGWINCH) {
		stdio_resize(&a->stdio);
		return;
	}
	a->signal = (int)info->ssi_signo;
	leave(a);
}

static int
catch_signals(struct attach *a)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		sigaddset(&set, numbers[i]);
	signal(SIGPIPE, SIG_IGN);
	return loop_catch(a->loop, &set, caught, a, &a->err);
}

static void
run(struct attach *a, int socket)
{
	struct winsize size = {0};

	(void)ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	if (loop_new(&a->loop, &a->err) < 0)
		return;
	stdio_init(&a->stdio, a->loop, check_end, a);
	a->stdio.resize = resize;
	a->stdio.arg = a;
	a->source = (struct loop_source){ .ready = supervisor_ready, .arg = a, .fd = socket };
	cell_call_attach(socket, size.ws_row, size.ws_col, NULL);
	if (catch_signals(a) == 0 && loop_watch(a->loop, &a->source, EPOLLIN, &a->err) == 0)
		(void)loop_run(a->loop, &a->err);
}

/* This terminal is again as the person left it. */
static void
give_back_terminal(struct attach *a)
{
	char modes[SCREEN_MODES_MAX];

	if (a->joined && !a->ended)
		(void)write_all(STDOUT_FILENO, modes, screen_reset(&a->screen, modes), NULL);
	/* Answers of this terminal to questions of the agent must not be typed into the person's shell. */
	if (a->joined)
		(void)tcflush(STDIN_FILENO, TCIFLUSH);
	stdio_close(&a->stdio);
}

/* A new cell may have closed its terminal, or ended, before it was joined: its last output, and its status. */
static int
show_ended(struct attach *a, const char *id)
{
	struct err err = {0};
	uint32_t status;

	if (cli_await_end(id, &status, &err) < 0)
		return cli_fail(&err);
	(void)cli_await_tidy(id);
	snprintf(a->entry.id, sizeof(a->entry.id), "%s", id);
	show_before(a, CELL_SCREEN_WHOLE);
	return (int)status;
}

static bool
has_no_terminal_any_more(const struct attach *a)
{
	const int code = a->err.code;

	return !a->joined && (code == ESRCH || code == ENOENT || code == EPIPE || code == ECONNRESET);
}

int
attach_to(const char *word, const struct detach *keys, bool clipboard, bool is_new)
{
	struct attach a = { .detach = *keys, .clipboard = clipboard };
	OWN(closep) int socket = cli_connect(word, &a.entry, &a.err);

	if (socket >= 0) {
		a.detach.leave = leave;
		a.detach.arg = &a;
		run(&a, socket);
		give_back_terminal(&a);
	}
	if (is_new && has_no_terminal_any_more(&a))
		return show_ended(&a, word);
	if (a.left) {
		fprintf(stderr, "\ncloister: detached from cell %s: `cloister attach %s` joins it again\n", a.entry.id,
		        word);
		return a.signal > 0 ? 128 + a.signal : 0;
	}
	if (a.err.code != 0)
		return cli_fail(&a.err);
	if (a.cause[0] != '\0')
		fprintf(stderr, "cloister: cell %s: %s\n", a.entry.id, a.cause);
	return (int)a.status;
}

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct attach *a = arg;

	if (option->id == 0)
		return detach_parse(value, &a->detach, err);
	a->clipboard = true;
	return 0;
}

int
cmd_attach(int argc, char **argv)
{
	struct attach asked = {0};
	struct err err = {0};
	int rest;

	(void)detach_parse(DETACH_DEFAULT, &asked.detach, NULL);
	if (cli_parse(cli_attach_options, argc, argv, true, take_option, &asked, &rest, &err) < 0)
		return cli_fail(&err);
	if (argc - rest != 1)
		return cli_failf("%s: cloister attach [OPTION...] CELL", rest == argc ? "no cell is given" :
		                 "only one cell can be attached to");
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return cli_failf("attach needs a terminal as standard input and output: `cloister logs -f %s` needs none",
		                 argv[rest]);
	return attach_to(argv[rest], &asked.detach, asked.clipboard, false);
}

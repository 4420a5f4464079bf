/* vault_prompt.c - prompts for values without echo. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/vault/vault_proc.h"

#define PASSPHRASE_MIN 8

/* Reads a line byte by byte: with line editing, the kernel would keep the text in memory for longer. */
static int
read_line(int tty, struct guard *g, struct err *err)
{
	char c;
	ssize_t n;

	for (;;) {
		n = read(tty, &c, 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || c == 4 || c == 3)
			return err_set(err, ECANCELED, "nothing was given: a line at this prompt, or the text on standard input, is the value");
		if (c == '\n' || c == '\r')
			break;
		if (c == 127 || c == 8)
			g->len -= g->len > 0;
		else if (c == 21)
			g->len = 0;
		else if (g->len == g->cap)
			return err_set(err, EFBIG, "a value is at most %zu bytes", g->cap);
		else
			g->at[g->len++] = c;
	}
	g->at[g->len] = '\0';
	explicit_bzero(&c, sizeof(c));
	return 0;
}

/* Reads one line, without echo, at the controlling terminal; -ENOTTY if there is none.  WHAT:
 * "value of GITHUB_TOKEN".  May be empty. */
static int
prompt_hidden(const char *what, struct guard *ret_line, struct err *err)
{
	OWN(closep) int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
	OWN(guard_free) struct guard g = {0};
	struct termios before, silent;
	sigset_t ends, old;
	int r;

	if (tty < 0 || tcgetattr(tty, &before) < 0)
		return err_set(err, ENOTTY, "there is no terminal on which to ask for the %s", what);
	r = guard_alloc(&g, SECRET_VALUE_MAX, err);
	if (r < 0)
		return r;
	/* A signal must not leave the terminal without echo. */
	sigfillset(&ends);
	sigprocmask(SIG_BLOCK, &ends, &old);
	silent = before;
	silent.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON | ISIG);
	silent.c_cc[VMIN] = 1;
	silent.c_cc[VTIME] = 0;
	r = tcsetattr(tty, TCSAFLUSH, &silent) < 0 ? err_errno(err, "cannot silence the terminal") : 0;
	if (r == 0) {
		dprintf(tty, "%s (not shown): ", what);
		r = read_line(tty, &g, err);
		dprintf(tty, "\n");
		tcsetattr(tty, TCSAFLUSH, &before);
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (r == 0)
		*ret_line = guard_take(&g);
	return r;
}

int
prompt_passphrase(void *arg, bool new, struct guard *ret_passphrase, struct err *err)
{
	OWN(guard_free) struct guard first = {0}, again = {0};
	struct guard *kept = arg;
	int r;

	if (kept->len > 0)
		return guard_copy(ret_passphrase, kept->at, kept->len, err);
	r = prompt_hidden(new ? "new passphrase of the vault" : "passphrase of the vault", &first, err);
	if (r < 0)
		return r;
	if (new && first.len < PASSPHRASE_MIN)
		return err_set(err, EINVAL, "a passphrase has at least %d characters", PASSPHRASE_MIN);
	r = new ? prompt_hidden("the same again", &again, err) : 0;
	if (r == 0 && new && (first.len != again.len || memcmp(first.at, again.at, first.len) != 0))
		r = err_set(err, EINVAL, "the two passphrases differ");
	if (r == 0)
		r = guard_copy(kept, first.at, first.len, err);
	if (r == 0)
		*ret_passphrase = guard_take(&first);
	return r;
}

/* Prompts one after the other, as the lines of standard input would be. */
static int
ask_fields(const struct secret *s, struct guard *text, struct err *err)
{
	bool wants_id = secret_wants_id(s) && *s->id == '\0';
	int r = guard_alloc(text, SOURCE_OUTPUT_MAX, err);

	for (size_t f = wants_id ? SECRET_ID : SECRET_SECRET; r == 0 && f < SECRET_FIELDS; f++) {
		OWN(guard_free) struct guard line = {0};
		char what[SECRET_NAME_MAX + 64];

		if (f == SECRET_TOKEN && !wants_id)
			break;
		snprintf(what, sizeof(what), "%s of %s%s", f == SECRET_SECRET ? "value" :
		         secret_field_names[f], s->name,
		         f == SECRET_TOKEN ? ", or nothing if it has none" : "");
		r = prompt_hidden(what, &line, err);
		if (r < 0 || line.len == 0)
			break;
		if (text->len + line.len + 1 > text->cap)
			return err_set(err, EFBIG, "a value is at most %zu bytes", text->cap);
		if (text->len > 0)
			text->at[text->len++] = '\n';
		memcpy(text->at + text->len, line.at, line.len + 1);
		text->len += line.len;
	}
	return r;
}

int
prompt_values(const struct secret *s, uint64_t now, struct secret_values *ret_values,
              struct err *err)
{
	OWN(guard_free) struct guard text = {0};
	int r;

	if (isatty(STDIN_FILENO)) {
		r = ask_fields(s, &text, err);
	} else {
		r = guard_alloc(&text, SOURCE_OUTPUT_MAX, err);
		r = r == 0 ? guard_read(&text, STDIN_FILENO, err) : r;
	}
	if (r < 0)
		return r;
	guard_chomp(&text);
	if (text.len == 0)
		return err_set(err, EINVAL, "the value of '%s' is empty: type it, or pipe it in", s->name);
	return source_fields(s, &text, now, ret_values, err);
}

/* stdio.c - see stdio.h. */
#include "loop/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/own.h"
#include "loop/detach.h"
#include "loop/screen.h"

#define FLUSH_STEPS 32                  /* 2 MiB: more than a pipe holds */

void
stdio_fill_closed(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd < 2);
	/* Descriptors 0, 1 and 2 must survive an exec; others must not. */
	if (fd > 2)
		close(fd);
	for (int i = 0; i <= 2 && fd >= 0; i++)
		(void)fcntl(i, F_SETFD, 0);
}

void
stdio_init(struct stdio *s, struct loop *loop, void (*ended)(void *arg), void *arg)
{
	*s = (struct stdio){ .loop = loop, .in_fd = -1, .out_fd = -1, .err_fd = -1,
	                     .host_in = -1, .host_out = -1, .host_err = -1,
	                     .in_unread = -1,
	                     .ended = ended, .arg = arg };
	s->group = getpgrp();
}

/* Only /dev/null may pass: it is the same everywhere. */
static bool
may_pass(int fd)
{
	struct stat st;

	if (!CONTROL_ON("stdio"))
		return true;
	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

static bool
is_same(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* Open a terminal, pipe or device again for ourselves, non-blocking, if its access mode permits.  A
 * file stays the operator's own, because its position matters.  So does an input pipe: a newly
 * opened one would not report its end. */
static int
open_own(int host, int flags)
{
	int mode = fcntl(host, F_GETFL) & O_ACCMODE;
	struct stat st;

	if (fstat(host, &st) < 0 || S_ISREG(st.st_mode) || (mode != flags && mode != O_RDWR) ||
	    (S_ISFIFO(st.st_mode) && flags == O_RDONLY))
		return fcntl(host, F_DUPFD_CLOEXEC, 3);
	return relay_reopen(host, flags);
}

static int
make_pipe(int ret_ends[2], int ours, struct err *err)
{
	if (pipe2(ret_ends, O_CLOEXEC) < 0 || fcntl(ret_ends[ours], F_SETFL, O_NONBLOCK) < 0)
		return err_errno(err, "cannot make a pipe");
	return 0;
}

static void
close_own(int *fd)
{
	closep(fd);
	*fd = -1;
}

static void
input_done(void *arg, struct relay *relay)
{
	struct stdio *s = arg;

	(void)relay;
	/* The process sees the end of its input. */
	close_own(&s->in_fd);
}

static void
output_done(void *arg, struct relay *relay)
{
	struct stdio *s = arg;

	/* If nobody reads the output any more, the process gets EPIPE. */
	close_own(relay == &s->errors ? &s->err_fd : &s->out_fd);
	if (relay->error != 0)
		s->write_error = relay->error;
	s->ended(s->arg);
}

/* ---- a pipe as input --------------------------------------------------------
 *
 * `while read line; do cloister run -- CMD; done` must not lose its lines to a CMD that reads
 * nothing.  So tee(2) shows the first page to the process and leaves it in the pipe.  It is removed
 * only as far as the process has read it.  Once the process has read the whole page, it counts as a
 * reader, and the rest is simply relayed. */

static void
stop_peeking(struct stdio *s)
{
	char taken[4096];
	int unread = 0;

	if (!s->peeking)
		return;
	s->peeking = false;
	loop_unwatch(s->loop, &s->peek_host);
	loop_unwatch(s->loop, &s->peek_in);
	if (s->peeked > 0 && ioctl(s->in_fd, FIONREAD, &unread) == 0 &&
	    (size_t)unread < s->peeked)
		(void)relay_read_pipe(s->host_in, taken, s->peeked - (size_t)unread);
	s->peeked = 0;
}

/* Input is available: show it to the process. */
static void
peek_host_ready(void *arg, uint32_t events)
{
	struct stdio *s = arg;
	ssize_t n = tee(s->host_in, s->in_fd, 4096, SPLICE_F_NONBLOCK);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		stop_peeking(s);
		close_own(&s->in_fd);
		return;
	}
	s->peeked = (size_t)n;
	loop_unwatch(s->loop, &s->peek_host);
	/* The pipe has one page: it accepts more only when this is gone. */
	(void)loop_watch(s->loop, &s->peek_in, EPOLLOUT, NULL);
}

static void
peek_in_ready(void *arg, uint32_t events)
{
	struct stdio *s = arg;

	stop_peeking(s);
	if ((events & EPOLLERR) != 0) {
		/* The process has closed its input. */
		close_own(&s->in_fd);
		return;
	}
	(void)fcntl(s->in_fd, F_SETPIPE_SZ, RELAY_BUFFER);
	(void)relay_start(&s->in, s->loop, s->host_in, s->in_fd, NULL);
}

static int
start_peeking(struct stdio *s, struct err *err)
{
	s->peek_host = (struct loop_source){ .fd = s->host_in, .ready = peek_host_ready, .arg = s };
	s->peek_in = (struct loop_source){ .fd = s->in_fd, .ready = peek_in_ready, .arg = s };
	s->peeking = true;
	return loop_watch(s->loop, &s->peek_host, EPOLLIN, err);
}

static int
carry_in(struct stdio *s, int *ret_inside, struct err *err)
{
	struct stat st;
	int ends[2];

	if (fstat(STDIN_FILENO, &st) < 0)
		return err_errno(err, "cannot look at standard input");
	if (S_ISDIR(st.st_mode))
		return err_set(err, EISDIR, "standard input is a folder: give a file or a pipe");
	if (make_pipe(ends, 1, err) < 0)
		return -err->code;
	*ret_inside = ends[0];
	s->in_fd = ends[1];
	s->host_in = open_own(STDIN_FILENO, O_RDONLY);
	s->in.done = input_done;
	s->in.arg = s;
	s->in.group = isatty(STDIN_FILENO) ? s->group : 0;
	if (S_ISREG(st.st_mode)) {
		s->in_start = lseek(s->host_in, 0, SEEK_CUR);
		s->in_unread = fcntl(ends[0], F_DUPFD_CLOEXEC, 3);
	}
	if (S_ISFIFO(st.st_mode) && fcntl(s->in_fd, F_SETPIPE_SZ, 4096) == 4096)
		return start_peeking(s, err);
	return relay_start(&s->in, s->loop, s->host_in, s->in_fd, err);
}

static int
carry_out(struct stdio *s, struct relay *relay, int host, int *host_own, int *own,
          int *ret_inside, struct err *err)
{
	int ends[2];

	if (make_pipe(ends, 0, err) < 0)
		return -err->code;
	*own = ends[0];
	*ret_inside = ends[1];
	*host_own = open_own(host, O_WRONLY);
	relay->done = output_done;
	relay->arg = s;
	return relay_start(relay, s->loop, *own, *host_own, err);
}

static int
sink_out(struct stdio *s, struct relay *relay, const struct stdio_sink *sink, int *own,
         int *ret_inside, struct err *err)
{
	int ends[2];

	if (make_pipe(ends, 0, err) < 0)
		return -err->code;
	*own = ends[0];
	*ret_inside = ends[1];
	relay->sink = sink->take;
	relay->sink_arg = sink->arg;
	relay->done = output_done;
	relay->arg = s;
	return relay_start(relay, s->loop, *own, -1, err);
}

int
stdio_open_sinks(struct stdio *s, const struct stdio_sink *out, const struct stdio_sink *errors,
                 bool input, int ret_inside[3], struct err *err)
{
	int r = 0;

	ret_inside[0] = ret_inside[1] = ret_inside[2] = -1;
	if (input && !may_pass(STDIN_FILENO))
		r = carry_in(s, &ret_inside[0], err);
	else
		ret_inside[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (r == 0)
		r = sink_out(s, &s->out, out, &s->out_fd, &ret_inside[1], err);
	if (r == 0 && errors != NULL)
		r = sink_out(s, &s->errors, errors, &s->err_fd, &ret_inside[2], err);
	else if (r == 0)
		ret_inside[2] = fcntl(ret_inside[1], F_DUPFD_CLOEXEC, 3);
	if (r == 0 && (ret_inside[0] < 0 || ret_inside[2] < 0))
		r = err_errno(err, "cannot open the cell's input and output");
	return r;
}

int
stdio_open(struct stdio *s, bool tty, int ret_inside[3], struct err *err)
{
	int r = 0;

	ret_inside[0] = ret_inside[1] = ret_inside[2] = -1;
	if (!tty) {
		if (may_pass(STDIN_FILENO))
			ret_inside[0] = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		else
			r = carry_in(s, &ret_inside[0], err);
		if (r == 0 && may_pass(STDOUT_FILENO))
			ret_inside[1] = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		else if (r == 0)
			r = carry_out(s, &s->out, STDOUT_FILENO, &s->host_out, &s->out_fd,
			              &ret_inside[1], err);
	} else if (isatty(STDERR_FILENO)) {
		return 0;
	}
	if (r == 0 && ret_inside[1] >= 0 && is_same(STDOUT_FILENO, STDERR_FILENO))
		/* Both go to the same place, so their output keeps its order. */
		ret_inside[2] = fcntl(ret_inside[1], F_DUPFD_CLOEXEC, 3);
	else if (r == 0 && may_pass(STDERR_FILENO))
		ret_inside[2] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	else if (r == 0)
		r = carry_out(s, &s->errors, STDERR_FILENO, &s->host_err, &s->err_fd,
		              &ret_inside[2], err);
	return r;
}

static void
set_raw(struct stdio *s)
{
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &s->saved) < 0)
		return;
	raw = s->saved;
	cfmakeraw(&raw);
	s->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

void
stdio_resize(struct stdio *s)
{
	struct winsize size;

	if (s->raw && s->out_fd >= 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 &&
	    ioctl(s->out_fd, TIOCSWINSZ, &size) < 0 && s->resize != NULL)
		s->resize(s->arg, size.ws_row, size.ws_col);
}

_Static_assert(CLIPBOARD_HELD_MAX <= RELAY_HELD_MAX && DETACH_HELD_MAX <= RELAY_HELD_MAX, "a relay has room");

static size_t
filter_output(void *arg, const unsigned char *in, size_t len, unsigned char *out)
{
	struct stdio *s = arg;

	if (s->may_set_clipboard)
		memmove(out, in, len);
	else
		len = clipboard_filter(&s->clipboard, in, len, out);
	if (s->screen != NULL)
		screen_watch(s->screen, out, len);
	return len;
}

static size_t
filter_input(void *arg, const unsigned char *in, size_t len, unsigned char *out)
{
	return detach_filter(arg, in, len, out);
}

int
stdio_carry_sink(struct stdio *s, int master, const struct stdio_sink *out, struct err *err)
{
	s->out_fd = master;
	/* While this one is open, a process that has closed its terminal is not hung up on. */
	s->in_fd = fcntl(master, F_DUPFD_CLOEXEC, 3);
	s->out.sink = out->take;
	s->out.sink_arg = out->arg;
	s->out.sink_wakes = true;
	s->out.done = output_done;
	s->out.arg = s;
	return relay_start(&s->out, s->loop, master, -1, err);
}

int
stdio_carry_terminal(struct stdio *s, int master, bool clipboard, struct err *err)
{
	int r;

	/* Two relays use one terminal, and epoll needs a descriptor for each. */
	s->out_fd = master;
	s->in_fd = fcntl(master, F_DUPFD_CLOEXEC, 3);
	s->host_in = relay_reopen(STDIN_FILENO, O_RDONLY);
	s->host_out = relay_reopen(STDOUT_FILENO, O_WRONLY);
	set_raw(s);
	stdio_resize(s);
	s->in.done = input_done;
	s->out.done = output_done;
	s->in.arg = s->out.arg = s;
	s->in.group = s->group;
	s->may_set_clipboard = clipboard;
	s->out.filter = filter_output;
	s->out.filter_arg = s;
	s->in.filter = s->detach != NULL ? filter_input : NULL;
	s->in.filter_arg = s->detach;
	r = relay_start(&s->out, s->loop, s->out_fd, s->host_out, err);
	return r < 0 ? r : relay_start(&s->in, s->loop, s->host_in, s->in_fd, err);
}

/* Give back what was read ahead from a file and not used by the process, so that the next reader
 * misses nothing. */
static void
give_back(struct stdio *s)
{
	off_t ahead = (off_t)s->in.len, now = lseek(s->host_in, 0, SEEK_CUR);
	int left = 0;

	if (s->in_unread < 0 || now < 0)
		return;
	if (ioctl(s->in_unread, FIONREAD, &left) == 0)
		ahead += left;
	/* The process can write to its own pipe, so never seek back before the start. */
	if (ahead > now - s->in_start)
		ahead = now - s->in_start;
	if (ahead > 0)
		(void)lseek(s->host_in, -ahead, SEEK_CUR);
	close_own(&s->in_unread);
}

bool
stdio_finish(struct stdio *s)
{
	stop_peeking(s);
	give_back(s);
	relay_drop(&s->in);
	relay_flush(&s->out);
	relay_flush(&s->errors);
	return s->out.data == NULL && s->errors.data == NULL;
}

void
stdio_flush(struct stdio *s)
{
	relay_flush_some(&s->out, FLUSH_STEPS);
	relay_flush_some(&s->errors, FLUSH_STEPS);
}

bool
stdio_is_idle(const struct stdio *s)
{
	return s->out.len == 0 && s->errors.len == 0;
}

void
stdio_close(struct stdio *s)
{
	int *const all[] = { &s->in_fd, &s->out_fd, &s->err_fd, &s->host_in, &s->host_out,
	                     &s->host_err };

	stop_peeking(s);
	give_back(s);
	relay_drop(&s->in);
	relay_drop(&s->out);
	relay_drop(&s->errors);
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		close_own(all[i]);
	if (s->raw)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &s->saved);
	s->raw = false;
}

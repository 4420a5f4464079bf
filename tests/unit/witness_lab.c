/* witness_lab.c - see witness_lab.h. */
#include "witness_lab.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "confine/filter.h"
#include "confine/filter_own.h"
#include "ipc/ipc.h"
#include "test.h"

static void __attribute__((format(printf, 2, 3)))
put(struct witness_lab *lab, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(lab->log + lab->len, WITNESS_LAB_LOG_MAX - lab->len, fmt, ap);
	va_end(ap);
	CHECK(n >= 0 && (size_t)n < WITNESS_LAB_LOG_MAX - lab->len);
	lab->len += (size_t)n;
}

static void
put_text(struct witness_lab *lab, const char *name, const struct act_text *text)
{
	if (text->at == NULL)
		return;
	put(lab, " %s=", name);
	for (size_t i = 0; i < text->len; i++)
		put(lab, text->at[i] > ' ' && text->at[i] < 127 ? "%c" : "\\%02x", (unsigned char)text->at[i]);
	put(lab, text->cut ? "..." : "");
}

static void
take(void *arg, const struct act *act)
{
	static const char *const kinds[] = { "exec", "exit", "file", "net", "refused", "danger", "calls", "lost" };
	static const char *const files[] = { "write", "create", "read", "rename", "remove", "link", "mode", "owner",
		"times" };
	static const char *const nets[] = { "connect", "bind", "listen", "accept" };
	char address[INET6_ADDRSTRLEN];
	struct witness_lab *lab = arg;

	put(lab, "%s", kinds[act->kind]);
	if (act->kind == ACT_FILE)
		put(lab, " %s", files[act->file]);
	if (act->kind == ACT_NET)
		put(lab, " %s", nets[act->net]);
	if (act->kind == ACT_EXIT)
		put(lab, act->status_unknown ? " unknown" : act->signalled ? " signal=%d" : " status=%d", act->status);
	if (act->kind == ACT_REFUSED || act->kind == ACT_DANGER)
		put(lab, " nr=%u", act->nr);
	put_text(lab, "path", &act->path);
	put_text(lab, "to", &act->to);
	put_text(lab, "script", &act->script);
	put_text(lab, "argv", &act->argv);
	put_text(lab, "text", &act->text);
	if (act->kind == ACT_EXEC)
		put(lab, " n=%u%s", act->n_argv, act->from_memory ? " memory" :
		    act->from_writable && lab->places ? " writable" : "");
	if (act->family == AF_INET || act->family == AF_INET6)
		put(lab, " %s port=%u%s", inet_ntop(act->family, act->address, address, sizeof(address)), act->port,
		    act->local != 0 ? " local" : "");
	if (act->error != 0)
		put(lab, " error=%d", act->error);
	put(lab, "%s%s\n", act->unknown ? " unknown" : "", act->asked ? " asked" : "");
}

static void
failed(void *arg, const char *why)
{
	struct witness_lab *lab = arg;

	(void)why;
	lab->failed = true;
}

static void
first_died(void *arg, uint32_t events)
{
	struct witness_lab *lab = arg;

	(void)events;
	CHECK(waitpid(lab->first, &lab->status, 0) == lab->first);
	loop_unwatch(lab->loop, &lab->died);
	loop_quit(lab->loop);
}

/* The first process makes no call that is reported. */
_Noreturn static void
be_first(int channel, int (*agent)(void), const struct filter_own *own)
{
	OWN(buf_free) struct buf message = {0};
	int listener, status = 0;
	pid_t pid;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_load_notifying(FILTER_DEFAULT, own, &listener, NULL) < 0)
		_exit(120);
	ipc_begin(&message, 1);
	if (ipc_send(channel, &message, &listener, 1, NULL) < 0)
		_exit(121);
	close(listener);
	pid = fork();
	if (pid == 0)
		_exit(agent());
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	syscall(SYS_exit, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	__builtin_unreachable();
}

void
witness_lab_start(struct witness_lab *lab, int (*agent)(void))
{
	const struct witness_taker taker = { take, NULL, failed, lab };
	OWN(ipc_message_free) struct ipc_message message = {0};
	struct witness_cell cell = { .level = WITNESS_ACTS, .filter = FILTER_DEFAULT };
	static struct filter_own own;
	int ends[2];

	cell.calls = lab->calls;
	filter_own_make(&lab->calls, CALL_ARCH_HERE, FILTER_OWN_TOLD, NULL, &own);
	lab->len = 0;
	lab->failed = false;
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	lab->first = fork();
	CHECK(lab->first >= 0);
	if (lab->first == 0)
		be_first(ends[1], agent, &own);
	close(ends[1]);
	if (ipc_receive(ends[0], &message, NULL) < 0)
		test_skip("no filter with notifications can be loaded here");
	close(ends[0]);
	CHECK(message.n_fds == 1);
	cell.first = lab->first;
	cell.listener = message.fds[0];
	CHECK_OK(loop_new(&lab->loop, NULL));
	CHECK_OK(witness_notify.able(NULL));
	CHECK_OK(witness_notify.open(&cell, &lab->state, NULL));
	CHECK_OK(witness_notify.watch(lab->state, lab->loop, &taker, NULL));
	lab->died = (struct loop_source){ .fd = (int)syscall(SYS_pidfd_open, lab->first, 0), .ready = first_died,
	                                  .arg = lab };
	CHECK_OK(loop_watch(lab->loop, &lab->died, EPOLLIN, NULL));
}

void
witness_lab_run(struct witness_lab *lab)
{
	CHECK_OK(loop_run(lab->loop, NULL));
	witness_notify.finish(lab->state);
}

void
witness_lab_close(struct witness_lab *lab)
{
	witness_notify.close(lab->state);
	close(lab->died.fd);
	loop_free(lab->loop);
}

bool
witness_lab_has(const struct witness_lab *lab, const char *part)
{
	return strstr(lab->log, part) != NULL;
}

size_t
witness_lab_count(const struct witness_lab *lab, const char *part)
{
	size_t n = 0;

	for (const char *at = lab->log; (at = strstr(at, part)) != NULL; at++)
		n++;
	return n;
}

/* inject.c - makes another process do one system call: what it could do if it were taken
 * over by somebody. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

#define SCRATCH 4096                    /* below what its stack uses */
#define DIED (-4096)                    /* no error is that large */
#define TARGETS_MAX 8

#if defined(__aarch64__)
#define REGS struct user_regs_struct
#define STACK(r) ((r)->sp)
#define PC(r) ((r)->pc)
static const unsigned char enter[] = { 0x01, 0x00, 0x00, 0xd4 };       /* svc #0 */
static void
set_call(REGS *r, const long *call)
{
	r->regs[8] = (unsigned long)call[0];
	for (int i = 0; i < 6; i++)
		r->regs[i] = (unsigned long)call[i + 1];
}
static long
get_result(const REGS *r)
{
	return (long)r->regs[0];
}
#elif defined(__x86_64__)
#define REGS struct user_regs_struct
#define STACK(r) ((r)->rsp)
#define PC(r) ((r)->rip)
static const unsigned char enter[] = { 0x0f, 0x05 };                   /* syscall */
static void
set_call(REGS *r, const long *call)
{
	r->rax = (unsigned long)call[0];
	r->rdi = (unsigned long)call[1];
	r->rsi = (unsigned long)call[2];
	r->rdx = (unsigned long)call[3];
	r->r10 = (unsigned long)call[4];
	r->r8 = (unsigned long)call[5];
	r->r9 = (unsigned long)call[6];
	/* No call is under way that the kernel would begin again. */
	r->orig_rax = (unsigned long)-1;
}
static long
get_result(const REGS *r)
{
	return (long)r->rax;
}
#endif

/* Whether the instruction that enters the kernel stands there. */
static int
enters_at(pid_t pid, unsigned long at)
{
	unsigned char code[sizeof(enter)];
	struct iovec here = { code, sizeof(code) }, there = { (void *)at, sizeof(code) };

	return process_vm_readv(pid, &here, 1, &there, 1, 0) == sizeof(code) &&
	       memcmp(code, enter, sizeof(code)) == 0;
}

/* Held where it sleeps: right behind that instruction, or at it, if it is to sleep on. */
static int
seize(pid_t pid, REGS *ret_regs)
{
	struct iovec v = { ret_regs, sizeof(*ret_regs) };

	if (ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_EXITKILL) < 0 ||
	    ptrace(PTRACE_INTERRUPT, pid, 0, 0) < 0 || waitpid(pid, NULL, __WALL) != pid ||
	    ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &v) < 0)
		return -1;
	if (!enters_at(pid, PC(ret_regs)))
		PC(ret_regs) -= sizeof(enter);
	errno = ESRCH;
	return enters_at(pid, PC(ret_regs)) ? 0 : -1;
}

/* One instruction further: in, and out again. */
static long
step(pid_t pid, REGS *regs)
{
	struct iovec v = { regs, sizeof(*regs) };
	int status;

	if (ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &v) < 0 ||
	    ptrace(PTRACE_SINGLESTEP, pid, 0, 0) < 0 || waitpid(pid, &status, __WALL) != pid)
		return -errno;
	if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
		return DIED;
	if (ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &v) < 0)
		return -errno;
	return get_result(regs);
}

/* DATA, in its memory. */
static long
lend(pid_t pid, const REGS *regs, const void *data, size_t len)
{
	unsigned long at = (STACK(regs) - SCRATCH) & ~15ul;
	struct iovec here = { (void *)(unsigned long)data, len }, there = { (void *)at, len };

	return process_vm_writev(pid, &here, 1, &there, 1, 0) == (ssize_t)len ? (long)at : 0;
}

static long
attempt(pid_t pid, const REGS *at, const char *word, const char *arg)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arg)),
	                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	REGS regs = *at;
	long call[7] = { 0 }, fd;

	if (strcmp(word, "open") == 0) {
		memcpy(call, (long[]){ SYS_openat, AT_FDCWD, lend(pid, at, arg, strlen(arg) + 1),
		                       O_RDONLY }, 4 * sizeof(long));
	} else if (strcmp(word, "exec") == 0) {
		memcpy(call, (long[]){ SYS_execve, lend(pid, at, arg, strlen(arg) + 1) },
		       2 * sizeof(long));
	} else if (strcmp(word, "kill") == 0) {
		memcpy(call, (long[]){ SYS_kill, atol(arg), SIGURG }, 3 * sizeof(long));
	} else if (strcmp(word, "connect") == 0) {
		set_call(&regs, (long[7]){ SYS_socket, AF_INET, SOCK_STREAM });
		fd = step(pid, &regs);
		if (fd < 0)
			return fd;
		regs = *at;
		memcpy(call, (long[]){ SYS_connect, fd, lend(pid, at, &to, sizeof(to)), sizeof(to) },
		       4 * sizeof(long));
	} else {
		return -EINVAL;
	}
	set_call(&regs, call);
	return step(pid, &regs);
}

/* open|exec|kill|connect ARG PID...: prints what the call came to in each of them.  All are
 * held before the first is tried, because they may be one another's end; none survives. */
int
host_inject(int argc, char **argv)
{
	REGS regs[TARGETS_MAX];
	long r;

	for (int i = 2; i < argc; i++)
		if (i - 2 >= TARGETS_MAX || seize(atoi(argv[i]), &regs[i - 2]) < 0)
			return host_fail("ptrace");
	for (int i = 2; i < argc; i++) {
		r = attempt(atoi(argv[i]), &regs[i - 2], argv[0], argv[1]);
		if (r == DIED)
			puts("died");
		else
			printf("%ld\n", r);
	}
	return 0;
}

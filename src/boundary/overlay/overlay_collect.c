/* overlay_collect.c - see overlay_collect.h. */
#include "boundary/overlay/overlay_collect.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

/* Keeps capabilities across the exec: the collector reads files whatever modes the agent gave them.
 * They count in the cell's user namespace only.  If it has none, the supervisor has kept one of them. */
static int
keep_reading_rights(bool has_all)
{
	const unsigned rights = 1u << CAP_DAC_OVERRIDE |
	                        (has_all ? 1u << CAP_DAC_READ_SEARCH | 1u << CAP_FOWNER : 0);
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { rights, rights, rights }, { 0, 0, 0 } };

	/* Without a user namespace, an ordinary user reads what it owns. */
	if (syscall(SYS_capset, &header, data) < 0)
		return has_all ? -errno : 0;
	for (int cap = 0; cap < 32; cap++)
		if ((rights & 1u << cap) != 0 &&
		    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
			return -errno;
	return 0;
}

/* ARGV[0] is a helper that reads a folder at descriptor 3, writes to 4, and reports at 5. */
_Noreturn static void
become_collector(const struct overlay_collector *c, char **argv, int upper, int target, int result)
{
	char *envp[] = { NULL };
	int exe = openat(c->libexec, argv[0], O_PATH | O_CLOEXEC);
	int fds[] = { upper, target, result };

	for (int i = 0; i < 3; i++)
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 100);
	exe = fcntl(exe, F_DUPFD_CLOEXEC, 100);
	for (int i = 0; i < 3; i++)
		if (dup2(fds[i], 3 + i) < 0)
			_exit(125);
	if ((c->userns >= 0 && setns(c->userns, CLONE_NEWUSER) < 0) ||
	    (c->userns >= 0 && c->has_range &&
	     (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)) ||
	    keep_reading_rights(c->userns >= 0) < 0)
		_exit(125);
	syscall(SYS_execveat, exe, "", argv, envp, AT_EMPTY_PATH);
	_exit(125);
}

/* The part of "err ERRNO TEXT" that is for people. */
static const char *
words_of(const char *line)
{
	if (strncmp(line, "err ", 4) != 0)
		return line;
	line += 4 + strspn(line + 4, "0123456789");
	return line + strspn(line, " ");
}

int
overlay_run_collector(const struct overlay_collector *c, char **argv, int upper, int target, uint32_t *ret_number,
                      bool *ret_second, struct err *err)
{
	OWN(closep) int result = -1;
	char line[600] = "", *end;
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot start %s", argv[0]);
	result = ends[0];
	pid = fork();
	if (pid == 0)
		become_collector(c, argv, upper, target, ends[1]);
	close(ends[1]);
	if (pid < 0)
		return err_errno(err, "cannot start %s", argv[0]);
	n = read(result, line, sizeof(line) - 1);
	waitpid(pid, &status, 0);
	if (n > 0 && strncmp(line, "ok ", 3) == 0 && status == 0) {
		*ret_number = (uint32_t)strtoul(line + 3, &end, 10);
		if (ret_second != NULL)
			*ret_second = strtoul(end, NULL, 10) != 0;
		return 0;
	}
	line[strcspn(line, "\n")] = '\0';
	return err_set(err, EIO, "%s%s", n > 0 ? words_of(line) : argv[0], n > 0 ? "" : " died");
}

int
overlay_collect(const struct overlay_collector *c, int upper, int target, uint32_t *ret_left_out, bool *ret_changed,
                struct err *err)
{
	char *argv[] = { (char[]){ "cloister-collect" }, ret_changed != NULL ? (char[]){ "--live" } : NULL, NULL };
	int r = overlay_run_collector(c, argv, upper, target, ret_left_out, ret_changed, err);

	return r < 0 ? err_wrap(err, "cannot keep all changes of the workspace") : 0;
}

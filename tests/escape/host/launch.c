/* launch.c - starts a program in prepared surroundings, as somebody. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "host.h"

#define GROUPS_MAX 16

struct whom {
	uid_t uid;
	gid_t gid, groups[GROUPS_MAX];
	size_t n_groups;
	const char *key_name, *key_text;
	int set;
};

static int
private_mounts(void)
{
	static int done;

	if (done)
		return 0;
	done = 1;
	if (unshare(CLONE_NEWNS) < 0)
		return -1;
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

/* FROM:TO[:ro] */
static int
set_bind(char *arg)
{
	char *to = strchr(arg, ':'), *ro;

	if (to == NULL || private_mounts() < 0)
		return -1;
	*to++ = '\0';
	ro = strchr(to, ':');
	if (ro != NULL)
		*ro = '\0';
	if (mount(arg, to, NULL, MS_BIND | MS_REC, NULL) < 0)
		return -1;
	return ro == NULL ? 0 : mount(NULL, to, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL);
}

static int
set_umount(char *path)
{
	return private_mounts() < 0 ? -1 : umount2(path, MNT_DETACH);
}

static int
set_uts(char *name)
{
	return unshare(CLONE_NEWUTS) < 0 ? -1 : sethostname(name, strlen(name));
}

static int
set_net(char *pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/ns/net", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -1 : setns(fd, CLONE_NEWNET);
}

/* FD: the controlling terminal. */
static int
set_terminal(char *fd)
{
	return setsid() < 0 ? -1 : ioctl(atoi(fd), TIOCSCTTY, 0);
}

static int
set_cgroup(char *dir)
{
	char path[4096];
	int fd, r;

	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	r = write(fd, "0", 1) == 1 ? 0 : -1;
	close(fd);
	return r;
}

static const struct {
	const char *name;
	int (*set)(char *arg);
} settings[] = {
	{ "--bind",     set_bind     }, { "--umount", set_umount }, { "--uts",    set_uts    },
	{ "--net",      set_net      }, { "--terminal", set_terminal }, { "--cgroup", set_cgroup },
};

static int
surroundings(char *option, char *arg)
{
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (strcmp(settings[i].name, option) == 0)
			return settings[i].set(arg);
	errno = EINVAL;
	return -1;
}

static int
somebody(struct whom *w, const char *option, char *arg)
{
	if (strcmp(option, "--uid") == 0) {
		w->uid = (uid_t)atoi(arg);
		w->set = 1;
	} else if (strcmp(option, "--gid") == 0) {
		w->gid = (gid_t)atoi(arg);
	} else if (strcmp(option, "--group") == 0 && w->n_groups < GROUPS_MAX) {
		w->groups[w->n_groups++] = (gid_t)atoi(arg);
	} else if (strcmp(option, "--session-key") == 0) {
		w->key_name = arg;
		w->key_text = strchr(arg, '=') + 1;
		*strchr(arg, '=') = '\0';
	} else {
		return 0;
	}
	return 1;
}

static int
become(const struct whom *w)
{
	if (w->set && (setgroups(w->n_groups, w->groups) < 0 || setresgid(w->gid, w->gid, w->gid) < 0 ||
	               setresuid(w->uid, w->uid, w->uid) < 0))
		return -1;
	return w->key_name == NULL ? 0 : host_session_key(w->key_name, w->key_text);
}

/* [OPTION ARG]... -- CMD... */
int
host_launch(int argc, char **argv)
{
	struct whom w = { 0 };
	int i = 0;

	for (; i + 1 < argc && strcmp(argv[i], "--") != 0; i += 2)
		if (!somebody(&w, argv[i], argv[i + 1]) && surroundings(argv[i], argv[i + 1]) < 0)
			return host_fail(argv[i]);
	if (become(&w) < 0)
		return host_fail("become");
	execvp(argv[i + 1], argv + i + 1);
	return host_fail(argv[i + 1]);
}

/* microvm_attacker.c - takes cloister-guest's place in a virtual machine: root of the guest's kernel, who
 * asks the host's file server for what no agent may have.
 *
 * What it could do is judged outside.  It writes a file "done" last. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

static void
load_modules(void)
{
	struct dirent **names;
	int n = scandir("/modules", &names, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		char path[300];
		int fd;

		snprintf(path, sizeof(path), "/modules/%s", names[i]->d_name);
		fd = open(path, O_RDONLY);
		if (fd >= 0)
			(void)syscall(SYS_finit_module, fd, "", 0);
	}
}

static void
put(const char *path, mode_t mode)
{
	int fd = open(path, O_CREAT | O_WRONLY, mode);

	if (fd >= 0) {
		(void)!write(fd, "#!/bin/sh\n", 10);
		(void)fchmod(fd, mode);
		close(fd);
	}
	(void)chmod(path, mode);
}

/* Everything once as the guest's root, who the host does not know, and once as the agent. */
static void
attack(uid_t user)
{
	static const unsigned char cap_all[20] = { 1, 0, 0, 2, 255, 255, 255, 255, 255, 255, 255, 255 };
	static const char *const outside[] = { "etc", "usr", "bin", "tmp", "." };
	char path[64];

	(void)setfsgid(user);
	(void)setfsuid(user);
	put("srv/open/setuid", 06755);
	(void)mknod("srv/open/made", S_IFREG | 06755, 0);
	(void)mknod("srv/open/disk", S_IFBLK | 0666, makedev(8, 0));
	(void)mknod("srv/open/null", S_IFCHR | 0666, makedev(1, 3));
	(void)mknod("srv/open/whiteout", S_IFCHR | 0666, makedev(0, 0));
	put("srv/open/owned", 0755);
	put("srv/open/capable", 0755);
	put("srv/closed/new", 0755);
	(void)chmod("srv/closed/old", 06777);
	(void)unlink("srv/closed/old");
	for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
		snprintf(path, sizeof(path), "%s/attacker", outside[i]);
		put(path, 0755);
	}
	/* Up and out of the tree. */
	(void)symlink("/proc/1/root/tmp", "srv/open/up");
	put("srv/open/up/attacker", 0755);
	put("../../../../tmp/attacker", 0755);
	/* Its own files, with all rights of the guest's root. */
	(void)setfsuid(0);
	(void)chmod("srv/open/setuid", 06755);
	(void)chown("srv/open/owned", 0, 0);
	(void)setxattr("srv/open/capable", "security.capability", cap_all, sizeof(cap_all), 0);
	(void)setfsuid(user);
	put("srv/open/done", 0644);
	(void)setfsuid(0);
	(void)setfsgid(0);
}

int
main(void)
{
	umask(0);
	(void)mount("proc", "/proc", "proc", 0, NULL);
	(void)mount("dev", "/dev", "devtmpfs", 0, NULL);
	load_modules();
	if (mount("cloister", "/host", "virtiofs", 0, NULL) < 0 || chdir("/host") < 0)
		(void)reboot(RB_AUTOBOOT);
	attack(0);
	attack(1000);
	sync();
	(void)reboot(RB_AUTOBOOT);
	return 1;
}

/* kernel.c - see kernel.h. */
#include "vm/kernel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/exe.h"
#include "base/io.h"
#include "base/own.h"

#if defined(__x86_64__)
#define ARCH "amd64"
#else
#define ARCH "arm64"
#endif

#define PREFIX "vmlinuz-"
#define CLOUD "-cloud-" ARCH
#define BUILTIN "modules.builtin"
#define OWN_FOLDER "vm"
#define INSTALL "install the package linux-image-cloud-" ARCH " (Debian) or linux-image-virtual (Ubuntu)"

void
kernel_free(struct kernel *k)
{
	free(k->path);
	free(k->release);
	free(k->modules);
	*k = (struct kernel){0};
}

int
kernel_open_file(int dir, const char *name, struct err *err)
{
	/* Opening a pipe would block. */
	OWN(closep) int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot open '%s'", name);
	if (!S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "'%s' is no regular file", name);
	if ((st.st_mode & 022) != 0)
		return err_set(err, EPERM, "others may write '%s': `chmod go-w` it", name);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return err_set(err, EPERM, "'%s' belongs to uid %u, neither you nor root", name, (unsigned)st.st_uid);
	return TAKE_FD(fd);
}

static const char *
base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

/* ---- modules ---- */

/* The folder of the kernel PATH, if it has a list of what is built in; else RET_MODULES is NULL. */
static int
find_list(const char *path, char **ret_modules)
{
	OWN(freep) char *folder = strndup(path, (size_t)(base_name(path) - path));
	OWN(freep) char *list = folder == NULL ? NULL : str_format("%s" BUILTIN, folder);

	if (list == NULL)
		return -ENOMEM;
	*ret_modules = access(list, F_OK) == 0 ? TAKE(folder) : NULL;
	return 0;
}

/* RET_MODULES is NULL if there is no such folder. */
static int
find_modules(const char *root, const char *release, char **ret_modules)
{
	static const char *const places[] = { "/lib/modules", "/usr/lib/modules" };

	*ret_modules = NULL;
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		OWN(freep) char *path = str_format("%s%s/%s", root, places[i], release);

		if (path == NULL)
			return -ENOMEM;
		if (access(path, F_OK) == 0) {
			*ret_modules = TAKE(path);
			return 0;
		}
	}
	return 0;
}

/* ---- a given kernel ---- */

static int
cannot_read(const char *path, struct err *err)
{
	return err_set(err, EACCES, "you may not read the kernel '%s': as root `chmod a+r` it, after each update of "
	               "the kernel, or " INSTALL, path);
}

static int
use_given(const char *given, struct kernel *k, struct err *err)
{
	OWN(closep) int fd = -1;
	struct err why = {0};

	k->path = realpath(given, NULL);
	if (k->path == NULL)
		return err_errno(err, "cannot find the kernel '%s'", given);
	fd = kernel_open_file(AT_FDCWD, k->path, &why);
	if (fd < 0)
		return fd == -EACCES ? cannot_read(k->path, err) : err_set(err, why.code, "the kernel: %s", why.text);
	if (strncmp(base_name(k->path), PREFIX, sizeof(PREFIX) - 1) != 0)
		return 0;
	k->release = strdup(base_name(k->path) + sizeof(PREFIX) - 1);
	return k->release == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

/* ---- the newest kernel ---- */

static bool
is_cloud(const char *release)
{
	size_t len = strlen(release), n = sizeof(CLOUD) - 1;

	return len > n && strcmp(release + len - n, CLOUD) == 0;
}

static bool
is_better(const char *release, const char *than)
{
	if (than == NULL || is_cloud(release) != is_cloud(than))
		return than == NULL || is_cloud(release);
	return strverscmp(release, than) > 0;
}

/* The best kernel that can be used, and one each of those that cannot. */
struct search {
	const char *root;
	bool needs_modules;
	char *best, *unreadable, *bare; /* releases */
};

static void
search_free(struct search *s)
{
	free(s->best);
	free(s->unreadable);
	free(s->bare);
}

static int
keep_better(char **best, const char *release)
{
	char *copy;

	if (!is_better(release, *best))
		return 0;
	copy = strdup(release);
	if (copy == NULL)
		return -ENOMEM;
	free(*best);
	*best = copy;
	return 0;
}

static bool
is_exhausted(int r)
{
	return r == -EMFILE || r == -ENFILE || r == -ENOMEM;
}

static int
consider(struct search *s, int boot, const char *name)
{
	const char *release = name + sizeof(PREFIX) - 1;
	OWN(freep) char *modules = NULL;
	OWN(closep) int fd = -1;
	int r;

	if (strncmp(name, PREFIX, sizeof(PREFIX) - 1) != 0 || *release == '\0')
		return 0;
	r = find_modules(s->root, release, &modules);
	if (r < 0)
		return r;
	/* Backups such as vmlinuz-6.1.old have no modules either. */
	if (s->needs_modules && modules == NULL)
		return keep_better(&s->bare, release);
	fd = kernel_open_file(boot, name, NULL);
	if (is_exhausted(fd))
		return fd;
	if (fd < 0 && fd != -EACCES)
		return 0;
	return keep_better(fd < 0 ? &s->unreadable : &s->best, release);
}

static int
search_boot(struct search *s, struct err *err)
{
	OWN(freep) char *path = str_format("%s/boot", s->root);
	OWN(closedirp) DIR *boot = path == NULL ? NULL : opendir(path);
	int r = 0;

	if (path == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (boot == NULL && is_exhausted(-errno))
		return err_errno(err, "cannot look for kernels in '%s'", path);
	for (struct dirent *e; boot != NULL && r == 0 && (e = readdir(boot)) != NULL;)
		r = consider(s, dirfd(boot), e->d_name);
	return r == 0 ? 0 : err_set(err, -r, "cannot look for kernels in '%s': %s", path, strerrordesc_np(-r));
}

static int
use_newest(const char *root, bool needs_modules, struct kernel *k, struct err *err)
{
	OWN(search_free) struct search s = { .root = root, .needs_modules = needs_modules };
	OWN(freep) char *hidden = NULL;
	int r = search_boot(&s, err);

	if (r < 0)
		return r;
	if (s.best == NULL && s.unreadable != NULL) {
		hidden = str_format("%s/boot/" PREFIX "%s", root, s.unreadable);
		return cannot_read(hidden == NULL ? s.unreadable : hidden, err);
	}
	if (s.best == NULL && s.bare != NULL)
		return err_set(err, ENOENT, "the kernel '%s/boot/" PREFIX "%s' has no modules in /lib/modules/%s: " INSTALL,
		               root, s.bare, s.bare);
	if (s.best == NULL)
		return err_set(err, ENOENT, "there is no kernel for a virtual machine in %s/boot: " INSTALL, root);
	k->path = str_format("%s/boot/" PREFIX "%s", root, s.best);
	k->release = TAKE(s.best);
	return k->path == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

/* ---- cloister's own kernel ---- */

int
kernel_own_folder(char ret_path[PATH_MAX], struct err *err)
{
	char found[PATH_MAX], helper[PATH_MAX];
	int r = exe_find_helper("cloister-initramfs", found, err), n;

	if (r < 0)
		return r;
	if (realpath(found, helper) == NULL)
		return err_errno(err, "cannot find '%s'", found);
	n = snprintf(ret_path, PATH_MAX, "%.*s" OWN_FOLDER, (int)(base_name(helper) - helper), helper);
	return n < PATH_MAX ? 0 : err_set(err, ENAMETOOLONG, "the path of '%s' is too long", helper);
}

/* K stays empty if there is none in the folder OWN. */
static int
use_own(const char *own, struct kernel *k, struct err *err)
{
	OWN(closedirp) DIR *dir = *own == '\0' ? NULL : opendir(own);
	OWN(freep) char *best = NULL;
	int r = dir == NULL && *own != '\0' && is_exhausted(-errno) ? -errno : 0;

	for (struct dirent *e; dir != NULL && r == 0 && (e = readdir(dir)) != NULL;) {
		OWN(closep) int fd = strncmp(e->d_name, PREFIX, sizeof(PREFIX) - 1) != 0 ? -1 :
		                     kernel_open_file(dirfd(dir), e->d_name, NULL);

		r = is_exhausted(fd) ? fd : fd < 0 ? 0 : keep_better(&best, e->d_name + sizeof(PREFIX) - 1);
	}
	if (r == 0 && best != NULL) {
		k->path = str_format("%s/" PREFIX "%s", own, best);
		k->release = TAKE(best);
		r = k->path == NULL ? -ENOMEM : 0;
	}
	return r == 0 ? 0 : err_set(err, -r, "cannot look for kernels in '%s': %s", own, strerrordesc_np(-r));
}

/* ---- the choice ---- */

/* Finds the modules of K, which has a path. */
static int
use_modules(const char *root, const char *modules, struct kernel *k, struct err *err)
{
	int r;

	if (*modules != '\0') {
		k->modules = realpath(modules, NULL);
		if (k->modules == NULL)
			return err_errno(err, "cannot find the modules '%s'", modules);
		if (k->release == NULL)
			k->release = strdup(base_name(k->modules));
		return k->release == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
	}
	if (k->release == NULL)
		return err_set(err, EINVAL, "the file name of the kernel '%s' is not " PREFIX "RELEASE, so its modules cannot "
		               "be found: name it so", k->path);
	r = find_list(k->path, &k->modules);
	if (r == 0 && k->modules == NULL)
		r = find_modules(root, k->release, &k->modules);
	if (r < 0)
		return err_set(err, -r, "out of memory");
	if (k->modules == NULL)
		return err_set(err, ENOENT, "the kernel '%s' has no modules in /lib/modules/%s: " INSTALL, k->path, k->release);
	return 0;
}

int
kernel_find(const char *root, const char *own, const char *path, const char *modules, struct kernel *ret_kernel,
            struct err *err)
{
	OWN(kernel_free) struct kernel k = {0};
	int r = 0;

	if (*path != '\0')
		r = use_given(path, &k, err);
	else if (*modules == '\0')
		r = use_own(own, &k, err);
	if (r == 0 && k.path == NULL)
		r = use_newest(root, *modules == '\0', &k, err);
	if (r == 0)
		r = use_modules(root, modules, &k, err);
	if (r < 0)
		return r;
	*ret_kernel = k;
	k = (struct kernel){0};
	return 0;
}

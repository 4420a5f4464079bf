/* vm_kernel.c - tests of vm/kernel. */
#include "vm/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "test.h"

#ifdef __x86_64__
#define CLOUD "-cloud-amd64"
#else
#define CLOUD "-cloud-arm64"
#endif

static void
make_folder(const char *name)
{
	CHECK(mkdir(name, 0755) == 0 || errno == EEXIST);
}

/* A kernel, and the folder of its modules if it has one; FOLDER is above that. */
static void
make_kernel(const char *release, const char *folder)
{
	OWN(freep) char *path = str_format("boot/vmlinuz-%s", release);
	OWN(freep) char *modules = str_format("%s/%s", folder, release);

	CHECK_OK(create_file_at(AT_FDCWD, path, 0644, "kernel", NULL));
	if (folder[0] != '\0')
		make_folder(modules);
}

/* The test's folder is the current one, and the root that is searched. */
static void
enter_root(void)
{
	static const char *const names[] = { "boot", "lib", "lib/modules", "usr", "usr/lib", "usr/lib/modules" };

	CHECK_OK(chdir(test_dir()));
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		make_folder(names[i]);
}

static void
check_newest(const char *release)
{
	OWN(kernel_free) struct kernel k = {0};
	OWN(freep) char *path = str_format("%s/boot/vmlinuz-%s", test_dir(), release);

	CHECK_OK(kernel_find(test_dir(), "", "", "", &k, NULL));
	CHECK_STR(k.release, release);
	CHECK_STR(k.path, path);
	CHECK(strstr(k.modules, release) != NULL && access(k.modules, F_OK) == 0);
}

static void
check_refused(const char *path, const char *modules, int code, const char *part)
{
	struct kernel k = {0};
	struct err err = {0};

	CHECK(kernel_find(test_dir(), "", path, modules, &k, &err) == -code);
	CHECK(k.path == NULL && k.release == NULL && k.modules == NULL);
	if (strstr(err.text, part) == NULL)
		test_fail(__FILE__, __LINE__, "no \"%s\" in \"%s\"", part, err.text);
}

TEST(kernel_newest)
{
	enter_root();
	check_refused("", "", ENOENT, "install the package linux-image" CLOUD);
	make_kernel("6.12.0-generic", "");
	check_refused("", "", ENOENT, "no modules in /lib/modules/6.12.0-generic");
	make_kernel("5.10.0-generic", "usr/lib/modules");
	check_newest("5.10.0-generic");
	make_kernel("5.9.0-generic", "lib/modules");
	check_newest("5.10.0-generic");
	/* A cloud kernel is taken before a newer one of another kind. */
	make_kernel("5.1.0-9" CLOUD, "lib/modules");
	check_newest("5.1.0-9" CLOUD);
	make_kernel("5.1.0-10" CLOUD, "lib/modules");
	check_newest("5.1.0-10" CLOUD);
	make_kernel("5.1.0-11-cloud-other", "lib/modules");
	make_kernel("5.1.0-10" CLOUD ".old", "");
	check_newest("5.1.0-10" CLOUD);
}

TEST(kernel_others_are_passed_over)
{
	enter_root();
	make_kernel("1" CLOUD, "lib/modules");
	make_kernel("2" CLOUD, "lib/modules");
	CHECK_OK(chmod("boot/vmlinuz-2" CLOUD, 0666));
	make_folder("boot/vmlinuz-3" CLOUD);
	make_folder("lib/modules/3" CLOUD);
	CHECK_OK(symlink("vmlinuz-1" CLOUD, "boot/vmlinuz-4" CLOUD));
	make_folder("lib/modules/4" CLOUD);
	check_newest("1" CLOUD);
}

TEST(kernel_not_readable)
{
	enter_root();
	make_kernel("1" CLOUD, "lib/modules");
	CHECK_OK(chmod("boot/vmlinuz-1" CLOUD, 0));
	if (access("boot/vmlinuz-1" CLOUD, R_OK) == 0)
		test_skip("root may read everything");
	check_refused("", "", EACCES, "as root `chmod a+r` it");
	check_refused("boot/vmlinuz-1" CLOUD, "", EACCES, "as root `chmod a+r` it");
	make_kernel("0.1-other", "lib/modules");
	check_newest("0.1-other");
}

/* A kernel that is there and cannot be opened now is not missing. */
TEST(kernel_without_descriptors)
{
	OWN(freep) char *own = str_format("%s/own", test_dir());
	int low = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct rlimit before;

	enter_root();
	make_kernel("1" CLOUD, "lib/modules");
	make_folder("own");
	CHECK_OK(create_file_at(AT_FDCWD, "own/vmlinuz-2", 0644, "kernel", NULL));
	CHECK(low >= 0 && close(low) == 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
	/* For none at all, and for the folder alone. */
	for (rlim_t n = 0; n < 2; n++) {
		struct kernel k = {0};
		struct err err = {0};

		CHECK_OK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ (rlim_t)low + n, before.rlim_max }));
		check_refused("", "", EMFILE, "cannot look for kernels");
		CHECK(kernel_find(test_dir(), own, "", "", &k, &err) == -EMFILE && strstr(err.text, "/own'") != NULL);
	}
	CHECK_OK(setrlimit(RLIMIT_NOFILE, &before));
	check_newest("1" CLOUD);
}

TEST(kernel_given)
{
	OWN(freep) char *real = NULL;
	OWN(kernel_free) struct kernel k = {0};

	enter_root();
	make_kernel("1", "lib/modules");
	make_kernel("2", "");
	CHECK_OK(symlink("boot/vmlinuz-1", "vmlinuz"));
	CHECK_OK(kernel_find(test_dir(), "", "vmlinuz", "", &k, NULL));
	real = realpath("boot/vmlinuz-1", NULL);
	CHECK_STR(k.path, real);
	CHECK_STR(k.release, "1");
	kernel_free(&k);
	check_refused("boot/vmlinuz-2", "", ENOENT, "no modules in /lib/modules/2");
	check_refused("boot/vmlinuz-2", "none", ENOENT, "cannot find the modules 'none'");
	check_refused("boot/vmlinuz-3", "", ENOENT, "cannot find the kernel");
	check_refused("boot", "", EINVAL, "no regular file");
	CHECK_OK(kernel_find(test_dir(), "", "boot/vmlinuz-2", "lib/modules/1", &k, NULL));
	CHECK_STR(k.release, "2");
	kernel_free(&k);
	CHECK_OK(rename("boot/vmlinuz-2", "bzImage"));
	check_refused("bzImage", "", EINVAL, "not vmlinuz-RELEASE");
	CHECK_OK(kernel_find(test_dir(), "", "bzImage", "lib/modules/1", &k, NULL));
	CHECK_STR(k.release, "1");
	CHECK_OK(chmod("bzImage", 0664));
	check_refused("bzImage", "lib/modules/1", EPERM, "chmod go-w");
}

/* A kernel with everything built in. */
static void
make_whole_kernel(const char *folder, const char *release)
{
	OWN(freep) char *path = str_format("%s/vmlinuz-%s", folder, release);
	OWN(freep) char *list = str_format("%s/modules.builtin", folder);

	make_folder(folder);
	CHECK_OK(create_file_at(AT_FDCWD, path, 0644, "kernel", NULL));
	CHECK_OK(create_file_at(AT_FDCWD, list, 0644, "", NULL));
}

static void
check_own(const char *modules, const char *release)
{
	OWN(kernel_free) struct kernel k = {0};
	OWN(freep) char *own = str_format("%s/own", test_dir());

	CHECK_OK(kernel_find(test_dir(), own, "", modules, &k, NULL));
	CHECK_STR(k.release, release);
}

TEST(kernel_own)
{
	OWN(kernel_free) struct kernel k = {0};

	enter_root();
	make_kernel("1" CLOUD, "lib/modules");
	check_own("", "1" CLOUD);
	make_folder("own");
	check_own("", "1" CLOUD);
	make_whole_kernel("own", "6.1.9-cloister");
	check_own("", "6.1.9-cloister");
	make_whole_kernel("own", "6.1.10-cloister");
	check_own("", "6.1.10-cloister");
	/* Modules are those of a kernel in /boot. */
	check_own("lib/modules/1" CLOUD, "1" CLOUD);
	/* As everywhere, one that others may write is passed over. */
	CHECK_OK(chmod("own/vmlinuz-6.1.10-cloister", 0666));
	check_own("", "6.1.9-cloister");
	CHECK_OK(chmod("own/vmlinuz-6.1.9-cloister", 0666));
	check_own("", "1" CLOUD);
	/* A given kernel is taken before it, and its list is its own. */
	make_whole_kernel("elsewhere", "7");
	CHECK_OK(kernel_find(test_dir(), "own", "elsewhere/vmlinuz-7", "", &k, NULL));
	CHECK_STR(k.release, "7");
	CHECK(strstr(k.modules, "/elsewhere") != NULL);
	CHECK_OK(unlink("elsewhere/modules.builtin"));
	check_refused("elsewhere/vmlinuz-7", "", ENOENT, "no modules in /lib/modules/7");
}

TEST(kernel_open_file)
{
	int fd;

	enter_root();
	CHECK_OK(mkfifo("pipe", 0600));
	CHECK_OK(create_file_at(AT_FDCWD, "file", 0600, "x", NULL));
	CHECK_OK(symlink("file", "link"));
	CHECK_ERR(kernel_open_file(AT_FDCWD, "pipe", NULL), EINVAL);
	CHECK_ERR(kernel_open_file(AT_FDCWD, "link", NULL), ELOOP);
	CHECK_ERR(kernel_open_file(AT_FDCWD, "none", NULL), ENOENT);
	fd = kernel_open_file(AT_FDCWD, "file", NULL);
	CHECK_OK(fd);
	close(fd);
	if (geteuid() == 0) {
		CHECK_OK(chown("file", 12345, 0));
		CHECK_ERR(kernel_open_file(AT_FDCWD, "file", NULL), EPERM);
	}
}

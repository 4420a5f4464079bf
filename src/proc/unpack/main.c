/* main.c - cloister-unpack: turns one layer of an image into a folder.
 *
 *   cloister-unpack --diff-id sha256:HEX|any --owners keep|mine
 *
 * Standard input is the layer, descriptor 3 the empty folder.  On standard output, lines report how many bytes
 * of the layer have been read, as decimal digits; the last line is `done ENTRIES SIZE LEFT_OUT`, or `error` and
 * a sentence.
 *
 * The layer is a stranger's, and libarchive is large.  So before the first byte is read, the folder becomes the
 * root of this process: Landlock alone would not keep it from changing modes and owners elsewhere.  It reads
 * nothing but the layer, and has no network. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <locale.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tell.h"
#include "confine/filter.h"
#include "confine/landlock.h"
#include "confine/privileges.h"
#include "proc/unpack/unpack.h"

#define FOLDER_FD 3
#define MEMORY_MAX (UINT64_C(1) << 30)

/* Nothing outside the folder has a path any more.  Without rights, a user namespace brings the one for that. */
static int
enter(struct err *err)
{
	if (geteuid() != 0 && unshare(CLONE_NEWUSER) < 0)
		return err_errno(err, "cannot make a user namespace to unpack images in (see `cloister doctor`)");
	if (fchdir(FOLDER_FD) < 0 || chroot(".") < 0 || chdir("/") < 0)
		return err_errno(err, "cannot make the layer's folder the root of its unpacker (see `cloister doctor`)");
	return 0;
}

/* CAP_CHOWN gives files away.  CAP_FOWNER links to those: fs.protected_hardlinks. */
#define OWNER_RIGHTS (1u << CAP_CHOWN | 1u << CAP_FOWNER)

static int
limit(struct err *err)
{
#ifndef CLOISTER_SANITIZED
	const struct rlimit memory = { MEMORY_MAX, MEMORY_MAX };

	if (setrlimit(RLIMIT_AS, &memory) < 0)
		return err_errno(err, "cannot limit the memory");
#endif
	/* Its errors go to standard output. */
	if (dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
		return err_errno(err, "cannot redirect errors");
	if (close_range(FOLDER_FD + 1, ~0u, 0) < 0)
		return err_errno(err, "cannot close files");
	return 0;
}

static int
lock_down(bool owners, struct err *err)
{
	OWN(closep) int landlock = -1;
	int r = limit(err);

	if (r == 0)
		r = enter(err);
	if (r == 0)
		r = privileges_keep(owners ? OWNER_RIGHTS : 0, err);
	if (r == 0 && (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0))
		r = err_errno(err, "cannot give up privileges");
	if (r == 0)
		r = landlock_make_filler(FOLDER_FD, &landlock, err);
	if (r == 0 && landlock < 0 && CONTROL_ON("landlock"))
		r = err_set(err, ENOTSUP, "this kernel has no Landlock of version 2, which holds the unpacking of images to "
		            "one folder");
	if (r == 0)
		r = landlock_enforce(landlock, err);
	return r < 0 ? r : filter_load(FILTER_UNPACK, err);
}

static void
report(uint64_t bytes)
{
	char line[32];
	int n = snprintf(line, sizeof(line), "%llu\n", (unsigned long long)bytes);

	(void)write_all(STDOUT_FILENO, line, (size_t)n, NULL);
}

static int
finish(int r, const struct unpack_result *result, struct err *err)
{
	char line[ERR_TEXT_MAX + 64];
	int n = r < 0 ? snprintf(line, sizeof(line), "error %s\n", err->text) :
	        snprintf(line, sizeof(line), "done %llu %llu %llu\n", (unsigned long long)result->entries,
	                 (unsigned long long)result->size, (unsigned long long)result->left_out);

	return write_all(STDOUT_FILENO, line, (size_t)n, NULL) < 0 || r < 0;
}

int
main(int argc, char **argv)
{
	unsigned char hash[HASH_LEN];
	const char *diff_id;
	struct unpack_result result = {0};
	struct err err = {0};
	bool owners;
	int r;

	if (argc != 5 || strcmp(argv[1], "--diff-id") != 0 ||
	    (strcmp(argv[2], "any") != 0 && !hash_parse_name(argv[2], hash)) || strcmp(argv[3], "--owners") != 0 || fcntl(FOLDER_FD, F_GETFD) < 0) {
		fprintf(stderr, "cloister-unpack is started by cloister only\n");
		return TELL_FAILED;
	}
	diff_id = strcmp(argv[2], "any") == 0 ? NULL : argv[2];
	owners = strcmp(argv[4], "keep") == 0;
	/* Else libarchive asks for tables of characters, or changes names. */
	setlocale(LC_CTYPE, "C.UTF-8");
	r = lock_down(owners, &err);
	if (r == 0)
		r = unpack_layer(STDIN_FILENO, FOLDER_FD, diff_id, owners, &unpack_limits_default, report, &result, &err);
	return finish(r, &result, &err);
}

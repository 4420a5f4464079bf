/* ns_build.c - the root of a cell that makes a layer of an image: all of the image's files can be changed, and the
 * changes are in an upper folder of the scratch space.
 *
 * Nothing of cloister's own may get into the layer.  So the places that it needs for mounts are in a layer below all
 * others, and its files are mounted over those or in /run, which no image keeps.  See also ns_image.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/namespace/ns_image.h"
#include "boundary/namespace/ns_plan.h"
#include "boundary/overlay/overlay.h"
#include "ipc/init_channel.h"

#define BOTTOM "bottom"                 /* the layer below all others */

/* The working folder is the one for cloister's own files. */
static int
make_bottom(struct err *err)
{
	static const struct { const char *name; mode_t mode; } folders[] = {
		{ "", 0755 }, { "/dev", 0755 }, { "/etc", 0755 }, { "/proc", 0555 }, { "/run", 0755 }, { "/sys", 0555 },
		{ "/tmp", 01777 },
	};
	static const char *const files[] = { "etc/hosts", "etc/hostname", "etc/resolv.conf" };
	char path[64];

	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		snprintf(path, sizeof(path), NS_BESIDE(BOTTOM) "%s", folders[i].name);
		if (mkdir(path, 0755) < 0 || chmod(path, folders[i].mode) < 0)
			return err_errno(err, "cannot make room for the image");
	}
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		snprintf(path, sizeof(path), NS_BESIDE(BOTTOM) "/%s", files[i]);
		if (mknod(path, S_IFREG | 0644, 0) < 0)
			return err_errno(err, "cannot make room for the image");
	}
	return 0;
}

/* The upper folder and the kernel's own, in CHANGES. */
static int
make_upper(int changes, size_t number, int *ret_upper, struct err *err)
{
	char upper[32], work[32];

	snprintf(upper, sizeof(upper), "upper%zu", number);
	snprintf(work, sizeof(work), "work%zu", number);
	if (mkdirat(changes, upper, 0755) < 0 || mkdirat(changes, work, 0700) < 0)
		return err_errno(err, "cannot make room for the layer");
	*ret_upper = openat(changes, upper, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret_upper < 0 ? err_errno(err, "cannot make room for the layer") : 0;
}

/* *top becomes the image.  CHANGES is the place for its upper folder. */
static int
compose(const struct ns_plan *plan, int changes, int *top, struct err *err)
{
	const size_t number = plan->spec->n_grants;
	OWN(closep) int upper = -1;
	char options[128];
	int r = make_bottom(err);

	if (r == 0)
		r = make_upper(changes, number, &upper, err);
	snprintf(options, sizeof(options), ":" NS_BESIDE(BOTTOM) ",upperdir=/proc/self/fd/%d/upper%zu,"
	         "workdir=/proc/self/fd/%d/work%zu", changes, number, changes, number);
	if (r == 0)
		r = ns_mount_layers(plan, options, err);
	if (r == 0)
		r = ns_enter_image(top, err);
	return r < 0 ? r : ns_send_fds(plan, INIT_UPPER, (uint32_t)number, &upper, 1, err);
}

/* Mounts for places of the image, from before its parts are taken away. */
struct place {
	int mount;
	bool over;                      /* over a file of the image, if it is one: a link, as some have, stays */
	const char *from, *at;          /* the first beneath the folder for cloister's own files */
	mode_t mode;                    /* of a new folder; 0: it is there */
	unsigned attrs;
};
#define PLACES { \
	{ -1, true, "etc/hosts", "etc/hosts", 0, MOUNTS_QUIET }, \
	{ -1, true, "etc/hostname", "etc/hostname", 0, MOUNTS_QUIET }, \
	{ -1, true, "etc/resolv.conf", "etc/resolv.conf", 0, MOUNTS_QUIET }, \
	{ -1, false, MOUNTS_SCRATCH "/shm", "dev/shm", 01777, 0 }, \
	{ -1, false, MOUNTS_SCRATCH "/run", "run", 0755, 0 }, \
	/* With the certificate authority of the cell. */ \
	{ -1, false, "etc", "run/cloister/etc", 0, MOUNTS_QUIET | MOUNT_ATTR_RDONLY }, \
}

static int
prepare_place(int top, struct place *p, struct err *err)
{
	if (p->mode != 0 && (mkdirat(top, p->from, 0700) < 0 || fchmodat(top, p->from, p->mode, 0) < 0))
		return err_errno(err, "cannot make '/%s'", p->at);
	p->mount = mounts_copy_tree(top, p->from, err);
	if (p->mount < 0)
		return p->mount;
	return p->attrs == 0 ? 0 : mounts_set_attrs(p->mount, p->attrs, false, err);
}

static int
show_place(int root, struct place *p, struct err *err)
{
	struct stat st;

	if (p->over && (fstatat(root, p->at, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode)))
		return 0;
	return mounts_attach(p->mount, root, p->at, err);
}

/* /run is the cell's own already. */
static int
make_run(int root, struct err *err)
{
	return mkdirat(root, "run/cloister", 0755) < 0 || mkdirat(root, "run/cloister/etc", 0755) < 0 ?
	       err_errno(err, "cannot make /run/cloister") : 0;
}

/* Makes *top the image, with SCRATCH for its changes. */
static int
build_image(const struct ns_plan *plan, int scratch, int *top, struct err *err)
{
	struct place places[] = PLACES;
	const size_t n = ARRAY_LEN(places), last = n - 1;
	OWN(closep) int changes = -1;
	int r = mounts_attach(scratch, *top, MOUNTS_SCRATCH, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = prepare_place(*top, &places[i], err);
	if (r == 0)
		r = changes = overlay_open_changes(*top, scratch, plan->ground->changes, plan->changes, err);
	if (r >= 0)
		r = compose(plan, changes, top, err);
	if (r == 0)
		r = ns_make_devices(*top, err);
	if (r == 0)
		r = ns_make_proc(plan, *top, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (i == last)
			r = make_run(*top, err);
		if (r == 0)
			r = show_place(*top, &places[i], err);
	}
	for (size_t i = 0; i < n; i++)
		closep(&places[i].mount);
	return r;
}

int
ns_build_image_root(const struct ns_plan *plan, int *root, struct err *err)
{
	OWN(closep) int scratch = -1;
	int r = plan->spec->known_hosts[0] != '\0' ?
	        err_set(err, ENOTSUP, "a build has no SSH agent: leave out secrets that are SSH keys") : 0;

	if (r == 0)
		r = ns_make_etc(*root, plan->spec, err);
	if (r == 0 && plan->ground->trust != NULL)
		r = ns_make_trust(*root, plan, err);
	if (r == 0)
		r = scratch = ns_new_scratch(plan, err);
	if (r >= 0)
		r = build_image(plan, scratch, root, err);
	if (r == 0)
		r = ns_send_fds(plan, INIT_SCRATCH, 0, &scratch, 1, err);
	if (r == 0)
		r = ns_attach_grants(plan, *root, scratch, err);
	return r < 0 ? r : ns_seal_image(*root, err);
}

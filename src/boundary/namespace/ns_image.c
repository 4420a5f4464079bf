/* ns_image.c - makes the root of a cell from the layers of an image, with the cell's own files on top.
 *
 * All of it is one overlay, which can be written while the cell is made and not afterwards.  So the agent sees the
 * image as it is, but for the places that are the cell's own, and grants can be anywhere in it.
 *
 * The parts are mounted beside each other in a folder that the agent never sees: it goes with the host's tree. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/namespace/ns_image.h"
#include "boundary/namespace/ns_plan.h"

#define TOP "top"
#define WORK "work"
#define ROOT "root"
#define LAYERS "layers"
/* Whatever an image has there, the agent sees these. */
#define OWN_DEV "dev"
#define OWN_SYS "sys"

#define BESIDE NS_BESIDE
#define LAYER_SIZE 32                   /* of its path */
#define OPTIONS_SIZE 4096               /* the kernel's limit */

_Static_assert(CELL_LAYERS_MAX * sizeof(BESIDE(LAYERS) "/999") + 256 < OPTIONS_SIZE, "they fit one call");

int
ns_begin_image(int *root, struct err *err)
{
	static const char *const folders[] = { TOP, WORK, ROOT, LAYERS, OWN_SYS, OWN_DEV, OWN_DEV "/pts",
	                                       OWN_DEV "/shm" };
	int top;

	for (size_t i = 0; i < ARRAY_LEN(folders); i++)
		if (mkdirat(*root, folders[i], 0755) < 0)
			return err_errno(err, "cannot make room for the image");
	top = openat(*root, TOP, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0 || fchdir(top) < 0)
		return err_errno(err, "cannot make room for the image");
	close(*root);
	*root = top;
	return 0;
}

static int
attach_layer(const struct ns_plan *plan, size_t i, const char *at, struct err *err)
{
	OWN(closep) int mount = plan->layers[i];

	if (mount < 0)
		mount = mounts_copy_tree(AT_FDCWD, plan->spec->image.layers[i], err);
	if (mount < 0)
		return mount;
	if (mkdir(at, 0755) < 0)
		return err_errno(err, "cannot make room for the image");
	return mounts_attach(mount, AT_FDCWD, at, err);
}

/* The whole text is given at once, because other ways to mount limit each value to 256 bytes, or are new. */
int
ns_mount_layers(const struct ns_plan *plan, const char *last, struct err *err)
{
	char options[OPTIONS_SIZE];
	size_t n = strv_len(plan->spec->image.layers), len = 0;
	int r = 0;

	for (size_t i = n; r == 0 && i-- > 0;) {
		char at[LAYER_SIZE];

		snprintf(at, sizeof(at), BESIDE(LAYERS) "/%zu", i);
		r = attach_layer(plan, i, at, err);
		len += (size_t)snprintf(options + len, sizeof(options) - len, "%s%s", i + 1 == n ? "lowerdir=" : ":", at);
	}
	if (r < 0)
		return r;
	/* The agent's list of mounts has these paths, which tell nothing. */
	snprintf(options + len, sizeof(options) - len, "%s,userxattr,xino=off", last);
	if (mount("image", BESIDE(ROOT), "overlay", MS_NOSUID | MS_NODEV, options) < 0)
		return err_errno(err, "cannot put the layers of the image together (see `cloister doctor`)");
	return 0;
}

/* The overlay alone, at the top of the host's tree.  The parts must not be mounted there: the host's tree is let go of
 * as a whole only if nothing is on its top but the new root. */
static int
take_whole(int *root, struct err *err)
{
	OWN(closep) int whole = open_tree(AT_FDCWD, BESIDE(ROOT), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	int r = whole < 0 ? err_errno(err, "cannot take the image") : mounts_attach(whole, AT_FDCWD, "/", err);

	if (r == 0 && fchdir(whole) < 0)
		r = err_errno(err, "cannot enter the image");
	if (r < 0)
		return r;
	close(*root);
	*root = TAKE_FD(whole);
	return 0;
}

int
ns_enter_image(int *root, struct err *err)
{
	OWN(closep) int dev = mounts_copy_tree(AT_FDCWD, BESIDE(OWN_DEV), err), sys = -1;
	int r = dev;

	if (r >= 0)
		r = sys = mounts_copy_tree(AT_FDCWD, BESIDE(OWN_SYS), err);
	if (r >= 0)
		r = mounts_set_attrs(sys, MOUNTS_QUIET | MOUNT_ATTR_RDONLY, false, err);
	if (r == 0)
		r = take_whole(root, err);
	if (r == 0)
		r = mounts_attach(dev, *root, "dev", err);
	return r < 0 ? r : mounts_attach(sys, *root, "sys", err);
}

int
ns_compose_image(const struct ns_plan *plan, int *root, struct err *err)
{
	int r = ns_mount_layers(plan, ",upperdir=.,workdir=" BESIDE(WORK), err);

	return r < 0 ? r : ns_enter_image(root, err);
}

int
ns_seal_image(int root, struct err *err)
{
	OWN(closep) int dev = openat(root, "dev", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return dev < 0 ? err_errno(err, "cannot open the cell's /dev") :
	       mounts_set_attrs(dev, MOUNTS_QUIET | MOUNT_ATTR_RDONLY, false, err);
}

int
ns_enter_layers(char **layers, struct err *err)
{
	const char *const options[] = { "mode", "0755", "size", "1m", NULL };
	const struct cell_spec spec = { .image.layers = layers };
	struct ns_plan plan = { .spec = &spec };
	OWN(closep) int parts = -1;
	int r;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_errno(err, "cannot make the mounts private");
	/* An overlay has two layers at least. */
	if (strv_len(layers) < 2)
		return chdir(layers[0]) < 0 ? err_errno(err, "cannot enter '%s'", layers[0]) : 0;
	ns_clear_plan(&plan);
	parts = mounts_new_fs("tmpfs", options, MOUNTS_QUIET, err);
	r = parts < 0 ? parts : mounts_attach(parts, AT_FDCWD, NS_IMAGE_PARTS, err);
	if (r == 0 && fchdir(parts) < 0)
		r = err_errno(err, "cannot make room for the image");
	if (r == 0)
		r = ns_begin_image(&parts, err);
	if (r == 0)
		r = ns_mount_layers(&plan, "", err);
	return r == 0 && chdir(BESIDE(ROOT)) < 0 ? err_errno(err, "cannot enter the image") : r;
}

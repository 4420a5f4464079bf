/* initramfs_choose.c - chooses the modules that a guest needs, each behind those it depends on. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "proc/initramfs/initramfs.h"
#include "vm/kernel.h"

const char *const initramfs_wanted[] = {
	"virtio", "virtio_ring", "virtio_mmio", "virtio_pci", "virtio_console", "virtio_blk", "virtio_net", "virtio_rng",
	"virtio_balloon", "fuse", "virtiofs", "erofs", "overlay", NULL
};
/* For monitors without a console port. */
const char *const initramfs_welcome[] = { "vmw_vsock_virtio_transport", NULL };

struct choice {
	struct initramfs_files *files;
	const char *release;
	struct initramfs_chosen *chosen;
	size_t n_loading;               /* chosen once those they depend on are */
};

static struct initramfs_file *
find(struct initramfs_files *files, const char *name)
{
	for (size_t i = 0; i < files->n; i++)
		if (strcmp(files->at[i].name, name) == 0)
			return &files->at[i];
	return NULL;
}

static int
load(const struct choice *c, const struct initramfs_file *file, struct buf *data, struct err *err)
{
	OWN(closep) int fd = kernel_open_file(c->files->dir, file->path, err);
	OWN(freep) char *packed = NULL;
	size_t len;
	int r = fd < 0 ? fd : read_open(fd, file->path, INITRAMFS_MODULE_MAX, &packed, &len, err);

	buf_init(data, INITRAMFS_MODULE_MAX);
	return r < 0 ? r : initramfs_unpack(file->suffix, packed, len, data, err);
}

static int add(struct choice *c, const char *name, struct err *err);

static int
add_depends(struct choice *c, const struct initramfs_file *file, const struct buf *data, struct err *err)
{
	struct module_info info;
	char name[MODULE_NAME_MAX];
	int r = module_parse(data->data, data->len, &info, err), more;

	if (r == 0 && !module_is_for(info.vermagic, c->release))
		r = err_set(err, EINVAL, "it is for the kernel '%.*s', not '%s'", (int)strcspn(info.vermagic, " "),
		            info.vermagic, c->release);
	if (r < 0)
		return err_wrap(err, "module '%s'", file->path);
	while ((more = module_next(&info.depends, name)) > 0) {
		r = add(c, name, err);
		if (r < 0)
			return r;
	}
	return more < 0 ? err_set(err, EBADMSG, "module '%s' depends on '%.60s', which is no name", file->path,
	                          info.depends) : 0;
}

static int
add_file(struct choice *c, struct initramfs_file *file, struct err *err)
{
	OWN(buf_free) struct buf data = {0};
	int r;

	if (c->chosen->n + c->n_loading >= INITRAMFS_CHOSEN_MAX)
		return err_set(err, EFBIG, "the guest would need over %d modules", INITRAMFS_CHOSEN_MAX);
	r = load(c, file, &data, err);
	if (r < 0)
		return err_wrap(err, "module '%s'", file->path);
	file->state = INITRAMFS_LOADING;
	c->n_loading++;
	r = add_depends(c, file, &data, err);
	c->n_loading--;
	if (r < 0)
		return r;
	file->state = INITRAMFS_CHOSEN;
	c->chosen->at[c->chosen->n].file = file;
	c->chosen->at[c->chosen->n++].data = data;
	data = (struct buf){0};
	return 0;
}

static int
add(struct choice *c, const char *name, struct err *err)
{
	struct initramfs_file *file;

	if (module_is_builtin(c->files->builtin, name))
		return 0;
	file = find(c->files, name);
	if (file == NULL)
		return err_set(err, ENOENT, "the kernel %s has no module '%s', which a guest needs: install the rest of its "
		               "modules, or another kernel", c->release, name);
	if (file->state == INITRAMFS_LOADING)
		return err_set(err, ELOOP, "module '%s' depends on itself", file->path);
	return file->state == INITRAMFS_CHOSEN ? 0 : add_file(c, file, err);
}

int
initramfs_choose(struct initramfs_files *files, const char *release, const char *const *wanted,
                 const char *const *welcome, struct initramfs_chosen *chosen, struct err *err)
{
	struct choice c = { .files = files, .release = release, .chosen = chosen };
	int r = 0;

	for (size_t i = 0; r == 0 && wanted[i] != NULL; i++)
		r = add(&c, wanted[i], err);
	for (size_t i = 0; r == 0 && welcome[i] != NULL; i++)
		if (find(files, welcome[i]) != NULL)
			r = add(&c, welcome[i], err);
	return r;
}

void
initramfs_chosen_free(struct initramfs_chosen *c)
{
	for (size_t i = 0; i < c->n; i++)
		buf_free(&c->at[i].data);
	c->n = 0;
}

/* vm_fire.c - Firecracker as the monitor of a virtual machine.
 *
 * Its API is published as src/firecracker/swagger/firecracker.yaml.  It has no emulation, no templates here, and a
 * network that is always a tap.  It shares no folders: the root of a cell is a disk, and nothing can be granted. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/capture/capture.h"
#include "boundary/microvm/vm.h"
#include "boundary/microvm/vm_api.h"
#include "boundary/microvm/vm_guest.h"

#define WHO "Firecracker"
#define API "/" VM_SOCKETS "/" VM_API
#define CPUS_MAX 32
#define MIB (UINT64_C(1) << 20)
#define STEP_NS 1000000
/* Its way out is the keyboard's reset line.  The guest's console would be its standard output. */
#define KERNEL_WORDS "quiet panic=-1 reboot=k 8250.nr_uarts=0"

static const char *const places[] = { "/usr/bin/firecracker", "/usr/local/bin/firecracker", NULL };

static int
fire_find(struct err *err)
{
	if (vm_find_program(places) == NULL)
		return err_set(err, ENOENT, "there is no Firecracker: install firecracker in /usr/bin or /usr/local/bin");
	return 0;
}

static int
fire_check(const struct cell_spec *spec, struct err *err)
{
	if (spec->vm_emulated && vm_test_program() == NULL)
		return err_set(err, ENOTSUP, WHO " cannot emulate a processor: use --vm-accel kvm, or --vm-monitor qemu");
	if (spec->n_grants > 0)
		return err_set(err, ENOTSUP, WHO " cannot share folders, so its cells have no workspaces and no -v: use "
		               "--vm-monitor qemu or cloud-hypervisor, or put the files in the folder of --rootfs, or an image");
	if (spec->rootfs[0] == '\0' && spec->image.layers == NULL)
		return err_set(err, ENOTSUP, WHO " cannot share this machine's programs: name others with --rootfs "
		               "or --image, or use --vm-monitor qemu or cloud-hypervisor");
	if (spec->vm_disk == NULL)
		return err_set(err, ENOTSUP, WHO " needs a disk of '%s', and there is none: install erofs-utils, or use "
		               "--vm-monitor qemu", spec->image.layers != NULL ? spec->image.name : spec->rootfs);
	if (spec->limits.cpus_milli > CPUS_MAX * 1000)
		return err_set(err, ENOTSUP, WHO " has at most %d processors: use --cpus %d", CPUS_MAX, CPUS_MAX);
	return 0;
}

static int
fire_become(const struct vm_machine *m, struct err *err)
{
	char *argv[] = { (char[]){ "firecracker" }, (char[]){ "--api-sock" }, (char[]){ API }, NULL };

	return vm_exec(vm_find_program(places), argv, NULL, 0, m->log, err);
}

/* It makes its socket itself.  If it ends, the kernel ends the keeper too. */
static int
connect_to(struct vm_control *c, struct err *err)
{
	const struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = API };
	const struct timespec step = { .tv_nsec = STEP_NS };

	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return err_errno(err, "cannot make the virtual machine's sockets");
	while (connect(c->fd, (const struct sockaddr *)&at, sizeof(at)) < 0) {
		if (errno != ENOENT && errno != ECONNREFUSED)
			return err_errno(err, "cannot reach " WHO);
		nanosleep(&step, NULL);
	}
	return 0;
}

/* ---- its requests ---- */

static void
describe_machine(struct json *w, const struct vm_machine *m)
{
	json_u64(w, "vcpu_count", m->cpus);
	json_u64(w, "mem_size_mib", m->memory / MIB);
}

static void
describe_boot(struct json *w, const struct vm_machine *m)
{
	(void)m;
	json_str(w, "kernel_image_path", "/" VM_KERNEL);
	json_str(w, "initrd_path", "/" VM_INITRAMFS);
	json_str(w, "boot_args", KERNEL_WORDS);
}

/* The guest mounts it by itself: for the kernel it is no root device. */
static void
describe_disk(struct json *w, const struct vm_machine *m)
{
	(void)m;
	json_str(w, "drive_id", "root");
	json_str(w, "path_on_host", "/" VM_DISK);
	json_bool(w, "is_root_device", false);
	json_bool(w, "is_read_only", true);
}

static void
describe_net(struct json *w, const struct vm_machine *m)
{
	json_str(w, "iface_id", "net");
	json_str(w, "guest_mac", m->mac);
	json_str(w, "host_dev_name", CAPTURED_TAP);
}

static void
describe_vsock(struct json *w, const struct vm_machine *m)
{
	(void)m;
	json_u64(w, "guest_cid", VM_GUEST_CID);
	json_str(w, "uds_path", "/" VM_SOCKETS "/" VM_VSOCK);
}

static void
describe_entropy(struct json *w, const struct vm_machine *m)
{
	(void)w;
	(void)m;
}

static void
describe_old_balloon(struct json *w, const struct vm_machine *m)
{
	(void)m;
	json_u64(w, "amount_mib", 0);
	json_bool(w, "deflate_on_oom", true);
}

static void
describe_balloon(struct json *w, const struct vm_machine *m)
{
	describe_old_balloon(w, m);
	json_bool(w, "free_page_reporting", true);
}

static void
describe_start(struct json *w, const struct vm_machine *m)
{
	(void)m;
	json_str(w, "action_type", "InstanceStart");
}

static int
put(struct vm_control *c, const struct vm_machine *m, const char *path,
    void (*describe)(struct json *w, const struct vm_machine *m), struct err *err)
{
	OWN(vm_body_free) struct vm_body body = {0};
	int r = vm_body_begin(&body, err);

	if (r < 0)
		return r;
	describe(&body.json, m);
	return vm_api_ask(c, WHO, "PUT", path, &body, -1, err);
}

static int
fire_boot(struct vm_control *c, const struct vm_machine *m, struct err *err)
{
	int r = connect_to(c, err);

	if (r == 0)
		r = put(c, m, "/machine-config", describe_machine, err);
	if (r == 0)
		r = put(c, m, "/boot-source", describe_boot, err);
	if (r == 0)
		r = put(c, m, "/drives/root", describe_disk, err);
	if (r == 0 && m->has_net)
		r = put(c, m, "/network-interfaces/net", describe_net, err);
	if (r == 0)
		r = put(c, m, "/vsock", describe_vsock, err);
	if (r == 0)
		r = put(c, m, "/entropy", describe_entropy, err);
	/* An older one cannot give memory back, and refuses whoever asks it to. */
	if (r == 0 && put(c, m, "/balloon", describe_balloon, err) < 0)
		r = put(c, m, "/balloon", describe_old_balloon, err);
	return r < 0 ? r : put(c, m, "/actions", describe_start, err);
}

/* It has no request for that.  It ends with the guest, and with the cell. */
static void
fire_end(struct vm_control *c)
{
	(void)c;
}

const struct vm_driver vm_fire = {
	.name = "firecracker", .title = WHO, .filter = FILTER_HYPERVISOR, .by_sockets = true, .takes_disk = true,
	.shares_nothing = true, .opens_tap = true, .find = fire_find, .check = fire_check, .become = fire_become,
	.boot = fire_boot, .end = fire_end,
};

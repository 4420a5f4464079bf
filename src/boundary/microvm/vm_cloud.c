/* vm_cloud.c - Cloud Hypervisor as the monitor of a virtual machine.
 *
 * Its API is published as vmm/src/api/openapi/cloud-hypervisor.yaml.  It has no emulation, and its network is
 * always a tap.  Machines are not kept as templates: each boots. */
#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/microvm/vm.h"
#include "boundary/microvm/vm_api.h"
#include "boundary/microvm/vm_guest.h"

#define WHO "Cloud Hypervisor"
#define API "/api/v1/"
#define QUEUE_SIZE 1024                 /* of the share */

static const char *const places[] = { "/usr/bin/cloud-hypervisor", "/usr/local/bin/cloud-hypervisor", NULL };

static int
cloud_find(struct err *err)
{
	if (vm_find_program(places) == NULL)
		return err_set(err, ENOENT, "there is no Cloud Hypervisor: install cloud-hypervisor in /usr/bin or "
		               "/usr/local/bin");
	return 0;
}

static int
cloud_check(const struct cell_spec *spec, struct err *err)
{
	if (spec->vm_emulated && vm_test_program() == NULL)
		return err_set(err, ENOTSUP, "Cloud Hypervisor cannot emulate a processor: use --vm-accel kvm, or "
		               "--vm-monitor qemu");
	return 0;
}

static int
cloud_become(const struct vm_machine *m, struct err *err)
{
	char socket[32];
	char *argv[] = { (char[]){ "cloud-hypervisor" }, (char[]){ "--api-socket" }, socket, NULL };

	snprintf(socket, sizeof(socket), "fd=%d", m->control);
	return vm_exec(vm_find_program(places), argv, (const int[]){ m->control }, 1, m->log, err);
}

static void
describe_share(struct json *w)
{
	json_open(w, "fs", '[');
	json_open(w, NULL, '{');
	json_str(w, "tag", VM_GUEST_SHARE);
	json_str(w, "socket", "/" VM_SOCKETS "/" VM_SHARE);
	json_u64(w, "num_queues", 1);
	json_u64(w, "queue_size", QUEUE_SIZE);
	json_close(w, '}');
	json_close(w, ']');
}

static void
describe_off(struct json *w, const char *device)
{
	json_open(w, device, '{');
	json_str(w, "mode", "Off");
	json_close(w, '}');
}

static void
describe(struct json *w, const struct vm_machine *m)
{
	json_open(w, "payload", '{');
	json_str(w, "kernel", "/" VM_KERNEL);
	json_str(w, "initramfs", "/" VM_INITRAMFS);
	json_str(w, "cmdline", "quiet panic=-1");
	json_close(w, '}');
	json_open(w, "cpus", '{');
	json_u64(w, "boot_vcpus", m->cpus);
	json_u64(w, "max_vcpus", m->cpus);
	json_close(w, '}');
	json_open(w, "memory", '{');
	json_u64(w, "size", m->memory);
	/* With the file server. */
	json_bool(w, "shared", true);
	json_close(w, '}');
	json_open(w, "rng", '{');
	json_str(w, "src", "/dev/urandom");
	json_close(w, '}');
	json_open(w, "balloon", '{');
	json_u64(w, "size", 0);
	json_bool(w, "free_page_reporting", true);
	json_close(w, '}');
	describe_off(w, "serial");
	describe_off(w, "console");
	describe_share(w);
	json_open(w, "vsock", '{');
	json_u64(w, "cid", VM_GUEST_CID);
	json_str(w, "socket", "/" VM_SOCKETS "/" VM_VSOCK);
	json_close(w, '}');
}

/* A descriptor can only be given with a request of its own. */
static int
add_net(struct vm_control *c, const struct vm_machine *m, struct err *err)
{
	OWN(vm_body_free) struct vm_body body = {0};
	int r = vm_body_begin(&body, err);

	if (r < 0)
		return r;
	json_str(&body.json, "mac", m->mac);
	/* One in each direction. */
	json_u64(&body.json, "num_queues", 2);
	return vm_api_ask(c, WHO, "PUT", API "vm.add-net", &body, m->tap, err);
}

static int
cloud_boot(struct vm_control *c, const struct vm_machine *m, struct err *err)
{
	OWN(vm_body_free) struct vm_body body = {0};
	int r = vm_body_begin(&body, err);

	if (r < 0)
		return r;
	describe(&body.json, m);
	r = vm_api_ask(c, WHO, "PUT", API "vm.create", &body, -1, err);
	if (r == 0 && m->has_net)
		r = add_net(c, m, err);
	return r < 0 ? r : vm_api_ask(c, WHO, "PUT", API "vm.boot", NULL, -1, err);
}

static void
cloud_end(struct vm_control *c)
{
	(void)vm_api_ask(c, WHO, "PUT", API "vmm.shutdown", NULL, -1, NULL);
}

const struct vm_driver vm_cloud = {
	.name = "cloud-hypervisor", .title = WHO, .filter = FILTER_HYPERVISOR, .by_sockets = true, .find = cloud_find,
	.check = cloud_check, .become = cloud_become, .boot = cloud_boot, .end = cloud_end,
};

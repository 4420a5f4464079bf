/* vm_cloud.c - Cloud Hypervisor as the monitor of a virtual machine.
 *
 * Its API is published as vmm/src/api/openapi/cloud-hypervisor.yaml.  It has no emulation, and its network is
 * always a tap.
 *
 * It writes a snapshot as files in a folder, and leaves out memory that is a file with a name.  So a template has
 * the memory as any other has, and behind it the length of the first file (u64) and both files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/microvm/vm.h"
#include "boundary/microvm/vm_api.h"
#include "boundary/microvm/vm_guest.h"

#define WHO "Cloud Hypervisor"
#define API "/api/v1/"
#define WORDS "quiet panic=-1"           /* of the kernel */
#define QUEUE_SIZE 1024                 /* of the share */
#define SNAPSHOT "/" VM_SOCKETS "/" VM_SNAPSHOT
#define CONFIG_FILE SNAPSHOT "/config.json"
#define STATE_FILE SNAPSHOT "/state.json"
#define STATE_MAX ((size_t)1 << 20)

static const char *const places[] = { "/usr/bin/cloud-hypervisor", "/usr/local/bin/cloud-hypervisor", NULL };

static const char *
cloud_locate(void)
{
	return vm_find_program(places);
}

static int
cloud_find(struct err *err)
{
	if (cloud_locate() == NULL)
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
	return vm_exec(cloud_locate(), argv, (const int[]){ m->control }, 1, m->log, err);
}

static void
describe_share(struct json *w)
{
	json_str(w, "tag", VM_GUEST_SHARE);
	json_str(w, "socket", "/" VM_SOCKETS "/" VM_SHARE);
	json_u64(w, "num_queues", 1);
	json_u64(w, "queue_size", QUEUE_SIZE);
}

/* The file server maps it too. */
static void
describe_memory(struct json *w, const struct vm_machine *m)
{
	json_open(w, "memory", '{');
	if (m->start == VM_BOOT) {
		json_u64(w, "size", m->memory);
		json_bool(w, "shared", true);
	} else {
		json_u64(w, "size", 0);
		json_open(w, "zones", '[');
		json_open(w, NULL, '{');
		json_str(w, "id", "all");
		json_u64(w, "size", m->memory);
		json_str(w, "file", "/" VM_SOCKETS "/" VM_MEMORY);
		json_bool(w, "shared", true);
		json_close(w, '}');
		json_close(w, ']');
	}
	json_close(w, '}');
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
	json_str(w, "cmdline", m->start == VM_RECORD ? WORDS " " VM_GUEST_RECORDED : WORDS);
	json_close(w, '}');
	json_open(w, "cpus", '{');
	json_u64(w, "boot_vcpus", m->cpus);
	json_u64(w, "max_vcpus", m->cpus);
	json_close(w, '}');
	describe_memory(w, m);
	json_open(w, "rng", '{');
	json_str(w, "src", "/dev/urandom");
	json_close(w, '}');
	json_open(w, "balloon", '{');
	json_u64(w, "size", 0);
	json_bool(w, "free_page_reporting", true);
	json_close(w, '}');
	describe_off(w, "serial");
	describe_off(w, "console");
	if (m->start == VM_BOOT) {
		json_open(w, "fs", '[');
		json_open(w, NULL, '{');
		describe_share(w);
		json_close(w, '}');
		json_close(w, ']');
	}
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
tell(struct vm_control *c, const char *call, struct err *err)
{
	char path[40];

	snprintf(path, sizeof(path), API "%s", call);
	return vm_api_ask(c, WHO, "PUT", path, NULL, -1, err);
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
	if (r == 0 && m->has_net && m->start == VM_BOOT)
		r = add_net(c, m, err);
	return r < 0 ? r : tell(c, "vm.boot", err);
}

/* ---- templates ---- */

static int
cloud_pause(struct vm_control *c, struct err *err)
{
	return tell(c, "vm.pause", err);
}

static int
cloud_resume(struct vm_control *c, struct err *err)
{
	return tell(c, "vm.resume", err);
}

static int
cloud_plug(struct vm_control *c, const struct vm_machine *m, bool offered, struct err *err)
{
	OWN(vm_body_free) struct vm_body body = {0};
	int r = vm_body_begin(&body, err);

	(void)offered;
	if (r < 0)
		return r;
	describe_share(&body.json);
	r = vm_api_ask(c, WHO, "PUT", API "vm.add-fs", &body, -1, err);
	return r < 0 || !m->has_net ? r : add_net(c, m, err);
}

/* A request about the snapshot in its folder. */
static int
ask_with_folder(struct vm_control *c, const char *path, const char *name, struct err *err)
{
	OWN(vm_body_free) struct vm_body body = {0};
	int r = vm_body_begin(&body, err);

	if (r < 0)
		return r;
	json_str(&body.json, name, "file://" SNAPSHOT);
	return vm_api_ask(c, WHO, "PUT", path, &body, -1, err);
}

static int
cloud_snapshot(struct vm_control *c, const struct vm_machine *m, struct err *err)
{
	OWN(freep) char *config = NULL, *state = NULL;
	size_t config_len = 0, state_len = 0;
	int r = ask_with_folder(c, API "vm.snapshot", "destination_url", err);
	uint64_t len;

	if (r == 0)
		r = read_file_at(AT_FDCWD, CONFIG_FILE, STATE_MAX, &config, &config_len, err);
	if (r == 0)
		r = read_file_at(AT_FDCWD, STATE_FILE, STATE_MAX, &state, &state_len, err);
	len = config_len;
	if (r == 0)
		r = write_all(m->state, &len, sizeof(len), err);
	if (r == 0)
		r = write_all(m->state, config, config_len, err);
	return r < 0 ? r : write_all(m->state, state, state_len, err);
}

static int
write_new(const char *path, const char *text, size_t len, struct err *err)
{
	OWN(closep) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? err_errno(err, "cannot write a virtual machine's state") : write_all(fd, text, len, err);
}

/* All that is left of FILE. */
static int
read_rest(int file, char **ret_text, size_t *ret_len, struct err *err)
{
	const off_t at = lseek(file, 0, SEEK_CUR);
	OWN(freep) char *text = NULL;
	struct stat st;
	int r;

	if (at < 0 || fstat(file, &st) < 0)
		return err_errno(err, "cannot read a template");
	if (st.st_size < at || (uint64_t)(st.st_size - at) > 2 * STATE_MAX)
		return err_set(err, EBADMSG, "a template is damaged");
	*ret_len = (size_t)(st.st_size - at);
	text = malloc(*ret_len + 1);
	if (text == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = read_exactly(file, text, *ret_len, err);
	if (r == 0)
		*ret_text = TAKE(text);
	return r;
}

static int
cloud_restore(struct vm_control *c, const struct vm_machine *m, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t left = 0;
	uint64_t len;
	int r = read_rest(m->state, &text, &left, err);

	if (r < 0)
		return r;
	memcpy(&len, text, left < sizeof(len) ? 0 : sizeof(len));
	left -= left < sizeof(len) ? left : sizeof(len);
	if (left == 0 || len > left)
		return err_set(err, EBADMSG, "a template is damaged");
	r = write_new(CONFIG_FILE, text + sizeof(len), len, err);
	if (r == 0)
		r = write_new(STATE_FILE, text + sizeof(len) + len, left - len, err);
	return r < 0 ? r : ask_with_folder(c, API "vm.restore", "source_url", err);
}

static void
cloud_end(struct vm_control *c)
{
	(void)tell(c, "vmm.shutdown", NULL);
}

const struct vm_driver vm_cloud = {
	.name = "cloud-hypervisor", .title = WHO, .filter = FILTER_HYPERVISOR, .by_sockets = true, .plugs_card = true, .find = cloud_find,
	.locate = cloud_locate, .shape = WORDS, .check = cloud_check, .become = cloud_become, .boot = cloud_boot,
	.pause = cloud_pause, .snapshot = cloud_snapshot, .restore = cloud_restore, .plug = cloud_plug,
	.resume = cloud_resume, .end = cloud_end,
};

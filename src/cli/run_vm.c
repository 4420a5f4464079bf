/* run_vm.c - `cloister run --boundary microvm`: finds what the virtual machine boots. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data.h"
#include "base/err.h"
#include "base/exe.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "boundary/boundary.h"
#include "canon/hash.h"
#include "cli/cli.h"
#include "cli/run.h"
#include "trust/trust.h"
#include "vm/kernel.h"
#include "vm/template.h"

#define ANSWER_MAX (2 * PATH_MAX + 256)

int
run_set_accel(struct run *run, const char *value, struct err *err)
{
	if (strcmp(value, "kvm") != 0 && strcmp(value, "tcg") != 0)
		return err_set(err, EINVAL, "there is no '%s' for virtual machines: use kvm, or tcg for tests", value);
	run->spec.vm_emulated = strcmp(value, "tcg") == 0;
	return 0;
}

int
run_set_monitor(struct run *run, const char *value, struct err *err)
{
	if (strlen(value) > CELL_MONITOR_MAX)
		return err_set(err, EINVAL, "no program '%.40s' runs virtual machines", value);
	memcpy(run->spec.vm_monitor, value, strlen(value) + 1);
	return 0;
}

int
run_set_vm_net(struct run *run, const char *value, struct err *err)
{
	if (strcmp(value, "user") != 0 && strcmp(value, "tap") != 0)
		return err_set(err, EINVAL, "a virtual machine has no network '%s': use user or tap", value);
	run->spec.vm_tap = strcmp(value, "tap") == 0;
	return 0;
}

/* Reads the answer of cloister-initramfs: four lines. */
static int
read_answer(int fd, struct cell_spec *spec, struct err *err)
{
	char text[ANSWER_MAX], *lines[4], *at = text;
	size_t len = 0;
	ssize_t n;

	while (len < sizeof(text) - 1 && (n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		lines[i] = at;
		at = at == NULL ? NULL : strchr(at, '\n');
		if (at != NULL)
			*at++ = '\0';
	}
	if (at == NULL || *at != '\0' || !hash_parse_name(lines[2], spec->vm_kernel_hash) ||
	    !hash_parse_name(lines[3], spec->vm_initramfs_hash))
		return err_set(err, EPROTO, "cannot prepare the virtual machine");
	/* Whoever mounts them follows no link. */
	spec->vm_kernel = realpath(lines[0], NULL);
	spec->vm_initramfs = realpath(lines[1], NULL);
	return spec->vm_kernel == NULL || spec->vm_initramfs == NULL ?
	       err_errno(err, "cannot find what the virtual machine boots") : 0;
}

/* A file of the operator's choice, or "": then cloister-initramfs finds one that belongs to root. */
static int
choose(const char *given, const char *variable, const char **ret_path, struct err *err)
{
	*ret_path = given != NULL ? given : getenv(variable) != NULL ? getenv(variable) : "";
	return (*ret_path)[0] == '\0' ? 0 : trust_path(TRUST_VM_KERNEL, *ret_path, err);
}

/* On amd64, Firecracker boots the kernel itself, and not the file that decompresses it. */
static bool
needs_elf(const struct cell_spec *spec)
{
#if defined(__x86_64__)
	return strcmp(boundary_find(BOUNDARY_MICROVM, NULL)->monitor(spec), "firecracker") == 0;
#else
	(void)spec;
	return false;
#endif
}

/* Cloud Hypervisor's cells have the folder shared. */
static bool
takes_disk(const struct cell_spec *spec)
{
	return (spec->rootfs[0] != '\0' || spec->image.layers != NULL) &&
	       strcmp(boundary_find(BOUNDARY_MICROVM, NULL)->monitor(spec), "cloud-hypervisor") != 0;
}

static int
prepare(struct run *run, struct err *err)
{
	OWN(freep) char *cache = data_path(TEMPLATE_FOLDER, err);
	OWN(closep) int folder = cache == NULL ? -1 : data_folder(TEMPLATE_FOLDER, true, err);
	char guest[PATH_MAX], init[PATH_MAX];
	const char *kernel = NULL, *modules = NULL;
	struct spawn_fd out = { -1, STDOUT_FILENO };
	int ends[2], r = folder < 0 ? -ENOENT : 0, status;
	pid_t pid;

	if (r == 0)
		r = choose(run->vm_kernel, "CLOISTER_VM_KERNEL", &kernel, err);
	if (r == 0)
		r = choose(NULL, "CLOISTER_VM_MODULES", &modules, err);
	if (r == 0)
		r = exe_find_helper("cloister-guest", guest, err);
	if (r == 0)
		r = exe_find_helper("cloister-init", init, err);
	if (r == 0 && pipe2(ends, O_CLOEXEC) < 0)
		r = err_errno(err, "cannot create a pipe");
	if (r < 0)
		return r;
	out.fd = ends[1];
	pid = spawn_start(&(struct spawn){ .argv = (char *[]){
		(char[]){ "cloister-initramfs" }, (char[]){ "--kernel" }, (char *)(uintptr_t)kernel,
		(char[]){ "--modules" }, (char *)(uintptr_t)modules, (char[]){ "--init" }, guest,
		(char[]){ "--cloister-init" }, init, (char[]){ "--cache" }, cache,
		(char[]){ "--form" }, needs_elf(&run->spec) ? (char[]){ "elf" } : (char[]){ "file" }, NULL }, .fds = &out, .n_fds = 1, .flags = SPAWN_DIES }, NULL, err);
	close(ends[1]);
	r = pid < 0 ? (int)pid : read_answer(ends[0], &run->spec, err);
	close(ends[0]);
	if (pid < 0)
		return r;
	status = spawn_await(pid, err);
	if (status == 0 && r == 0 && takes_disk(&run->spec))
		run_find_disk(&run->spec, cache);
	/* It has told why. */
	return status > 0 ? CLI_FAILED : status < 0 ? status : r;
}

/* For any other error, an agent could be the cause: no weaker boundary for that. */
static int
is_missing(int r)
{
	return r == -ENOENT || r == -ENOTSUP || r == -EACCES ? 1 : r;
}

int
run_can_vm(void *arg, struct err *err)
{
	OWN(kernel_free) struct kernel found = {0};
	const char *kernel = NULL, *modules = NULL;
	const struct run *run = arg;
	char own[PATH_MAX];
	int r = boundary_find(BOUNDARY_MICROVM, NULL)->able(run->spec.vm_emulated, err);

	if (r < 0)
		return is_missing(r);
	r = choose(run->vm_kernel, "CLOISTER_VM_KERNEL", &kernel, err);
	r = r == 0 ? choose(NULL, "CLOISTER_VM_MODULES", &modules, err) : r;
	if (r < 0)
		return r;
	r = kernel_own_folder(own, err);
	r = r == 0 ? kernel_find("", own, kernel, modules, &found, err) : r;
	return kernel[0] == '\0' && modules[0] == '\0' ? is_missing(r) : r;
}

int
run_finish_vm(struct run *run, struct err *err)
{
	if (strcmp(run->spec.boundary, BOUNDARY_MICROVM) != 0) {
		run->spec.vm_emulated = run->spec.vm_tap = false;
		return run->vm_kernel == NULL || run->spec.weaker != NULL ? 0 :
		       err_set(err, EINVAL, "--vm-kernel needs --boundary " BOUNDARY_MICROVM);
	}
	if (run->spec.vm_emulated && !run->spec.quiet && isatty(STDERR_FILENO))
		fputs("cloister: this virtual machine is emulated, which is for tests and not for work\n", stderr);
	return prepare(run, err);
}

/* vm_qemu.c - QEMU as the monitor of a virtual machine: as few devices as there can be. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/microvm/vm.h"
#include "boundary/microvm/vm_guest.h"

#if defined(__x86_64__)
#define QEMU "/usr/bin/qemu-system-x86_64"
#define PACKAGE "qemu-system-x86"
#define MACHINE "microvm,acpi=on,pit=off,pic=off,rtc=off,isa-serial=off,memory-backend=memory"
#define CPU_EMULATED "qemu64"
#define FORCE_MODERN "virtio-mmio.force-legacy=false"
#elif defined(__aarch64__)
#define QEMU "/usr/bin/qemu-system-aarch64"
#define PACKAGE "qemu-system-arm"
#define MACHINE "virt,gic-version=max,memory-backend=memory"
#define CPU_EMULATED "cortex-a57"
#define FORCE_MODERN "virtio-mmio.force-legacy=false"
#endif

#define ARGS_MAX 64
#define MIB (UINT64_C(1) << 20)

struct args {
	char *list[ARGS_MAX];
	size_t n;
	bool failed;
};

__attribute__((format(printf, 2, 3))) static void
add(struct args *args, const char *format, ...)
{
	va_list ap;
	char *text = NULL;

	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0 || args->n >= ARGS_MAX - 1)
		args->failed = true;
	else
		args->list[args->n++] = text;
	va_end(ap);
}

int
vm_find_qemu(struct err *err)
{
	if (access(QEMU, X_OK) < 0)
		return err_set(err, ENOENT, "there is no QEMU for virtual machines: install " PACKAGE);
	return 0;
}

/* The frequency of the processor's clock, which an emulated machine cannot measure while this one is
 * busy. */
static unsigned long
clock_khz(void)
{
	OWN(freep) char *text = NULL;
	const char *at;

	if (read_file_at(AT_FDCWD, "/proc/cpuinfo", 1 << 20, &text, NULL, NULL) < 0 ||
	    (at = strstr(text, "cpu MHz")) == NULL || (at = strchr(at, ':')) == NULL)
		return 0;
	return (unsigned long)(strtod(at + 1, NULL) * 1000);
}

static void
add_kernel(struct args *args, const struct vm *vm)
{
	unsigned long khz = vm->emulated ? clock_khz() : 0;
	char clock[48] = "";

	if (khz > 0)
		snprintf(clock, sizeof(clock), " tsc_early_khz=%lu", khz);
	add(args, "-kernel");
	add(args, "/" VM_KERNEL);
	add(args, "-initrd");
	add(args, "/" VM_INITRAMFS);
	add(args, "-append");
	add(args, "quiet panic=-1 reboot=t%s", clock);
}

/* An address of its own, in the range for local use. */
static void
add_net(struct args *args)
{
	unsigned char b[5] = {0};

	(void)!getrandom(b, sizeof(b), 0);
	add(args, "-netdev");
	add(args, "user,id=net,net=" VM_GUEST_NET4 ",host=" VM_GUEST_HOST4 ",dns=" VM_GUEST_DNS4
	    ",ipv6-net=" VM_GUEST_NET6 ",ipv6-host=" VM_GUEST_HOST6 ",ipv6-dns=" VM_GUEST_DNS6);
	add(args, "-device");
	add(args, "virtio-net-device,netdev=net,mac=02:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4]);
}

static void
describe(struct args *args, const struct ns_plan *plan, const struct vm *vm, int port, int share)
{
	const struct cell_limits *limits = &plan->spec->limits;
	const uint64_t mib = limits->memory / MIB;
	const uint64_t cpus = (limits->asked & CELL_LIMIT_CPUS) == 0 && vm->emulated ? 1 :
	                      (limits->cpus_milli + 999) / 1000;

	add(args, "qemu");
	add(args, "-nodefaults");
	add(args, "-no-user-config");
	add(args, "-nographic");
	add(args, "-no-reboot");
	add(args, "-machine");
	add(args, "%s", MACHINE);
	add(args, "-accel");
	add(args, "%s", vm->emulated ? "tcg" : "kvm");
	add(args, "-cpu");
	add(args, "%s", vm->emulated ? CPU_EMULATED : "host");
	add(args, "-smp");
	add(args, "%llu", (unsigned long long)cpus);
	add(args, "-m");
	add(args, "%lluM", (unsigned long long)mib);
	add(args, "-object");
	add(args, "memory-backend-memfd,id=memory,size=%lluM,share=on", (unsigned long long)mib);
	add(args, "-global");
	add(args, FORCE_MODERN);
	add_kernel(args, vm);
	add(args, "-device");
	add(args, "virtio-serial-device");
	add(args, "-chardev");
	add(args, "socket,id=port,fd=%d", port);
	add(args, "-device");
	add(args, "virtserialport,chardev=port,name=" VM_GUEST_PORT);
	add(args, "-chardev");
	add(args, "socket,id=share,fd=%d", share);
	add(args, "-device");
	add(args, "vhost-user-fs-device,chardev=share,tag=" VM_GUEST_SHARE);
	add(args, "-device");
	add(args, "virtio-rng-device");
	if (plan->spec->has_policy)
		add_net(args);
}

int
vm_become_qemu(const struct ns_plan *plan, const struct vm *vm, int port, int share, struct err *err)
{
	char *env[] = { NULL };
	struct args args = {0};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	describe(&args, plan, vm, port, share);
	if (args.failed)
		return err_set(err, ENOMEM, "out of memory");
	if (fcntl(port, F_SETFD, 0) < 0 || fcntl(share, F_SETFD, 0) < 0 || null < 0 || dup2(null, 0) < 0 ||
	    dup2(null, 1) < 0 || dup2(vm->log, 2) < 0)
		return err_errno(err, "cannot arrange the virtual machine's descriptors");
	execve(QEMU, args.list, env);
	return err_errno(err, "cannot run " QEMU);
}

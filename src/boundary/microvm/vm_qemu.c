/* vm_qemu.c - QEMU as the monitor of a virtual machine: as few devices as there can be. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/microvm/vm.h"
#include "boundary/microvm/vm_driver.h"
#include "boundary/microvm/vm_guest.h"
#include "boundary/microvm/vm_qmp.h"

#if defined(__x86_64__)
#define QEMU "/usr/bin/qemu-system-x86_64"
#define PACKAGE "qemu-system-x86"
#define BOARD "microvm,acpi=on,pcie=on,pit=off,pic=off,isa-serial=off,memory-backend=memory"
#define MACHINE BOARD ",rtc=off"
/* KVM tells a guest the time.  An emulated kernel reads the clock chip, and for one that is not there it
 * waits a second or two. */
#define MACHINE_EMULATED BOARD ",rtc=on"
/* The chip's driver would look for it for at least 0.1 s, and the time is the host's to tell. */
#define KERNEL_WORDS " initcall_blacklist=cmos_init,add_rtc_cmos"
#define CPU_EMULATED "qemu64"
#define FORCE_MODERN "virtio-mmio.force-legacy=false"
#elif defined(__aarch64__)
#define QEMU "/usr/bin/qemu-system-aarch64"
#define PACKAGE "qemu-system-arm"
#define MACHINE "virt,gic-version=max,memory-backend=memory"
#define MACHINE_EMULATED MACHINE
#define KERNEL_WORDS ""
#define CPU_EMULATED "cortex-a57"
#define FORCE_MODERN "virtio-mmio.force-legacy=false"
#endif

#define ARGS_MAX 64
/* Devices that are plugged in later are looked for by cloister-guest, not by a driver of the slots.  None of
 * them has ports, manages its link or reports errors of it. */
#define WORDS "quiet panic=-1 reboot=t pcie_ports=compat pcie_aspm=off pci=noaer,hpiosize=0" KERNEL_WORDS
/* An emulated processor has no flaws that a kernel must avoid. */
#define WORDS_EMULATED " mitigations=off"
/* The guest gets another address with its cell, so there is nothing to announce before that. */
#define CARD "virtio-net-pci,netdev=net,romfile=,guest_announce=off"
/* A guest can see the address that its card had in its template: it is the same in all. */
#define CARD_ADDRESS "02:00:00:00:00:01"
#define SHAPE MACHINE WORDS WORDS_EMULATED CARD CARD_ADDRESS
#define MIB (UINT64_C(1) << 20)
/* Code that the emulator has translated would take up to 1 GiB, which the cell's limit does not include. */
#define EMULATOR "tcg,tb-size=128"

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

static int
qemu_find(struct err *err)
{
	if (access(QEMU, X_OK) < 0)
		return err_set(err, ENOENT, "there is no QEMU for virtual machines: install " PACKAGE);
	return 0;
}

/* The frequency of the processor's clock, which an emulated machine cannot measure while this one is
 * busy.  Nor can it check that clock: it would find it wrong, and go by the interrupts that it gets. */
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
add_kernel(struct args *args, const struct vm_machine *m)
{
	unsigned long khz = m->emulated ? clock_khz() : 0;
	char clock[64] = "";

	if (khz > 0)
		snprintf(clock, sizeof(clock), " tsc=reliable tsc_early_khz=%lu", khz);
	add(args, "-kernel");
	add(args, "/" VM_KERNEL);
	add(args, "-initrd");
	add(args, "/" VM_INITRAMFS);
	add(args, "-append");
	add(args, WORDS "%s%s%s%s", m->emulated ? WORDS_EMULATED : "", clock,
	    m->start == VM_RECORD ? " " VM_GUEST_RECORDED : "", vm_test_words());
}

static void
add_memory(struct args *args, const struct vm_machine *m)
{
	const unsigned long long mib = m->memory / MIB;

	add(args, "-m");
	add(args, "%lluM", mib);
	add(args, "-object");
	add(args, "memory-backend-file,id=memory,mem-path=/proc/self/fd/%d,size=%lluM,share=%s", m->ram, mib,
	    m->start == VM_FORK ? "off" : "on");
	/* It gives back what the guest has freed. */
	add(args, "-device");
	add(args, "virtio-balloon-device,free-page-reporting=on");
}

static void
add_port(struct args *args, const struct vm_machine *m)
{
	add(args, "-device");
	add(args, "virtio-serial-device");
	add(args, "-chardev");
	add(args, "socket,id=port,fd=%d", m->port);
	add(args, "-device");
	add(args, "virtserialport,chardev=port,name=" VM_GUEST_PORT);
}

/* An empty slot: what is plugged in must not be part of a template, whose kind of machine is the same. */
static void
add_slot(struct args *args, const char *name, unsigned number)
{
	add(args, "-device");
	add(args, "pcie-root-port,id=%s,chassis=%u,hotplug=on,power_controller_present=off", name, number);
}

static void
add_share(struct args *args, const struct vm_machine *m)
{
	add_slot(args, QEMU_SHARE_SLOT, 1);
	if (m->share < 0)
		return;
	add(args, "-chardev");
	add(args, "socket,id=share,fd=%d", m->share);
	if (m->start != VM_BOOT)
		return;
	add(args, "-device");
	add(args, "vhost-user-fs-pci,chardev=share,tag=" VM_GUEST_SHARE ",bus=" QEMU_SHARE_SLOT);
}

static void
add_net(struct args *args, const struct vm_machine *m)
{
	if (!m->has_net)
		return;
	add(args, "-netdev");
	if (m->tap >= 0)
		add(args, "tap,id=net,fd=%d", m->tap);
	else
		add(args, "user,id=net,net=" VM_GUEST_NET4 ",host=" VM_GUEST_HOST4 ",dns=" VM_GUEST_DNS4
		    ",ipv6-net=" VM_GUEST_NET6 ",ipv6-host=" VM_GUEST_HOST6 ",ipv6-dns=" VM_GUEST_DNS6);
	add(args, "-device");
	add(args, CARD ",mac=%s", m->start == VM_BOOT ? m->mac : CARD_ADDRESS);
}

/* Cells have it in common, and nobody writes it: a lock would serve nobody, and what this machine's memory has of it
 * stays there. */
static void
add_disk(struct args *args, const struct vm_machine *m)
{
	add_slot(args, QEMU_DISK_SLOT, 2);
	if (!m->has_disk)
		return;
	add(args, "-blockdev");
	add(args, "driver=raw,node-name=" QEMU_DISK ",read-only=on,file.driver=file,file.filename=/" VM_DISK
	    ",file.locking=off,file.drop-cache=off");
	if (m->start != VM_BOOT && m->start != VM_FORK)
		return;
	add(args, "-device");
	add(args, "virtio-blk-pci,drive=" QEMU_DISK ",bus=" QEMU_DISK_SLOT);
}

static void
add_control(struct args *args, const struct vm_machine *m)
{
	if (m->control < 0)
		return;
	add(args, "-chardev");
	add(args, "socket,id=control,fd=%d", m->control);
	add(args, "-mon");
	add(args, "chardev=control,mode=control");
	if (m->start == VM_RECORD)
		return;
	add(args, "-S");
	add(args, "-incoming");
	add(args, "defer");
}

static void
describe(struct args *args, const struct vm_machine *m)
{
	add(args, "qemu");
	add(args, "-nodefaults");
	add(args, "-no-user-config");
	add(args, "-nographic");
	add(args, "-no-reboot");
	add(args, "-machine");
	add(args, "%s", m->emulated ? MACHINE_EMULATED : MACHINE);
	add(args, "-accel");
	add(args, "%s", m->emulated ? EMULATOR : "kvm");
	add(args, "-cpu");
	add(args, "%s", m->emulated ? CPU_EMULATED : "host");
	add(args, "-smp");
	add(args, "%u", m->cpus);
	add(args, "-global");
	add(args, FORCE_MODERN);
	add_memory(args, m);
	add_kernel(args, m);
	add_port(args, m);
	add(args, "-device");
	add(args, "virtio-rng-device");
	add_share(args, m);
	add_net(args, m);
	add_disk(args, m);
	add_control(args, m);
}

static int
qemu_become(const struct vm_machine *m, struct err *err)
{
	const int kept[] = { m->ram, m->state, m->port, m->share, m->control, m->tap };
	struct args args = {0};

	describe(&args, m);
	if (args.failed)
		return err_set(err, ENOMEM, "out of memory");
	return vm_exec(QEMU, args.list, kept, ARRAY_LEN(kept), m->log, err);
}

const struct vm_driver vm_qemu = {
	.name = "qemu", .title = "QEMU", .filter = FILTER_MONITOR, .takes_disk = true,
	.program = QEMU, .shape = SHAPE, .find = qemu_find, .become = qemu_become,
	.begin = qmp_begin, .pause = qmp_pause, .snapshot = qmp_snapshot, .restore = qmp_restore,
	.plug = qmp_plug, .resume = qmp_resume, .end = qmp_end,
};

/* kvm_guest.c - a guest of a few instructions: it counts down from a large number, and exits to us.
 *
 * A CPU does that in about a millisecond.  An emulator of three million instructions a second needs
 * hundreds. */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vm/kvm_parts.h"

#define API_VERSION 12                  /* the kernel's, for ever */
#define MEMORY_AT 0x10000               /* of the guest's only page, of 4, 16 or 64 KiB */
#define LOOPS 0x100000                  /* of two instructions each */

/* The child's end frees all of it. */
struct machine {
	int kvm, vm, cpu;
	struct kvm_run *run;
};

#if defined(__x86_64__)

/* Real mode. */
static const unsigned char code[] = {
	0x66, 0xb9, 0x00, 0x00, (LOOPS >> 16) & 0xff, LOOPS >> 24,      /*       mov  $LOOPS, %ecx */
	0x66, 0x49,                                                     /* loop: dec  %ecx */
	0x75, 0xfc,                                                     /*       jnz  loop */
	0xf4,                                                           /*       hlt */
};
_Static_assert((LOOPS & 0xffff) == 0, "the code has only its upper half");

/* Older Intel CPUs need the address of three pages for real mode. */
static int
prepare_vm(const struct machine *m)
{
	(void)ioctl(m->vm, KVM_SET_TSS_ADDR, 0xfffbd000ul);
	return 0;
}

static int
prepare_cpu(const struct machine *m)
{
	struct kvm_regs regs = { .rflags = 2 };
	struct kvm_sregs sregs;

	if (ioctl(m->cpu, KVM_GET_SREGS, &sregs) < 0)
		return errno;
	sregs.cs.base = MEMORY_AT;
	sregs.cs.selector = MEMORY_AT >> 4;
	return ioctl(m->cpu, KVM_SET_SREGS, &sregs) < 0 || ioctl(m->cpu, KVM_SET_REGS, &regs) < 0 ? errno : 0;
}

static int
check_exit(const struct machine *m)
{
	struct kvm_regs regs;

	if (ioctl(m->cpu, KVM_GET_REGS, &regs) < 0)
		return errno;
	return m->run->exit_reason == KVM_EXIT_HLT && regs.rcx == 0 ? 0 : KVM_GUEST_STRANGE;
}

#else

#define STORE_AT 0x20000                /* where the guest has no memory */

/* The CPU starts without an MMU. */
static const uint32_t code[] = {
	0xd2a00001 | (LOOPS >> 16) << 5,        /*       movz x1, #LOOPS >> 16, lsl #16 */
	0xf1000421,                             /* loop: subs x1, x1, #1 */
	0x54ffffe1,                             /*       b.ne loop */
	0xd2a00002 | (STORE_AT >> 16) << 5,     /*       movz x2, #STORE_AT >> 16, lsl #16 */
	0xf9000041,                             /*       str  x1, [x2] */
	0x14000000,                             /*       b    . */
};
_Static_assert((LOOPS & 0xffff) == 0, "the code has only its upper half");

static int
prepare_vm(const struct machine *m)
{
	(void)m;
	return 0;
}

static int
prepare_cpu(const struct machine *m)
{
	uint64_t pc = MEMORY_AT;
	struct kvm_one_reg reg = { .addr = (uint64_t)(uintptr_t)&pc,
		.id = KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE | KVM_REG_ARM_CORE_REG(regs.pc) };
	struct kvm_vcpu_init init = {0};

	return ioctl(m->vm, KVM_ARM_PREFERRED_TARGET, &init) < 0 || ioctl(m->cpu, KVM_ARM_VCPU_INIT, &init) < 0 ||
	       ioctl(m->cpu, KVM_SET_ONE_REG, &reg) < 0 ? errno : 0;
}

static int
check_exit(const struct machine *m)
{
	static const unsigned char zero[8];
	const struct kvm_run *run = m->run;

	return run->exit_reason == KVM_EXIT_MMIO && run->mmio.phys_addr == STORE_AT && run->mmio.is_write == 1 &&
	       run->mmio.len == sizeof(zero) && memcmp(run->mmio.data, zero, sizeof(zero)) == 0 ? 0 : KVM_GUEST_STRANGE;
}

#endif

static int
make_vm(struct machine *m)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct kvm_userspace_memory_region region = { .guest_phys_addr = MEMORY_AT, .memory_size = page,
		.userspace_addr = (uint64_t)(uintptr_t)memory };

	if (memory == MAP_FAILED)
		return errno;
	memcpy(memory, code, sizeof(code));
	m->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (m->kvm < 0)
		return errno;
	if (ioctl(m->kvm, KVM_GET_API_VERSION, 0ul) != API_VERSION)
		return KVM_GUEST_STRANGE;
	m->vm = ioctl(m->kvm, KVM_CREATE_VM, 0ul);
	if (m->vm < 0 || ioctl(m->vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
		return errno;
	return prepare_vm(m);
}

static int
make_cpu(struct machine *m)
{
	int size = ioctl(m->kvm, KVM_GET_VCPU_MMAP_SIZE, 0ul);

	if (size < 0)
		return errno;
	if ((size_t)size < sizeof(*m->run))
		return KVM_GUEST_STRANGE;
	m->cpu = ioctl(m->vm, KVM_CREATE_VCPU, 0ul);
	if (m->cpu < 0)
		return errno;
	m->run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, m->cpu, 0);
	return m->run == MAP_FAILED ? errno : prepare_cpu(m);
}

int
kvm_guest(void)
{
	struct machine m = {0};
	int r = make_vm(&m);

	if (r == 0)
		r = make_cpu(&m);
	if (r != 0)
		return r;
	kvm_limit_child(KVM_RUN_MS);
	while (ioctl(m.cpu, KVM_RUN, 0ul) < 0)
		if (errno != EINTR && errno != EAGAIN)
			return errno;
	return check_exit(&m);
}

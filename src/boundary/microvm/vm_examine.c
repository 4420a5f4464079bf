/* vm_examine.c - what this machine has for virtual machines, for `cloister doctor`. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/findings.h"
#include "boundary/microvm/vm.h"
#include "vm/disk.h"
#include "vm/kernel.h"
#include "vm/kvm.h"

static void
examine_kvm(struct findings *f)
{
	struct kvm_report kvm;
	int r = kvm_probe(&kvm);

	if (r < 0)
		findings_advise(findings_add(f, "kvm", FINDING_LIMITED, "not tried, because no process could be started: %s",
		                             strerrordesc_np(-r)), "see 'processes'");
	else
		findings_advise(findings_add(f, "kvm", kvm.state == KVM_USABLE ? FINDING_OK : FINDING_MISSING, "%s",
		                             kvm.found), "%s%s", kvm.state == KVM_USABLE ? "" : "only --boundary microvm needs it; ",
		                kvm.todo);
}

/* A device that opens may still be no use: see vm/kvm.h. */
static int
check_kvm(struct err *err)
{
	struct kvm_report report;
	int r = kvm_probe(&report);

	if (r < 0)
		return err_set(err, -r, "cannot find out whether virtual machines can run here: %s",
		               strerrordesc_np(-r));
	if (report.state == KVM_USABLE)
		return 0;
	return err_set(err, kvm_is_missing(report.state) ? ENOTSUP : EAGAIN, "a virtual machine cannot run here: %s: %s; "
	               "or use --vm-accel tcg, which is slow and for tests", report.found, report.todo);
}

/* The driver that cells have by default, and the file server, if it needs one. */
static const struct vm_driver *
find_all(struct err *err)
{
	const struct vm_driver *driver = vm_choose_driver("", err);

	return driver == NULL || driver->shares_nothing || vm_find_server(err) != NULL ? driver : NULL;
}

int
vm_able(bool emulated, struct err *err)
{
	int r = emulated ? 0 : check_kvm(err);

	return r < 0 ? r : find_all(err) == NULL ? -err->code : 0;
}

/* Without it, the folder of --rootfs is shared. */
static void
examine_disks(struct findings *f)
{
	if (disk_find_maker(NULL) != NULL)
		findings_add(f, "disks", FINDING_OK, "mkfs.erofs is there, for --boundary microvm with --rootfs");
	else
		findings_advise(findings_add(f, "disks", FINDING_LIMITED, "there is no mkfs.erofs, so a virtual machine "
		                             "gets the folder of --rootfs as a share"), "install erofs-utils");
}

/* From the error "what is missing: what to do". */
static void
add_missing(struct findings *f, const char *name, struct err *err)
{
	char *todo = strstr(err->text, ": ");

	if (todo != NULL)
		*todo = '\0';
	findings_advise(findings_add(f, name, FINDING_MISSING, "%s", err->text), "only --boundary microvm needs it; %s",
	                todo != NULL ? todo + 2 : "");
}

static const char *
variable(const char *name)
{
	const char *value = getenv(name);

	return value != NULL ? value : "";
}

/* As `cloister run` finds it. */
static void
examine_kernel(struct findings *f)
{
	OWN(kernel_free) struct kernel found = {0};
	struct err err = {0};
	char own[PATH_MAX];
	int r = kernel_own_folder(own, &err);

	if (r == 0)
		r = kernel_find("", own, variable("CLOISTER_VM_KERNEL"), variable("CLOISTER_VM_MODULES"), &found, &err);
	if (r == 0)
		findings_add(f, "guest kernel", FINDING_OK, "%s and its modules are there, for --boundary microvm", found.path);
	else
		add_missing(f, "guest kernel", &err);
}

void
vm_examine(struct findings *f)
{
	const struct vm_driver *driver;
	struct err err = {0};

	examine_kvm(f);
	driver = find_all(&err);
	if (driver == NULL) {
		add_missing(f, "virtual machines", &err);
		return;
	}
	findings_add(f, "virtual machines", FINDING_OK, "%s %s there, for --boundary microvm", driver->title,
	             driver->shares_nothing ? "is" : "and virtiofsd are");
	examine_kernel(f);
	examine_disks(f);
	/* CRIU would have to bring back Landlock, the agent's filter and its listener, which it does not. */
	findings_add(f, "pause", driver == &vm_qemu ? FINDING_OK : FINDING_LIMITED,
	             "`cloister pause` works for --boundary microvm with QEMU; other cells can be frozen");
}

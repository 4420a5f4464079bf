/* vm_examine.c - what this machine has for virtual machines, for `cloister doctor`. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "boundary/findings.h"
#include "boundary/microvm/vm.h"
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
		                             kvm.found), "%s", kvm.todo);
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

int
vm_able(bool emulated, struct err *err)
{
	int r = emulated ? 0 : check_kvm(err);

	if (r == 0 && vm_choose_driver("", err) == NULL)
		r = -err->code;
	return r < 0 ? r : vm_find_server(err) == NULL ? -ENOENT : 0;
}

void
vm_examine(struct findings *f)
{
	const struct vm_driver *driver;
	struct err err = {0};
	char *todo;

	examine_kvm(f);
	driver = vm_choose_driver("", &err);
	if (driver != NULL && vm_find_server(&err) != NULL) {
		findings_add(f, "virtual machines", FINDING_OK, "%s and virtiofsd are there, for --boundary microvm",
		             driver->title);
		return;
	}
	/* "what is missing: what to do" */
	todo = strstr(err.text, ": ");
	if (todo != NULL)
		*todo = '\0';
	findings_advise(findings_add(f, "virtual machines", FINDING_MISSING, "%s", err.text), "%s",
	                todo != NULL ? todo + 2 : "");
}

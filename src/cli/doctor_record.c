/* doctor_record.c - `cloister doctor`: how the witness sees the processes of cells here, and what it cannot see. */
#include "boundary/findings.h"
#include "cli/doctor.h"
#include "witness/able.h"

void
doctor_record(struct findings *f)
{
	if (witness_able_by_kernel() && witness_able_to_share()) {
		findings_add(f, "record", FINDING_OK, "ebpf: every call of a cell is seen. Not seen: whether Landlock or the "
		             "kernel refused a file");
		return;
	}
	if (!witness_able_by_filter()) {
		findings_advise(findings_add(f, "record", FINDING_MISSING, "none: nothing sees what a cell's processes do"),
		                "Linux 5.9, or root with Linux 5.19");
		return;
	}
	findings_advise(findings_add(f, "record", FINDING_LIMITED, "notify: programs, changed files, connections and refused "
	                             "calls are seen. Not seen: files that are only read, other calls, accepted "
	                             "connections, and what file permissions or Landlock refuse"),
	                witness_able_by_kernel() ? "mount -t bpf bpf /sys/fs/bpf: to see every call, also without --record full" :
	                "start cells as root, on a kernel with /sys/kernel/btf/vmlinux, to see every call");
}

/* kvm.c - see kvm.h. */
#include "vm/kvm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "vm/kvm_parts.h"

#define FILE_MAX ((size_t)1 << 20)
#define TRIES 3                         /* a busy machine may hold the guest up */

/* What a file does not show stays unknown. */
static void
note_obstacles(struct kvm_facts *facts)
{
	OWN(freep) char *cpuinfo = NULL;
	OWN(freep) char *groups = NULL;
	char path[64];
	struct stat st;

	if (read_file_at(AT_FDCWD, "/proc/cpuinfo", FILE_MAX, &cpuinfo, NULL, NULL) == 0)
		kvm_note_cpu(facts, cpuinfo);
	if (facts->driver != NULL) {
		snprintf(path, sizeof(path), "/sys/module/%s", facts->driver);
		facts->has_driver = access(path, F_OK) == 0;
	}
	if (stat("/dev/kvm", &st) < 0)
		return;
	facts->mode = st.st_mode;
	if (read_file_at(AT_FDCWD, "/etc/group", FILE_MAX, &groups, NULL, NULL) == 0)
		kvm_note_group(facts, groups, st.st_gid);
}

static int
run_guest(struct kvm_facts *facts)
{
	int r = 0;

	facts->end = KVM_END_LATE;
	for (int i = 0; r == 0 && i < TRIES && facts->end == KVM_END_LATE; i++)
		r = kvm_run_child(kvm_guest, KVM_SETUP_MS + KVM_RUN_MS, &facts->end, &facts->end_errno);
	return r;
}

int
kvm_probe(struct kvm_report *ret_report)
{
	OWN(closep) int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	struct kvm_facts facts = { .open_errno = fd < 0 ? errno : 0 };
	int r = 0;

	if (fd < 0)
		note_obstacles(&facts);
	else
		r = run_guest(&facts);
	if (r == 0)
		kvm_judge(&facts, ret_report);
	return r;
}

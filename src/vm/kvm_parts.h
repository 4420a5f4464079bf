/* kvm_parts.h - the parts of kvm.h: facts and the judgement about them, the child, the guest. */
#ifndef CLOISTER_KVM_PARTS_H
#define CLOISTER_KVM_PARTS_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "vm/kvm.h"

/* How the child ended. */
enum kvm_end { KVM_END_OK, KVM_END_ERRNO, KVM_END_STRANGE, KVM_END_LATE };

struct kvm_facts {
	int open_errno;                 /* of /dev/kvm; 0: it can be opened */
	/* If it cannot be: */
	const char *driver;             /* the module that this CPU needs; NULL: the CPU has no virtualisation */
	bool has_driver;                /* the kernel has that module */
	bool is_guest;                  /* this machine is a virtual machine itself */
	mode_t mode;                    /* of /dev/kvm */
	char group[64];                 /* that owns it; "": it has no name */
	/* If it can be: */
	enum kvm_end end;
	int end_errno;
};

/* ---- kvm_judge.c: pure ---- */

void kvm_judge(const struct kvm_facts *facts, struct kvm_report *ret_report);
/* Set DRIVER and IS_GUEST from the text of /proc/cpuinfo.  That of arm64 does not show them. */
void kvm_note_cpu(struct kvm_facts *facts, const char *cpuinfo);
/* Set GROUP from the text of /etc/group. */
void kvm_note_group(struct kvm_facts *facts, const char *groups, gid_t gid);

/* ---- kvm_child.c ---- */

/* What GUEST returns if it did something else than expected; otherwise 0 or an errno. */
#define KVM_GUEST_STRANGE 255
/* Run GUEST in a child process, which is killed after DEADLINE_MS.  Returns soon after that even if it
 * cannot be killed.  Negative if there is no child. */
int kvm_run_child(int (*guest)(void), int deadline_ms, enum kvm_end *ret_end, int *ret_errno);
/* In the child: it has this time from now on. */
void kvm_limit_child(int ms);

/* ---- kvm_guest.c ---- */

/* Opens /dev/kvm and runs a loop in a guest.  It makes only system calls, so it is safe in a child. */
int kvm_guest(void);
#endif

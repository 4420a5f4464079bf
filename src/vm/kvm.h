/* kvm.h - finds out whether this machine's KVM runs guests at the speed of its CPU.
 *
 * Some machines have a /dev/kvm that opens, and then emulates guests or hangs.  So the probe runs a
 * guest of a few instructions, in a child process that is killed if it takes too long. */
#ifndef CLOISTER_KVM_H
#define CLOISTER_KVM_H
#include <stdbool.h>

#define KVM_TEXT_MAX 256
#define KVM_RUN_MS 50                   /* for the guest, which needs about one */
#define KVM_SETUP_MS 1000               /* to make it: machines with many CPUs need a while */

enum kvm_state {
	KVM_USABLE,
	KVM_ABSENT,                     /* there is no /dev/kvm, or no driver behind it */
	KVM_FORBIDDEN,                  /* this user may not open it */
	KVM_SLOW,                       /* the guest did not end in time: it is emulated, or hangs */
	KVM_BROKEN,                     /* the guest could not be made, or did something else */
};

/* Whether STATE lasts.  False if it is usable, and after a failure, which whoever uses up memory or
 * descriptors can cause. */
bool kvm_is_missing(enum kvm_state state);

/* Both texts are for people, and parts of a sentence: no capital letter, no full stop. */
struct kvm_report {
	enum kvm_state state;
	char found[KVM_TEXT_MAX];
	char todo[KVM_TEXT_MAX];        /* "" if it is usable */
};

/* Takes a few milliseconds if KVM is usable, three times KVM_RUN_MS if it is slow, and at most six
 * seconds if it hangs.  0, whatever the state is; negative if no child could be started. */
int kvm_probe(struct kvm_report *ret_report);
#endif

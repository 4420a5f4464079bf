/* kvm_judge.c - judges what was found out about KVM, and explains what to do. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vm/kvm_parts.h"

/* TODO is plain text; FMT is of what was found. */
static void __attribute__((format(printf, 4, 5)))
report(struct kvm_report *r, enum kvm_state state, const char *todo, const char *fmt, ...)
{
	va_list args;

	r->state = state;
	snprintf(r->todo, sizeof(r->todo), "%s", todo);
	va_start(args, fmt);
	vsnprintf(r->found, sizeof(r->found), fmt, args);
	va_end(args);
}

#define GIVE_DEVICE "start it with `--device /dev/kvm`"

static void
judge_absent(const struct kvm_facts *f, struct kvm_report *r)
{
	static const char missing[] = "there is no /dev/kvm";
	char todo[64];

#ifndef __x86_64__
	report(r, KVM_ABSENT, "boot a kernel with KVM, or enable nested virtualisation on the host of this virtual machine",
	       "%s: this kernel has no KVM, or this is a virtual machine without nested virtualisation", missing);
	return;
#endif
	if (f->driver == NULL && f->is_guest) {
		report(r, KVM_ABSENT, "enable nested virtualisation on its host",
		       "%s: this virtual machine has no nested virtualisation", missing);
	} else if (f->driver == NULL) {
		report(r, KVM_ABSENT, "enable VT-x or AMD-V in the firmware's settings",
		       "%s: the CPU has no virtualisation, or the firmware has switched it off", missing);
	} else if (!f->has_driver) {
		snprintf(todo, sizeof(todo), "as root: modprobe %s", f->driver);
		report(r, KVM_ABSENT, todo, "%s: the module %s is not loaded", missing, f->driver);
	} else {
		report(r, KVM_ABSENT, "if this is a container, " GIVE_DEVICE,
		       "%s, though the module %s is loaded", missing, f->driver);
	}
}

static void
judge_forbidden(const struct kvm_facts *f, struct kvm_report *r)
{
	bool group_may = (f->mode & 060) == 060 && f->group[0] != '\0' && strcmp(f->group, "root") != 0;
	char todo[KVM_TEXT_MAX];

	if (f->open_errno == EPERM) {
		report(r, KVM_FORBIDDEN, GIVE_DEVICE, "this container may not open /dev/kvm");
		return;
	}
	snprintf(todo, sizeof(todo), "as root: %susermod -aG %s USER, and log in again",
	         group_may ? "" : "chgrp kvm /dev/kvm; chmod g+rw /dev/kvm; ", group_may ? f->group : "kvm");
	if (group_may)
		report(r, KVM_FORBIDDEN, todo, "you may not open /dev/kvm: you are not in the group '%s'", f->group);
	else
		report(r, KVM_FORBIDDEN, todo, "you may not open /dev/kvm: only root may");
}

#define SEE_LOG "try again, or look for kvm in the kernel's log (dmesg)"

static void
judge_guest(const struct kvm_facts *f, struct kvm_report *r)
{
	switch (f->end) {
	case KVM_END_OK:
		report(r, KVM_USABLE, "", "/dev/kvm runs guests");
		break;
	case KVM_END_LATE:
		report(r, KVM_SLOW, "use a machine whose CPU runs guests itself",
		       "/dev/kvm opens, but emulates guests or hangs: a loop that takes a CPU a millisecond took over %d", KVM_RUN_MS);
		break;
	case KVM_END_ERRNO:
		report(r, KVM_BROKEN, f->end_errno == EBUSY ? "stop other hypervisors, or try again" : SEE_LOG,
		       "/dev/kvm opens, but cannot run a guest: %s", strerrordesc_np(f->end_errno));
		break;
	case KVM_END_STRANGE:
		report(r, KVM_BROKEN, SEE_LOG, "/dev/kvm opens, but a guest of a few instructions fails in it");
		break;
	}
}

void
kvm_judge(const struct kvm_facts *facts, struct kvm_report *ret_report)
{
	if (facts->open_errno == 0)
		judge_guest(facts, ret_report);
	else if (facts->open_errno == EACCES || facts->open_errno == EPERM)
		judge_forbidden(facts, ret_report);
	else if (facts->open_errno == ENOENT || facts->open_errno == ENODEV || facts->open_errno == ENXIO)
		judge_absent(facts, ret_report);
	else
		report(ret_report, KVM_BROKEN, SEE_LOG, "cannot open /dev/kvm: %s", strerrordesc_np(facts->open_errno));
}

bool
kvm_is_missing(enum kvm_state state)
{
	return state == KVM_ABSENT || state == KVM_FORBIDDEN || state == KVM_SLOW;
}

/* Whether the line of words at LINE has WORD. */
static bool
has_word(const char *line, const char *word)
{
	size_t len;

	for (const char *at = line; *at != '\0' && *at != '\n'; at += len) {
		at += strspn(at, " \t:");
		len = strcspn(at, " \t:\n");
		if (len == strlen(word) && memcmp(at, word, len) == 0)
			return true;
	}
	return false;
}

void
kvm_note_cpu(struct kvm_facts *facts, const char *cpuinfo)
{
	static const char key[] = "\nflags";
	const char *flags = strstr(cpuinfo, key);

	if (flags == NULL)
		return;
	flags += sizeof(key) - 1;
	facts->driver = has_word(flags, "vmx") ? "kvm_intel" : has_word(flags, "svm") ? "kvm_amd" : NULL;
	facts->is_guest = has_word(flags, "hypervisor");
}

/* NAME:PASSWORD:GID:MEMBERS */
void
kvm_note_group(struct kvm_facts *facts, const char *groups, gid_t gid)
{
	for (const char *line = groups; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
		size_t name = strcspn(line, ":\n"), password;
		const char *at = line + name;
		char *end;

		if (*at != ':' || name == 0 || name >= sizeof(facts->group))
			continue;
		password = strcspn(at + 1, ":\n");
		at += 1 + password;
		if (*at != ':' || at[1] < '0' || at[1] > '9' || strtoul(at + 1, &end, 10) != gid || *end != ':')
			continue;
		memcpy(facts->group, line, name);
		facts->group[name] = '\0';
		return;
	}
}

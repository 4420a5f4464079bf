/* vm_kvm.c - tests of vm/kvm: the judgement, its facts, and the child. */
#include "vm/kvm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "test.h"
#include "vm/kvm_parts.h"

static const struct {
	struct kvm_facts facts;
	enum kvm_state state;
	const char *found, *todo;       /* parts of these texts */
} cases[] = {
	{ { .end = KVM_END_OK }, KVM_USABLE, "runs guests", "" },
	{ { .end = KVM_END_LATE }, KVM_SLOW, "emulates guests or hangs", "whose CPU runs guests itself" },
	{ { .end = KVM_END_STRANGE }, KVM_BROKEN, "fails in it", "try again, or look for kvm in the kernel's log (dmesg)" },
	{ { .end = KVM_END_ERRNO, .end_errno = ENOMEM }, KVM_BROKEN, "Cannot allocate memory", "try again" },
	{ { .end = KVM_END_ERRNO, .end_errno = EBUSY }, KVM_BROKEN, "busy", "stop other hypervisors, or try again" },
	{ { .open_errno = EIO }, KVM_BROKEN, "Input/output error", "dmesg" },
	{ { .open_errno = ENFILE }, KVM_BROKEN, "Too many open files", "try again" },
	{ { .open_errno = EPERM }, KVM_FORBIDDEN, "this container", "--device /dev/kvm" },
	{ { .open_errno = EACCES, .mode = 0660, .group = "kvm" }, KVM_FORBIDDEN, "not in the group 'kvm'",
	  "as root: usermod -aG kvm USER, and log in again" },
	{ { .open_errno = EACCES, .mode = 0660, .group = "virt" }, KVM_FORBIDDEN, "not in the group 'virt'",
	  "as root: usermod -aG virt USER, and" },
	{ { .open_errno = EACCES, .mode = 0600, .group = "kvm" }, KVM_FORBIDDEN, "only root may", "chmod g+rw /dev/kvm; usermod" },
	{ { .open_errno = EACCES, .mode = 0640, .group = "kvm" }, KVM_FORBIDDEN, "only root may", "chmod g+rw /dev/kvm; usermod" },
	{ { .open_errno = EACCES, .mode = 0660, .group = "root" }, KVM_FORBIDDEN, "only root may", "usermod -aG kvm USER" },
	{ { .open_errno = EACCES, .mode = 0660 }, KVM_FORBIDDEN, "only root may", "usermod -aG kvm USER" },
#ifdef __x86_64__
	{ { .open_errno = ENOENT }, KVM_ABSENT, "the CPU has no virtualisation", "VT-x or AMD-V" },
	{ { .open_errno = ENOENT, .is_guest = true }, KVM_ABSENT, "this virtual machine", "nested virtualisation on its host" },
	{ { .open_errno = ENOENT, .driver = "kvm_amd" }, KVM_ABSENT, "kvm_amd is not loaded", "as root: modprobe kvm_amd" },
	{ { .open_errno = ENODEV, .driver = "kvm_intel", .is_guest = true }, KVM_ABSENT, "kvm_intel is not loaded",
	  "modprobe kvm_intel" },
	{ { .open_errno = ENOENT, .driver = "kvm_amd", .has_driver = true }, KVM_ABSENT, "kvm_amd is loaded",
	  "if this is a container" },
#else
	{ { .open_errno = ENOENT }, KVM_ABSENT, "this kernel has no KVM", "nested virtualisation" },
#endif
};

TEST(kvm_judge)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct kvm_report report;

		memset(&report, 'x', sizeof(report));
		kvm_judge(&cases[i].facts, &report);
		CHECK(report.state == cases[i].state);
		if (strstr(report.found, cases[i].found) == NULL || strstr(report.todo, cases[i].todo) == NULL)
			test_fail(__FILE__, __LINE__, "case %zu: \"%s\", \"%s\"", i, report.found, report.todo);
		CHECK((report.todo[0] == '\0') == (report.state == KVM_USABLE));
		/* A failure may have been caused by whoever would gain from it. */
		CHECK(kvm_is_missing(report.state) == (report.state != KVM_USABLE && report.state != KVM_BROKEN));
	}
}

static const struct {
	const char *text, *driver;
	bool is_guest;
} cpus[] = {
	{ "processor\t: 0\nflags\t\t: fpu vmx smx\nbugs\t: x\n", "kvm_intel", false },
	{ "processor\t: 0\nflags\t\t: fpu svm hypervisor\n", "kvm_amd", true },
	{ "processor\t: 0\nflags\t\t: hypervisor", NULL, true },
	{ "processor\t: 0\nflags\t\t: fpu xsvm svmx\nvmx flags\t: vmx svm\n", NULL, false },
	{ "processor\t: 0\nmodel\t: svm\nFeatures\t: fp svm\n", NULL, false },
	{ "", NULL, false },
};

TEST(kvm_note_cpu)
{
	for (size_t i = 0; i < ARRAY_LEN(cpus); i++) {
		struct kvm_facts facts = {0};

		kvm_note_cpu(&facts, cpus[i].text);
		CHECK_STR(facts.driver == NULL ? "" : facts.driver, cpus[i].driver == NULL ? "" : cpus[i].driver);
		CHECK(facts.is_guest == cpus[i].is_guest);
	}
}

TEST(kvm_note_group)
{
	static const char groups[] = "root:x:0:\nlong-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:x:7:\n:x:7:\n"
	                             "bad:x\nworse:x:\nminus:x:-7:\nkvm:x:107:a,b\nlater:x:107:\nlast:x:12";
	static const struct {
		gid_t gid;
		const char *name;
	} wanted[] = { { 0, "root" }, { 107, "kvm" }, { 7, "" }, { 10, "" }, { 12, "" }, { (gid_t)-7, "" } };

	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		struct kvm_facts facts = {0};

		kvm_note_group(&facts, groups, wanted[i].gid);
		CHECK_STR(facts.group, wanted[i].name);
	}
}

static int
guest_fine(void)
{
	return 0;
}

static int
guest_without_files(void)
{
	for (int fd = 0; fd < 100; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			return KVM_GUEST_STRANGE;
	return 0;
}

static int
guest_fails(void)
{
	return ENOMEM;
}

static int
guest_strange(void)
{
	return KVM_GUEST_STRANGE;
}

static int
guest_crashes(void)
{
	raise(SIGKILL);
	return 0;
}

static int
guest_hangs(void)
{
	while (pause() < 0)
		continue;
	return 0;
}

static int
guest_limits_itself(void)
{
	kvm_limit_child(10);
	return guest_hangs();
}

static const struct {
	int (*guest)(void);
	int deadline_ms;
	enum kvm_end end;
	int end_errno;
} children[] = {
	{ guest_fine, 30000, KVM_END_OK, 0 },
	{ guest_without_files, 30000, KVM_END_OK, 0 },
	{ guest_fails, 30000, KVM_END_ERRNO, ENOMEM },
	{ guest_strange, 30000, KVM_END_STRANGE, 0 },
	{ guest_crashes, 30000, KVM_END_STRANGE, 0 },
	{ guest_hangs, 10, KVM_END_LATE, 0 },
	{ guest_limits_itself, 30000, KVM_END_LATE, 0 },
};

static void
check_children(void)
{
	int64_t before = io_now_ms();

	for (size_t i = 0; i < ARRAY_LEN(children); i++) {
		enum kvm_end end = KVM_END_OK;
		int code = 0;

		CHECK_OK(kvm_run_child(children[i].guest, children[i].deadline_ms, &end, &code));
		CHECK(end == children[i].end && code == children[i].end_errno);
	}
	CHECK(io_now_ms() - before < 25000);
	CHECK(waitpid(-1, NULL, WNOHANG | __WALL) < 0 && errno == ECHILD);
}

TEST(kvm_child)
{
	check_children();
}

/* Whatever the caller does with its signals. */
TEST(kvm_child_of_a_parent_without_signals)
{
	sigset_t all;

	sigfillset(&all);
	CHECK_OK(sigprocmask(SIG_BLOCK, &all, NULL));
	CHECK(signal(SIGCHLD, SIG_IGN) != SIG_ERR && signal(SIGALRM, SIG_IGN) != SIG_ERR);
	check_children();
}

/* Any state is right here, but not all together. */
TEST(kvm_probe)
{
	int64_t before = io_now_ms();
	struct kvm_report report;

	CHECK_OK(kvm_probe(&report));
	CHECK(io_now_ms() - before < 25000);
	CHECK((report.state == KVM_ABSENT) == (access("/dev/kvm", F_OK) < 0));
	CHECK(report.found[0] != '\0');
	CHECK(waitpid(-1, NULL, WNOHANG | __WALL) < 0 && errno == ECHILD);
}

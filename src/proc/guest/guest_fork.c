/* guest_fork.c - the forker: a process of the guest's own beside the cell, while the machine can be copied.
 *
 * It stops all processes of the cell, init too, and tells the supervisor so in init's place.  In the machine itself they go
 * on.  In a copy, the forker first takes the new identity from the copy's supervisor: random numbers, the time, the
 * address of the network card, host name, certificate authority and the files of the agent's home.  No process of the
 * cell has run an instruction before that.
 *
 * It keeps root's rights, as the guest's kernel has no other process that can do this.  The agent can neither signal it nor
 * look into it, and it reads nothing that the agent wrote but the answers of the kernel. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/microvm/vm_guest.h"
#include "boundary/namespace/ns_plan.h"
#include "confine/mounts.h"
#include "ipc/init_channel.h"
#include "ipc/ipc.h"
#include "ipc/mux.h"
#include "ipc/vm_fork_channel.h"
#include "proc/guest/guest.h"

#define GROUP "cell"
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

struct forker {
	int port, init;
	int cgroup;                     /* of the cell's processes */
	int system;                     /* certificates that the cell's programs trust anyway, or -1 */
};

/* ---- standing still ---- */

/* The kernel reports changes of the file as POLLPRI. */
static int
await_frozen(int cgroup, bool frozen, struct err *err)
{
	OWN(closep) int events = openat(cgroup, "cgroup.events", O_RDONLY | O_CLOEXEC);
	const char *wanted = frozen ? "frozen 1" : "frozen 0";
	struct pollfd change = { .fd = events, .events = POLLPRI };
	char text[256];

	for (;;) {
		ssize_t n = pread(events, text, sizeof(text) - 1, 0);

		if (n < 0)
			return err_errno(err, "the guest cannot stop its processes");
		text[n] = '\0';
		if (strstr(text, wanted) != NULL)
			return 0;
		(void)poll(&change, 1, -1);
	}
}

static int
stop(const struct forker *f, bool on, struct err *err)
{
	int r = write_file_at(f->cgroup, "cgroup.freeze", on ? "1" : "0", err);

	return r < 0 || !on ? r : await_frozen(f->cgroup, true, err);
}

/* ---- a new identity ---- */

/* As the agent, in whose folders the agent may have made links. */
static void
renew_home(const struct cell_spec *spec)
{
	const uid_t agent = cell_spec_uid(spec);
	const pid_t pid = spec->n_files == 0 ? 0 : fork();
	int home;

	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	if (spec->n_files == 0 || pid != 0)
		return;
	if (setgroups(0, NULL) < 0 || setresgid(agent, agent, agent) < 0 || setresuid(agent, agent, agent) < 0 ||
	    (home = open(CELL_HOME, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		_exit(1);
	for (size_t i = 0; i < spec->n_files; i++)
		(void)unlinkat(home, spec->files[i].path, 0);
	_exit(ns_fill_home(home, spec, agent, NULL) < 0);
}

/* A copy of a mount that nobody may write, which can be written. */
static int
open_mount(const char *path, struct err *err)
{
	OWN(closep) int fd = mounts_copy_tree(AT_FDCWD, path, err);

	if (fd < 0)
		return fd;
	return mounts_make_writable(fd, err) < 0 ? -err->code : TAKE_FD(fd);
}

static int
renew_trust(const struct forker *f, const struct boundary_trust *trust, struct err *err)
{
	/* The cell's own /etc lies beneath an overlay, which shows it together with that of its programs. */
	OWN(closep) int root = open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC), etc = -1;

	if (root < 0)
		return err_errno(err, "the guest cannot open its files");
	if (mounts_make_writable(root, err) < 0)
		return -err->code;
	etc = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return etc < 0 ? err_errno(err, "the guest cannot open its /etc") : ns_renew_trust(etc, trust, f->system, err);
}

static int
renew_boot_id(struct err *err)
{
	OWN(closep) int mount = open_mount(BOOT_ID, err), file = -1;
	unsigned char b[16];
	char path[32], text[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", mount);
	file = mount < 0 ? -1 : open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (file < 0 || getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		return err_errno(err, "the guest cannot change its boot id");
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);     /* RFC 9562: version 4 */
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	snprintf(text, sizeof(text), "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\n", b[0], b[1], b[2],
	         b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
	return write_all(file, text, strlen(text), err);
}

static int
become_copy(const struct forker *f, uint32_t len, struct err *err)
{
	OWN(buf_free) struct buf message = {0};
	OWN(cell_spec_free) struct cell_spec spec = {0};
	struct boundary_trust trust = { -1, -1, -1, -1 };
	const char *mac = "";
	uint32_t flags = 0;
	int r = guest_read_message(f->port, len, &message, err);

	if (r == 0)
		r = guest_take_message(&message, &flags, &mac, &spec, err);
	if (r == 0 && (flags & VM_GUEST_TRUST) != 0)
		r = guest_take_trust(&message, &trust, err);
	if (r == 0 && (flags & VM_GUEST_NET) != 0)
		r = guest_wake_net(mac, true, err);
	if (r == 0 && sethostname(spec.hostname, strlen(spec.hostname)) < 0)
		r = err_errno(err, "the guest cannot change its host name");
	if (r == 0)
		r = renew_boot_id(err);
	if (r == 0 && (flags & VM_GUEST_TRUST) != 0)
		r = renew_trust(f, &trust, err);
	if (r == 0)
		renew_home(&spec);
	closep(&trust.ready);
	closep(&trust.certificate);
	closep(&trust.keystore);
	closep(&trust.authorities);
	return r;
}

/* ---- the forker ---- */

/* The frame INIT_HELD, which init cannot send any more.  The port is empty. */
static int
say_held(int port, struct err *err)
{
	const uint32_t frame[3] = { 0, htole32(INIT_FRAME(INIT_HELD)), 0 };

	return write_all(port, frame, sizeof(frame), err);
}

static int
serve(const struct forker *f, struct err *err)
{
	uint32_t len = 0;
	char word;
	int r;

	if (read_exactly(f->init, &word, 1, err) < 0 || word != FORK_HOLD)
		return -EPIPE;
	r = stop(f, true, err);
	if (r == 0)
		r = say_held(f->port, err);
	if (r == 0)
		r = guest_read(f->port, &len, sizeof(len), err);
	len = le32toh(len);
	word = len > 0 ? FORK_IS_COPY : FORK_GO_ON;
	if (r == 0 && len > 0)
		r = become_copy(f, len, err);
	if (r == 0)
		r = write_all(f->init, &word, 1, err);
	return r < 0 ? r : stop(f, false, err);
}

/* What a copy's supervisor is told in place of INIT_READY. */
static void
complain(int port, const struct err *err)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, INIT_FAILED);
	buf_put_u32(&message, (uint32_t)err->code);
	buf_put_str(&message, err->text);
	(void)ipc_write(port, &message, NULL);
}

_Noreturn static void
run(const struct forker *f)
{
	struct err err = {0};

	/* A descriptor of its own, so that init's flags are not changed with it.  Nothing else stays open. */
	(void)prctl(PR_SET_DUMPABLE, 0);
	for (int number = 1; number < NSIG; number++)
		(void)signal(number, number == SIGCHLD ? SIG_DFL : SIG_IGN);
	if (write(f->init, (char[]){ FORK_READY }, 1) != 1)
		_exit(1);
	while (serve(f, &err) == 0)
		continue;
	/* The cell's processes stay stopped: a copy without an identity of its own must not run. */
	if (err.code != 0)
		complain(f->port, &err);
	for (;;)
		pause();
}

/* Everything of the cell descends from this process, which becomes init. */
static int
make_group(int *ret_cgroup, struct err *err)
{
	static const char *const none[] = { NULL };
	OWN(closep) int all = mounts_new_fs("cgroup2", none, 0, err);

	if (all < 0)
		return all;
	if (mkdirat(all, GROUP, 0755) < 0)
		return err_errno(err, "the guest cannot make a cgroup");
	*ret_cgroup = openat(all, GROUP, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*ret_cgroup < 0 || faccessat(*ret_cgroup, "cgroup.freeze", W_OK, 0) < 0)
		return err_errno(err, "the guest's kernel cannot stop processes together");
	return write_file_at(*ret_cgroup, "cgroup.procs", "1", err);
}

int
guest_start_forker(const struct ns_plan *plan, int *ret_init, struct err *err)
{
	struct forker f = { .port = plan->stream, .system = plan->ground->trust != NULL ? ns_open_bundle(plan) : -1 };
	int ends[2], r;
	char word = 0;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "the guest cannot make a socket");
	f.init = ends[1];
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		r = make_group(&f.cgroup, err);
		if (r < 0) {
			(void)!write(f.init, err->text, strlen(err->text));
			_exit(1);
		}
		run(&f);
	}
	close(ends[1]);
	closep(&f.system);
	if (pid < 0 || read_exactly(ends[0], &word, 1, err) < 0 || word != FORK_READY)
		return err_set(err, ENOTSUP, "the guest's kernel cannot stop processes together, so --forkable does not work with it");
	*ret_init = ends[0];
	return 0;
}

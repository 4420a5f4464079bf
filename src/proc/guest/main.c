/* main.c - cloister-guest: the first process of a virtual machine, from its kernel's start to init.
 *
 * It loads the modules, opens the port to the host and waits there for the cell's description.  The
 * guest is then like a machine of its own, with the shared tree as its files: the same code as in any
 * cell builds the agent's world, gives all rights up and becomes cloister-init. */
/* Older headers of vsock need this one before them. */
#include <sys/socket.h>

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/random.h>
#include <linux/virtio_ids.h>
#include <linux/vm_sockets.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/microvm/vm_guest.h"
#include "boundary/namespace/ns_plan.h"
#include "ipc/init_channel.h"
#include "ipc/ipc.h"
#include "proc/guest/guest.h"

#define MODULES_MAX 64
#define ROOT_BUS "0000:00"              /* has no slots */
#define PCI_DEVICES "/sys/bus/pci/devices"
#define CLASS_BRIDGE "0x060400"
#define PORT_WAIT_MS 10000
#define PORT_STEP_US 1000
#define CONNECT_US 100000
#define TIMER_WAIT_MS 5000
#define LINGER_SECONDS 10
#define CLEAN_MAX ((size_t)192 << 20)    /* no boot uses more */

static int
mount_own(struct err *err)
{
	static const struct { const char *type, *at; } mounts[] = {
		{ "proc", "/proc" }, { "sysfs", "/sys" }, { "devtmpfs", "/dev" },
	};

	for (size_t i = 0; i < ARRAY_LEN(mounts); i++)
		if (mount(mounts[i].type, mounts[i].at, mounts[i].type, MS_NOSUID | MS_NOEXEC, NULL) < 0)
			return err_errno(err, "the guest cannot mount %s", mounts[i].at);
	return 0;
}

static int
load_module(int dir, const char *name, struct err *err)
{
	OWN(closep) int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST))
		return err_errno(err, "the guest cannot load its module %s", name);
	return 0;
}

/* Their names begin with their place in the order.  Those for vsock are loaded only where there is such a
 * device. */
static int
load_modules(bool vsock, struct err *err)
{
	struct dirent **names = NULL;
	OWN(closep) int dir = open("/modules", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int n = scandir("/modules", &names, NULL, alphasort), r = 0;

	for (int i = 0; i < n; i++) {
		if (r == 0 && names[i]->d_name[0] != '.' && (strstr(names[i]->d_name, "vsock") != NULL) == vsock)
			r = load_module(dir, names[i]->d_name, err);
		free(names[i]);
	}
	free(names);
	return r;
}

/* A file of the device NAME in FOLDER, without the end of its line; the caller owns it.  NULL: there is none. */
static char *
attribute_of(const char *folder, const char *name, const char *attribute)
{
	char path[400], *text = NULL;

	snprintf(path, sizeof(path), "%s/%s/%s", folder, name, attribute);
	if (name[0] == '.' || read_file_at(AT_FDCWD, path, 256, &text, NULL, NULL) < 0)
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	return text;
}

/* The port of that name; the host may add it a moment after the driver began. */
static int
find_port(char ret_path[64])
{
	static const char folder[] = "/sys/class/virtio-ports";
	OWN(closedirp) DIR *dir = opendir(folder);

	for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;) {
		OWN(freep) char *name = attribute_of(folder, d->d_name, "name");

		if (name == NULL || strlen(d->d_name) > 32 || strcmp(name, VM_GUEST_PORT) != 0)
			continue;
		snprintf(ret_path, 64, "/dev/%.32s", d->d_name);
		return 0;
	}
	return -ENOENT;
}

static bool
has_vsock(void)
{
	static const char folder[] = "/sys/bus/virtio/devices";
	OWN(closedirp) DIR *dir = opendir(folder);

	for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;) {
		OWN(freep) char *type = attribute_of(folder, d->d_name, "device");

		if (type != NULL && strtoul(type, NULL, 16) == VIRTIO_ID_VSOCK)
			return true;
	}
	return false;
}

static const struct sockaddr_vm host_port = { .svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_HOST,
                                              .svm_port = VM_GUEST_VSOCK };

static int
open_vsock(struct err *err)
{
	OWN(closep) int fd = -1;

	if (load_modules(true, err) < 0)
		return -err->code;
	fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&host_port, sizeof(host_port)) < 0)
		return err_errno(err, "the guest cannot reach its host");
	return TAKE_FD(fd);
}

/* Any other port is a device. */
static bool
is_vsock(int port)
{
	struct stat st;

	return fstat(port, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* A template has no connection of its recorder's: those who start from it connect anew, as soon as somebody is
 * there.  A request that was under way when it was recorded is never answered. */
static int
reopen_vsock(int port)
{
	const struct timespec step = { .tv_nsec = PORT_STEP_US * 1000 };
	const struct timeval limit = { .tv_usec = CONNECT_US };
	char byte;

	/* The recorder hangs up once nobody listens there any more. */
	while (read(port, &byte, 1) > 0)
		continue;
	close(port);
	for (;;) {
		OWN(closep) int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);

		(void)setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT_NEW, &limit, sizeof(limit));
		if (fd >= 0 && connect(fd, (const struct sockaddr *)&host_port, sizeof(host_port)) == 0)
			return TAKE_FD(fd);
		nanosleep(&step, NULL);
	}
}

/* It does not sleep: nobody knows yet whether the kernel has a timer. */
static int
open_port(struct err *err)
{
	int64_t until = io_now_ms() + PORT_WAIT_MS;
	char path[64];
	int fd;

	if (has_vsock())
		return open_vsock(err);
	for (;;) {
		fd = find_port(path) == 0 ? open(path, O_RDWR | O_CLOEXEC) : -1;
		if (fd >= 0 || io_now_ms() > until)
			break;
		(void)sched_yield();
	}
	return fd >= 0 ? fd : err_errno(err, "the guest has no port to its host");
}

/* An emulated kernel of amd64 measures its timer by its clock.  If the host does not let it run at that moment, it
 * finds that the timer is too slow, and has none: then it boots, but sleeps for ever. */
static int
check_timer(struct err *err)
{
	const struct itimerspec soon = { .it_value = { .tv_nsec = PORT_STEP_US * 1000 } };
	const int64_t until = io_now_ms() + TIMER_WAIT_MS;
	OWN(closep) int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	uint64_t n;

	if (timerfd_settime(timer, 0, &soon, NULL) < 0)
		return err_errno(err, "the guest cannot set a timer");
	while (read(timer, &n, sizeof(n)) < 0) {
		if (io_now_ms() > until)
			return err_set(err, EIO, "the guest's kernel found no timer, because this machine is too busy: try again");
		(void)sched_yield();
	}
	return 0;
}

/* A port that the host has yet to open reads as ended. */
int
guest_read(int port, void *data, size_t len, struct err *err)
{
	const struct timespec step = { .tv_nsec = PORT_STEP_US * 1000 };
	unsigned char *at = data;

	while (len > 0) {
		ssize_t n = read(port, at, len);

		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return err_errno(err, "the guest cannot read from its port");
		if (n <= 0) {
			nanosleep(&step, NULL);
			continue;
		}
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

int
guest_read_message(int port, uint32_t len, struct buf *ret_message, struct err *err)
{
	OWN(freep) unsigned char *bytes = NULL;
	int r;

	if (len > VM_GUEST_MESSAGE_MAX || (bytes = malloc(len)) == NULL)
		return err_set(err, EBADMSG, "the guest's first message is too long");
	r = guest_read(port, bytes, len, err);
	buf_init(ret_message, VM_GUEST_MESSAGE_MAX);
	if (r == 0)
		buf_put(ret_message, bytes, len);
	return r;
}

static int
read_message(int port, struct buf *ret_message, struct err *err)
{
	uint32_t len = 0;
	int r = guest_read(port, &len, sizeof(len), err);

	while (r == 0 && len == 0) {
		r = write_all(port, "", 1, err);
		if (r == 0)
			r = guest_read(port, &len, sizeof(len), err);
	}
	if (r < 0)
		return r;
	return guest_read_message(port, le32toh(len), ret_message, err);
}

/* Every guest begins alike, and with a restored memory even its random numbers would be. */
static int
stir(const void *bytes, size_t len, struct err *err)
{
	OWN(closep) int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
	struct rand_pool_info *pool = calloc(1, sizeof(*pool) + len);
	int r;

	if (pool == NULL)
		return err_set(err, ENOMEM, "out of memory");
	pool->entropy_count = (int)len * 8;
	pool->buf_size = (int)len;
	memcpy(pool->buf, bytes, len);
	r = ioctl(fd, RNDADDENTROPY, pool) < 0 || ioctl(fd, RNDRESEEDCRNG) < 0 ?
	    err_errno(err, "the guest cannot renew its random numbers") : 0;
	explicit_bzero(pool, sizeof(*pool) + len);
	free(pool);
	return r;
}

int
guest_take_message(struct buf *message, uint32_t *ret_flags, const char **ret_mac, struct cell_spec *ret_spec,
                   struct err *err)
{
	unsigned char entropy[VM_GUEST_ENTROPY];
	struct timespec now;
	uint32_t version;
	uint64_t ns;

	if (buf_get_u32(message, &version) < 0 || version != VM_GUEST_VERSION || buf_get_u64(message, &ns) < 0 ||
	    buf_get_u32(message, ret_flags) < 0 || buf_get_str(message, ret_mac) < 0 || buf_left(message) < sizeof(entropy))
		return err_set(err, EBADMSG, "the guest's first message is malformed");
	memcpy(entropy, message->data + message->pos, sizeof(entropy));
	message->pos += sizeof(entropy);
	if (stir(entropy, sizeof(entropy), err) < 0)
		return -err->code;
	now = (struct timespec){ .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };
	(void)clock_settime(CLOCK_REALTIME, &now);
	return cell_spec_get(message, ret_spec, err);
}

/* pivot_root() cannot leave a kernel's first root, so the guest moves to one of its own. */
static int
leave_first_root(struct err *err)
{
	static const char *const moved[] = { "dev", "proc", "sys" };
	char from[16], to[16];

	if (mount("tmpfs", VM_GUEST_HOST, "tmpfs", 0, "mode=0755") < 0)
		return err_errno(err, "the guest cannot make its root");
	for (size_t i = 0; i < ARRAY_LEN(moved); i++) {
		snprintf(from, sizeof(from), "/%s", moved[i]);
		snprintf(to, sizeof(to), VM_GUEST_HOST "/%s", moved[i]);
		if (mkdir(to, 0755) < 0 || mount(from, to, NULL, MS_MOVE, NULL) < 0)
			return err_errno(err, "the guest cannot move %s", from);
	}
	if (mkdir(VM_GUEST_HOST VM_GUEST_HOST, 0755) < 0 || chdir(VM_GUEST_HOST) < 0 ||
	    mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || chdir("/") < 0)
		return err_errno(err, "the guest cannot enter its root");
	return 0;
}

/* Devices that were plugged in after the kernel had looked for them: each slot is a bus of its own, or they are
 * all on the first. */
static void
find_devices(bool on_first)
{
	OWN(closedirp) DIR *dir = opendir("/sys/class/pci_bus");
	struct dirent *d;
	char file[320];

	while (dir != NULL && (d = readdir(dir)) != NULL) {
		snprintf(file, sizeof(file), "/sys/class/pci_bus/%s/rescan", d->d_name);
		if (d->d_name[0] != '.' && (on_first || strcmp(d->d_name, ROOT_BUS) != 0))
			(void)write_file_at(AT_FDCWD, file, "1", NULL);
	}
}

/* Plugging something in takes longer while its slot is off.  A machine without slots has nothing there. */
static void
enable_slots(void)
{
	OWN(closedirp) DIR *dir = opendir(PCI_DEVICES);

	for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;) {
		OWN(freep) char *class = attribute_of(PCI_DEVICES, d->d_name, "class");
		char file[320];

		snprintf(file, sizeof(file), PCI_DEVICES "/%s/enable", d->d_name);
		if (class != NULL && strcmp(class, CLASS_BRIDGE) == 0)
			(void)write_file_at(AT_FDCWD, file, "1", NULL);
	}
}

/* Writes zeros to memory that the boot has used and left.  A template does not keep zeros. */
static void
clean_memory(void)
{
	struct sysinfo now;
	size_t size;
	void *at;

	(void)write_file_at(AT_FDCWD, "/proc/sys/vm/drop_caches", "3", NULL);
	if (sysinfo(&now) < 0)
		return;
	size = (size_t)now.freeram * now.mem_unit / 10 * 9;
	size = size < CLEAN_MAX ? size : CLEAN_MAX;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (at != MAP_FAILED)
		munmap(at, size);
}

/* Whether the machine becomes a template. */
static bool
is_recorded(void)
{
	OWN(freep) char *line = NULL;

	return read_file_at(AT_FDCWD, "/proc/cmdline", 4096, &line, NULL, NULL) == 0 && strstr(line, VM_GUEST_RECORDED) != NULL;
}

/* Tells the keeper that the template is complete.  Returns the port from then on. */
static int
tell_recorder(int port)
{
	clean_memory();
	(void)!write(port, "", 1);
	return is_vsock(port) ? reopen_vsock(port) : port;
}

/* All that needs no word from the host, and that a template has. */
static int
prepare(int *port, int *ret_init, struct err *err)
{
	int r = check_timer(err);

	if (r < 0)
		return r;
	*ret_init = open("/cloister-init", O_PATH | O_CLOEXEC);
	if (*ret_init < 0)
		return err_errno(err, "the guest cannot find its init");
	r = leave_first_root(err);
	if (r == 0)
		r = guest_set_up_net(err);
	if (r == 0 && is_recorded()) {
		enable_slots();
		*port = tell_recorder(*port);
	}
	return r;
}

/* An overlay passes O_NOATIME on to the files beneath it if whoever mounts it may use that on any file.
 * The file server may not, on files that belong to nobody in the cell, such as those of the host's /etc. */
static int
forgo_owners_right(struct err *err)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) < 0)
		return err_errno(err, "the guest cannot read its rights");
	data[0].effective &= ~(1u << CAP_FOWNER);
	if (syscall(SYS_capset, &header, data) < 0)
		return err_errno(err, "the guest cannot give up a right");
	return 0;
}

static int
run(int *port, struct err *err)
{
	static struct boundary_ground ground = { .changes = -1, .memory = -1, .state = -1 };
	static struct boundary_trust trust;
	OWN(buf_free) struct buf message = {0};
	OWN(cell_spec_free) struct cell_spec spec = {0};
	struct ns_plan plan = { .spec = &spec, .ground = &ground, .range = true, .channel = -1, .stream = -1 };
	const char *mac = "";
	uint32_t flags = 0;
	int r = prepare(port, &plan.init_exe, err);
	const bool had_card = guest_has_card();

	plan.stream = *port;
	if (r == 0)
		r = read_message(*port, &message, err);
	if (r == 0)
		r = guest_take_message(&message, &flags, &mac, &spec, err);
	if (r == 0 && (flags & VM_GUEST_TRUST) != 0) {
		r = guest_take_trust(&message, &trust, err);
		ground.trust = &trust;
	}
	if (r == 0)
		find_devices(is_vsock(*port));
	if (r == 0 && (flags & VM_GUEST_NET) != 0)
		r = guest_wake_net(mac, had_card, err);
	if (r == 0)
		r = guest_mount_files(flags, err);
	ns_clear_plan(&plan);
	/* The shared tree has one.  The keys of SSH hosts are added here. */
	plan.has_etc = (flags & VM_GUEST_HAS_DISK) == 0 && r == 0 && spec.known_hosts[0] == '\0';
	if (r == 0 && fcntl(*port, F_SETFL, O_NONBLOCK) < 0)
		r = err_errno(err, "the guest cannot use its port");
	/* A share's owners are those of the cell already. */
	if (r == 0 && (flags & VM_GUEST_HAS_DISK) != 0)
		r = ns_prepare_layers(&plan, err);
	if (r == 0 && (flags & VM_GUEST_FORKABLE) != 0)
		r = guest_start_forker(&plan, &plan.forker, err);
	if (r == 0)
		r = forgo_owners_right(err);
	return r < 0 ? r : ns_build(&plan, err);
}

/* As init does over a byte stream. */
static void
report(int port, const struct err *err)
{
	static const struct linger patience = { .l_onoff = 1, .l_linger = LINGER_SECONDS };
	OWN(buf_free) struct buf message;

	ipc_begin(&message, INIT_FAILED);
	buf_put_u32(&message, (uint32_t)err->code);
	buf_put_str(&message, err->text);
	(void)fcntl(port, F_SETFL, 0);
	(void)ipc_write(port, &message, NULL);
	/* A socket waits until its host has taken everything. */
	(void)setsockopt(port, SOL_SOCKET, SO_LINGER, &patience, sizeof(patience));
	close(port);
}

int
main(void)
{
	struct err err = {0};
	int port = -1;

	if (getpid() != 1) {
		fprintf(stderr, "cloister-guest is started by a virtual machine's kernel only\n");
		return 125;
	}
	umask(022);
	if (mount_own(&err) == 0 && load_modules(false, &err) == 0)
		port = open_port(&err);
	if (port >= 0) {
		(void)run(&port, &err);
		report(port, &err);
	} else {
		fprintf(stderr, "%s\n", err.text);
	}
	(void)reboot(RB_AUTOBOOT);
	return 125;
}

/* capture.c - see capture.h.  capture_gen.c made the messages to the kernel at build time. */
#include "boundary/capture/capture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "capture_nft.h"
#include "cell/cell_net.h"

#define BACKLOG 1024
#define DNS_PORT 53

/* Sends the messages of one family.  The kernel answers while they are sent, and only errors count. */
static int
tell_kernel(int protocol, const struct iovec *parts, size_t n)
{
	OWN(closep) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	struct msghdr message = { .msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = n };
	union {
		struct nlmsghdr header;
		char bytes[4096];
	} answer;
	struct nlmsgerr *error = NLMSG_DATA(&answer.header);
	ssize_t len;

	if (fd < 0 || sendmsg(fd, &message, 0) < 0)
		return -errno;
	len = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);
	if (len < 0)
		return errno == EAGAIN ? 0 : -errno;
	if (len < (ssize_t)(NLMSG_HDRLEN + sizeof(*error)) ||
	    answer.header.nlmsg_type != NLMSG_ERROR || error->error >= 0)
		return -EBADMSG;
	return error->error;
}

#define PART(a) { (void *)(uintptr_t)(a), sizeof(a) }

static int
route_everything(bool *ret_ipv6, struct err *err)
{
	static const struct iovec v4[] = { PART(net_routes4) }, v6[] = { PART(net_routes6) };
	int r = tell_kernel(NETLINK_ROUTE, v4, 1);

	if (r < 0)
		return err_set(err, -r, "cannot set up the cell's network: %s", strerrordesc_np(-r));
	/* The machine may have no IPv6; then the cell has none. */
	*ret_ipv6 = tell_kernel(NETLINK_ROUTE, v6, 1) == 0;
	return 0;
}

static int
redirect(bool *ipv6)
{
	static const struct iovec both[] = { PART(net_batch_begin), PART(net_rules4),
	                                     PART(net_rules6), PART(net_batch_end) };
	static const struct iovec v4[] = { PART(net_batch_begin), PART(net_rules4),
	                                   PART(net_batch_end) };
	int r = *ipv6 ? tell_kernel(NETLINK_NETFILTER, both, ARRAY_LEN(both)) : -ENOENT;

	if (r < 0) {
		*ipv6 = false;
		r = tell_kernel(NETLINK_NETFILTER, v4, ARRAY_LEN(v4));
	}
	/* A loopback has no congestion, and the host's algorithm may pace the traffic.  Every
	 * kernel has this one. */
	(void)write_file_at(AT_FDCWD, "/proc/sys/net/ipv4/tcp_congestion_control", "reno", NULL);
	return r;
}

/* Accepted connections inherit these. */
static int
set_tcp_options(int fd, int family)
{
	const int on = 1;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return family == AF_INET ? setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &on, sizeof(on))
	                         : setsockopt(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, &on, sizeof(on));
}

/* The socket where the gate gets captured traffic; -1 without IPv6. */
static int
listen_at(int family, int type, struct err *err)
{
	const char *text = family == AF_INET ? CELL_NET_GATE4 : CELL_NET_GATE6;
	uint16_t port = htons(type == SOCK_STREAM ? CELL_NET_CAPTURE_PORT : DNS_PORT);
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = port };
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = port };
	OWN(closep) int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int on = 1;
	int r;

	if (fd < 0)
		return err_errno(err, "cannot make the gate's sockets");
	(void)inet_pton(family, text, family == AF_INET ? (void *)&v4.sin_addr : &v6.sin6_addr);
	if (type == SOCK_STREAM && set_tcp_options(fd, family) < 0)
		return err_errno(err, "cannot make the gate's sockets");
	if (family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof(on));
	r = family == AF_INET ? bind(fd, (struct sockaddr *)&v4, sizeof(v4))
	                      : bind(fd, (struct sockaddr *)&v6, sizeof(v6));
	if (r < 0 || (type == SOCK_STREAM && listen(fd, BACKLOG) < 0))
		return err_errno(err, "cannot make the gate's sockets");
	return TAKE_FD(fd);
}

static int
listen_both(struct capture *c, enum capture_socket at, int type, bool ipv6, struct err *err)
{
	c->sockets[at] = listen_at(AF_INET, type, err);
	if (c->sockets[at] < 0 || !ipv6)
		return c->sockets[at] < 0 ? c->sockets[at] : 0;
	c->sockets[at + 1] = listen_at(AF_INET6, type, err);
	return c->sockets[at + 1] < 0 ? c->sockets[at + 1] : 0;
}

/* A network of its own for the calling process. */
static int
make_namespace(struct capture *c, struct err *err)
{
	if (c->netns >= 0)
		return setns(c->netns, CLONE_NEWNET) < 0 ? err_errno(err, "cannot enter the cell's network") : 0;
	if (unshare(CLONE_NEWNET) < 0)
		return err_errno(err, "cannot make the cell's network (see `cloister doctor`)");
	c->netns = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	return c->netns < 0 ? err_errno(err, "cannot open the cell's network") : 0;
}

void
capture_close(struct capture *capture)
{
	closep(&capture->netns);
	for (size_t i = 0; i < CAPTURE_SOCKETS; i++)
		closep(&capture->sockets[i]);
	*capture = (struct capture){ -1, { -1, -1, -1, -1 } };
}

/* A network whose traffic all goes to the gate. */
static int
make_captured(struct capture *c, struct err *err)
{
	bool ipv6 = false;
	int r = route_everything(&ipv6, err);

	if (r == 0) {
		r = redirect(&ipv6);
		if (r < 0)
			return err_set(err, -r, "a policy cannot be enforced here, because this kernel has "
			               "no nftables with NAT, tproxy and reject (see `cloister doctor`): %s",
			               strerrordesc_np(-r));
	}
	if (r == 0)
		r = listen_both(c, CAPTURE_TCP4, SOCK_STREAM, ipv6, err);
	if (r == 0)
		r = listen_both(c, CAPTURE_DNS4, SOCK_DGRAM, ipv6, err);
	return r;
}

/* A network of loopback alone. */
static int
make_closed(struct capture *c, struct err *err)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(DNS_PORT) };
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	const int on = 1;
	int fd = c->sockets[CAPTURE_DNS4] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
		return err_errno(err, "cannot bring the cell's loopback up");
	/* An agent's own resolver may listen at all addresses. */
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	(void)inet_pton(AF_INET, CELL_NET_NOBODY4, &at.sin_addr);
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		return err_errno(err, "cannot make the cell's resolver");
	return 0;
}

struct job {
	struct capture capture;
	struct err *err;
	int userns, result;
	bool has_policy;
};

static int
make_inside(void *arg)
{
	struct job *job = arg;
	struct capture *c = &job->capture;
	int r = job->userns >= 0 && setns(job->userns, CLONE_NEWUSER) < 0 ?
	        err_errno(job->err, "cannot enter the cell's user namespace") : make_namespace(c, job->err);

	if (r == 0)
		r = job->has_policy ? make_captured(c, job->err) : make_closed(c, job->err);
	/* Without capabilities, the agent could otherwise not bind port 80. */
	if (r == 0)
		(void)write_file_at(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0", NULL);
	job->result = r;
	return 0;
}

/* A process that has entered a user namespace cannot leave it.  So another one does it, which shares
 * memory and descriptors with this one; this one waits for it meanwhile. */
int
capture_make_in(int userns, int netns, bool has_policy, struct capture *ret_capture, struct err *err)
{
	static _Alignas(64) char stack[64 << 10];
	struct job job = { { netns, { -1, -1, -1, -1 } }, err, userns, -EIO, has_policy };
	const int dumpable = prctl(PR_GET_DUMPABLE);
	pid_t pid = clone(make_inside, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | CLONE_FILES, &job);

	if (pid < 0)
		return err_errno(err, "cannot make the cell's network");
	/* Its change of rights made the shared memory private to root. */
	(void)prctl(PR_SET_DUMPABLE, dumpable);
	(void)waitpid(pid, NULL, __WALL);
	if (job.result < 0) {
		capture_close(&job.capture);
		return job.result == -EIO ? err_set(err, EIO, "the process that makes the cell's network died")
		                          : job.result;
	}
	*ret_capture = job.capture;
	return 0;
}

int
capture_make(int userns, bool has_policy, struct capture *ret_capture, struct err *err)
{
	return capture_make_in(userns, -1, has_policy, ret_capture, err);
}

int
capture_enter(const int fds[2], struct err *err)
{
	if ((fcntl(fds[0], F_GETFD) >= 0 && setns(fds[0], CLONE_NEWUSER) < 0) || setns(fds[1], CLONE_NEWNET) < 0)
		return err_errno(err, "cannot enter the cell's network");
	return 0;
}

/* The number of a network is that of whoever opens the device. */
static int
open_tap(int device, struct err *err)
{
	struct ifreq ifr = { .ifr_name = CAPTURED_TAP, .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
	unsigned number = TAP_INDEX;
	OWN(closep) int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	OWN(closep) int tap = -1;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", device);
	tap = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (tap < 0 && errno == EACCES)
		return err_set(err, EACCES, "cannot make a tap for the virtual machine's network: /dev/net/tun is not "
		               "for everybody here (as root: chmod 0666 /dev/net/tun, or use --vm-net user)");
	if (tap < 0 || ioctl(tap, TUNSETIFINDEX, &number) < 0 || ioctl(tap, TUNSETIFF, &ifr) < 0)
		return err_errno(err, "cannot make a tap for the virtual machine's network (use --vm-net user)");
	ifr.ifr_flags = IFF_UP | IFF_RUNNING;
	if (any < 0 || ioctl(any, SIOCSIFFLAGS, &ifr) < 0)
		return err_errno(err, "cannot bring the virtual machine's tap up");
	return TAKE_FD(tap);
}

int
capture_make_tap(int device, int *ret_tap, struct err *err)
{
	static const struct iovec routes4[] = { PART(net_tap4) }, routes6[] = { PART(net_tap6) };
	static const struct iovec rules4[] = { PART(net_batch_begin), PART(net_guest4), PART(net_batch_end) };
	static const struct iovec rules6[] = { PART(net_batch_begin), PART(net_guest6), PART(net_batch_end) };
	OWN(closep) int tap = open_tap(device, err);
	int r;

	if (tap < 0)
		return tap;
	/* Without IPv6 there is no table for its rules. */
	r = tell_kernel(NETLINK_NETFILTER, rules4, ARRAY_LEN(rules4));
	if (r == 0 && tell_kernel(NETLINK_NETFILTER, rules6, ARRAY_LEN(rules6)) == 0)
		r = tell_kernel(NETLINK_ROUTE, routes6, 1);
	if (r == 0)
		r = tell_kernel(NETLINK_ROUTE, routes4, 1);
	if (r < 0)
		return err_set(err, -r, "cannot set up the virtual machine's tap: %s", strerrordesc_np(-r));
	*ret_tap = TAKE_FD(tap);
	return 0;
}

int
capture_leave_tap(int *tap, uid_t owner, struct err *err)
{
	if (ioctl(*tap, TUNSETOWNER, (unsigned long)owner) < 0 || ioctl(*tap, TUNSETPERSIST, 1UL) < 0)
		return err_errno(err, "cannot leave the tap to the virtual machine");
	close_fd(tap);
	*tap = -1;
	return 0;
}

int
capture_try(bool *ret_ipv6)
{
	int r = route_everything(ret_ipv6, NULL);

	return r < 0 ? r : redirect(ret_ipv6);
}

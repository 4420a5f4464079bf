/* filter_process.h - the system calls of an agent in a cell of the boundary `process`, and of its porter: see
 * filter_table.h.
 *
 * There is no namespace around that agent.  So each call that could reach a peer, or a file's attributes, either is
 * harmless whatever is in the caller's memory, or is reported to the porter, which makes it on the agent's behalf.
 * docs/process-boundary.md has the whole list. */
#ifndef CLOISTER_FILTER_PROCESS_H
#define CLOISTER_FILTER_PROCESS_H
#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "confine/filter_agent.h"
#include "confine/filter_row.h"

/* The porter makes all sockets, and knows each.  Datagrams of AF_UNIX are not among them: they could be sent to any
 * socket of the machine, by an address in memory. */
static const struct filter_case filter_process_socket[] = {
	{ NOTIFY, { IS(0, AF_UNIX), BITS(1, SOCKET_TYPE, SOCK_STREAM, SOCK_SEQPACKET) } },
	{ NOTIFY, { IS(0, AF_INET, AF_INET6), BITS(1, SOCKET_TYPE, SOCK_STREAM), IS(2, 0, IPPROTO_TCP) } },
	{ NOTIFY, { IS(0, AF_INET, AF_INET6), BITS(1, SOCKET_TYPE, SOCK_DGRAM), IS(2, 0, IPPROTO_UDP) } },
	{ ERRNO(EPROTONOSUPPORT), { IS(0, AF_UNIX, AF_INET, AF_INET6) } },
	{ ERRNO(EAFNOSUPPORT), { END } },
};
static const struct filter_case filter_process_socketpair[] = {
	{ ALLOW, { IS(0, AF_UNIX), BITS(1, SOCKET_TYPE, SOCK_STREAM, SOCK_SEQPACKET) } },
	{ ERRNO(EOPNOTSUPP), { END } },
};

/* No socket of the cell minds an address in a message, because none is one for datagrams, unless sending connects. */
static const struct filter_case filter_process_sendto[] = {
	{ ERRNO(EOPNOTSUPP), { BITS(3, MSG_FASTOPEN, MSG_FASTOPEN) } },
	{ ALLOW,  { IS_NULL(4) } },
	{ NOTIFY, { END } },
};
static const struct filter_case filter_process_sendmsg[] = {
	{ ERRNO(EOPNOTSUPP), { BITS(2, MSG_FASTOPEN, MSG_FASTOPEN) } },
	{ ALLOW, { END } },
};
static const struct filter_case filter_process_sendmmsg[] = {
	{ ERRNO(EOPNOTSUPP), { BITS(3, MSG_FASTOPEN, MSG_FASTOPEN) } },
	{ ALLOW, { END } },
};
static const struct filter_case filter_process_recvfrom[] = {
	{ ALLOW,  { IS_NULL(4) } },
	{ NOTIFY, { END } },
};

/* The options that programs use.  With SO_REUSEPORT a socket could get a port that a server of the same user on this
 * machine shares, and then that server's clients: so the porter makes believe.  Others choose a device or a route for the packets (IP_OPTIONS has the address of the
 * first hop), connect late, or open code of the kernel that a cell needs not. */
static const struct filter_case filter_process_setsockopt[] = {
	{ ALLOW, { IS(1, SOL_SOCKET),
	           IS(2, SO_REUSEADDR, SO_KEEPALIVE, SO_LINGER, SO_SNDBUF, SO_RCVBUF, SO_RCVLOWAT,
	                 SO_RCVTIMEO, SO_SNDTIMEO, 66, 67 /* the same with 64 bits */, SO_OOBINLINE, SO_PRIORITY,
	                 SO_BROADCAST, SO_PASSCRED, SO_TIMESTAMP, SO_TIMESTAMPNS, SO_NO_CHECK, SO_ZEROCOPY,
	                 SO_INCOMING_CPU) } },
	{ NOTIFY, { IS(1, SOL_SOCKET), IS(2, SO_REUSEPORT) } },
	{ ALLOW, { IS(1, IPPROTO_TCP),
	           IS(2, TCP_NODELAY, TCP_MAXSEG, TCP_CORK, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_SYNCNT,
	                 TCP_LINGER2, TCP_DEFER_ACCEPT, TCP_WINDOW_CLAMP, TCP_QUICKACK, TCP_CONGESTION,
	                 TCP_USER_TIMEOUT, TCP_FASTOPEN, TCP_NOTSENT_LOWAT) } },
	/* Packets never leave the machine, and a socket for datagrams is none of these families. */
	{ NONE,  { IS(1, IPPROTO_IP), IS(2, IP_TOS, IP_TTL, IP_RECVERR, IP_MTU_DISCOVER, IP_PKTINFO, IP_RECVTTL,
	                                 IP_RECVTOS) } },
	{ NOTIFY, { IS(1, IPPROTO_IPV6), IS(2, IPV6_V6ONLY) } },
	{ NONE,  { IS(1, IPPROTO_IPV6), IS(2, IPV6_UNICAST_HOPS, IPV6_TCLASS, IPV6_RECVERR,
	                                   IPV6_RECVPKTINFO, IPV6_MTU_DISCOVER, IPV6_RECVHOPLIMIT, IPV6_RECVTCLASS) } },
	{ ERRNO(ENOPROTOOPT), { END } },
};

/* An agent that hides its memory hides the addresses in it from the porter.  There are no core files either way. */
static const struct filter_case filter_process_prctl[] = {
	{ NONE,  { IS(0, PR_SET_DUMPABLE) } },
	{ ALLOW, { IS(0, PRCTL_ALLOWED) } },
	{ DENY,  { IS(0, PRCTL_FORBIDDEN) } },
	{ ERRNO(EINVAL), { END } },
};

/* Other processes of the same user are not the cell's.  Landlock has no rule for these. */
static const struct filter_case filter_process_prlimit[] = {
	{ ALLOW, { IS(0, 0), IS_NULL(2) } },
	{ NONE,  { IS(0, 0), IS(1, RLIMIT_CORE) } },
	{ ALLOW, { IS(0, 0) } },
	{ DENY,  { END } },
};
static const struct filter_case filter_of_oneself[] = {
	{ ALLOW, { IS(0, 0) } },
	{ DENY,  { END } },
};
static const struct filter_case filter_process_setpriority[] = {
	{ ALLOW, { IS(0, PRIO_PROCESS), IS(1, 0) } },
	{ DENY,  { END } },
};
static const struct filter_case filter_process_ioprio[] = {
	{ ALLOW, { IS(0, 1 /* IOPRIO_WHO_PROCESS */), IS(1, 0) } },
	{ DENY,  { END } },
};

/* The attributes of a file need no right of Landlock's, and a descriptor that may only be read.  So do subvolumes, seals
 * (fs-verity) and more of what the types of file systems have: of these types only what reads, and clones to a descriptor
 * that may be written. */
#define IOCTL_TYPE 0xff00
#define IOCTL_OF_FAT 0x40047211         /* FAT_IOCTL_SET_ATTRIBUTES */
static const struct filter_case filter_process_ioctl[] = {
	{ ALLOW, { IS(1, FICLONE, FICLONERANGE, FIDEDUPERANGE, FS_IOC_GETFLAGS, FS_IOC_GETVERSION, FS_IOC_FSGETXATTR,
	                 FS_IOC_FIEMAP) } },
	{ DENY,  { BITS(1, IOCTL_TYPE, 'f' << 8, 'v' << 8, 'X' << 8, 0x94 << 8 /* btrfs */, 0xf5 << 8 /* f2fs */,
	                0xbc << 8 /* bcachefs */) } },
	{ DENY,  { IS(1, IOCTL_OF_FAT, TIOCSTI, TIOCLINUX, TIOCSETD, TIOCCONS, TIOCSLCKTRMIOS,
	                 TIOCVHANGUP, TIOCSSERIAL) } },
	{ ALLOW, { END } },
};
static const struct filter_case filter_process_chmod[] = {
	{ DENY,   { HAS_SETID(1) } },
	{ NOTIFY, { END } },
};
static const struct filter_case filter_process_fchmodat[] = {
	{ DENY,   { HAS_SETID(2) } },
	{ NOTIFY, { END } },
};

static const struct filter_row filter_process[] = {
	{ "socket", .cases = filter_process_socket, .group = GROUP_SOCKET },
	{ "socketpair", .cases = filter_process_socketpair, .group = GROUP_SOCKET },
	{ "connect bind listen getsockname getpeername recvmsg recvmmsg", .verdict = NOTIFY },
	{ "sendto", .cases = filter_process_sendto },
	{ "sendmsg", .cases = filter_process_sendmsg },
	{ "sendmmsg", .cases = filter_process_sendmmsg },
	{ "recvfrom", .cases = filter_process_recvfrom },
	{ "setsockopt", .cases = filter_process_setsockopt },
	{ "prctl", .cases = filter_process_prctl, .group = GROUP_PRCTL },
	{ "prlimit64", .cases = filter_process_prlimit, .group = GROUP_CORE },
	{ "sched_setaffinity sched_setattr sched_setparam sched_setscheduler", .cases = filter_of_oneself },
	{ "setpriority", .cases = filter_process_setpriority },
	{ "ioprio_set", .cases = filter_process_ioprio },
	{ "ioctl", .cases = filter_process_ioctl, .group = GROUP_IOCTL },
	{ "chmod fchmod", .cases = filter_process_chmod, .group = GROUP_SETID },
	{ "fchmodat fchmodat2", .cases = filter_process_fchmodat, .group = GROUP_SETID },
	{ "chown lchown fchown fchownat utimensat", .verdict = NOTIFY },
	/* The C library has newer ones. */
	{ "utime utimes futimesat", .verdict = ABSENT },
	/* Those of files that cannot be read, which Landlock does not keep. */
	{ "getxattr lgetxattr listxattr llistxattr getxattrat listxattrat", .verdict = ERRNO(EOPNOTSUPP) },
	{ "setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat",
	  .verdict = ERRNO(EOPNOTSUPP), .group = GROUP_SETID },
	/* Those of the machine: the cell has none of its own. */
	{ "shmget shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open mq_unlink "
	  "mq_timedsend mq_timedreceive mq_notify mq_getsetattr", .verdict = ABSENT },
};
#endif

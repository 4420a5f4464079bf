/* ns_probe.h - tries in a child every step by which a cell is made of namespaces.
 *
 * Nothing is left behind.  Each step is really taken, because a kernel may have a feature that the
 * machine's policy forbids. */
#ifndef CLOISTER_NS_PROBE_H
#define CLOISTER_NS_PROBE_H

/* Each is 0 if it works, the errno of its failure, or this: */
#define NS_PROBE_NOT_TRIED (-1)

struct ns_probe {
	int clone;              /* clone3 with CLONE_PIDFD, in the namespaces as they are */
	int userns;             /* a new user and mount namespace */
	int maps;               /* its user and group ids */
	int tmpfs;              /* mounting in it, which AppArmor may refuse */
	int others;             /* the pid, network, ipc, uts and cgroup namespaces */
	int pty;                /* a terminal of a new devpts */
	int nftables;           /* capturing the traffic of a network namespace */
	int ipv6;               /* likewise, for IPv6 */
	int user_xattr;         /* user attributes on tmpfs */
	int overlay;            /* an overlay of tmpfs folders with userxattr */
	int idmap;              /* an id-mapped mount of /usr; real root only */
};

void ns_probe_run(struct ns_probe *ret_probe);
#endif

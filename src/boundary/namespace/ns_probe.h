/* ns_probe.h - tries in a child what a cell of namespaces is made of.
 *
 * Nothing is left behind; each step is really taken, because what a kernel has
 * and what a machine's policy allows are two things. */
#ifndef CLOISTER_NS_PROBE_H
#define CLOISTER_NS_PROBE_H

/* Each is 0 if it works, the errno of its failure, or this: */
#define NS_PROBE_NOT_TRIED (-1)

struct ns_probe {
	int clone;              /* clone3 with CLONE_PIDFD, in the namespaces as they are */
	int userns;             /* a new user and mount namespace */
	int maps;               /* its user and group ids */
	int tmpfs;              /* mounting in it, which AppArmor refuses last of all */
	int others;             /* the pid, network, ipc, uts and cgroup namespaces */
	int pty;                /* a terminal of a new devpts */
	int nftables;           /* capturing what a network namespace sends */
	int ipv6;               /* likewise, of IPv6 */
	int user_xattr;         /* user attributes on tmpfs */
	int overlay;            /* an overlay of tmpfs folders with userxattr */
	int idmap;              /* an id-mapped mount of /usr; real root only */
};

void ns_probe_run(struct ns_probe *ret_probe);
#endif

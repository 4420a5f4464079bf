/* capture.h - a network namespace in which every address is local and leads to the gate: see
 * cell/cell_net.h.
 *
 * It exists on its own.  A namespace cell is made in it, another runtime gets its path, and a
 * virtual machine's tap is moved into it. */
#ifndef CLOISTER_CAPTURE_H
#define CLOISTER_CAPTURE_H
#include <stdbool.h>
#include <sys/types.h>

struct err;

enum capture_socket { CAPTURE_TCP4, CAPTURE_TCP6, CAPTURE_DNS4, CAPTURE_DNS6, CAPTURE_SOCKETS };

struct capture {
	int netns;                      /* the namespace */
	int sockets[CAPTURE_SOCKETS];   /* the gate's, listening in it; -1: none */
};

/* Makes the namespace, which the user namespace USERNS will own, and captures all of its traffic; or,
 * without a policy, gives it loopback and at CAPTURE_DNS4 the socket of a resolver.  The calling
 * process stays where it is.  On success the caller owns the descriptors (capture_close). */
int capture_make(int userns, bool has_policy, struct capture *ret_capture, struct err *err);
/* The same in a namespace that exists and is empty: NETNS, which it takes, of the user namespace USERNS (-1: that of
 * the calling process). */
int capture_make_in(int userns, int netns, bool has_policy, struct capture *ret_capture, struct err *err);
void capture_close(struct capture *capture);    /* for OWN() too */

/* Moves the calling process into a network: FDS are its user and its network namespace.  The first is not open if the
 * network has the host's user namespace. */
int capture_enter(const int fds[2], struct err *err);

/* The interface number of a guest's tap. */
#define TAP_INDEX 4096

/* Makes the tap of a virtual machine in the network that the calling process is in, where it must have all
 * rights.  DEVICE is /dev/net/tun, opened with O_PATH.  What the guest sends goes where everything goes
 * that is sent in this network.  The caller owns *ret_tap: once nobody has it, the tap is gone. */
int capture_make_tap(int device, int *ret_tap, struct err *err);
/* Lets go of the tap, which stays: a process of OWNER can open it by its name. */
#define CAPTURED_TAP "guest0"
int capture_leave_tap(int *tap, uid_t owner, struct err *err);

/* Whether the namespace that the calling process is in can capture, without a gate: 0 or a negative
 * errno. */
int capture_try(bool *ret_ipv6);
#endif

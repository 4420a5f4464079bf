/* vm_guest.h - what the host and a guest have agreed on: names, addresses, and the first message.
 *
 * The host writes one message into the guest's port as soon as there is one: its length (u32, little
 * endian) and VM_GUEST_VERSION (u32), u64 the time in ns, u32 bits (enum vm_guest_flags),
 * str the address of its network card, VM_GUEST_ENTROPY random bytes, a cell_spec and, with VM_GUEST_TRUST, the
 * hash of the certificate's subject and three files, each with its length before it (u32): the certificate, other
 * authorities and Java's store, which may be empty.  The guest answers as init does
 * over a byte stream: see ipc/init_channel.h.
 *
 * In a copy of a machine, the same message comes to cloister-guest's forker: see INIT_HOLD in ipc/init_channel.h.
 *
 * Before that, the host may write messages of length 0: the guest answers each with one byte. */
#ifndef CLOISTER_VM_GUEST_H
#define CLOISTER_VM_GUEST_H

#define VM_GUEST_VERSION 2
#define VM_GUEST_ENTROPY 32
#define VM_GUEST_MESSAGE_MAX (4 * 1024 * 1024)
#define VM_GUEST_TRUST_FILES 3

enum vm_guest_flags {
	VM_GUEST_NET = 1,
	VM_GUEST_HAS_SHARE = 2,         /* it mounts the share; else it has a disk */
	VM_GUEST_HAS_DISK = 4,          /* it mounts a disk, which is its root file system */
	VM_GUEST_TRUST = 8,
	VM_GUEST_FORKABLE = 16,         /* the machine can be copied: see proc/guest/guest_fork.c */
};

/* On the command line of a guest that becomes a template: it writes a zero byte to its port before it
 * waits there, or the reason why it cannot, as init does.  The share is plugged in later. */
#define VM_GUEST_RECORDED "cloister.recorded"

#define VM_GUEST_PORT "cloister.port"   /* the name of the virtio port */
/* Without such a port, the guest connects to this vsock port of its host. */
#define VM_GUEST_VSOCK 1024
#define VM_GUEST_CID 3                  /* the guest's own address there */
#define VM_GUEST_SHARE "cloister"       /* the tag of the shared tree */
#define VM_GUEST_HOST "/host"           /* where the guest mounts it, before the agent's world exists */

#define VM_GUEST_DISK "/disk"           /* likewise, the disk */

/* The guest's side of user-mode networking.  The gate's and the synthetic addresses are elsewhere. */
#define VM_GUEST_NET4 "192.0.2.0/24"
#define VM_GUEST_HOST4 "192.0.2.1"
#define VM_GUEST_ADDRESS4 "192.0.2.15"
#define VM_GUEST_DNS4 "192.0.2.3"
#define VM_GUEST_MASK4 "255.255.255.0"
#define VM_GUEST_NET6 "2001:db8::/64"
#define VM_GUEST_HOST6 "2001:db8::1"
#define VM_GUEST_ADDRESS6 "2001:db8::15"
#define VM_GUEST_DNS6 "2001:db8::3"
#define VM_GUEST_BITS6 64
#endif

/* net.bpf.h - sockets that connect, are bound, listen and accept. */
#ifndef CLOISTER_WITNESS_NET_BPF_H
#define CLOISTER_WITNESS_NET_BPF_H
#include "call.bpf.h"

struct address {                        /* sockaddr_in, sockaddr_in6 and sockaddr_un */
	u16 family, port;
	union {
		u8 v4[4];
		struct {
			u32 flow;
			u8 v6[16];
		};
	};
};
#define UNIX_PATH_MAX 108

INLINE bool
is_watched(u32 family)
{
	return family == AF_INET || family == AF_INET6 || family == AF_UNIX;
}

/* The socket with the descriptor FD of TASK, or NULL. */
INLINE struct sock *
socket_of(struct task_struct *task, s32 fd)
{
	struct file *file = file_of(task, fd);
	struct socket *socket;

	if (file == NULL || (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return NULL;
	socket = BPF_CORE_READ(file, private_data);
	return BPF_CORE_READ(socket, sk);
}

/* The name of a socket of AF_UNIX, from LEN bytes of a sockaddr_un. */
INLINE void
put_unix(struct slot *slot, const void *from, s32 len, bool user)
{
	if (len > 2 && len <= 2 + UNIX_PATH_MAX)
		put_bytes(slot, SAMPLE_NAME, from + 2, len - 2, user);
}

/* What the process passed. */
INLINE void
put_asked(struct slot *slot, struct task_struct *task, const void *from, s32 len)
{
	struct address address = {0};

	slot->sample.flags |= SAMPLE_ASKED;
	/* One of AF_INET is shorter. */
	if (bpf_probe_read_user(&address, sizeof(address), from) != 0)
		bpf_probe_read_user(&address, 8, from);
	if (!is_watched(address.family))
		return;
	slot->sample.net.family = address.family;
	if (address.family == AF_UNIX) {
		char first = address.port;

		/* A name that is relative to the working folder. */
		if (len > 2 && first != '/' && first != '\0') {
			struct path path;

			BPF_CORE_READ_INTO(&path, task, fs, pwd);
			put_path(slot, SAMPLE_DIR, &path);
		}
		put_unix(slot, from, len, true);
		return;
	}
	slot->sample.net.port = __builtin_bswap16(address.port);
	if (address.family == AF_INET)
		__builtin_memcpy(slot->sample.net.address, address.v4, 4);
	else
		__builtin_memcpy(slot->sample.net.address, address.v6, 16);
}

/* A name without a file; or the file, by its true path. */
INLINE void
put_unix_name(struct slot *slot, struct unix_sock *unix_sock)
{
	struct unix_address *address = BPF_CORE_READ(unix_sock, addr);
	struct path path;

	BPF_CORE_READ_INTO(&path, unix_sock, path);
	if (path.dentry != NULL)
		put_path(slot, SAMPLE_PATH, &path);
	else if (address != NULL)
		put_unix(slot, (void *)address + bpf_core_field_offset(struct unix_address, name),
		         BPF_CORE_READ(address, len), false);
}

/* This end of a socket, as the kernel knows it. */
INLINE void
put_own(struct slot *slot, struct sock *sk)
{
	u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);

	slot->sample.net.family = family;
	if (family == AF_UNIX) {
		put_unix_name(slot, (struct unix_sock *)sk);
		return;
	}
	slot->sample.net.port = BPF_CORE_READ(sk, __sk_common.skc_num);
	if (family == AF_INET)
		BPF_CORE_READ_INTO((u32 *)slot->sample.net.address, sk, __sk_common.skc_rcv_saddr);
	else if (bpf_core_field_exists(struct sock_common, skc_v6_rcv_saddr))
		BPF_CORE_READ_INTO((struct in6_addr *)slot->sample.net.address, sk,
		                   __sk_common.skc_v6_rcv_saddr);
}

/* The other end. */
INLINE void
put_peer(struct slot *slot, struct sock *sk)
{
	u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);

	slot->sample.net.family = family;
	if (family == AF_UNIX) {
		put_unix_name(slot, (void *)BPF_CORE_READ((struct unix_sock *)sk, peer));
		return;
	}
	slot->sample.net.port = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
	if (family == AF_INET)
		BPF_CORE_READ_INTO((u32 *)slot->sample.net.address, sk, __sk_common.skc_daddr);
	else if (bpf_core_field_exists(struct sock_common, skc_v6_daddr))
		BPF_CORE_READ_INTO((struct in6_addr *)slot->sample.net.address, sk,
		                   __sk_common.skc_v6_daddr);
}

INLINE void
put_local(struct slot *slot, struct sock *sk)
{
	if (slot->sample.net.family != AF_UNIX)
		slot->sample.net.local = BPF_CORE_READ(sk, __sk_common.skc_num);
}

/* Another thread may have put another socket in the place of the one that was connected, so what was
 * asked for is of interest too, if it differs. */
INLINE void
put_asked_too(struct call *call, const struct at *at, u32 port)
{
	struct slot *slot = begin(call->task, at, SAMPLE_NET);

	if (slot == NULL)
		return;
	slot->sample.act = SAMPLE_CONNECT;
	put_asked(slot, call->task, (void *)argument(call, 2), argument(call, 3));
	if (slot->sample.net.family != AF_UNIX && slot->sample.net.port == port)
		slot->busy = 0;
	else
		end(slot, at);
}

/* connect() and bind(). */
INLINE void
socket_named(struct call *call, const struct at *at)
{
	struct sock *sk = socket_of(call->task, argument(call, 1));
	bool connects = call->how.way == SAMPLE_WAY_CONNECT;
	bool connected = connects && (call->ret == 0 || call->ret == -EINPROGRESS), shared;
	struct slot *slot;
	u32 port;

	if (sk == NULL || !is_watched(BPF_CORE_READ(sk, __sk_common.skc_family)))
		return;
	slot = begin(call->task, at, SAMPLE_NET);
	if (slot == NULL)
		return;
	slot->sample.act = connects ? SAMPLE_CONNECT : SAMPLE_BIND;
	if (connected)
		put_peer(slot, sk);
	else if (!connects && call->ret == 0)
		put_own(slot, sk);
	else
		put_asked(slot, call->task, (void *)argument(call, 2), argument(call, 3));
	if (call->ret < 0 && !connected)
		slot->sample.error = -call->ret;
	put_local(slot, sk);
	port = slot->sample.net.port;
	shared = connected && slot->sample.net.family != AF_UNIX && shares_files(call->task);
	end(slot, at);
	if (shared)
		put_asked_too(call, at, port);
}

/* sendto() and sendmsg() with an address: like connect(), for one message. */
INLINE void
socket_sent(struct call *call, const struct at *at)
{
	struct {
		u64 name;
		u32 len;
	} to = { argument(call, 5), argument(call, 6) };
	struct slot *slot;
	struct sock *sk;

	if (call->how.way == SAMPLE_WAY_SENDMSG)
		bpf_probe_read_user(&to, sizeof(to), (void *)argument(call, 2));
	/* In progress: it connects by sending (TCP Fast Open). */
	if (to.name == 0 || to.len == 0 || (call->ret < 0 && call->ret != -EINPROGRESS))
		return;
	sk = socket_of(call->task, argument(call, 1));
	if (sk == NULL || !is_watched(BPF_CORE_READ(sk, __sk_common.skc_family)))
		return;
	slot = begin(call->task, at, SAMPLE_NET);
	if (slot == NULL)
		return;
	slot->sample.act = SAMPLE_CONNECT;
	put_asked(slot, call->task, (void *)to.name, to.len);
	put_local(slot, sk);
	end(slot, at);
}

/* listen() and accept(). */
INLINE void
socket_opened(struct call *call, const struct at *at)
{
	bool accepts = call->how.way == SAMPLE_WAY_ACCEPT;
	struct slot *slot;
	struct sock *sk;

	if (call->ret < 0)
		return;
	sk = socket_of(call->task, accepts ? (s32)call->ret : (s32)argument(call, 1));
	if (sk == NULL || !is_watched(BPF_CORE_READ(sk, __sk_common.skc_family)))
		return;
	slot = begin(call->task, at, SAMPLE_NET);
	if (slot == NULL)
		return;
	slot->sample.act = accepts ? SAMPLE_ACCEPT : SAMPLE_LISTEN;
	if (accepts)
		put_peer(slot, sk);
	else
		put_own(slot, sk);
	put_local(slot, sk);
	end(slot, at);
}
#endif

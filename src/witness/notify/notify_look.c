/* notify_look.c - what a call that waits is about to do. */
#include "witness/notify/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/ptrace.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/own.h"

#define NO (-1)
#define FIRST_PAGE 4096

enum how { OPEN, OPEN2, PATH, FD, TWO, SYMLINK, EXEC, NET, MESSAGE, SIGNAL, DANGER };

/* DIR, PATH and so on are the numbers of arguments; NO: there is none. */
static const struct row {
	long nr;
	enum how how;
	int what;                       /* enum act_file or enum act_net */
	signed char dir, path, to_dir, to, flags;
} rows[] = {
#ifdef SYS_open
	{ SYS_open, OPEN, ACT_WRITE, NO, 0, NO, NO, 1 },
	{ SYS_creat, OPEN, ACT_CREATE, NO, 0, NO, NO, NO },
	{ SYS_mkdir, PATH, ACT_CREATE, NO, 0, NO, NO, NO },
	{ SYS_rmdir, PATH, ACT_REMOVE, NO, 0, NO, NO, NO },
	{ SYS_unlink, PATH, ACT_REMOVE, NO, 0, NO, NO, NO },
	{ SYS_rename, TWO, ACT_RENAME, NO, 0, NO, 1, NO },
	{ SYS_link, TWO, ACT_LINK, NO, 0, NO, 1, NO },
	{ SYS_symlink, SYMLINK, ACT_LINK, NO, 0, NO, 1, NO },
	{ SYS_mknod, PATH, ACT_CREATE, NO, 0, NO, NO, NO },
	{ SYS_chmod, PATH, ACT_MODE, NO, 0, NO, NO, NO },
	{ SYS_chown, PATH, ACT_OWNER, NO, 0, NO, NO, NO },
	{ SYS_lchown, PATH, ACT_OWNER, NO, 0, NO, NO, NO },
	{ SYS_utime, PATH, ACT_TIMES, NO, 0, NO, NO, NO },
	{ SYS_utimes, PATH, ACT_TIMES, NO, 0, NO, NO, NO },
	{ SYS_futimesat, PATH, ACT_TIMES, 0, 1, NO, NO, NO },
#endif
#ifdef SYS_renameat
	{ SYS_renameat, TWO, ACT_RENAME, 0, 1, 2, 3, NO },
#endif
	{ SYS_openat, OPEN, ACT_WRITE, 0, 1, NO, NO, 2 },
	{ SYS_openat2, OPEN2, ACT_WRITE, 0, 1, NO, NO, NO },
	{ SYS_truncate, PATH, ACT_WRITE, NO, 0, NO, NO, NO },
	{ SYS_mkdirat, PATH, ACT_CREATE, 0, 1, NO, NO, NO },
	{ SYS_unlinkat, PATH, ACT_REMOVE, 0, 1, NO, NO, NO },
	{ SYS_renameat2, TWO, ACT_RENAME, 0, 1, 2, 3, NO },
	{ SYS_linkat, TWO, ACT_LINK, 0, 1, 2, 3, 4 },
	{ SYS_symlinkat, SYMLINK, ACT_LINK, NO, 0, 1, 2, NO },
	{ SYS_mknodat, PATH, ACT_CREATE, 0, 1, NO, NO, NO },
	{ SYS_fchmod, FD, ACT_MODE, 0, NO, NO, NO, NO },
	{ SYS_fchmodat, PATH, ACT_MODE, 0, 1, NO, NO, NO },
	{ 452 /* fchmodat2 */, PATH, ACT_MODE, 0, 1, NO, NO, 3 },
	{ SYS_fchown, FD, ACT_OWNER, 0, NO, NO, NO, NO },
	{ SYS_fchownat, PATH, ACT_OWNER, 0, 1, NO, NO, 4 },
	{ SYS_utimensat, PATH, ACT_TIMES, 0, 1, NO, NO, 3 },
#ifdef SYS_execve
	{ SYS_execve, EXEC, 0, NO, 0, NO, 1, NO },
#endif
	{ SYS_execveat, EXEC, 0, 0, 1, NO, 2, 4 },
	/* Of sockets, PATH is the address, and TO its length. */
	{ SYS_connect, NET, ACT_CONNECT, NO, 1, NO, 2, NO },
	{ SYS_bind, NET, ACT_BIND, NO, 1, NO, 2, NO },
	{ SYS_sendto, NET, ACT_CONNECT, NO, 4, NO, 5, NO },
	{ SYS_sendmsg, MESSAGE, ACT_CONNECT, NO, 1, NO, NO, NO },
	{ SYS_sendmmsg, MESSAGE, ACT_CONNECT, NO, 1, NO, NO, NO },
	{ SYS_listen, NET, ACT_LISTEN, NO, NO, NO, NO, NO },
	{ SYS_kill, SIGNAL, 0, 0, NO, NO, NO, NO },
	{ SYS_tkill, SIGNAL, 0, 0, NO, NO, NO, NO },
	{ SYS_tgkill, SIGNAL, 0, 0, NO, NO, NO, NO },
	{ SYS_rt_sigqueueinfo, SIGNAL, 0, 0, NO, NO, NO, NO },
	{ SYS_rt_tgsigqueueinfo, SIGNAL, 0, 0, NO, NO, NO, NO },
};

/* Calls of which a text is of use if they are refused or dangerous, and its argument. */
static const struct { long nr; int arg; } texts[] = {
	{ SYS_mount, 0 }, { SYS_umount2, 0 }, { SYS_pivot_root, 0 }, { SYS_chroot, 0 }, { SYS_open_tree, 1 },
	{ SYS_move_mount, 1 }, { SYS_fsopen, 0 }, { SYS_fspick, 1 }, { SYS_mount_setattr, 1 }, { SYS_add_key, 0 },
	{ SYS_request_key, 0 }, { SYS_sethostname, 0 }, { SYS_setdomainname, 0 }, { SYS_swapon, 0 }, { SYS_swapoff, 0 },
	{ SYS_acct, 0 }, { SYS_memfd_create, 0 }, { SYS_quotactl, 1 }, { SYS_mq_open, 0 }, { SYS_setxattr, 0 },
	{ SYS_lsetxattr, 0 }, { SYS_finit_module, 1 }, { SYS_delete_module, 0 },
};

static const struct row *
row_of(long nr)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].nr == nr)
			return &rows[i];
	return NULL;
}

static void
set_text(struct act_text *to, const struct notify_text *from)
{
	*to = (struct act_text){ from->at, from->len, from->cut };
}

/* Memory that cannot be read, with the error R: another thread may still put something there, but in the first page,
 * where nothing can be. */
static void
miss(struct notify *n, uint64_t at, int r)
{
	n->doubtful = n->doubtful || at >= FIRST_PAGE;
	n->seen.act.error = r == -EFAULT ? EFAULT : 0;
}

/* A call whose text cannot be read is reported without it. */
static bool
read_path(struct notify *n, const struct notify_call *call, int arg, struct notify_text *ret)
{
	int r = notify_read_text(call->tid, call->data.args[arg], ret);

	if (r < 0)
		miss(n, call->data.args[arg], r);
	return r == 0;
}

/* ---- refused and dangerous calls ---- */

static bool
look_call(struct notify *n, const struct notify_call *call, enum act_kind kind)
{
	const struct row *row = row_of(call->data.nr);
	struct act *act = &n->seen.act;
	int arg = row != NULL && row->how != NET && row->how != MESSAGE ? row->path : NO;

	act->kind = kind;
	act->nr = (uint32_t)call->data.nr;
	act->by = ACT_BY_FILTER;
	memcpy(act->args, call->data.args, sizeof(act->args));
	for (size_t i = 0; i < ARRAY_LEN(texts) && arg == NO; i++)
		if (texts[i].nr == call->data.nr)
			arg = texts[i].arg;
	if (arg != NO && notify_read_text(call->tid, call->data.args[arg], &n->seen.path) == 0)
		set_text(&act->text, &n->seen.path);
	act->asked = act->text.at != NULL;
	act->error = call->error;
	return true;
}

/* Signals to the process itself are no danger. */
static bool
look_signal(struct notify *n, const struct notify_call *call, const struct notify_proc *p)
{
	return (uint32_t)call->data.args[0] != p->pid && look_call(n, call, ACT_DANGER);
}

/* ---- files ---- */

static bool
look_file(struct notify *n, const struct notify_call *call, int what)
{
	struct act *act = &n->seen.act;

	(void)call;
	act->kind = ACT_FILE;
	act->file = (enum act_file)what;
	act->asked = true;
	set_text(&act->path, &n->seen.path);
	return true;
}

static int
dir_of(const struct row *row, const struct notify_call *call)
{
	return row->dir == NO ? AT_FDCWD : (int)call->data.args[row->dir];
}

static void
resolve(struct notify *n, const struct notify_call *call, int dir, enum notify_follow follow, struct notify_text *text,
        bool *ret_exists)
{
	struct notify_file file;

	/* Nothing has an empty name. */
	if (text->len == 0) {
		n->seen.act.error = ENOENT;
		return;
	}
	notify_resolve(n, call->tid, dir, text, follow, &file);
	*text = file.path;
	if (ret_exists != NULL)
		*ret_exists = file.fd >= 0;
	closep(&file.fd);
}

static bool
look_open(struct notify *n, const struct notify_call *call, const struct row *row)
{
	uint64_t flags = row->flags == NO ? O_CREAT | O_TRUNC | O_WRONLY : call->data.args[row->flags];
	bool exists = false, makes;

	if (row->how == OPEN2 && notify_read(call->tid, call->data.args[2], &flags, sizeof(flags)) != sizeof(flags))
		flags = O_WRONLY;
	/* openat2 is always reported. */
	if ((flags & O_ACCMODE) == O_RDONLY && (flags & (O_CREAT | O_TRUNC)) == 0)
		return false;
	makes = (flags & O_CREAT) != 0;
	if (read_path(n, call, row->path, &n->seen.path))
		resolve(n, call, dir_of(row, call), (flags & O_NOFOLLOW) != 0 || (makes && (flags & O_EXCL) != 0) ?
		        NOTIFY_NO_FOLLOW : NOTIFY_FOLLOW, &n->seen.path, &exists);
	else
		exists = true;
	return look_file(n, call, (makes && !exists) || (flags & O_TMPFILE) == O_TMPFILE ? ACT_CREATE : ACT_WRITE);
}

static bool
look_fd(struct notify *n, const struct notify_call *call, const struct row *row)
{
	int r = notify_fd_path(call->tid, (int)call->data.args[row->dir], &n->seen.path);

	/* Another thread may still open it. */
	n->doubtful = n->doubtful || r < 0 || n->seen.path.cut;
	n->seen.act.error = r == -ENOENT ? EBADF : 0;
	look_file(n, call, row->what);
	n->seen.act.asked = false;
	return true;
}

static enum notify_follow
follow_of(const struct row *row, uint64_t flags)
{
	if (row->what == ACT_CREATE || row->what == ACT_REMOVE || row->what == ACT_RENAME)
		return NOTIFY_PARENT;
#ifdef SYS_lchown
	if (row->nr == SYS_lchown)
		return NOTIFY_NO_FOLLOW;
#endif
	return (flags & AT_SYMLINK_NOFOLLOW) != 0 ? NOTIFY_NO_FOLLOW : NOTIFY_FOLLOW;
}

static bool
look_path(struct notify *n, const struct notify_call *call, const struct row *row)
{
	uint64_t flags = row->flags == NO ? 0 : call->data.args[row->flags];

	/* utimensat() without a path is about its descriptor, as is any call with an empty one and this flag. */
	if (call->data.args[row->path] == 0 && row->dir != NO)
		return look_fd(n, call, row);
	if (read_path(n, call, row->path, &n->seen.path)) {
		if (n->seen.path.len == 0 && (flags & AT_EMPTY_PATH) != 0)
			return look_fd(n, call, row);
		resolve(n, call, dir_of(row, call), follow_of(row, flags), &n->seen.path, NULL);
	}
	return look_file(n, call, row->what);
}

static bool
look_two(struct notify *n, const struct notify_call *call, const struct row *row)
{
	uint64_t flags = row->flags == NO ? 0 : call->data.args[row->flags];
	int to_dir = row->to_dir == NO ? AT_FDCWD : (int)call->data.args[row->to_dir];

	/* The text of a symbolic link is not a path of its own. */
	if (read_path(n, call, row->path, &n->seen.path) && (row->how != SYMLINK || n->seen.path.len == 0)) {
		if (n->seen.path.len == 0 && (flags & AT_EMPTY_PATH) != 0)
			n->doubtful = notify_fd_path(call->tid, dir_of(row, call), &n->seen.path) < 0;
		else
			resolve(n, call, dir_of(row, call), (flags & AT_SYMLINK_FOLLOW) != 0 ? NOTIFY_FOLLOW :
			        NOTIFY_PARENT, &n->seen.path, NULL);
	}
	if (read_path(n, call, row->to, &n->seen.to))
		resolve(n, call, to_dir, NOTIFY_PARENT, &n->seen.to, NULL);
	set_text(&n->seen.act.to, &n->seen.to);
	return look_file(n, call, row->what);
}

/* ---- programs ---- */

void
notify_set_place(struct act *act, int target, const struct notify_text *path)
{
	struct statvfs fs;

	act->from_memory = notify_is_memory(path);
	act->from_writable = !act->from_memory && target >= 0 && fstatvfs(target, &fs) == 0 &&
	                     (fs.f_flag & ST_RDONLY) == 0;
}

static int
open_target(struct notify *n, const struct notify_call *call, const struct row *row, struct notify_text *path, int *ret_error)
{
	uint64_t flags = row->flags == NO ? 0 : call->data.args[row->flags];
	struct notify_file file;
	int dir = dir_of(row, call), fd;

	*ret_error = 0;
	if (path->len == 0 && (flags & AT_EMPTY_PATH) != 0 && dir != AT_FDCWD) {
		fd = notify_fd_open(call->tid, dir);
		n->doubtful = n->doubtful || fd < 0 || notify_name(fd, path) < 0 || path->cut;
		return fd;
	}
	notify_resolve(n, call->tid, dir, path, NOTIFY_FOLLOW, &file);
	*path = file.path;
	*ret_error = file.error;
	return file.fd;
}

static bool
look_exec(struct notify *n, const struct notify_call *call, const struct row *row, struct notify_proc *p)
{
	struct notify_seen *seen = &n->seen;
	struct act *act = &seen->act;
	OWN(closep) int target = -1;
	bool cut = false;

	act->kind = ACT_EXEC;
	act->asked = true;
	if (read_path(n, call, row->path, &seen->path))
		target = open_target(n, call, row, &seen->path, &act->error);
	set_text(&act->path, &seen->path);
	notify_set_place(act, target, &seen->path);
	act->argv.at = seen->argv;
	(void)notify_read_argv(call->tid, call->data.args[row->to], seen->argv, &act->argv.len, &act->n_argv, &cut);
	act->argv.cut = cut;
	if (notify_link(call->tid, "cwd", &seen->cwd) == 0)
		set_text(&act->cwd, &seen->cwd);
	notify_exec_before(p, seen, target);
	return true;
}

/* ---- sockets ---- */

static void
set_address(struct notify *n, const struct sockaddr_storage *address, size_t len)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
	const struct sockaddr_un *un = (const struct sockaddr_un *)address;
	struct act *act = &n->seen.act;

	if (address->ss_family == AF_INET && len >= sizeof(*in)) {
		memcpy(act->address, &in->sin_addr, sizeof(in->sin_addr));
		act->port = ntohs(in->sin_port);
	} else if (address->ss_family == AF_INET6 && len >= offsetof(struct sockaddr_in6, sin6_scope_id)) {
		memcpy(act->address, &in6->sin6_addr, sizeof(in6->sin6_addr));
		act->port = ntohs(in6->sin6_port);
	} else if (address->ss_family == AF_UNIX && len > offsetof(struct sockaddr_un, sun_path)) {
		size_t room = len - offsetof(struct sockaddr_un, sun_path);

		room = room > sizeof(un->sun_path) ? sizeof(un->sun_path) : room;
		n->seen.path.len = un->sun_path[0] == '\0' ? room : strnlen(un->sun_path, room);
		n->seen.path.cut = false;
		memcpy(n->seen.path.at, un->sun_path, n->seen.path.len);
		set_text(&act->path, &n->seen.path);
	}
	act->family = address->ss_family == AF_INET || address->ss_family == AF_INET6 ||
	              address->ss_family == AF_UNIX ? address->ss_family : 0;
}

/* The port that the socket has or, as connect(2) would choose one, gets; 0: unknown.  The port is thus known before a
 * request is there, which is to name its process. */
static uint16_t
choose_port(int fd)
{
	struct sockaddr_in6 at = {0};
	socklen_t len = sizeof(at), type_len = sizeof(int);
	int type;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) < 0 || (type != SOCK_STREAM && type != SOCK_DGRAM) ||
	    getsockname(fd, (struct sockaddr *)&at, &len) < 0 || (at.sin6_family != AF_INET && at.sin6_family != AF_INET6))
		return 0;
	/* The port stands in the same place in both kinds of address. */
	if (at.sin6_port == 0 && (bind(fd, (struct sockaddr *)&at, len) < 0 ||
	                          getsockname(fd, (struct sockaddr *)&at, &len) < 0))
		return 0;
	return ntohs(at.sin6_port);
}

/* Which socket it is, whether it has a peer before, and its port. */
static void
look_socket(struct notify_seen *seen, const struct notify_call *call)
{
	OWN(closep) int fd = notify_fd_take(call->tid, (int)call->data.args[0]);
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);
	struct stat st;

	close_fd(&seen->socket);
	seen->socket = fd >= 0 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) ? TAKE_FD(fd) : 0;
	seen->had_peer = seen->socket > 0 && getpeername(seen->socket, (struct sockaddr *)&peer, &len) == 0;
	if (seen->socket > 0 && !seen->had_peer)
		seen->act.local = choose_port(seen->socket);
}

/* Where the address of the call is, and how long.  False: it cannot be read. */
static bool
find_address(struct notify *n, const struct notify_call *call, const struct row *row, uint64_t *ret_at, size_t *ret_len)
{
	uint64_t head[2] = {0};         /* struct msghdr: the address, and in 32 bits its length */
	ssize_t got;

	if (row->how == NET) {
		*ret_at = call->data.args[row->path];
		*ret_len = (uint32_t)call->data.args[row->to];
		return true;
	}
	got = notify_read(call->tid, call->data.args[row->path], head, sizeof(head));
	if (got != sizeof(head))
		miss(n, call->data.args[row->path], got < 0 ? (int)got : -EFAULT);
	*ret_at = head[0];
	*ret_len = (uint32_t)head[1];
	return got == sizeof(head);
}

/* A relative path of a socket is that of a file. */
static void
resolve_socket(struct notify *n, const struct notify_call *call, const struct row *row)
{
	struct notify_text *path = &n->seen.path;

	if (n->seen.act.family != AF_UNIX || path->len == 0 || path->at[0] == '\0' || n->seen.act.path.at == NULL)
		return;
	resolve(n, call, AT_FDCWD, row->what == ACT_BIND ? NOTIFY_PARENT : NOTIFY_FOLLOW, path, NULL);
	set_text(&n->seen.act.path, path);
}

static bool
look_net(struct notify *n, const struct notify_call *call, const struct row *row)
{
	struct sockaddr_storage address = {0};
	struct act *act = &n->seen.act;
	uint64_t at = 0;
	size_t len = 0;
	ssize_t got;

	act->kind = ACT_NET;
	act->net = (enum act_net)row->what;
	if (row->what == ACT_LISTEN)
		return true;
	act->asked = true;
	if (row->what == ACT_CONNECT)
		look_socket(&n->seen, call);
	if (!find_address(n, call, row, &at, &len))
		return true;
	len = len < sizeof(address) ? len : sizeof(address);
	got = len == 0 ? 0 : notify_read(call->tid, at, &address, len);
	if (got < 0)
		miss(n, at, (int)got);
	else if (got < (ssize_t)sizeof(address.ss_family) && row->nr == SYS_connect)
		act->error = EINVAL;
	if (got < (ssize_t)sizeof(address.ss_family))
		return got < 0 || row->nr == SYS_connect || row->nr == SYS_bind;
	set_address(n, &address, (size_t)got);
	resolve_socket(n, call, row);
	/* A netlink socket, or one that is to forget its peer: unless it gets another one. */
	return act->family != 0 || row->what == ACT_CONNECT;
}

/* ---- all ---- */

bool
notify_look(struct notify *n, const struct notify_call *call, struct notify_proc *p)
{
	const struct row *row = row_of(call->data.nr);

	n->seen.act = (struct act){ .time_ns = notify_now_ns(), .pid = p->pid, .parent = p->parent, .host_pid = p->host };
	if (call->error != 0)
		return look_call(n, call, ACT_REFUSED);
	switch (row == NULL ? DANGER : row->how) {
	case OPEN:
	case OPEN2:
		return look_open(n, call, row);
	case PATH:
		return look_path(n, call, row);
	case FD:
		return look_fd(n, call, row);
	case TWO:
	case SYMLINK:
		return look_two(n, call, row);
	case EXEC:
		return look_exec(n, call, row, p);
	case NET:
	case MESSAGE:
		return look_net(n, call, row);
	case SIGNAL:
		return look_signal(n, call, p);
	case DANGER:
		break;
	}
	return look_call(n, call, ACT_DANGER);
}

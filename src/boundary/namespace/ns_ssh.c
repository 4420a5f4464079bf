/* ns_ssh.c - makes the files for ssh in a cell that has SSH keys: the hosts' keys, so that ssh need
 * not ask, and the socket of an agent that holds no key. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/namespace/ns_plan.h"
#include "cell/cell_net.h"
#include "ipc/init_channel.h"

#define BACKLOG 64
#define SOCKET (&CELL_NET_SSH_AGENT[1])         /* from the root */

/* All of it is on the cell's root, which becomes read-only, so nobody can replace the socket.  The
 * mode lets the agent connect, whichever user it is. */
static int
listen_at(int root, struct err *err)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = CELL_NET_SSH_AGENT };
	OWN(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memmove(at.sun_path, at.sun_path + 1, sizeof(at.sun_path) - 1);
	if (fd < 0 || mkdirat(root, "run/cloister", 0755) < 0 ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || fchmodat(root, SOCKET, 0666, 0) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return err_errno(err, "cannot make the socket of the SSH agent");
	return TAKE_FD(fd);
}

int
ns_make_ssh(int root, const struct ns_plan *plan, struct err *err)
{
	OWN(closep) int fd = -1;
	int r;

	/* A guest makes its own. */
	if (plan->inside != NULL && !plan->inside->is_container)
		return 0;
	if (mkdirat(root, "etc/ssh", 0755) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make /etc/ssh");
	r = create_file_at(root, "etc/ssh/ssh_known_hosts", 0644, plan->spec->known_hosts, err);
	/* Nobody can hand a socket to init in a container, which makes its own. */
	if (r < 0 || plan->inside != NULL)
		return r;
	fd = listen_at(root, err);
	if (fd < 0 || plan->stream < 0)
		return fd < 0 ? fd : ns_send_fds(plan, INIT_SSH, 0, &fd, 1, err);
	*plan->ssh = TAKE_FD(fd);
	return 0;
}

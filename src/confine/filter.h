/* filter.h - the cell's system-call filters, compiled at build time.
 *
 * filter_gen.c turns the tables of filter_table.h into BPF; only the bytes are linked in.  For the
 * agent, an unknown call is absent (ENOSYS) and a call known to be dangerous is forbidden (EPERM);
 * only a foreign architecture kills.  A helper dies of any call that its table does not name:
 * there, that is a bug or an attack. */
#ifndef CLOISTER_FILTER_H
#define CLOISTER_FILTER_H
#include <stddef.h>
#include <stdint.h>

struct err;
struct filter_own;
struct seccomp_data;
struct sock_filter;

enum filter_profile {
	FILTER_DEFAULT,         /* the agent */
	FILTER_NESTED,          /* the agent, allowed namespaces and mounts of its own */
	FILTER_NESTED_APART,    /* likewise, if no folder of the host can be written */
	FILTER_BUILD,           /* a step of a build, with ids of its own */
	FILTER_BUILD_ALONE,     /* likewise, with one id: owners are not kept */
	FILTER_PROCESS,         /* the agent, without namespaces: reports to the porter */
	FILTER_SUPERVISOR,      /* the supervisor, once the cell runs */
	FILTER_COLLECT,         /* the collector of workspace changes */
	FILTER_GATE,            /* parses the agent's bytes */
	FILTER_COURIER,         /* decides and dials */
	FILTER_INSPECT,         /* looks into request bodies */
	FILTER_PUBLISH,         /* carries connections from the host into the cell */
	FILTER_MCP,             /* reads what orchestrating agents send */
	FILTER_AUDIT,           /* reads timelines, which contain text from agents */
	FILTER_COMPARE,         /* compares files that agents wrote */
	FILTER_PULL,            /* fetches images from registries */
	FILTER_BLOBS,           /* keeps blobs in S3 */
	FILTER_FLEET,           /* asks engines to start workers */
	FILTER_LINK,            /* speaks TLS with workers, or with the service */
	FILTER_LOGIN,           /* speaks with authorization servers */
	FILTER_LAYER,           /* writes the changes of an image as an archive */
	FILTER_UNPACK,          /* turns a layer of an image into a folder */
	FILTER_VOLUME,          /* keeps volumes: files that agents named */
	FILTER_STATE,           /* reads and writes the objects of a state */
	FILTER_WARDEN,          /* ends and removes the container of a cell */
	FILTER_WITNESS,         /* records what the processes of a cell do */
	FILTER_ANSWER,          /* answers the notifications of an agent's filter */
	FILTER_PORTER,          /* makes the calls that FILTER_PROCESS reports */
	FILTER_MONITOR,         /* runs a virtual machine: QEMU, whose start is filtered too */
	FILTER_SHARE,           /* serves files to a virtual machine: virtiofsd */
	FILTER_SHARE_RUST,      /* likewise, the virtiofsd in Rust */
	FILTER_HYPERVISOR,      /* runs a virtual machine by sockets of its own: Cloud Hypervisor */
	FILTER_DISK,            /* makes a disk of a folder: mkfs.erofs, whose start is filtered too */
	FILTER_PROFILES
};
#define FILTER_LAST_AGENT FILTER_BUILD_ALONE    /* those before it are the agent's, too */

/* Loads the filter on the calling thread; no_new_privs must be set.  Filters add up: a process may
 * make only the calls that every filter it loaded or inherited allows. */
int filter_load(enum filter_profile profile, struct err *err);

/* Loads the variant of an agent's filter that reports calls before they are done: those of
 * filter_notify.h, and those that the filter refuses.  Each waits for an answer through the listener,
 * which is the caller's.  Once nobody holds the listener, they get ENOSYS.  FILTER_PROCESS has no other variant, and reports
 * what filter_process.h says.  With OWN (or NULL), a part of a policy's
 * `syscalls` (FILTER_OWN_TOLD), what that refuses is reported, too: the answer has to refuse it. */
int filter_load_notifying(enum filter_profile profile, const struct filter_own *own, int *ret_listener, struct err *err);
/* The verdict of the filter without reports, SECCOMP_RET_ALLOW or SECCOMP_RET_ERRNO and an errno: the
 * answer that a reported call has to get.  It comes from the same code that filter_load() loads. */
uint32_t filter_answer(enum filter_profile profile, const struct seccomp_data *data);
/* The verdict of the COUNT instructions at CODE, of the kind that cloister's filters have. */
uint32_t filter_run(const struct sock_filter *code, size_t count, const struct seccomp_data *data);
#endif

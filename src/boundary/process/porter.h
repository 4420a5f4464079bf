/* porter.h - the porter of a cell without namespaces: it makes the agent's calls that could reach a peer or change a
 * file's attributes, and is the parent of everything in the cell.
 *
 * The agent's filter reports these calls (confine/filter_process.h).  The porter copies the arguments once, decides,
 * and acts on what it copied: on sockets that it made itself, and on files that it holds.  It never lets a call go on
 * whose arguments matter, so it does not matter what another thread of the agent writes meanwhile.
 *
 * It has the ids of the agent, and Landlock lets it change what the agent may change. */
#ifndef CLOISTER_PORTER_H
#define CLOISTER_PORTER_H
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>

#include "loop/loop.h"

struct err;

#define PORTER_SOCKETS_MAX 1024         /* that are not connected yet, listen, or are for datagrams */
#define PORTER_BOUND_MAX 256            /* sockets with a path that the cell has made */
#define PORTER_WAITING_MAX 64           /* calls that wait for a datagram */
#define PORTER_QUESTIONS_MAX 512        /* of DNS, unanswered */
#define PORTER_CLIENTS_MAX 256          /* connections that the gate has yet to take */
#define PORTER_ROOTS_MAX 72             /* CELL_GRANTS_MAX, and the cell's own folders */
#define PORTER_DATAGRAM_MAX 4096
#define PORTER_PROCESSES_MAX 32768

/* Messages between the supervisor and the porter: ipc/ipc.h. */
enum porter_message {
	PORTER_LISTENER = 1,            /* to the porter; fd: the listener of the agent's filter */
	PORTER_FIRST,                   /* to the supervisor: u32 pid of the cell's first process */
};

struct porter_file {
	dev_t dev;
	ino_t ino;
	int fd;                         /* holds it, so that no other file gets its number */
};

enum porter_kind { PORTER_TCP, PORTER_UDP, PORTER_UNIX };

struct porter_socket {
	enum porter_kind kind;
	int domain;
	int fd;                         /* the agent's socket */
	ino_t ino;
	bool bound, listens, v6only, shares_port;
	uint16_t port;                  /* as the agent knows it, once it is bound */
	struct sockaddr_storage asked;  /* the name that it has for the agent */
	socklen_t asked_len;
	/* Of PORTER_UDP, which is one end of a pair: */
	struct loop_source other;       /* the porter's end; its `arg` is this socket */
	struct loop_source waits;       /* the agent's end, while a call waits for a datagram */
	struct sockaddr_storage peer;   /* where it was sent last, or is connected to */
	bool connected;
	struct porter *porter;
	uint32_t number;                /* unique */
	/* Where it was listening: whether it is there still, is seen there first. */
	pid_t holder;
	int holder_fd;
};

struct porter_call {
	uint64_t id;
	pid_t tid;
	struct seccomp_data data;
};

struct porter_waiting {
	struct porter_call call;
	uint32_t socket;                /* its number; 0: free */
};

struct porter_question {
	uint32_t socket;
	uint16_t own, theirs;           /* ids of the question */
	bool used;
	struct sockaddr_storage server;
};

struct porter_client {
	int fd;
	struct sockaddr_storage to;
	uint16_t from;
};

struct porter {
	struct loop *loop;
	struct loop_source control, listener, gate, dns;
	struct loop_timer sweep;
	int doors;                      /* a socket on loopback that leads to the gate */
	uint16_t doors_port;
	uint32_t next_number;
	uint16_t next_port, next_id;
	char prefix[32];                /* of names of abstract sockets */
	struct porter_socket *sockets[PORTER_SOCKETS_MAX];
	size_t n_sockets;
	struct porter_file bound[PORTER_BOUND_MAX], granted[PORTER_ROOTS_MAX];
	size_t n_bound, n_granted;
	const char *roots[PORTER_ROOTS_MAX + 1];        /* paths that the agent may change; ends with NULL */
	struct porter_waiting waiting[PORTER_WAITING_MAX];
	struct porter_question questions[PORTER_QUESTIONS_MAX];
	struct porter_client clients[PORTER_CLIENTS_MAX];
	size_t first_client, n_clients;
	pid_t first;                    /* the cell's first process */
	const char *folder;             /* the cell's own, which ends with it */
	bool ends;
};

/* ---- porter.c ---- */

/* Serves until the cell is dead, all of it.  CONTROL leads to the supervisor; GATE (-1: no policy) and DNS are the other
 * ends of the sockets that the gate, or the supervisor's resolver, has. */
_Noreturn void porter_run(struct porter *p);
/* Before the porter is confined: the socket on loopback. */
int porter_prepare(struct porter *p, struct err *err);
/* Results of a handler, besides 0 and negative errnos. */
#define PORTER_GO_ON 1                  /* the kernel makes the call: nothing in its arguments matters */
#define PORTER_ANSWERED 2               /* or it is answered later */
typedef int porter_handler(struct porter *p, const struct porter_call *c, int64_t *ret_value);
bool porter_is_valid(const struct porter *p, const struct porter_call *c);
void porter_answer(struct porter *p, uint64_t id, int64_t value, int error, bool goes_on);

/* ---- porter_memory.c: bytes of the caller, copied once ---- */
int porter_read(const struct porter_call *c, uint64_t from, void *to, size_t len);
int porter_write(const struct porter_call *c, uint64_t to, const void *from, size_t len);
/* A path, with its NUL. */
int porter_read_path(const struct porter_call *c, uint64_t from, char *to, size_t size);
/* Writes a socket's name where accept(2) and the like would. */
int porter_write_name(const struct porter_call *c, uint64_t to, uint64_t to_len, const struct sockaddr_storage *name,
                      socklen_t len);

/* ---- porter_sockets.c ---- */
porter_handler porter_socket, porter_connect, porter_bind, porter_listen, porter_getsockname, porter_getpeername,
	porter_setsockopt;
/* The socket behind descriptor FD of the caller: 0 with NULL if the porter does not hold it. */
int porter_find(struct porter *p, const struct porter_call *c, int fd, struct porter_socket **ret_socket);
struct porter_socket *porter_by_number(struct porter *p, uint32_t number);
/* Lets go of it; the agent's descriptors stay. */
void porter_release(struct porter *p, struct porter_socket *s);
/* Lets go of all sockets that no process of the cell has any more. */
/* But KEEP, which a call is about. */
void porter_sweep(struct porter *p, const struct porter_socket *keep);

/* ---- porter_inet.c ---- */
int porter_connect_inet(struct porter *p, struct porter_socket *s, const struct sockaddr_storage *to, socklen_t len);
int porter_bind_inet(struct porter *p, struct porter_socket *s, const struct sockaddr_storage *at, socklen_t len);
int porter_listen_inet(struct porter *p, struct porter_socket *s, int backlog);
void porter_gate_ready(void *arg, uint32_t events);
/* Whether this is an address of the cell itself. */
bool porter_is_own(const struct sockaddr_storage *at);
uint16_t porter_port_of(const struct sockaddr_storage *at);
/* 0, or a negative errno: what the kernel would say of such a name for a socket of DOMAIN. */
int porter_check_name(int domain, const struct sockaddr_storage *name, socklen_t len);

/* ---- porter_unix.c ---- */
int porter_connect_unix(struct porter *p, const struct porter_call *c, struct porter_socket *s,
                        const struct sockaddr_un *to, socklen_t len);
int porter_bind_unix(struct porter *p, const struct porter_call *c, struct porter_socket *s, const struct sockaddr_un *at,
                     socklen_t len);

/* ---- porter_udp.c: sockets for datagrams, whose only use is DNS ---- */
porter_handler porter_sendto, porter_recvfrom, porter_recvmsg, porter_recvmmsg;
int porter_open_udp(struct porter *p, struct porter_socket *s, int type, int *ret_theirs);
int porter_connect_udp(struct porter *p, struct porter_socket *s, const struct sockaddr_storage *to, socklen_t len);
int porter_bind_udp(struct porter *p, struct porter_socket *s, const struct sockaddr_storage *at, socklen_t len);
void porter_dns_ready(void *arg, uint32_t events);
void porter_forget_waiting(struct porter *p, const struct porter_socket *s);

/* ---- porter_paths.c ---- */
porter_handler porter_chmod, porter_fchmod, porter_fchmodat, porter_fchmodat2, porter_chown, porter_lchown, porter_fchown,
	porter_fchownat, porter_utimensat;
/* Opens PATH (O_PATH) as the caller would find it. */
int porter_open_path(const struct porter_call *c, int dirfd, const char *path, int flags);

/* ---- porter_tree.c: the processes of the cell ---- */
/* All descendants of the porter that live; returns how many. */
size_t porter_list(pid_t ret_pids[PORTER_PROCESSES_MAX]);
/* Kills all, until none is left.  AT_ONCE: the caller's whole domain, or its user, in one call of the kernel's; otherwise
 * only if that has to be.  It never reaches others: the domain keeps signals in, or the cell's user is nobody else's. */
void porter_kill_all(bool at_once);
/* Empties the cell's folder, and removes it; but for the result of a dispatch in it, unless WHOLE. */
void porter_remove_folder(const char *path, bool whole);
#endif

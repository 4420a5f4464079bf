/* bpf_load.c - loads the programs into the kernel.
 *
 * libbpf reads the kernel's types for that, which takes some 20 MiB, so a child does it. */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/err.h"
#include "base/own.h"
#include "witness/bpf/bpf.h"
#include "witness_programs.h"

__asm__(".section .rodata.witness_programs, \"a\"\n"
        ".balign 16\n"
        ".globl witness_programs, witness_programs_end\n"
        "witness_programs:\n"
        ".incbin \"" WITNESS_PROGRAMS "\"\n"
        "witness_programs_end:\n"
        ".previous\n");
extern const char witness_programs[], witness_programs_end[];

static const char *const program_names[SAMPLE_PROGRAMS] = {
	[BPF_EXECUTED] = "executed", [BPF_EXITED] = "exited", [BPF_CALL_DONE] = "call_done",
};

/* The static libelf of Debian 13 wants these two of a library that its packages leave out.  They keep a tree of parts
 * of files for a function that nobody here calls. */
void eu_search_tree_init(void *tree);
void eu_search_tree_fini(void *tree, void (*release)(void *));

__attribute__((weak)) void
eu_search_tree_init(void *tree)
{
	(void)tree;
}

__attribute__((weak)) void
eu_search_tree_fini(void *tree, void (*release)(void *))
{
	(void)tree;
	(void)release;
}

/* ---- the child ---- */

static int
stay_quiet(enum libbpf_print_level level, const char *fmt, va_list args)
{
	(void)level;
	(void)fmt;
	(void)args;
	return 0;
}

static int
map_fd(const struct bpf_object *object, const char *name)
{
	const struct bpf_map *map = bpf_object__find_map_by_name(object, name);

	return map != NULL ? bpf_map__fd(map) : -1;
}

static int
fill_setup(struct bpf_object *object)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata.setup");
	struct sample_setup setup;


	if (map == NULL)
		return -ENOENT;
	bpf_setup(&setup);
	return bpf_map__set_initial_value(map, &setup, sizeof(setup));
}

/* Fills FDS in the order of struct bpf_loaded; an error of libbpf is a negative errno. */
static int
load_object(int fds[BPF_LOADED_FDS])
{
	LIBBPF_OPTS(bpf_object_open_opts, how, .object_name = "witness");
	struct bpf_object *object;
	int r;

	libbpf_set_print(stay_quiet);
	object = bpf_object__open_mem(witness_programs, (size_t)(witness_programs_end - witness_programs), &how);
	if (object == NULL)
		return -errno;
	r = fill_setup(object);
	if (r == 0)
		r = bpf_object__load(object);
	if (r < 0)
		return r;
	fds[0] = map_fd(object, "cells");
	fds[1] = map_fd(object, "rings");
	fds[2] = map_fd(object, "links");
	fds[3] = map_fd(object, ".bss");
	for (size_t i = 0; i < SAMPLE_PROGRAMS; i++) {
		const struct bpf_program *program = bpf_object__find_program_by_name(object, program_names[i]);

		fds[4 + i] = program != NULL ? bpf_program__fd(program) : -1;
	}
	for (size_t i = 0; i < BPF_LOADED_FDS; i++)
		if (fds[i] < 0)
			return -ENOENT;
	return 0;
}

/* ---- its answer ---- */

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(BPF_LOADED_FDS * sizeof(int))];
};

static void
send_answer(int socket, int result, const int fds[BPF_LOADED_FDS])
{
	union control control = {0};
	struct iovec part = { &result, sizeof(result) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	if (result == 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		control.head = (struct cmsghdr){ CMSG_LEN(BPF_LOADED_FDS * sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.head), fds, BPF_LOADED_FDS * sizeof(int));
	}
	(void)sendmsg(socket, &message, MSG_NOSIGNAL);
}

static int
receive_answer(int socket, int ret_fds[BPF_LOADED_FDS])
{
	union control control = {0};
	int result = -EIO;
	struct iovec part = { &result, sizeof(result) };
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};
	ssize_t n;

	do
		n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(result))
		return -EIO;
	if (result < 0)
		return result;
	if (message.msg_controllen == 0 || control.head.cmsg_len != CMSG_LEN(BPF_LOADED_FDS * sizeof(int)))
		return -EIO;
	memcpy(ret_fds, CMSG_DATA(&control.head), BPF_LOADED_FDS * sizeof(int));
	return 0;
}

/* ---- both ---- */

void
bpf_loaded_close(struct bpf_loaded *loaded)
{
	int *const fds[] = { &loaded->cells, &loaded->rings, &loaded->links, &loaded->full };

	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		closep(fds[i]);
		*fds[i] = -1;
	}
	for (size_t i = 0; i < SAMPLE_PROGRAMS; i++) {
		closep(&loaded->programs[i]);
		loaded->programs[i] = -1;
	}
}

int
bpf_load(struct bpf_loaded *ret_loaded, struct err *err)
{
	OWN(closep) int ours = -1;
	OWN(closep) int theirs = -1;
	int pair[2], fds[BPF_LOADED_FDS], r;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, "cannot load the programs that watch cells");
	ours = pair[0];
	theirs = pair[1];
	child = fork();
	if (child < 0)
		return err_errno(err, "cannot load the programs that watch cells");
	if (child == 0) {
		r = load_object(fds);
		send_answer(theirs, r, fds);
		_exit(0);
	}
	close(TAKE_FD(theirs));
	r = receive_answer(ours, fds);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	if (r < 0)
		return err_set(err, ENOTSUP, "the kernel does not take the programs that watch cells: %s", strerror(-r));
	*ret_loaded = (struct bpf_loaded){ fds[0], fds[1], fds[2], fds[3], { fds[4], fds[5], fds[6] } };
	return 0;
}

/* policy_calls.c - the classes of `syscalls`, its sets and its messages: see policy_calls.h. */
#include "policy/policy_calls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "policy/policy_parts.h"

#define EXEC "exec"                     /* not by number: struct call_set's programs */

const struct policy_call_class policy_call_classes[POLICY_CALL_CLASSES + 1] = {
	{ "ptrace", "looking into other processes, and changing them",
	  "ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp" },
	{ "network", "sockets of every kind, those of the machine itself included",
	  "socket connect bind listen accept accept4" },
	{ "namespaces", "namespaces and mounts of the agent's own",
	  "unshare setns mount umount2 pivot_root chroot fsopen fsmount fsconfig fspick move_mount open_tree "
	  "mount_setattr" },
	{ EXEC, "programs, besides the one that cloister starts", "execve execveat" },
	{ "files-metadata", "modes, owners, times and attributes of files",
	  "chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat utime utimes futimesat utimensat setxattr "
	  "lsetxattr fsetxattr removexattr lremovexattr fremovexattr" },
	{ "links", "hard and symbolic links", "link linkat symlink symlinkat" },
	{ "memory-files", "files without a name, which can be executed", "memfd_create memfd_secret" },
	{ "ids", "other users and groups, and capabilities",
	  "setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capset" },
	{ "ipc", "shared memory, semaphores and queues of System V and POSIX",
	  "shmget shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open mq_unlink "
	  "mq_timedsend mq_timedreceive mq_notify mq_getsetattr" },
	{ "schedule", "priorities and processors",
	  "setpriority sched_setscheduler sched_setparam sched_setattr sched_setaffinity ioprio_set" },
	{0}
};

/* No program starts or ends without these. */
const char policy_calls_needed[] = "execve exit exit_group rt_sigreturn read write close openat mmap mprotect munmap brk";

bool
policy_calls_next(const char **words, char ret_word[POLICY_CALL_NAME_MAX])
{
	size_t len = strcspn(*words, " ");

	snprintf(ret_word, POLICY_CALL_NAME_MAX, "%.*s", (int)len, *words);
	*words += len + ((*words)[len] == ' ');
	return len > 0;
}

bool
policy_calls_have(const char *words, const char *word)
{
	char one[POLICY_CALL_NAME_MAX];

	while (policy_calls_next(&words, one))
		if (strcmp(one, word) == 0)
			return true;
	return false;
}

bool
policy_call_is_needed(const char *name)
{
	return policy_calls_have(policy_calls_needed, name);
}

const char *
policy_class_calls(const char *name)
{
	for (const struct policy_call_class *c = policy_call_classes; c->name != NULL; c++)
		if (strcmp(c->name, name) == 0)
			return c->calls;
	return NULL;
}

/* ---- sets ---- */

static bool
denies(const struct policy *p, const char *class)
{
	for (size_t i = 0; i < p->calls.deny.n; i++)
		if (strcmp(p->calls.deny.at[i], class) == 0)
			return true;
	return strcmp(class, EXEC) == 0 && p->calls.has_programs && p->calls.programs.n == 0;
}

bool
policy_narrows_calls(const struct policy *p)
{
	while (p != NULL && p->calls.deny.n == 0 && p->calls.allow.n == 0 && !p->calls.has_programs)
		p = p->within;
	return p != NULL;
}

bool
policy_narrows_exec(const struct policy *p)
{
	while (p != NULL && !p->calls.has_programs && !denies(p, EXEC))
		p = p->within;
	return p != NULL;
}

static void
add_words(const struct policy_list *list, enum call_arch arch, bool is_denied, unsigned char bits[CALL_NUMBERS_MAX / 8])
{
	for (size_t i = 0; i < list->n; i++) {
		const char *calls = policy_class_calls(list->at[i]);
		char word[POLICY_CALL_NAME_MAX];

		calls = is_denied && strcmp(list->at[i], EXEC) == 0 ? "" : calls != NULL ? calls : list->at[i];
		while (policy_calls_next(&calls, word)) {
			int nr = call_number(arch, word);

			/* Another architecture's. */
			if (nr >= 0 && nr < CALL_NUMBERS_MAX)
				call_set_add(bits, (uint32_t)nr);
		}
	}
}

void
policy_call_set(const struct policy *p, enum call_arch arch, struct call_set *ret_set)
{
	*ret_set = (struct call_set){0};
	for (; p != NULL; p = p->within) {
		unsigned char allowed[CALL_NUMBERS_MAX / 8] = {0};

		add_words(&p->calls.deny, arch, true, ret_set->denied);
		ret_set->namespaces |= denies(p, "namespaces");
		ret_set->programs |= denies(p, EXEC);
		if (p->calls.allow.n == 0)
			continue;
		add_words(&p->calls.allow, arch, false, allowed);
		for (size_t i = 0; i < sizeof(allowed); i++)
			ret_set->absent[i] |= (unsigned char)~allowed[i];
	}
	/* The C library falls back to clone(2), whose flags a filter can read. */
	if (ret_set->namespaces && call_number(arch, "clone3") >= 0)
		call_set_add(ret_set->absent, (uint32_t)call_number(arch, "clone3"));
}

/* ---- programs ---- */

bool
policy_is_program(const char *text)
{
	const size_t len = strlen(text);

	if (len == 0 || len > POLICY_PROGRAM_MAX || text[len - 1] == '/' || strpbrk(text, "*\n") != NULL)
		return false;
	return strchr(text, '/') == NULL ? strcmp(text, ".") != 0 && strcmp(text, "..") != 0 :
	       text[0] == '/' || strncmp(text, "~/", 2) == 0;
}

bool
policy_lists_programs(const struct policy *p)
{
	while (p != NULL && p->calls.programs.n == 0)
		p = p->within;
	return p != NULL;
}

void
policy_put_programs(struct buf *b, const struct policy *p)
{
	uint32_t layers = 0;

	for (const struct policy *at = p; at != NULL; at = at->within)
		layers += at->calls.programs.n > 0;
	buf_put_u32(b, layers);
	for (; p != NULL; p = p->within)
		if (p->calls.programs.n > 0)
			policy_put_list(b, &p->calls.programs);
}

/* ---- messages ---- */

static void
put_layer(struct buf *b, const struct policy *layer)
{
	policy_put_list(b, &layer->calls.deny);
	policy_put_list(b, &layer->calls.allow);
	buf_put_u32(b, layer->calls.has_programs);
	policy_put_list(b, &layer->calls.programs);
}

void
policy_put_calls(struct buf *b, const struct policy *p)
{
	policy_put_layers(b, p, put_layer);
}

static struct policy_list
get_list(struct policy_getting *g)
{
	struct policy_list list = policy_get_list(g, POLICY_CALLS_MAX);

	for (size_t i = 0; i < list.n; i++)
		g->bad |= policy_class_calls(list.at[i]) == NULL && !call_is_known(list.at[i]);
	return list;
}

static void
get_layer(struct policy_getting *g)
{
	struct policy_list programs;

	g->p->calls.deny = get_list(g);
	g->p->calls.allow = get_list(g);
	g->p->calls.has_programs = policy_get_bool(g);
	programs = policy_get_list(g, POLICY_PROGRAMS_MAX);
	for (size_t i = 0; i < programs.n; i++)
		g->bad |= !policy_is_program(programs.at[i]);
	g->bad |= programs.n > 0 && !g->p->calls.has_programs;
	g->p->calls.programs = programs;
}

void
policy_get_calls(struct policy_getting *g, bool layers)
{
	policy_get_layers(g, layers, get_layer);
}

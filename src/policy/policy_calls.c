/* policy_calls.c - reads and encodes `syscalls`: see policy_calls.h. */
#include "policy/policy_calls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/text.h"
#include "policy/policy_load.h"

#define CALL_NAME_MAX 64

const struct policy_call_class policy_call_classes[] = {
	{ "ptrace", "looking into other processes, and changing them",
	  "ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp" },
	{ "network", "sockets of every kind, those of the machine itself included",
	  "socket connect bind listen accept accept4" },
	{ "namespaces", "namespaces and mounts of the agent's own",
	  "unshare setns mount umount2 pivot_root chroot fsopen fsmount fsconfig fspick move_mount open_tree "
	  "mount_setattr" },
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
static const char needed[] = "execve exit exit_group rt_sigreturn read write close openat mmap mprotect munmap brk";

static bool
next_word(const char **words, char ret_word[CALL_NAME_MAX])
{
	size_t len = strcspn(*words, " ");

	snprintf(ret_word, CALL_NAME_MAX, "%.*s", (int)len, *words);
	*words += len + ((*words)[len] == ' ');
	return len > 0;
}

static bool
has_word(const char *words, const char *word)
{
	char one[CALL_NAME_MAX];

	while (next_word(&words, one))
		if (strcmp(one, word) == 0)
			return true;
	return false;
}

bool
policy_call_is_needed(const char *name)
{
	return has_word(needed, name);
}

static const char *
class_calls(const char *name)
{
	for (const struct policy_call_class *c = policy_call_classes; c->name != NULL; c++)
		if (strcmp(c->name, name) == 0)
			return c->calls;
	return NULL;
}

/* ---- reading ---- */

static int
unknown(const struct node *node, struct err *err)
{
	const char *names[ARRAY_LEN(policy_call_classes) + 1], *nearest;
	char all[300] = "";
	size_t n = 0, len = 0;

	for (; policy_call_classes[n].name != NULL; n++) {
		names[n] = policy_call_classes[n].name;
		len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s", n > 0 ? ", " : "", names[n]);
	}
	names[n] = NULL;
	nearest = text_nearest(node->text, names);
	nearest = nearest != NULL ? nearest : call_nearest(node->text);
	if (nearest != NULL)
		return node_err(err, node, "there is no system call '%.64s': did you mean '%s'?", node->text, nearest);
	return node_err(err, node, "there is no system call '%.64s', and no class of that name: these are %s", node->text, all);
}

static int
check_word(const struct node *node, bool denies, struct err *err)
{
	if (strcmp(node->text, "exec") == 0)
		return node_err(err, node, "a filter cannot count, so it cannot tell the first program from the next: a rule of "
		                "`watch` with `exec` stops the cell instead");
	if (class_calls(node->text) != NULL)
		return 0;
	if (!call_is_known(node->text))
		return unknown(node, err);
	return denies && has_word(needed, node->text) ?
	       node_err(err, node, "no program starts without the system call '%s'", node->text) : 0;
}

static bool
list_has(const struct policy_list *list, const char *name)
{
	for (size_t i = 0; i < list->n; i++) {
		const char *calls = class_calls(list->at[i]);

		if (calls != NULL ? has_word(calls, name) : strcmp(list->at[i], name) == 0)
			return true;
	}
	return false;
}

static int
check_needed(const struct node *node, const struct policy_list *list, struct err *err)
{
	const char *words = needed;
	char word[CALL_NAME_MAX], missing[200] = "";
	size_t len = 0;

	while (next_word(&words, word))
		if (!list_has(list, word))
			len += (size_t)snprintf(missing + len, sizeof(missing) - len, "%s%s", len > 0 ? ", " : "", word);
	return len == 0 ? 0 : node_err(err, node, "no program starts without some of the calls that this list leaves out: "
	                               "add %s", missing);
}

static int
read_list(struct policy *p, const struct node *node, bool denies, struct policy_list *ret_list, struct err *err)
{
	size_t n = node->kind == NODE_LIST ? node->n : 1;
	const char **at = policy_alloc(p, n, sizeof(*at));
	struct policy_list list = { at, n };
	int r = 0;

	if (n == 0 || n > POLICY_CALLS_MAX)
		return node_err(err, node, "here stand 1 to %d system calls or classes of them", POLICY_CALLS_MAX);
	for (size_t i = 0; at != NULL && r == 0 && i < n; i++) {
		const struct node *item = node->kind == NODE_LIST ? node->items[i] : node;

		if (item->kind != NODE_SCALAR || node_is_null(item))
			return node_err(err, item, "a system call is a word: ptrace");
		r = check_word(item, denies, err);
		at[i] = policy_copy(p, item->text, strlen(item->text));
		if (at[i] == NULL)
			return err_set(err, ENOMEM, "the policy is too large");
	}
	if (at == NULL)
		return err_set(err, ENOMEM, "the policy is too large");
	r = r == 0 && !denies ? check_needed(node, &list, err) : r;
	/* A nearer file has set it. */
	if (r == 0 && ret_list->n == 0)
		*ret_list = list;
	return r;
}

int
policy_read_syscalls(struct policy *p, const struct node *node, struct err *err)
{
	static const char *const names[] = { "deny", "allow", NULL };
	int r = 0;

	if (node_is_null(node))
		return 0;
	if (node->kind != NODE_MAP)
		return node_err(err, node, "`syscalls` is a map: {deny: [ptrace, network]}, or {allow: [...]}");
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		const struct node *key = node->items[i], *value = node->values[i];

		if (strcmp(key->text, "deny") == 0)
			r = read_list(p, value, true, &p->calls.deny, err);
		else if (strcmp(key->text, "allow") == 0)
			r = read_list(p, value, false, &p->calls.allow, err);
		else
			r = policy_read_unknown(key, names, "in `syscalls`", err);
	}
	return r;
}

/* ---- sets ---- */

bool
policy_narrows_calls(const struct policy *p)
{
	while (p != NULL && p->calls.deny.n == 0 && p->calls.allow.n == 0)
		p = p->within;
	return p != NULL;
}

static void
add_words(const struct policy_list *list, enum call_arch arch, unsigned char bits[CALL_NUMBERS_MAX / 8])
{
	for (size_t i = 0; i < list->n; i++) {
		const char *calls = class_calls(list->at[i]);
		char word[CALL_NAME_MAX];

		calls = calls != NULL ? calls : list->at[i];
		while (next_word(&calls, word)) {
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

		add_words(&p->calls.deny, arch, ret_set->denied);
		for (size_t i = 0; i < p->calls.deny.n; i++)
			ret_set->namespaces |= strcmp(p->calls.deny.at[i], "namespaces") == 0;
		if (p->calls.allow.n == 0)
			continue;
		add_words(&p->calls.allow, arch, allowed);
		for (size_t i = 0; i < sizeof(allowed); i++)
			ret_set->absent[i] |= (unsigned char)~allowed[i];
	}
	/* The C library falls back to clone(2), whose flags a filter can read. */
	if (ret_set->namespaces && call_number(arch, "clone3") >= 0)
		call_set_add(ret_set->absent, (uint32_t)call_number(arch, "clone3"));
}

/* ---- messages ---- */

void
policy_put_calls(struct buf *b, const struct policy *p)
{
	uint32_t layers = 0;

	for (const struct policy *at = p; at != NULL; at = at->within)
		layers++;
	buf_put_u32(b, layers);
	for (; p != NULL; p = p->within) {
		policy_put_list(b, &p->calls.deny);
		policy_put_list(b, &p->calls.allow);
	}
}

static struct policy_list
get_list(struct policy_getting *g)
{
	struct policy_list list = policy_get_list(g, POLICY_CALLS_MAX);

	for (size_t i = 0; i < list.n; i++)
		g->bad |= class_calls(list.at[i]) == NULL && !call_is_known(list.at[i]);
	return list;
}

/* LAYERS: of as many layers as g->p has.  Otherwise layers are added to it. */
void
policy_get_calls(struct policy_getting *g, bool layers)
{
	uint32_t n = policy_get_upto(g, POLICY_LAYERS_MAX);
	struct policy *p = g->p, *first = g->p;

	for (uint32_t i = 0; !g->bad && i < n; i++) {
		if (i > 0 && p->within == NULL && !layers)
			p->within = policy_new_empty();
		p = i > 0 ? p->within : p;
		g->bad |= p == NULL;
		g->p = p;
		if (g->bad)
			break;
		p->calls.deny = get_list(g);
		p->calls.allow = get_list(g);
	}
	g->p = first;
	g->bad |= n == 0;
}

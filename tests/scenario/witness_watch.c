/* witness_watch.c - runs a program in a pid namespace of its own and prints what the witness saw of it.
 *
 *   witness_watch [-f] [-n] [-q] [-g GRANT]... PROGRAM [ARGUMENT...]
 *
 * -f counts calls too; -n watches nothing, for comparison; -q prints only how many acts of each kind there
 * were, and times.  Needs root.  The source is used as cloister-witness uses it, without the rest of a cell. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "loop/loop.h"
#include "witness/source.h"

static const char *const kinds[] = {
	"exec", "exit", "file", "net", "refused", "danger", "calls", "lost",
};
static const char *const files[] = {
	"write", "create", "read", "rename", "remove", "link", "mode", "owner", "times",
};
static const char *const nets[] = { "connect", "bind", "listen", "accept" };

static struct {
	struct loop *loop;
	pid_t child;
	bool quiet, blind;
	int status;
	unsigned long n[ACT_KINDS];
} test;

static double
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void
print_text(const char *name, const struct act_text *text)
{
	if (text->at == NULL)
		return;
	printf(" %s=", name);
	for (size_t i = 0; i < text->len; i++)
		if (text->at[i] > ' ' && text->at[i] < 127 && text->at[i] != '\\')
			putchar(text->at[i]);
		else
			printf("\\%03o", (unsigned char)text->at[i]);
	if (text->cut)
		printf("...");
}

static void
print_act(const struct act *act)
{
	printf("%s pid=%u parent=%u", kinds[act->kind], act->pid, act->parent);
	if (act->kind == ACT_FILE)
		printf(" act=%s", files[act->file]);
	if (act->kind == ACT_NET)
		printf(" act=%s family=%d address=%02x%02x%02x%02x port=%u local=%u", nets[act->net], act->family,
		       act->address[0], act->address[1], act->address[2], act->address[3], act->port, act->local);
	if (act->kind == ACT_REFUSED || act->kind == ACT_DANGER)
		printf(" nr=%u by=%d", act->nr, (int)act->by);
	if (act->kind == ACT_EXIT)
		printf(" %s=%d ran=%lu cpu=%lu peak=%lu", act->signalled ? "signal" : "status", act->status,
		       (unsigned long)act->ran_ns, (unsigned long)act->cpu_ns, (unsigned long)act->peak);
	if (act->kind == ACT_LOST)
		printf(" of=%d n=%lu", (int)act->lost, (unsigned long)act->n_lost);
	for (size_t i = 0; i < act->n_counts; i++)
		printf(" %u:%lu", act->counts[i].nr, (unsigned long)act->counts[i].n);
	print_text("path", &act->path);
	print_text("to", &act->to);
	print_text("script", &act->script);
	print_text("cwd", &act->cwd);
	print_text("argv", &act->argv);
	print_text("text", &act->text);
	printf("%s%s%s", act->asked ? " asked" : "", act->from_memory ? " from-memory" : "",
	       act->from_writable ? " from-writable" : "");
	if (act->error != 0)
		printf(" error=%s", strerrorname_np(act->error));
	putchar('\n');
}

static void
take(void *arg, const struct act *act)
{
	(void)arg;
	test.n[act->kind] += act->kind == ACT_LOST ? act->n_lost : 1;
	if (!test.quiet)
		print_act(act);
}

static void
failed(void *arg, const char *why)
{
	(void)arg;
	fprintf(stderr, "witness_watch: %s\n", why);
	exit(1);
}

static void
signalled(void *arg, const struct signalfd_siginfo *info)
{
	(void)arg;
	(void)info;
	if (waitpid(test.child, &test.status, WNOHANG) == test.child)
		loop_quit(test.loop);
}

/* The first process of the namespace waits for GO, then runs PROGRAM and reaps. */
static int
first(char **program, int go)
{
	char byte;
	pid_t child;
	int status, last = 0;

	if (read(go, &byte, 1) != 1)
		return 1;
	(void)mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL);
	(void)mount("proc", "/proc", "proc", 0, NULL);
	child = fork();
	if (child == 0) {
		execvp(program[0], program);
		_exit(127);
	}
	for (pid_t pid = wait(&status); pid > 0 || errno == EINTR; pid = wait(&status))
		if (pid == child)
			last = status;
	return WIFEXITED(last) ? WEXITSTATUS(last) : 128 + WTERMSIG(last);
}

int
main(int argc, char **argv)
{
	struct witness_cell cell = { .level = WITNESS_ACTS, .listener = -1 };
	char *grants[16] = {0}, path[64];
	struct witness_taker taker = { .take = take, .failed = failed };
	struct err err = {0};
	struct stat st;
	sigset_t set;
	void *state = NULL;
	double opened, started;
	int go[2], option, n_grants = 0;

	while ((option = getopt(argc, argv, "+fnqg:")) > 0) {
		if (option == 'f')
			cell.level = WITNESS_FULL;
		else if (option == 'n')
			test.blind = true;
		else if (option == 'q')
			test.quiet = true;
		else if (option == 'g' && n_grants < 15)
			grants[n_grants++] = optarg;
		else
			return 2;
	}
	setlinebuf(stdout);
	if (optind == argc || pipe(go) < 0)
		return 2;
	test.child = (pid_t)syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, NULL, NULL, NULL, NULL);
	if (test.child < 0)
		return 2;
	if (test.child == 0) {
		close(go[1]);
		_exit(first(argv + optind, go[0]));
	}
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)test.child);
	if (stat(path, &st) < 0 || loop_new(&test.loop, &err) < 0)
		return 2;
	cell.pid_namespace = st.st_ino;
	cell.first = test.child;
	cell.grants = grants;
	if (!test.blind)
		(void)witness_bpf.prepare(NULL);
	started = now_ms();
	if (!test.blind && witness_bpf.open(&cell, &state, &err) < 0)
		failed(NULL, err.text);
	opened = now_ms() - started;
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	if (loop_catch(test.loop, &set, signalled, NULL, &err) < 0 ||
	    (!test.blind && witness_bpf.watch(state, test.loop, &taker, &err) < 0))
		failed(NULL, err.text);
	started = now_ms();
	if (write(go[1], "", 1) != 1 || loop_run(test.loop, &err) < 0)
		failed(NULL, err.text);
	started = now_ms() - started;
	if (!test.blind) {
		witness_bpf.finish(state);
		witness_bpf.close(state);
	}
	loop_free(test.loop);
	if (test.quiet) {
		printf("open %.3f ms, run %.3f ms", opened, started);
		for (size_t i = 0; i < ACT_KINDS; i++)
			printf(", %s %lu", kinds[i], test.n[i]);
		putchar('\n');
	}
	return WIFEXITED(test.status) ? WEXITSTATUS(test.status) : 1;
}

/* runner.c - runs the unit tests: unit [-v] [PART-OF-A-NAME]. */
#include "test.h"

#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../leaks.h"

#define EXIT_SKIPPED 77
#define TEST_SECONDS 60         /* CLOISTER_TEST_SECONDS, if set: emulated machines are slow */

static struct test *tests;
static const struct test *current;
static char dir[64];

void
test_register(struct test *t)
{
	struct test **p = &tests;

	while (*p != NULL && strcmp((*p)->name, t->name) < 0)
		p = &(*p)->next;
	t->next = *p;
	*p = t;
}

void
test_fail(const char *file, int line, const char *fmt, ...)
{
	va_list args;

	printf("%s:%d: ", file, line);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	_exit(EXIT_FAILURE);
}

void
test_skip(const char *why)
{
	printf("skipped: %s: %s\n", current->name, why);
	fflush(stdout);
	_exit(EXIT_SKIPPED);
}

const char *
test_dir(void)
{
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		test_fail(__FILE__, __LINE__, "cannot make '%s'", dir);
	return dir;
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static unsigned
seconds_for_test(void)
{
	const char *text = getenv("CLOISTER_TEST_SECONDS");
	int seconds = text != NULL ? atoi(text) : 0;

	return seconds > 0 ? (unsigned)seconds : TEST_SECONDS;
}

/* Processor time, so that a busy machine fails no test; and ten times that for one that waits for ever. */
static void
bound_time(unsigned seconds)
{
	const struct itimerval spent = { .it_value.tv_sec = seconds };

	if (setitimer(ITIMER_PROF, &spent, NULL) < 0)
		test_fail(__FILE__, __LINE__, "cannot bound the test's time");
	alarm(10 * seconds);
}

static int
run_test(const struct test *t)
{
	int status;
	pid_t pid;

	snprintf(dir, sizeof(dir), "/tmp/cloister-unit-%d", (int)getpid());
	fflush(stdout);
	current = t;
	pid = fork();
	if (pid == 0) {
		bound_time(seconds_for_test());
		leaks_watch();
		t->run();
		leaks_exit(EXIT_SUCCESS);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return EXIT_FAILURE;
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	if (WIFSIGNALED(status))
		printf("%s: %s: %s\n", t->file, t->name, strsignal(WTERMSIG(status)));
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

int
main(int argc, char **argv)
{
	int passed = 0, failed = 0, skipped = 0, r;
	int verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
	const char *part = argc > 1 + verbose ? argv[1 + verbose] : "";

	for (const struct test *t = tests; t != NULL; t = t->next) {
		if (strstr(t->name, part) == NULL)
			continue;
		r = run_test(t);
		if (r != EXIT_SKIPPED && (r != EXIT_SUCCESS || verbose))
			printf("%s: %s\n", r == EXIT_SUCCESS ? "ok" : "FAILED", t->name);
		passed += r == EXIT_SUCCESS;
		skipped += r == EXIT_SKIPPED;
		failed += r != EXIT_SUCCESS && r != EXIT_SKIPPED;
	}
	printf("%d passed, %d failed", passed, failed);
	if (skipped > 0)
		printf(", %d skipped", skipped);
	printf("\n");
	leaks_exit(failed > 0 || passed + skipped == 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

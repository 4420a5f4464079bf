/* loop_child.c - tests of loop/child. */
#include "loop/child.h"

#include <errno.h>
#include <signal.h>

#include "base/err.h"
#include "base/own.h"
#include "test.h"

struct end {
	struct loop *loop;
	bool exited;
	int status, n;
};

static void
ended(void *arg, bool exited, int status)
{
	struct end *end = arg;

	end->exited = exited;
	end->status = status;
	end->n++;
	loop_quit(end->loop);
}

static const struct {
	const char *script;
	bool exited;
	int status;
} cases[] = {
	{ "exit 7", true, 7 }, { "exit 0", true, 0 }, { "kill -9 $$", false, SIGKILL },
};

TEST(child_reports_its_end)
{
	OWN(loop_freep) struct loop *loop = NULL;

	CHECK_OK(loop_new(&loop, NULL));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char *)(uintptr_t)cases[i].script, NULL };
		struct end end = { .loop = loop };
		struct child child = { .ended = ended, .arg = &end };

		CHECK(!child_runs(&child));
		CHECK_OK(child_start(&child, loop, &(struct spawn){ .argv = argv, .path = "/bin/sh" }, NULL));
		CHECK(child_runs(&child));
		CHECK_OK(loop_run(loop, NULL));
		CHECK(!child_runs(&child) && end.n == 1);
		CHECK(end.exited == cases[i].exited && end.status == cases[i].status);
		child_drop(&child);
	}
}

TEST(child_that_is_not_a_program)
{
	OWN(loop_freep) struct loop *loop = NULL;
	char *argv[] = { (char[]){ "none" }, NULL };
	struct child child = {0};
	struct err err = {0};

	CHECK_OK(loop_new(&loop, NULL));
	CHECK_ERR(child_start(&child, loop, &(struct spawn){ .argv = argv, .path = "/none" }, &err), ENOENT);
	CHECK(!child_runs(&child));
}

/* target_local.c - tests of target/target and of what local finds in folders. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "loop/loop.h"
#include "target/target.h"
#include "test.h"

#define CELL "abcd2345"

static const struct target *
local(void)
{
	OWN(freep) char *runtime = str_format("%s/runtime", test_dir());
	OWN(freep) char *state = str_format("%s/state", test_dir());
	const struct target *target = NULL;

	setenv("CLOISTER_RUNTIME_DIR", runtime, 1);
	setenv("CLOISTER_STATE_DIR", state, 1);
	CHECK_OK(target_find("local", &target, NULL));
	return target;
}

TEST(target_is_found_by_its_name)
{
	const struct target *target = NULL;
	struct err err = {0};

	CHECK_ERR(target_find("moon", &target, &err), EINVAL);
	CHECK(target == NULL && strstr(err.text, "'moon'") != NULL && strstr(err.text, "local") != NULL);
	CHECK_OK(target_find("local", &target, &err));
	CHECK_STR(target->name, "local");
}

TEST(target_local_buries_a_cell)
{
	const struct target *target = local();
	struct target_order bury = { .verb = TARGET_BURY }, ask = { .verb = TARGET_LOST_RIGHTS };
	struct target_end end;

	CHECK(target->look(CELL) == TARGET_NONE);
	CHECK_OK(target->control(CELL, &bury, NULL));
	CHECK(target->look(CELL) == TARGET_BURIED);
	CHECK_ERR(target->control(CELL, &bury, NULL), EEXIST);
	CHECK(target->control(CELL, &ask, NULL) < 0);
	CHECK(target->stream(CELL, TARGET_STDOUT) == -ENOENT);
	CHECK(target->harvest(CELL, &(struct target_harvest){ .folder = "/out" }, &end, NULL) < 0);
	CHECK_OK(target->discard(CELL, NULL));
	CHECK(target->look(CELL) == TARGET_NONE);
	CHECK_OK(target->discard(CELL, NULL));
}

struct watching {
	struct loop *loop;
	const struct target *target;
	struct target_place *place;
	struct target_link *link;
	int news, appeared;
};

static void
has_news(void *arg)
{
	struct watching *w = arg;

	w->news++;
	w->appeared = w->target->attach(w->place, CELL, NULL, &w->link, NULL);
	loop_quit(w->loop);
}

TEST(target_local_notices_a_cell_that_appears)
{
	OWN(loop_freep) struct loop *loop = NULL;
	struct watching w = { .target = local() };
	const struct target_hooks hooks = { .news = has_news, .arg = &w };
	struct target_order bury = { .verb = TARGET_BURY };

	CHECK_OK(loop_new(&loop, NULL));
	w.loop = loop;
	CHECK_OK(w.target->open(loop, &w.place, NULL));
	CHECK(w.target->attach(w.place, CELL, &hooks, &w.link, NULL) == 0);
	CHECK(w.target->attach(w.place, CELL, &hooks, &w.link, NULL) == 0);
	CHECK_ERR(w.target->follow(w.link, NULL), ENOENT);
	/* Another cell is not its business. */
	CHECK_OK(w.target->control("abcd2346", &bury, NULL));
	CHECK_OK(w.target->control(CELL, &bury, NULL));
	CHECK_OK(loop_run(loop, NULL));
	CHECK(w.news == 1 && w.appeared == 1);
	w.target->detach(w.link);
	w.target->detach(NULL);
	w.target->close(w.place);
}

/* boundary_findings.c - tests of boundary/findings. */
#include "boundary/findings.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

TEST(findings_have_an_obstacle_only_if_something_needed_is_missing)
{
	struct findings f = {0};
	struct finding *last;

	CHECK(findings_obstacle(&f) == NULL);
	findings_add(&f, "a", FINDING_MISSING, "no %s", "a");
	findings_add(&f, "b", FINDING_LIMITED, "b")->needed = true;
	findings_add(&f, "c", FINDING_OK, "c")->needed = true;
	CHECK(findings_obstacle(&f) == NULL);
	last = findings_add(&f, "d", FINDING_MISSING, "d");
	last->needed = true;
	findings_advise(last, "use %d", 2);
	CHECK(findings_obstacle(&f) == last && f.n == 4);
	CHECK_STR(f.at[0].found, "no a");
	CHECK_STR(f.at[0].todo, "");
	CHECK_STR(last->todo, "use 2");
}

TEST(findings_advise_how_to_start_a_container)
{
	setenv("container", "podman", 1);
	CHECK(strstr(findings_container_advice("x"), "seccomp=unconfined") != NULL);
	unsetenv("container");
}

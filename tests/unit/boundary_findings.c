/* boundary_findings.c - tests of boundary/findings. */
#include "boundary/findings.h"
#include "boundary/place.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
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

TEST(places_are_recognised)
{
	static const struct {
		struct place_signs signs;
		const char *name, *fix;
	} cases[] = {
		{ { .container = true }, "a container", "--security-opt unmask=ALL" },
		{ { .container = true, .codespaces = true, .github = false }, "a codespace of GitHub", "runArgs" },
		{ { .container = true, .devcontainer = true, .wsl = true }, "a devcontainer", "runArgs" },
		{ { .github = true }, "a GitHub Actions runner", "sysctl" },
		{ { .github = true, .container = true }, "a container of a GitHub Actions job", "options: " },
		{ { .gitlab = true }, "a GitLab runner", "sysctl" },
		{ { .gitlab = true, .container = true }, "a container of a GitLab job", "security_opt" },
		{ { .wsl = true }, "WSL 2", "systemd=true" },
	};

	CHECK(place_recognise(&(struct place_signs){0}) == NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct place *place = place_recognise(&cases[i].signs);

		CHECK(place != NULL && place->is_container == cases[i].signs.container);
		CHECK_STR(place->name, cases[i].name);
		CHECK(strstr(place->fix, cases[i].fix) != NULL);
	}
}

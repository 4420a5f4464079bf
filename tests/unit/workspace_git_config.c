/* workspace_git_config.c - tests of reading what a git configuration says. */
#include "workspace/git_config.h"

#include <errno.h>

#include "base/err.h"
#include "test.h"

static const struct {
	const char *text, *want;
	size_t bad;                     /* the line that is not git's, or 0 */
} config_cases[] = {
	{ "", "", 0 },
	{ "[core]\n\thooksPath = scripts/hooks\n", "core.hookspath=scripts/hooks\n", 0 },
	{ "[CORE] HooksPath=a # b\n", "core.hookspath=a\n", 0 },
	{ "[core]hooksPath=a;b", "core.hookspath=a\n", 0 },
	{ "\xef\xbb\xbf[a]\r\nb = c\r\nd\r\n", "a.b=c\na.d=\n", 0 },
	{ "[a]\nb = \"c ; d\"  e  ; f\n", "a.b=c ; d  e\n", 0 },
	{ "[a]\nb = \" c \" \n", "a.b= c \n", 0 },
	{ "[a]\nb = c\\\n d\\\n\"e#\"\n", "a.b=c de#\n", 0 },
	{ "[a]\nb = \\\"c\\\\d\\te\n", "a.b=\"c\\d\te\n", 0 },
	{ "[filter \"x ] \\\" y\"]\nclean = z\n", "filter.clean=z\n", 0 },
	{ "[filter.x]\nclean = z\n[diff \"#\"] external = d\n", "filter.clean=z\ndiff.external=d\n", 0 },
	{ "# c\n; d\n  \n[a] # e\n b\n c # d\n", "a.b=\na.c=\n", 0 },
	{ "[a]\nb-1 = c\n", "a.b-1=c\n", 0 },
	/* What git would end at is not the end of what is found. */
	{ "[a]\nb = \"c\nd = e\n", "a.d=e\n", 2 },
	{ "[a]\nb = \\x\nd = e\n", "a.d=e\n", 2 },
	{ "[a\nb = c\n=\n[e]\nf g\nh = i\n", "a.b=c\ne.h=i\n", 1 },
	{ "[a]\n1 = 2\nb = c\\", "", 2 },
};

struct said {
	char text[256];
};

static int
take(void *arg, const char *section, const char *key, const char *value)
{
	struct said *said = arg;
	size_t len = strlen(said->text);

	snprintf(said->text + len, sizeof(said->text) - len, "%s.%s=%s\n", section, key, value);
	return 0;
}

TEST(git_config_each_cases)
{
	for (size_t i = 0; i < ARRAY_LEN(config_cases); i++) {
		const char *text = config_cases[i].text;
		struct said said = {0};
		struct err err = {0};
		char bad[32];
		int r = git_config_each(text, strlen(text), take, &said, &err);

		snprintf(bad, sizeof(bad), "line %zu ", config_cases[i].bad);
		if (strcmp(said.text, config_cases[i].want) != 0 ||
		    r != (config_cases[i].bad == 0 ? 0 : -EINVAL) ||
		    (r < 0 && strncmp(err.text, bad, strlen(bad)) != 0))
			test_fail(__FILE__, __LINE__, "'%s' gives '%s' and %d %s", text, said.text, r,
			          err.text);
	}
}

static int
refuse(void *arg, const char *section, const char *key, const char *value)
{
	(void)section, (void)key, (void)value;
	return -++*(int *)arg;
}

TEST(git_config_each_ends_on_request)
{
	int n = 0;

	CHECK(git_config_each("[a]\nb=c\nd=e\n", 12, refuse, &n, NULL) == -1 && n == 1);
}

/* A name that is too long is no other that is known. */
TEST(git_config_each_long_names)
{
	struct said said = {0};
	char text[512];
	int n = snprintf(text, sizeof(text), "[a]\n%0100d=x\nb%099d = y\nb%062d=z\n", 0, 0, 0);

	CHECK(git_config_each(text, (size_t)n, take, &said, NULL) == -EINVAL);
	CHECK(strncmp(said.text, "a.=y\na.b000", 11) == 0 && strstr(said.text, "0=z\n") != NULL);
}

/* profile_program.c - tests of finding programs: a home folder with the layouts of npm, nvm, uv, pipx and installers. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/tree.h"
#include "profile/program.h"
#include "test.h"

static char home[PATH_MAX];

static void
make_parents(const char *path)
{
	char part[PATH_MAX];

	for (const char *slash = strchr(path + strlen(home) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		(void)mkdir(part, 0755);
	}
}

static const char *
at(const char *name)
{
	static char paths[8][PATH_MAX];
	static size_t n;
	char *path = paths[n++ % ARRAY_LEN(paths)];

	CHECK(snprintf(path, PATH_MAX, "%s/%s", home, name) < PATH_MAX);
	return path;
}

static void
put(const char *name, const char *text)
{
	make_parents(at(name));
	CHECK_OK(create_file_at(AT_FDCWD, at(name), 0755, text, NULL));
	CHECK_OK(chmod(at(name), 0755));
}

/* TARGET as it is, or in the home folder if it begins with "~/". */
static void
link_to(const char *name, const char *target)
{
	make_parents(at(name));
	CHECK_OK(symlink(target[0] == '~' ? at(target + 2) : target, at(name)));
}

/* PATH has these folders of the home, and the usual ones. */
static void
begin(const char *bins)
{
	char path[4 * PATH_MAX] = "", *real = realpath(test_dir(), NULL);
	const char *end;

	snprintf(home, sizeof(home), "%s", real);
	free(real);
	for (; *bins != '\0'; bins = *end == ':' ? end + 1 : end) {
		end = bins + strcspn(bins, ":");
		snprintf(path + strlen(path), sizeof(path) - strlen(path), "%s/%.*s:", home, (int)(end - bins), bins);
	}
	snprintf(path + strlen(path), sizeof(path) - strlen(path), "/usr/bin:/bin");
	CHECK_OK(setenv("HOME", home, 1));
	CHECK_OK(setenv("PATH", path, 1));
}

/* RUN and each of GRANTS, separated by spaces, are in the home folder. */
static void
check(const char *name, const char *run, const char *grants, const char *bin)
{
	OWN(program_free) struct program p = {0};
	size_t n = 0, len;

	CHECK_OK(program_find(name, &p, NULL));
	CHECK_STR(p.run, run[0] == '/' ? run : at(run));
	for (; *grants != '\0'; grants += len + (grants[len] == ' ')) {
		char one[PATH_MAX];

		len = strcspn(grants, " ");
		snprintf(one, sizeof(one), "%.*s", (int)len, grants);
		CHECK(n < p.n_grants);
		CHECK_STR(p.grants[n].cell, at(one));
		n++;
	}
	CHECK(p.n_grants == n);
	CHECK(p.n_bins == (bin != NULL));
	if (bin != NULL)
		CHECK_STR(p.bins[0], at(bin));
}

TEST(program_in_npms_prefix)
{
	begin(".npm/bin");
	put(".npm/lib/node_modules/@a/tool/cli.js", "#!/usr/bin/env sh\n");
	link_to(".npm/bin/tool", "../lib/node_modules/@a/tool/cli.js");
	check("tool", ".npm/bin/tool", ".npm", ".npm/bin");
}

TEST(program_in_npms_prefix_with_node_of_nvm)
{
	begin(".npm/bin:.nvm/v1/bin");
	put(".npm/lib/node_modules/@a/tool/cli.js", "#!/usr/bin/env -S runner --flag\n");
	link_to(".npm/bin/tool", "../lib/node_modules/@a/tool/cli.js");
	put(".nvm/v1/bin/runner", "binary");
	put(".nvm/v1/lib/x", "");
	OWN(program_free) struct program p = {0};
	CHECK_OK(program_find("tool", &p, NULL));
	CHECK(p.n_grants == 2 && p.n_bins == 2);
	CHECK_STR(p.grants[1].cell, at(".nvm/v1"));
	CHECK_STR(p.bins[1], at(".nvm/v1/bin"));
}

TEST(program_of_nvm)
{
	begin(".nvm/v1/bin");
	put(".nvm/v1/lib/node_modules/tool/cli.js", "#!/usr/bin/env runner\n");
	put(".nvm/v1/bin/runner", "binary");
	link_to(".nvm/v1/bin/tool", "../lib/node_modules/tool/cli.js");
	check("tool", ".nvm/v1/bin/tool", ".nvm/v1", ".nvm/v1/bin");
}

/* npm's prefix is ~/.local: only the package is granted. */
TEST(program_in_dot_local)
{
	begin(".local/bin");
	put(".local/lib/node_modules/@a/tool/cli.js", "#!/bin/sh\n");
	link_to(".local/bin/tool", "../lib/node_modules/@a/tool/cli.js");
	check("tool", ".local/lib/node_modules/@a/tool/cli.js", ".local/lib/node_modules/@a/tool", NULL);
}

/* Its dependencies are beside it. */
TEST(program_in_a_projects_node_modules)
{
	begin("p/node_modules/.bin");
	put("p/node_modules/@a/tool/cli.js", "#!/bin/sh\n");
	link_to("p/node_modules/.bin/tool", "../@a/tool/cli.js");
	check("tool", "p/node_modules/@a/tool/cli.js", "p/node_modules", NULL);
}

static const char *
in(const char *folder, const char *name)
{
	static char paths[4][PATH_MAX];
	static size_t n;
	char *path = paths[n++ % ARRAY_LEN(paths)];

	CHECK(snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX);
	return path;
}

/* PYTHON_BIN may begin with "~/", too. */
static void
make_venv(const char *venv, const char *python, const char *python_bin)
{
	char text[3 * PATH_MAX];

	link_to(".local/bin/tool", at(in(venv, "bin/tool")));
	snprintf(text, sizeof(text), "#!%s/%s/bin/python\n", home, venv);
	put(in(venv, "bin/tool"), text);
	put(in(venv, "lib/x"), "");
	link_to(in(venv, "bin/python"), python);
	snprintf(text, sizeof(text), "implementation = CPython\nhome = %s\n",
	         python_bin[0] == '~' ? at(python_bin + 2) : python_bin);
	put(in(venv, "pyvenv.cfg"), text);
}

TEST(program_of_pipx_with_the_hosts_python)
{
	begin(".local/bin");
	make_venv(".local/share/pipx/venvs/tool", "/usr/bin/python3", "/usr/bin");
	check("tool", ".local/share/pipx/venvs/tool/bin/tool", ".local/share/pipx/venvs/tool", NULL);
}

/* uv names its Python by a link to the folder of a minor version. */
TEST(program_of_uv_with_its_own_python)
{
	begin(".local/bin");
	put(".local/share/uv/python/cpython-3.12.1/bin/python3.12", "binary");
	put(".local/share/uv/python/cpython-3.12.1/lib/x", "");
	link_to(".local/share/uv/python/cpython-3.12", "cpython-3.12.1");
	make_venv(".local/share/uv/tools/tool", "~/.local/share/uv/python/cpython-3.12/bin/python3.12",
	          "~/.local/share/uv/python/cpython-3.12.1/bin");
	check("tool", ".local/share/uv/tools/tool/bin/tool", ".local/share/uv/tools/tool "
	      ".local/share/uv/python/cpython-3.12.1 .local/share/uv/python/cpython-3.12", NULL);
}

TEST(program_is_one_file)
{
	begin(".local/bin");
	put(".local/share/tool/versions/1.2", "\177ELF");
	put(".local/lib/x", "");
	link_to(".local/bin/tool", "~/.local/share/tool/versions/1.2");
	check("tool", ".local/share/tool/versions/1.2", ".local/share/tool/versions/1.2", NULL);
	put(".local/bin/other", "\177ELF");
	check("other", ".local/bin/other", ".local/bin/other", NULL);
}

/* A shell script that runs the program beside it. */
TEST(program_with_files_beside_it)
{
	begin(".local/bin");
	put(".local/share/tool/versions/1/tool", "#!/usr/bin/env bash\n");
	put(".local/share/tool/versions/1/node", "binary");
	link_to(".local/bin/tool", "~/.local/share/tool/versions/1/tool");
	check("tool", ".local/share/tool/versions/1/tool", ".local/share/tool/versions/1", NULL);
}

TEST(program_of_the_system)
{
	OWN(freep) char *shell = realpath("/bin/sh", NULL);

	begin("x");
	check("sh", "/usr/bin/sh", "", NULL);
	link_to("x/shell", "/bin/sh");
	check("shell", shell, "", NULL);
}

/* Never the home folder, even if it has a bin and a lib. */
TEST(program_in_a_home_with_lib)
{
	begin("bin");
	put("bin/tool", "#!/bin/sh\n");
	put("lib/x", "");
	check("tool", "bin/tool", "bin/tool", NULL);
}

TEST(program_that_is_missing)
{
	struct program p = {0};

	begin("bin");
	CHECK_ERR(program_find("no-such-tool", &p, NULL), ENOENT);
	CHECK_ERR(program_find("/no/such/tool", &p, NULL), ENOENT);
	CHECK(p.path == NULL);
}

/* Neither a pipe nor a ring of links keeps it waiting. */
TEST(program_with_a_strange_interpreter)
{
	char text[PATH_MAX + 32];

	begin("bin");
	snprintf(text, sizeof(text), "#!%s/bin/pipe\n", home);
	put("bin/tool", text);
	CHECK_OK(mkfifo(at("bin/pipe"), 0755));
	check("tool", "bin/tool", "bin/tool bin/pipe", NULL);
	link_to("bin/loop", "loop");
	snprintf(text, sizeof(text), "#!%s/bin/loop\n", home);
	put("bin/ring", text);
	check("ring", "bin/ring", "bin/ring", NULL);
}

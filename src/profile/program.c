/* program.c - see program.h. */
#include "profile/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"

#define HOPS_MAX 16                     /* nested links and interpreter lines */
#define FIRST_LINE_MAX 256              /* the kernel's limit */
#define VENV_FILE "pyvenv.cfg"
#define VENV_MAX 4096                   /* bytes of it */

bool
program_join(char ret_path[PATH_MAX], const char *folder, const char *path)
{
	OWN(freep) char *whole = path[0] == '/' ? strdup(path) : str_format("%s/%s", folder, path);
	size_t len = 0;
	char *rest = whole;

	if (whole == NULL || strlen(whole) >= PATH_MAX)
		return false;
	ret_path[0] = '\0';
	for (const char *part; (part = strsep(&rest, "/")) != NULL;) {
		if (strcmp(part, "..") == 0) {
			while (len > 0 && ret_path[--len] != '/')
				;
			ret_path[len] = '\0';
		} else if (part[0] != '\0' && strcmp(part, ".") != 0) {
			len += (size_t)snprintf(ret_path + len, PATH_MAX - len, "/%s", part);
		}
	}
	return len > 0;
}

bool
program_is_usual(const char *path)
{
	static const char *const usual[] = { "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc",
	                                     "/dev", "/proc" };

	for (size_t i = 0; i < ARRAY_LEN(usual); i++)
		if (tree_is_beneath(path, usual[i]))
			return true;
	return false;
}

static bool
is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool
program_search(const char *name, char ret_path[PATH_MAX])
{
	const char *path = name[0] != '\0' ? getenv("PATH") : NULL, *end;

	for (; path != NULL && *path != '\0'; path = *end == ':' ? end + 1 : end) {
		end = path + strcspn(path, ":");
		snprintf(ret_path, PATH_MAX, "%.*s/%s", (int)(end - path), path, name);
		if (is_program(ret_path))
			return true;
	}
	return false;
}

/* ---- scripts ---- */

/* The words of the first line of a script, without "#!"; false if PATH is no script. */
static bool
read_first_line(const char *path, char ret_line[FIRST_LINE_MAX + 1])
{
	/* Do not wait for a pipe or a terminal. */
	OWN(closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	char text[FIRST_LINE_MAX + 1];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	n = read(fd, text, FIRST_LINE_MAX);
	if (n < 3 || strncmp(text, "#!", 2) != 0)
		return false;
	text[n] = '\0';
	text[strcspn(text, "\r\n")] = '\0';
	snprintf(ret_line, FIRST_LINE_MAX + 1, "%s", text + 2 + strspn(text + 2, " \t"));
	return true;
}

bool
program_follow(const char *path, char ret_next[PATH_MAX])
{
	char text[PATH_MAX], folder[PATH_MAX], line[FIRST_LINE_MAX + 1];
	ssize_t n = readlink(path, text, sizeof(text) - 1);

	if (n > 0) {
		text[n] = '\0';
		(void)program_join(folder, path, "..");
		return program_join(ret_next, folder, text);
	}
	if (!read_first_line(path, line))
		return false;
	line[strcspn(line, " \t")] = '\0';
	return line[0] == '/' && program_join(ret_next, "/", line);
}

/* The NAME of a script's `#!/usr/bin/env NAME`. */
static bool
read_env_name(const char *path, char ret_name[FIRST_LINE_MAX + 1])
{
	char line[FIRST_LINE_MAX + 1], *rest = line, *word;
	struct stat st;

	if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode) || !read_first_line(path, line))
		return false;
	word = strsep(&rest, " \t");
	if (strcmp(word, "/usr/bin/env") != 0 && strcmp(word, "/bin/env") != 0)
		return false;
	while ((word = strsep(&rest, " \t")) != NULL && (word[0] == '-' || word[0] == '\0'))
		;
	if (word == NULL || strchr(word, '/') != NULL)
		return false;
	snprintf(ret_name, FIRST_LINE_MAX + 1, "%s", word);
	return true;
}

/* ---- folders ---- */

/* The home folder and its .local have a bin and a lib too, and much that is private. */
static bool
is_too_wide(const char *folder)
{
	const char *home = getenv("HOME");

	return home != NULL && (tree_is_beneath(home, folder) ||
	       (tree_is_beneath(folder, home) && strcmp(folder + strlen(home), "/.local") == 0));
}

/* The folder with PATH in its bin and a lib beside it; false if there is none, or it is too wide. */
static bool
find_prefix(const char *path, char ret_prefix[PATH_MAX])
{
	OWN(freep) char *lib = NULL;
	char folder[PATH_MAX];
	struct stat st;

	if (!program_join(folder, path, "..") || strlen(folder) < 4 ||
	    strcmp(folder + strlen(folder) - 4, "/bin") != 0 || !program_join(folder, folder, "..") ||
	    is_too_wide(folder))
		return false;
	lib = str_format("%s/lib", folder);
	if (lib == NULL || stat(lib, &st) < 0 || !S_ISDIR(st.st_mode))
		return false;
	memcpy(ret_prefix, folder, sizeof(folder));
	return true;
}

void
program_choose(const char *path, char ret_grant[PATH_MAX])
{
	if (!find_prefix(path, ret_grant))
		snprintf(ret_grant, PATH_MAX, "%s", path);
}

/* The npm package around PATH; false if there is none.  A global package, in lib/node_modules, has its
 * dependencies inside it.  Others have them beside it. */
static bool
find_package(const char *path, char ret_package[PATH_MAX])
{
	static const char modules[] = "/node_modules/", lib[] = "/lib";
	/* The outermost package: packages contain others. */
	const char *at = strstr(path, modules), *end;

	if (at == NULL)
		return false;
	if (at - path < (ptrdiff_t)sizeof(lib) - 1 || strncmp(at - (sizeof(lib) - 1), lib, sizeof(lib) - 1) != 0) {
		snprintf(ret_package, PATH_MAX, "%.*s", (int)(at - path + (ptrdiff_t)sizeof(modules) - 2), path);
		return true;
	}
	at += sizeof(modules) - 1;
	end = at + strcspn(at, "/");
	if (*at == '@' && *end == '/')
		end += 1 + strcspn(end + 1, "/");
	if (*end != '/')
		return false;
	snprintf(ret_package, PATH_MAX, "%.*s", (int)(end - path), path);
	return true;
}

/* /opt/NAME, for a path beneath it. */
static bool
find_in_opt(const char *path, char ret_folder[PATH_MAX])
{
	static const char opt[] = "/opt/";
	const char *name = path + sizeof(opt) - 1;

	if (strncmp(path, opt, sizeof(opt) - 1) != 0 || strchr(name, '/') == NULL)
		return false;
	snprintf(ret_folder, PATH_MAX, "%.*s", (int)(name - path + (ptrdiff_t)strcspn(name, "/")), path);
	return true;
}

/* The folder of a shell script, which runs what is beside it.  A folder named bin has other programs. */
static bool
find_script_folder(const char *path, char ret_folder[PATH_MAX])
{
	char line[FIRST_LINE_MAX + 1], *name;

	if (!read_first_line(path, line) || strstr(line, "sh") == NULL ||
	    !program_join(ret_folder, path, "..") || is_too_wide(ret_folder))
		return false;
	name = strrchr(ret_folder, '/');
	return name != NULL && name > ret_folder && strcmp(name, "/bin") != 0;
}

/* The nearest folder above PATH that a package's own file is in. */
static bool
find_project(const char *path, char ret_folder[PATH_MAX])
{
	static const char *const files[] = { "package.json", "pyproject.toml", "deno.json" };

	snprintf(ret_folder, PATH_MAX, "%s", path);
	while (program_join(ret_folder, ret_folder, "..") && !is_too_wide(ret_folder))
		for (size_t i = 0; i < ARRAY_LEN(files); i++) {
			OWN(freep) char *file = str_format("%s/%s", ret_folder, files[i]);

			if (file != NULL && access(file, F_OK) == 0)
				return true;
		}
	return false;
}

/* A folder at the top, such as /tmp or /srv, has more than a script's files. */
static bool
find_own_folder(const char *path, char ret_folder[PATH_MAX])
{
	return program_join(ret_folder, path, "..") && strchr(ret_folder + 1, '/') != NULL && !is_too_wide(ret_folder);
}

void
program_choose_script(const char *path, char ret_grant[PATH_MAX])
{
	if (!find_package(path, ret_grant) && !find_in_opt(path, ret_grant) && !find_project(path, ret_grant) &&
	    !find_own_folder(path, ret_grant))
		snprintf(ret_grant, PATH_MAX, "%s", path);
}

/* ---- collecting ---- */

static int
no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

void
program_free(struct program *p)
{
	free(p->path);
	free(p->run);
	for (size_t i = 0; i < p->n_grants; i++) {
		free(p->grants[i].host);
		free(p->grants[i].cell);
	}
	for (size_t i = 0; i < p->n_bins; i++)
		free(p->bins[i]);
	*p = (struct program){0};
}

static bool
has(const struct program *p, const char *path)
{
	for (size_t i = 0; i < p->n_grants; i++)
		if (tree_is_beneath(path, p->grants[i].cell))
			return true;
	return program_is_usual(path);
}

static int
add_bin(struct program *p, const char *folder, struct err *err)
{
	for (size_t i = 0; i < p->n_bins; i++)
		if (strcmp(p->bins[i], folder) == 0)
			return 0;
	if (p->n_bins == PROGRAM_BINS_MAX || program_is_usual(folder))
		return 0;
	p->bins[p->n_bins] = strdup(folder);
	return p->bins[p->n_bins++] == NULL ? no_memory(err) : 0;
}

static int add_grant(struct program *p, const char *path, struct err *err);

/* A virtual environment names the folder of its Python. */
static int
add_home_of_venv(struct program *p, const char *venv, struct err *err)
{
	OWN(freep) char *file = str_format("%s/" VENV_FILE, venv), *text = NULL;
	char python[PATH_MAX], prefix[PATH_MAX];
	const char *line;

	if (file == NULL)
		return no_memory(err);
	if (read_file_at(AT_FDCWD, file, VENV_MAX, &text, NULL, NULL) < 0)
		return 0;
	line = strncmp(text, "home = ", 7) == 0 ? text : strstr(text, "\nhome = ");
	if (line == NULL)
		return 0;
	line += *line == '\n' ? 8 : 7;
	text[line - text + (ptrdiff_t)strcspn(line, "\r\n")] = '\0';
	if (line[0] != '/' || !program_join(python, line, "python") || !find_prefix(python, prefix))
		return 0;
	return add_grant(p, prefix, err);
}

static int
add_grant(struct program *p, const char *path, struct err *err)
{
	struct program_grant *g = &p->grants[p->n_grants];

	if (has(p, path))
		return 0;
	if (p->n_grants == PROGRAM_GRANTS_MAX)
		return err_set(err, E2BIG, "'%s' needs files in more than %d places", p->path, PROGRAM_GRANTS_MAX);
	*g = (struct program_grant){ .host = realpath(path, NULL), .cell = strdup(path) };
	p->n_grants++;
	if (g->host == NULL || g->cell == NULL)
		return err_errno(err, "cannot find '%s', which '%s' needs", path, p->path);
	return add_home_of_venv(p, path, err);
}

/* The program itself, which is REAL behind its links. */
static int
add_program(struct program *p, const char *real, struct err *err)
{
	const bool is_usual = program_is_usual(real);
	char grant[PATH_MAX], bin[PATH_MAX];
	/* The link and its target are in one place, so the link works there. */
	const bool is_together = !is_usual && find_prefix(p->path, grant) && tree_is_beneath(real, grant);
	int r;

	p->run = strdup(is_together || (is_usual && program_is_usual(p->path)) ? p->path : real);
	if (p->run == NULL)
		return no_memory(err);
	if (is_usual)
		return 0;
	if (is_together) {
		r = add_grant(p, grant, err);
		(void)program_join(bin, grant, "bin");
		return r == 0 ? add_bin(p, bin, err) : r;
	}
	if (!find_package(real, grant) && !find_in_opt(real, grant) && !find_prefix(real, grant) &&
	    !find_script_folder(real, grant))
		snprintf(grant, sizeof(grant), "%s", real);
	return add_grant(p, grant, err);
}

/* The program of `#!/usr/bin/env NAME`: beside the program, or on PATH.  RET_NEXT is "" if there is none. */
static int
add_by_env(struct program *p, const char *name, char ret_next[PATH_MAX], struct err *err)
{
	char grant[PATH_MAX], folder[PATH_MAX];
	int r;

	for (size_t i = 0; i < p->n_bins; i++)
		if (program_join(ret_next, p->bins[i], name) && is_program(ret_next))
			return 0;
	if (!program_search(name, ret_next)) {
		ret_next[0] = '\0';
		return 0;
	}
	if (program_is_usual(ret_next))
		return 0;
	program_choose(ret_next, grant);
	r = add_grant(p, grant, err);
	(void)program_join(folder, ret_next, "..");
	return r == 0 ? add_bin(p, folder, err) : r;
}

/* The files that links and the first lines of scripts lead to, from P->run on. */
static int
add_needed(struct program *p, struct err *err)
{
	char at[PATH_MAX], next[PATH_MAX], grant[PATH_MAX], name[FIRST_LINE_MAX + 1];
	int r = 0;

	snprintf(at, sizeof(at), "%s", p->run);
	for (int i = 0; r == 0 && i < HOPS_MAX; i++) {
		if (read_env_name(at, name)) {
			r = add_by_env(p, name, next, err);
			if (next[0] == '\0')
				return r;
		} else if (!program_follow(at, next)) {
			return r;
		} else if (!has(p, next) && access(next, F_OK) == 0) {
			program_choose(next, grant);
			r = add_grant(p, grant, err);
		}
		memcpy(at, next, sizeof(at));
	}
	return r;
}

/* The absolute path of NAME, without dots. */
static bool
find_path(const char *name, char ret_path[PATH_MAX])
{
	OWN(freep) char *here = NULL;
	char found[PATH_MAX];

	if (strchr(name, '/') == NULL && !program_search(name, found))
		return false;
	name = strchr(name, '/') == NULL ? found : name;
	/* A supervisor, whose paths are absolute, must not ask for its folder. */
	here = name[0] == '/' ? NULL : getcwd(NULL, 0);
	return is_program(name) && program_join(ret_path, here != NULL ? here : "/", name);
}

int
program_find(const char *name, struct program *ret_program, struct err *err)
{
	OWN(program_free) struct program p = {0};
	OWN(freep) char *real = NULL;
	char path[PATH_MAX];
	int r;

	if (!find_path(name, path))
		return err_set(err, ENOENT, "there is no program '%s' on the PATH here", name);
	real = realpath(path, NULL);
	p.path = strdup(path);
	if (real == NULL || p.path == NULL)
		return err_errno(err, "cannot find '%s'", path);
	r = add_program(&p, real, err);
	r = r == 0 ? add_needed(&p, err) : r;
	if (r < 0)
		return r;
	*ret_program = p;
	p = (struct program){0};
	return 0;
}

/* init_programs.c - holds a process to the programs that the policy lists, from its first program on.
 *
 * Each list is a Landlock ruleset of its own, so only a program that all lists have can be executed.  The kernel checks
 * each file that it opens to execute it: the program, the interpreter of a script, and the loader of a dynamic program.
 * So a listed program brings these with it.
 *
 * This may run in a child of vfork(2): it changes nothing but descriptors. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "confine/landlock.h"
#include "proc/init/init.h"

#define DEPTH_MAX 5                     /* interpreters of interpreters, as many as the kernel follows */
#define LINE_MAX_BYTES 256              /* of a script's first line, as many as the kernel reads */
#define HEADERS_MAX 64                  /* of a program */

struct holding {
	int ruleset;
	char *const *env;
};

static const char *
variable(const struct holding *h, const char *name)
{
	size_t len = strlen(name);

	for (char *const *at = h->env; at != NULL && *at != NULL; at++)
		if (strncmp(*at, name, len) == 0 && (*at)[len] == '=')
			return *at + len + 1;
	return "";
}

static void allow_word(const struct holding *h, const char *word, unsigned depth);

/* "#!/usr/bin/env -S NAME ..." executes env, which then looks for NAME. */
static void
allow_interpreter(const struct holding *h, char *line, unsigned depth)
{
	const char *interpreter, *name;
	char *rest = line + 2, *word;

	line[strcspn(line, "\n")] = '\0';
	interpreter = strtok_r(rest, " \t", &rest);
	if (interpreter == NULL)
		return;
	allow_word(h, interpreter, depth + 1);
	name = strrchr(interpreter, '/');
	if (strcmp(name != NULL ? name + 1 : interpreter, "env") != 0)
		return;
	while ((word = strtok_r(rest, " \t", &rest)) != NULL)
		if (word[0] != '-' && strchr(word, '=') == NULL) {
			allow_word(h, word, depth + 1);
			return;
		}
}

static void
allow_loader(const struct holding *h, int fd, unsigned depth)
{
	char path[PATH_MAX];
	Elf64_Ehdr head;
	Elf64_Phdr part;

	if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) || head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_phentsize != sizeof(part))
		return;
	for (unsigned i = 0; i < head.e_phnum && i < HEADERS_MAX; i++) {
		if (pread(fd, &part, sizeof(part), (off_t)(head.e_phoff + i * sizeof(part))) != (ssize_t)sizeof(part))
			return;
		if (part.p_type != PT_INTERP || part.p_filesz < 2 || part.p_filesz > sizeof(path))
			continue;
		if (pread(fd, path, part.p_filesz, (off_t)part.p_offset) == (ssize_t)part.p_filesz &&
		    path[part.p_filesz - 1] == '\0' && path[0] == '/')
			allow_word(h, path, depth + 1);
		return;
	}
}

/* False: it is no file.  A file that cannot be read has no interpreter that could be found. */
static bool
allow_file(const struct holding *h, const char *path, unsigned depth)
{
	OWN(closep) int file = open(path, O_PATH | O_CLOEXEC), fd = -1;
	char line[LINE_MAX_BYTES + 1];
	struct stat st;
	ssize_t n;

	if (file < 0 || fstat(file, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	landlock_allow_execute(h->ruleset, file);
	fd = depth < DEPTH_MAX ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
	n = fd < 0 ? -1 : pread(fd, line, LINE_MAX_BYTES, 0);
	if (n < 4)
		return true;
	line[n] = '\0';
	if (memcmp(line, ELFMAG, SELFMAG) == 0)
		allow_loader(h, fd, depth);
	else if (memcmp(line, "#!", 2) == 0)
		allow_interpreter(h, line, depth);
	return true;
}

/* A name stands for its program in each folder of PATH. */
static void
allow_name(const struct holding *h, const char *name, unsigned depth)
{
	const char *path = variable(h, "PATH");
	char file[PATH_MAX];

	while (*path != '\0') {
		size_t len = strcspn(path, ":");
		int n = snprintf(file, sizeof(file), "%.*s%s%s", (int)len, path, len > 0 ? "/" : "", name);

		if (n >= 0 && (size_t)n < sizeof(file))
			(void)allow_file(h, file, depth);
		path += len + (path[len] == ':');
	}
}

static void
allow_word(const struct holding *h, const char *word, unsigned depth)
{
	char file[PATH_MAX];
	int n;

	if (strchr(word, '/') == NULL) {
		allow_name(h, word, depth);
		return;
	}
	n = word[0] == '~' ? snprintf(file, sizeof(file), "%s%s", variable(h, "HOME"), word + 1) :
	    snprintf(file, sizeof(file), "%s", word);
	if (n >= 0 && (size_t)n < sizeof(file))
		(void)allow_file(h, file, depth);
}

int
init_hold_programs(const struct init_spawn *spawn, char *const *programs, int own_exe)
{
	OWN(closep) int fd = -1;
	int r = landlock_make_execute(&fd, NULL);
	const struct holding h = { fd, spawn->env };

	if (r == 0 && own_exe >= 0)
		landlock_allow_execute(fd, own_exe);
	else if (r == 0)
		allow_word(&h, spawn->argv[0], 0);
	for (; r == 0 && *programs != NULL; programs++)
		allow_word(&h, *programs, 0);
	r = r == 0 ? landlock_enforce(fd, NULL) : r;
	errno = r < 0 ? -r : errno;
	return r;
}

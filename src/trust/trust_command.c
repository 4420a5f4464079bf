/* trust_command.c - which files of the host a command runs, as far as its words say.
 *
 * A word may be a script of its own (`sh -c '...'`), so that every piece of every word which is a
 * path counts.  What a program then runs or reads by itself is its own business. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/text.h"
#include "trust/trust.h"

#define SCRIPTS_MAX 8                   /* one interpreter leading to the next */
#define FIRST_LINE_MAX 256              /* as the kernel has it */
#define WORD_MAX 4096                   /* of a word whose variables were put in */
#define USUAL_PATH "/bin:/usr/bin"      /* as execvp() has it */

/* ---- programs ---- */

/* WORD as execvp() would find it; false if it would not. */
static bool
find_program(const char *word, char ret_path[PATH_MAX])
{
	const char *path = getenv("PATH"), *end;
	char here[PATH_MAX];
	struct stat st;

	if (getcwd(here, sizeof(here)) == NULL)
		snprintf(here, sizeof(here), "/");
	if (strchr(word, '/') != NULL)
		return snprintf(ret_path, PATH_MAX, "%s%s%s", word[0] == '/' ? "" : here,
		                word[0] == '/' ? "" : "/", word) < PATH_MAX;
	for (path = path != NULL ? path : USUAL_PATH; *word != '\0'; path = end + 1) {
		size_t len = strcspn(path, ":");

		end = path + len;
		if (snprintf(ret_path, PATH_MAX, "%.*s%s%.*s/%s", path[0] == '/' ? 0 : PATH_MAX, here,
		             path[0] == '/' || len == 0 ? "" : "/", (int)len, path, word) < PATH_MAX &&
		    stat(ret_path, &st) == 0 && S_ISREG(st.st_mode) && access(ret_path, X_OK) == 0)
			return true;
		if (*end == '\0')
			break;
	}
	return false;
}

/* What the first line of the script at PATH names: a program, and perhaps a word for it.  False if it
 * is no script. */
static bool
read_first_line(const char *path, char ret_line[FIRST_LINE_MAX + 1], char **ret_word)
{
	OWN(closep) int fd = -1;
	struct stat st;
	ssize_t n;

	/* To open a device may do something. */
	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, ret_line, FIRST_LINE_MAX);
	if (n < 3 || strncmp(ret_line, "#!", 2) != 0)
		return false;
	ret_line[n] = '\0';
	ret_line[strcspn(ret_line, "\n")] = '\0';
	memmove(ret_line, ret_line + 2, strlen(ret_line + 2) + 1);
	memmove(ret_line, ret_line + strspn(ret_line, " \t"), strlen(ret_line + strspn(ret_line, " \t")) + 1);
	*ret_word = ret_line + strcspn(ret_line, " \t");
	if (**ret_word != '\0') {
		*(*ret_word)++ = '\0';
		*ret_word += strspn(*ret_word, " \t");
		(*ret_word)[strcspn(*ret_word, " \t\r")] = '\0';
	}
	return ret_line[0] == '/';
}

static int
each_interpreter(const char *script, int depth, int (*each)(void *arg, const char *path), void *arg)
{
	char line[FIRST_LINE_MAX + 1], found[PATH_MAX], *word;
	int r;

	if (depth == SCRIPTS_MAX || !read_first_line(script, line, &word))
		return 0;
	r = each(arg, line);
	if (r == 0)
		r = each_interpreter(line, depth + 1, each, arg);
	/* #!/usr/bin/env python3 */
	if (r == 0 && *word != '\0' && *word != '-' && find_program(word, found) &&
	    access(found, F_OK) == 0) {
		r = each(arg, found);
		r = r == 0 ? each_interpreter(found, depth + 1, each, arg) : r;
	}
	return r;
}

/* ---- words ---- */

/* WORD with the values of its variables in it; false if it is too long. */
static bool
put_variables(const char *word, char ret_text[WORD_MAX])
{
	size_t n = 0;

	while (*word != '\0') {
		size_t brace = word[0] == '$' && word[1] == '{', len;
		const char *name = word + 1 + brace, *value;
		char copy[128];

		len = word[0] == '$' ? strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
		                              "0123456789") : 0;
		if (len == 0 || len >= sizeof(copy)) {
			if (n + 2 > WORD_MAX)
				return false;
			ret_text[n++] = *word++;
			continue;
		}
		snprintf(copy, sizeof(copy), "%.*s", (int)len, name);
		value = getenv(copy);
		value = value != NULL ? value : "";
		if (n + strlen(value) + 1 > WORD_MAX)
			return false;
		memcpy(ret_text + n, value, strlen(value));
		n += strlen(value);
		word = name + len + (brace && name[len] == '}');
	}
	ret_text[n] = '\0';
	return true;
}

/* A piece of a word: as a path, if there is something. */
static int
each_piece(const char *piece, int (*each)(void *arg, const char *path), void *arg)
{
	const char *home = getenv("HOME");
	char here[PATH_MAX], path[PATH_MAX];
	struct stat st;
	int r;

	if (piece[0] == '~' && piece[1] == '/' && home != NULL)
		r = snprintf(path, sizeof(path), "%s%s", home, piece + 1);
	else if (piece[0] == '/')
		r = snprintf(path, sizeof(path), "%s", piece);
	else if (getcwd(here, sizeof(here)) != NULL)
		r = snprintf(path, sizeof(path), "%s/%s", here, piece);
	else
		return 0;
	/* One that is not there may come; but not in this folder, if that is an agent's: see
	 * trust_here(). */
	if (r >= (int)sizeof(path) || (lstat(path, &st) < 0 && piece[0] != '/' && piece[0] != '~'))
		return 0;
	r = each(arg, path);
	return r < 0 ? r : each_interpreter(path, 0, each, arg);
}

/* PIECE, and if it is an option with its argument behind it (-f/etc/x, -Cfolder), that. */
static int
each_argument(const char *piece, int (*each)(void *arg, const char *path), void *arg)
{
	const char *slash = strchr(piece, '/');
	int r = each_piece(piece, each, arg);

	if (r == 0 && piece[0] == '-' && piece[1] != '-' && piece[1] != '\0' && piece[2] != '\0')
		r = each_piece(piece + 2, each, arg);
	if (r == 0 && piece[0] == '-' && slash != NULL)
		r = each_piece(slash, each, arg);
	return r;
}

/* The word, what is behind '=' or '@' in it, and each of its pieces; a plain name among them may be
 * a program on PATH. */
static int
each_in_word(const char *word, int (*each)(void *arg, const char *path), void *arg)
{
	char text[WORD_MAX], found[PATH_MAX], *rest = NULL;
	int r;

	if (*word == '\0')
		return 0;
	if (!put_variables(word, text))
		return -E2BIG;
	r = each_argument(text, each, arg);
	for (char *piece = strtok_r(text, TRUST_BETWEEN_WORDS ":,@", &rest); r == 0 && piece != NULL;
	     piece = strtok_r(NULL, TRUST_BETWEEN_WORDS ":,@", &rest)) {
		r = each_argument(piece, each, arg);
		if (r == 0 && strchr(piece, '/') == NULL && strpbrk(word, TRUST_BETWEEN_WORDS) != NULL &&
		    find_program(piece, found)) {
			r = each(arg, found);
			r = r == 0 ? each_interpreter(found, 0, each, arg) : r;
		}
	}
	return r;
}

int
trust_each_path(char *const *words, int (*each)(void *arg, const char *path), void *arg)
{
	char program[PATH_MAX];
	int r = 0;

	if (find_program(words[0], program)) {
		r = each(arg, program);
		r = r == 0 ? each_interpreter(program, 0, each, arg) : r;
	}
	for (size_t i = 1; r == 0 && words[i] != NULL; i++)
		r = each_in_word(words[i], each, arg);
	return r;
}

/* ---- all of it ---- */

struct checking {
	enum trust_use use;
	struct err *err;
};

static int
check_one(void *arg, const char *path)
{
	const struct checking *c = arg;

	return trust_path(c->use, path, c->err);
}

static int
believe_one(void *arg, const char *path)
{
	struct stat st;

	(void)arg;
	/* A folder is an argument more often than it is obeyed. */
	if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
		trust_believe(path);
	return 0;
}

int
trust_command(enum trust_use use, char *const *words, char ret_program[PATH_MAX], struct err *err)
{
	struct checking c = { .use = use, .err = err };
	int r = trust_each_path(words, check_one, &c);

	if (r == -E2BIG)
		return err_set(err, E2BIG, "a word of %s is over %d bytes with its variables",
		               trust_table[use].what, WORD_MAX);
	if (r < 0)
		return r;
	(void)trust_each_path(words, believe_one, NULL);
	if (!find_program(words[0], ret_program) && snprintf(ret_program, PATH_MAX, "%s", words[0]) >= PATH_MAX)
		return err_set(err, ENAMETOOLONG, "'%.64s...' is too long", words[0]);
	return 0;
}

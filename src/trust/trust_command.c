/* trust_command.c - finds the host files that a command runs, as far as its words name them.
 *
 * A word may itself be a script (`sh -c '...'`), so every piece of every word that is a path
 * counts.  Files that a program then runs or reads by itself are not checked. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "trust/trust.h"

#define SCRIPTS_MAX 8                   /* interpreters of interpreters */
#define FIRST_LINE_MAX 256              /* the kernel's limit */
#define WORD_MAX 4096                   /* bytes of a word with its variables expanded */
#define BASES_MAX 64                    /* folders named in a command */
#define USUAL_PATH "/bin:/usr/bin"      /* the default of execvp() */

/* ---- programs ---- */

/* Find WORD as execvp() would; false if it would not be found. */
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

/* Parse the first line of the script at PATH: a program, and perhaps an argument.  False if it is
 * not a script. */
static bool
read_first_line(const char *path, char ret_line[FIRST_LINE_MAX + 1], char **ret_word)
{
	OWN(closep) int fd = -1;
	struct stat st;
	ssize_t n;

	/* Opening a device may have side effects. */
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

/* Expand the variables in WORD; false if it is too long. */
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

/* The folders that a command may change to (`cd`, -C): all that its words name. */
struct bases {
	char *at[BASES_MAX];
	size_t n;
};

static void
bases_free(struct bases *b)
{
	while (b->n > 0)
		free(b->at[--b->n]);
}

struct naming {
	int (*each)(void *arg, const char *path);
	void *arg;
	struct bases *found;            /* first pass: collects folders; else NULL */
	const struct bases *bases;      /* second pass: folders for relative pieces */
};

static bool
is_relative(const char *piece)
{
	return piece[0] != '/' && piece[0] != '~';
}

/* Make PIECE a path, in FOLDER if it is relative; false if it is too long. */
static bool
put_piece(const char *folder, const char *piece, char ret_path[PATH_MAX])
{
	const char *home = getenv("HOME");

	if (piece[0] == '~' && (piece[1] == '/' || piece[1] == '\0') && home != NULL)
		return snprintf(ret_path, PATH_MAX, "%s%s", home, piece + 1) < PATH_MAX;
	if (piece[0] == '/')
		return snprintf(ret_path, PATH_MAX, "%s", piece) < PATH_MAX;
	return snprintf(ret_path, PATH_MAX, "%s/%s", folder, piece) < PATH_MAX;
}

static int
note_base(struct bases *b, const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	if (b->n == BASES_MAX || (b->at[b->n] = strdup(path)) == NULL)
		return -E2BIG;
	b->n++;
	return 0;
}

static int
each_seen_from(const struct naming *n, const char *folder, const char *piece)
{
	char path[PATH_MAX];
	struct stat st;
	int r;

	/* A missing file may be created later.  A relative one is ignored here: in an agent's
	 * folder, trust_here() already fails. */
	if (!put_piece(folder, piece, path) || (lstat(path, &st) < 0 && is_relative(piece)))
		return 0;
	if (n->found != NULL)
		return note_base(n->found, path);
	r = n->each(n->arg, path);
	return r < 0 ? r : each_interpreter(path, 0, n->each, n->arg);
}

/* Treat a piece of a word as a path, if it exists. */
static int
each_piece(const struct naming *n, const char *piece)
{
	char here[PATH_MAX] = "";
	int r = 0;

	if (getcwd(here, sizeof(here)) != NULL || !is_relative(piece))
		r = each_seen_from(n, here, piece);
	for (size_t i = 0; r == 0 && n->bases != NULL && is_relative(piece) && i < n->bases->n; i++)
		r = each_seen_from(n, n->bases->at[i], piece);
	return r;
}

/* Check PIECE and, if it is an option with its argument attached (-f/etc/x, -Cfolder), the
 * argument. */
static int
each_argument(const struct naming *n, const char *piece)
{
	const char *slash = strchr(piece, '/');
	int r = each_piece(n, piece);

	if (r == 0 && piece[0] == '-' && piece[1] != '-' && piece[1] != '\0' && piece[2] != '\0')
		r = each_piece(n, piece + 2);
	if (r == 0 && piece[0] == '-' && slash != NULL)
		r = each_piece(n, slash);
	return r;
}

/* Check the word, the text behind '=' or '@' in it, and each of its pieces.  A plain name may be a
 * program on PATH. */
static int
each_in_word(const struct naming *n, const char *word)
{
	char text[WORD_MAX], found[PATH_MAX], *rest = NULL;
	int r;

	if (*word == '\0')
		return 0;
	if (!put_variables(word, text))
		return -E2BIG;
	r = each_argument(n, text);
	for (char *piece = strtok_r(text, TRUST_BETWEEN_WORDS ":,@", &rest); r == 0 && piece != NULL;
	     piece = strtok_r(NULL, TRUST_BETWEEN_WORDS ":,@", &rest)) {
		r = each_argument(n, piece);
		if (r == 0 && n->found == NULL && strchr(piece, '/') == NULL &&
		    strpbrk(word, TRUST_BETWEEN_WORDS) != NULL && find_program(piece, found)) {
			r = n->each(n->arg, found);
			r = r == 0 ? each_interpreter(found, 0, n->each, n->arg) : r;
		}
	}
	return r;
}

int
trust_each_path(char *const *words, int (*each)(void *arg, const char *path), void *arg)
{
	OWN(bases_free) struct bases bases = {0};
	const struct naming folders = { .found = &bases };
	const struct naming paths = { .each = each, .arg = arg, .bases = &bases };
	char program[PATH_MAX];
	int r = 0;

	if (find_program(words[0], program)) {
		r = each(arg, program);
		r = r == 0 ? each_interpreter(program, 0, each, arg) : r;
	}
	for (size_t i = 1; r == 0 && words[i] != NULL; i++)
		r = each_in_word(&folders, words[i]);
	for (size_t i = 1; r == 0 && words[i] != NULL; i++)
		r = each_in_word(&paths, words[i]);
	return r;
}

/* ---- the whole command ---- */

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
	/* A folder is usually an argument, not something that is obeyed. */
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
		return err_set(err, E2BIG, "a word of %s is over %d bytes with its variables, or its words name over "
		               "%d folders", trust_table[use].what, WORD_MAX, BASES_MAX);
	if (r < 0)
		return r;
	(void)trust_each_path(words, believe_one, NULL);
	if (!find_program(words[0], ret_program) && snprintf(ret_program, PATH_MAX, "%s", words[0]) >= PATH_MAX)
		return err_set(err, ENAMETOOLONG, "'%.64s...' is too long", words[0]);
	return 0;
}

int
trust_program(const char *program, struct err *err)
{
	struct stat st;

	if (stat(program, &st) < 0)
		return err_errno(err, "cannot look at the program '%.200s'", program);
	if ((st.st_mode & 022) != 0)
		return err_set(err, EPERM, "others may write the program '%.200s': `chmod go-w` it", program);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return err_set(err, EPERM, "the program '%.200s' belongs to uid %u, neither you nor root", program,
		               (unsigned)st.st_uid);
	return 0;
}

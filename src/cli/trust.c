/* trust.c - `cloister trust`: shows what agents could write, and trusts it again. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/text.h"
#include "base/tree.h"
#include "cli/cli.h"
#include "trust/trust.h"

#define SHOWN_MAX 500                   /* changed paths */
#define DEPTH_MAX 64

const struct cli_option cli_trust_options[] = {
	{ "yes", 'y', NULL, "clear the mark without asking", CLI_BOOL },
	{0}
};

struct looking {
	uint64_t since_ns;
	size_t shown, more;
	bool is_cut;                    /* a folder could not be read */
};

static void
print_safe(const char *text)
{
	text_print_safe(stdout, text, strlen(text), false);
}

/* The kernel sets this time, and an agent cannot. */
static uint64_t
changed_ns(const struct stat *st)
{
	return (uint64_t)st->st_ctim.tv_sec * 1000000000 + (uint64_t)st->st_ctim.tv_nsec;
}

static void
show(struct looking *l, const char *path, const struct stat *st)
{
	if (changed_ns(st) < l->since_ns)
		return;
	if (l->shown++ >= SHOWN_MAX) {
		l->more++;
		return;
	}
	fputs("  ", stdout);
	print_safe(path);
	fputs(S_ISDIR(st->st_mode) ? "/\n" : S_ISLNK(st->st_mode) ? " (link)\n" : "\n", stdout);
}

/* Takes ownership of FD. */
static void
walk(struct looking *l, int fd, const char *path, int depth)
{
	OWN(closedirp) DIR *dir = fdopendir(fd);
	struct dirent *d;
	struct stat st;

	if (dir == NULL || depth == DEPTH_MAX) {
		l->is_cut = true;
		if (dir == NULL)
			close(fd);
		return;
	}
	while ((d = readdir(dir)) != NULL) {
		OWN(freep) char *name = NULL;
		int below;

		if (tree_is_dots(d->d_name) || fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		name = str_format("%s/%s", path, d->d_name);
		if (name == NULL)
			return;
		show(l, name, &st);
		if (!S_ISDIR(st.st_mode))
			continue;
		below = tree_open_dir(dirfd(dir), d->d_name);
		if (below < 0)
			l->is_cut = true;
		else
			walk(l, below, name, depth + 1);
	}
}

static void
show_time(const struct trust_mark *mark)
{
	time_t seconds = (time_t)(mark->since_ns / 1000000000);
	char text[32] = "an earlier version of cloister";
	struct tm tm;

	if (mark->since_ns != 0 && localtime_r(&seconds, &tm) != NULL)
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	fputs(text, stdout);
}

/* Shows what has changed there since it was marked.  Removed files cannot be shown. */
static void
look_at(const struct trust_mark *mark, const char *path)
{
	struct looking l = { .since_ns = mark->since_ns };
	struct stat st;
	int fd = tree_open_resolved(path);

	print_safe(path);
	fputs(": agents could write here since ", stdout);
	show_time(mark);
	fputs("; changed since then:\n", stdout);
	if (fd >= 0)
		walk(&l, fd, path, 0);
	else if (lstat(path, &st) == 0)
		show(&l, path, &st);
	if (l.more > 0)
		printf("  and %zu more\n", l.more);
	if (l.shown == 0)
		fputs("  nothing that is still there\n", stdout);
	if (l.is_cut)
		fputs("  not all of it could be looked at\n", stdout);
}

static void
list(const struct trust_marks *m)
{
	for (size_t i = 0; i < m->n; i++) {
		print_safe(m->at[i].path);
		fputs("  since ", stdout);
		show_time(&m->at[i]);
		fputs(m->at[i].is_held ? "  (a cell that is running can write it)\n" : "\n", stdout);
	}
}

/* Finds the marks to clear: on FOLDER and beneath it.  Returns how many there are; -EPERM if FOLDER
 * is only a part of a marked folder. */
static int
look_beneath(const struct trust_marks *m, const char *folder, struct err *err)
{
	int n = 0;

	/* A running cell could change the files after they were reviewed. */
	for (size_t i = 0; i < m->n; i++)
		if (m->at[i].is_held && (tree_is_beneath(m->at[i].path, folder) || strcmp(folder, "/") == 0))
			return err_set(err, EBUSY, "a running cell can write '%s': stop it first "
			               "(`cloister ps`)",
			               m->at[i].path);
	for (size_t i = 0; i < m->n; i++) {
		const char *path = m->at[i].path;

		if (tree_is_beneath(path, folder) || strcmp(folder, "/") == 0) {
			look_at(&m->at[i], path);
			n++;
		}
	}
	for (size_t i = 0; n == 0 && i < m->n; i++)
		if (tree_is_beneath(folder, m->at[i].path) || strcmp(m->at[i].path, "/") == 0)
			return err_set(err, EPERM, "agents could write all of '%s', which contains "
			               "'%s': review it with `cloister trust %s`", m->at[i].path, folder,
			               m->at[i].path);
	/* It may have been moved since, and is recognised by its inode. */
	if (n == 0 && trust_path(TRUST_POLICY, folder, NULL) < 0) {
		look_at(&(struct trust_mark){ .path = folder }, folder);
		n++;
	}
	return n;
}

static int
ask(bool yes, struct err *err)
{
	char answer[16];

	if (yes)
		return 0;
	fflush(stdout);
	if (!isatty(STDIN_FILENO))
		return err_set(err, EPERM, "nothing was cleared, because there is no terminal to ask "
		               "on: use --yes");
	fprintf(stderr, "may cloister read and run files there? [y/N] ");
	if (fgets(answer, sizeof(answer), stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y'))
		return 0;
	return err_set(err, ECANCELED, "nothing was cleared");
}

static int
clear(const char *word, bool yes, struct err *err)
{
	OWN(trust_marks_free) struct trust_marks m = {0};
	/* A marked folder may be gone; then its recorded name is used. */
	OWN(freep) char *real = realpath(word, NULL), *folder = real != NULL ? strdup(real) : strdup(word);
	int r = trust_marks_load(&m, err);

	if (r < 0 || folder == NULL)
		return r < 0 ? r : err_set(err, ENOMEM, "out of memory");
	if (folder[0] != '/')
		return err_errno(err, "cannot find '%s'", word);
	if (m.is_full && strcmp(folder, "/") != 0)
		return err_set(err, EFBIG, "agents could write so many folders that every folder "
		               "counts as written by them: review all of them, then use `cloister "
		               "trust /`");
	r = m.is_full ? 1 : look_beneath(&m, folder, err);
	if (r < 0)
		return r;
	if (r > 0)
		r = ask(yes, err);
	r = r < 0 ? r : trust_clear(folder, err);
	return r < 0 ? r : operator_note("folder.trusted",
	                                 (struct audit_member[]){ { .name = "folder", .text = folder } }, 1, err);
}

int
cmd_trust(int argc, char **argv)
{
	OWN(trust_marks_free) struct trust_marks m = {0};
	struct err err = {0};
	bool yes = false;
	int rest;

	if (cli_parse(cli_trust_options, argc, argv, true, NULL, &yes, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest == argc && yes)
		return cli_failf("no folder is given: cloister trust --yes DIR... (`cloister trust` "
		                 "lists them)");
	if (rest == argc) {
		if (trust_marks_load(&m, &err) < 0)
			return cli_fail(&err);
		if (m.is_full)
			puts("/  (the list is full, so every folder counts as written by agents)");
		list(&m);
		if (m.n == 0 && !m.is_full && isatty(STDOUT_FILENO))
			puts("no folder is marked: agents could write none since your last review");
		return 0;
	}
	for (int i = rest; i < argc; i++)
		if (clear(argv[i], yes, &err) < 0)
			return cli_fail(&err);
	return 0;
}

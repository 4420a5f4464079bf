/* apply_ask.c - `cloister apply --interactive`: asks about each file, and each hunk of a text. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/text.h"
#include "canon/hash.h"
#include "cli/apply_ask.h"
#include "cli/cli.h"
#include "ipc/compare_channel.h"

#define HUNKS_TEXT_MAX (8u << 20)       /* bytes of hunks; a file with more is asked about as a whole */

/* What the person saw; the answer is about nothing else. */
struct shown {
	unsigned char old[HASH_LEN], all[HASH_LEN];     /* of the file here; of everything */
};

struct apply_answer {
	const struct changes_part *part;
	char *path;                     /* of a git directory: with a final slash, for all beneath it */
	enum workspace_choice choice;
	unsigned char *wanted;          /* for WORKSPACE_TAKE_PART: one for each hunk */
	struct shown shown;
	size_t n;
	bool git;                       /* PATH is a git directory */
	bool folder;                    /* added, and taken if something in it is */
};

struct asking {
	struct apply_ask *ask;
	struct diff_reader *reader;
	const struct changes_part *part;
	struct shown shown;             /* of the question */
	bool colour, quit;
	char *git;                      /* the git directory that was asked about last */
};

void
apply_ask_free(struct apply_ask *ask)
{
	for (size_t i = 0; i < ask->n; i++) {
		free(ask->answers[i].path);
		free(ask->answers[i].wanted);
	}
	free(ask->answers);
	*ask = (struct apply_ask){0};
}

/* ---- what is shown ---- */

static int
hash_whole(int fd, unsigned char ret_hash[HASH_LEN], struct err *err)
{
	uint64_t size;

	memset(ret_hash, 0, HASH_LEN);
	if (fd < 0)
		return 0;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_errno(err, "cannot read a file");
	return hash_fd(fd, UINT64_MAX, ret_hash, &size, err);
}

static void
add_link(struct hash *h, int folder, const char *path, mode_t mode)
{
	char target[PATH_MAX];
	ssize_t n = S_ISLNK(mode) ? readlinkat(folder, path, target, sizeof(target)) : 0;

	hash_add(h, &n, sizeof(n));
	hash_add(h, target, n > 0 ? (size_t)n : 0);
}

static int
look_at(const struct changes_part *part, const struct workspace_change *change, const struct diff_files *files,
        struct shown *ret_shown, struct err *err)
{
	const unsigned bits[] = { change->kind, change->mode, change->old_mode, change->mode_only, files->here };
	unsigned char new[HASH_LEN];
	struct hash h;
	int r = hash_whole(files->old, ret_shown->old, err);

	r = r == 0 ? hash_whole(files->new, new, err) : r;
	hash_begin(&h);
	hash_add(&h, bits, sizeof(bits));
	add_link(&h, part->ws.real, change->path, change->old_mode);
	add_link(&h, part->ws.changes, change->path, change->mode);
	hash_add(&h, ret_shown->old, HASH_LEN);
	hash_add(&h, new, HASH_LEN);
	hash_end(&h, ret_shown->all);
	return r;
}

/* ---- questions ---- */

static void
explain(const char *what)
{
	printf("y - apply this %s\nn - do not apply this %s\n"
	       "a - apply this %s and all that follow in the file\n"
	       "d - apply neither this %s nor any that follows in the file\n"
	       "q - quit: apply what was chosen before, and nothing more\n? - print this help\n",
	       what, what, what, what);
}

/* One of "ynadq".  The end of the input is "q". */
static char
ask_letter(const char *question, const char *what)
{
	OWN(freep) char *line = NULL;
	size_t size = 0;

	for (;;) {
		printf("%s %s [y,n,q,a,d,?]? ", question, what);
		fflush(stdout);
		if (getline(&line, &size, stdin) < 0) {
			putchar('\n');
			return 'q';
		}
		if (line[0] != '\0' && strchr("ynadq", line[0]) != NULL && (line[1] == '\n' || line[1] == '\0'))
			return line[0];
		explain(what);
	}
}

static int
remember(struct asking *a, const char *path, struct apply_answer answer)
{
	struct apply_ask *ask = a->ask;
	struct apply_answer *more = reallocarray(ask->answers, ask->n + 1, sizeof(*more));

	if (more != NULL) {
		ask->answers = more;
		answer.part = a->part;
		answer.shown = a->shown;
		answer.path = strdup(path);
	}
	if (more == NULL || answer.path == NULL) {
		free(answer.wanted);
		return -ENOMEM;
	}
	ask->answers[ask->n++] = answer;
	return 0;
}

/* ---- a file as a whole ---- */

static void
show_name(const struct asking *a, const struct workspace_change *change, enum diff_here here)
{
	fputs(a->colour ? "\033[1m" : "", stdout);
	printf("%c ", "AMD"[change->kind]);
	changes_print_path(stdout, a->part, change->path);
	printf("%s%s%s\n", S_ISDIR(change->type) ? "/" : "", diff_here_text(here), a->colour ? "\033[m" : "");
	changes_print_inode(a->part, change);
}

static int
ask_whole(struct asking *a, const struct workspace_change *change)
{
	static const char *const what[] = { "addition", "change", "deletion" };
	char letter = ask_letter("Apply this", what[change->kind]);

	a->quit = letter == 'q';
	return letter == 'y' || letter == 'a' ?
	       remember(a, change->path, (struct apply_answer){ .choice = WORKSPACE_TAKE_ALL }) : 0;
}

static int
show_and_ask(struct asking *a, const struct workspace_change *change, const struct diff_files *files,
             struct err *err)
{
	const bool text = files->why == 0 && !change->mode_only && (files->old >= 0 || files->new >= 0);
	int r = text ? diff_print_text(a->reader, files->old, files->new, "here", "cell", a->colour, err) : 0;

	if (r < 0 && r != -E2BIG)
		return r;
	return ask_whole(a, change);
}

/* ---- hunks ---- */

static int
gather(void *arg, const char *data, size_t len)
{
	buf_put(arg, data, len);
	return 0;
}

static int
load_hunks(struct asking *a, const struct diff_files *files, struct buf *hunks, struct err *err)
{
	OWN(buf_free) struct buf body;
	const struct diff_question q = { .body = &body, .fds = { files->old, files->new }, .n_fds = 2,
	                                 .take = gather, .arg = hunks };
	struct diff_answer answer;
	int r;

	ipc_begin(&body, COMPARE_ASK);
	buf_put_u32(&body, COMPARE_OLD | COMPARE_NEW | COMPARE_HUNKS);
	r = diff_ask(a->reader, &q, &answer, err);
	if (r == 0 && (answer.binary || buf_failed(hunks)))
		return -E2BIG;
	return r;
}

/* The end of the hunk at AT: only its first line begins with '@'. */
static const char *
hunk_end(const char *at, const char *end)
{
	while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL && ++at < end)
		if (*at == '@')
			return at;
	return end;
}

static size_t
count_hunks(const char *at, const char *end)
{
	size_t n = 0;

	for (; at < end; at = hunk_end(at, end))
		n++;
	return n;
}

static enum workspace_choice
sum_up(const unsigned char *wanted, size_t n)
{
	size_t taken = 0;

	for (size_t i = 0; i < n; i++)
		taken += wanted[i];
	return taken == n ? WORKSPACE_TAKE_ALL : taken == 0 ? WORKSPACE_TAKE_NONE : WORKSPACE_TAKE_PART;
}

static int
ask_hunks(struct asking *a, const struct workspace_change *change, const struct buf *hunks, size_t n)
{
	const char *at = (const char *)hunks->data, *end = at + hunks->len;
	struct apply_answer answer = { .wanted = calloc(n, 1), .n = n };
	char letter = '\0', question[64];

	if (answer.wanted == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const char *next = hunk_end(at, end);

		if (letter != 'a' && letter != 'd' && letter != 'q') {
			diff_print_lines(at, (size_t)(next - at), a->colour);
			snprintf(question, sizeof(question), "(%zu/%zu) Apply this", i + 1, n);
			letter = ask_letter(question, "hunk");
		}
		answer.wanted[i] = letter == 'y' || letter == 'a';
		at = next;
	}
	a->quit = letter == 'q';
	answer.choice = sum_up(answer.wanted, n);
	return remember(a, change->path, answer);
}

static int
ask_text(struct asking *a, const struct workspace_change *change, const struct diff_files *files,
         struct err *err)
{
	OWN(buf_free) struct buf hunks;
	size_t n = 0;
	int r;

	buf_init(&hunks, HUNKS_TEXT_MAX);
	r = load_hunks(a, files, &hunks, err);
	if (r < 0 && r != -E2BIG)
		return r;
	if (r == 0)
		n = count_hunks((const char *)hunks.data, (const char *)hunks.data + hunks.len);
	return n == 0 || n > COMPARE_HUNKS_MAX ? show_and_ask(a, change, files, err) :
	       ask_hunks(a, change, &hunks, n);
}

/* ---- all changes ---- */

/* Git's own files are one question: some of them without the others break the repository. */
static int
ask_git(struct asking *a, const struct workspace_change *change)
{
	size_t len = change->git_base;
	char letter;

	if (a->git != NULL && strlen(a->git) == len && strncmp(a->git, change->path, len) == 0)
		return 0;
	free(a->git);
	a->git = strndup(change->path, len);
	if (a->git == NULL)
		return -ENOMEM;
	fputs("git: ", stdout);
	changes_print_path(stdout, a->part, a->git);
	putchar('\n');
	letter = ask_letter("Apply these", "changes of git");
	a->quit = letter == 'q';
	return remember(a, a->git, (struct apply_answer){ .git = true,
		.choice = letter == 'y' || letter == 'a' ? WORKSPACE_TAKE_ALL : WORKSPACE_TAKE_NONE });
}

static int
ask_change(struct asking *a, const struct workspace_change *change, bool more, struct err *err)
{
	OWN(diff_files_close) struct diff_files files = { -1, -1, DIFF_HERE_NOT, 0 };
	int r;

	/* The first pass of applying reports held changes. */
	if (change->held)
		return 0;
	if (change->in_git)
		return ask_git(a, change);
	if (S_ISDIR(change->mode) && change->kind == WORKSPACE_ADDED && more)
		return remember(a, change->path, (struct apply_answer){ .folder = true });
	r = diff_open(a->reader, a->part, change, &files, err);
	r = r < 0 ? r : look_at(a->part, change, &files, &a->shown, err);
	if (r < 0)
		return r;
	show_name(a, change, files.here);
	/* It is left alone, and reported as such. */
	if (files.here == DIFF_HERE_ALONE || files.here == DIFF_HERE_CONFLICT)
		return remember(a, change->path, (struct apply_answer){ .choice = WORKSPACE_TAKE_ALL });
	if (files.old >= 0 && files.new >= 0 && !change->mode_only)
		return ask_text(a, change, &files, err);
	return show_and_ask(a, change, &files, err);
}

static bool
is_beneath(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	return strncmp(path, folder, len) == 0 && path[len] == '/';
}

/* A path of CHOSEN (NULL: all) is PATH or above it. */
static bool
is_chosen(char *const *chosen, const char *path)
{
	for (; chosen != NULL && *chosen != NULL; chosen++)
		if (strcmp(*chosen, ".") == 0 || strcmp(*chosen, path) == 0 || is_beneath(path, *chosen))
			return true;
	return chosen == NULL;
}

int
apply_ask_part(struct apply_ask *ask, struct diff_reader *reader, const struct changes_part *part,
               char *const *chosen, bool *ret_quit, struct err *err)
{
	OWN(workspace_changes_freep) struct workspace_change *list = NULL;
	struct asking a = { .ask = ask, .reader = reader, .part = part, .colour = text_wants_colour(stdout) };
	size_t n = 0;
	int r = workspace_list(&part->ws, &list, &n, err);

	for (size_t i = 0; r == 0 && i < n && !a.quit; i++)
		if (is_chosen(chosen, list[i].path))
			r = ask_change(&a, &list[i], list[i + 1].path != NULL && is_beneath(list[i + 1].path, list[i].path),
			               err);
	free(a.git);
	*ret_quit = a.quit;
	return r == -ENOMEM ? err_set(err, ENOMEM, "out of memory") : r;
}

/* ---- answers ---- */

static const struct apply_answer *
find(const struct apply_ask *ask, const struct changes_part *part, const char *path)
{
	for (size_t i = 0; i < ask->n; i++)
		if (ask->answers[i].part == part &&
		    (ask->answers[i].git ? strncmp(ask->answers[i].path, path, strlen(ask->answers[i].path)) :
		     strcmp(ask->answers[i].path, path)) == 0)
			return &ask->answers[i];
	return NULL;
}

static bool
is_as_shown(const struct apply_answer *answer, struct diff_reader *reader, const struct workspace_change *change)
{
	OWN(diff_files_close) struct diff_files files = { -1, -1, DIFF_HERE_NOT, 0 };
	struct shown now;

	return diff_open(reader, answer->part, change, &files, NULL) == 0 &&
	       look_at(answer->part, change, &files, &now, NULL) == 0 &&
	       memcmp(now.all, answer->shown.all, HASH_LEN) == 0;
}

enum workspace_choice
apply_ask_choice(const struct apply_ask *ask, struct diff_reader *reader, const struct changes_part *part,
                 const struct workspace_change *change)
{
	const char *path = change->path;
	const struct apply_answer *answer = find(ask, part, path);

	if (answer == NULL || answer->choice == WORKSPACE_TAKE_NONE || answer->git)
		return answer == NULL ? WORKSPACE_TAKE_NONE : answer->choice;
	if (!answer->folder)
		return is_as_shown(answer, reader, change) ? answer->choice : WORKSPACE_TAKE_STALE;
	for (size_t i = 0; i < ask->n; i++)
		if (ask->answers[i].part == part && !ask->answers[i].folder &&
		    ask->answers[i].choice != WORKSPACE_TAKE_NONE && is_beneath(ask->answers[i].path, path))
			return WORKSPACE_TAKE_ALL;
	return WORKSPACE_TAKE_NONE;
}

int
apply_ask_merge(const struct apply_ask *ask, struct diff_reader *reader, const struct changes_part *part,
                const struct workspace_merge *files, struct err *err)
{
	const struct apply_answer *answer = find(ask, part, files->path);
	unsigned char ours[HASH_LEN];
	OWN(closep) int merged = files->base < 0 ? -1 : memfd_create("merged", MFD_CLOEXEC);
	uint64_t conflicts = 0;
	int r = hash_whole(files->ours, ours, err);

	if (r < 0)
		return r;
	if (answer == NULL || memcmp(ours, answer->shown.old, HASH_LEN) != 0)
		return WORKSPACE_MERGE_STALE;
	if (files->base >= 0 && merged < 0)
		return err_errno(err, "cannot merge");
	if (answer->choice != WORKSPACE_TAKE_PART)
		r = diff_merge_text(reader, files, NULL, files->out, &conflicts, err);
	else if (files->base >= 0)
		r = diff_merge_text(reader, files, NULL, merged, &conflicts, err);
	if (r < 0 || conflicts > 0)
		return r < 0 ? r : WORKSPACE_MERGE_CONFLICT;
	return answer->choice != WORKSPACE_TAKE_PART ? WORKSPACE_MERGED :
	       diff_pick_text(reader, files->ours, merged >= 0 ? merged : files->theirs, answer->wanted, answer->n,
	                      files->out, err);
}

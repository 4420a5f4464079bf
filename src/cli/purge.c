/* purge.c - `cloister purge`: removes everything that cloister keeps for this user. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/data.h"
#include "base/own.h"
#include "base/text.h"
#include "base/tree.h"
#include "cli/cli.h"
#include "cli/accepted.h"
#include "trust/trust.h"

#define WORD "purge"                    /* to be typed */
#define CELLS_SHOWN 10
#define ENDING_MS 1000                  /* how long cells may take to end */
#define PAUSE_MS 10

const struct cli_option cli_purge_options[] = {
	{ "yes", 'y', NULL, "do not ask", CLI_BOOL },
	{0}
};

/* Only cloister's own names are removed: somebody may have set CLOISTER_DATA_DIR to a folder that
 * holds other files, too. */
struct purge {
	char *data_path, *state_path;
	int data, state;                /* -1: no such folder */
	struct cell_entry *cells;       /* state entries */
	size_t n_cells, n_timelines;
	bool found;
};

static void
purge_free(struct purge *p)
{
	free(p->data_path);
	free(p->state_path);
	free(p->cells);
	close_fd(&p->data);
	close_fd(&p->state);
}

static bool
has(int folder, const char *name)
{
	return folder >= 0 && faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Entries of the state folder besides its cells. */
static const char *const state_parts[] = { CELL_ENDED, TRUST_MARKS, TRUST_BELIEVED, ACCEPTED_LIST };

static bool
has_state(const struct purge *p)
{
	for (size_t i = 0; i < ARRAY_LEN(state_parts); i++)
		if (has(p->state, state_parts[i]))
			return true;
	return false;
}

static int
look(struct purge *p, struct err *err)
{
	OWN(closep) int ended = -1;
	OWN(freep) struct cell_entry *timelines = NULL;
	int r = 0;

	p->data_path = data_top(err);
	p->state_path = p->data_path == NULL ? NULL : data_state_path(err);
	if (p->state_path == NULL)
		return -ENOENT;
	p->data = tree_open_made(p->data_path, false, "set CLOISTER_DATA_DIR", err);
	if (p->data < 0 && p->data != -ENOENT)
		return p->data;
	p->state = cell_state_open(false, err);
	if (p->state < 0 && p->state != -ENOENT)
		return p->state;
	if (p->state > 0)
		r = cell_list(p->state, false, &p->cells, &p->n_cells, err);
	ended = p->state < 0 ? -1 : cell_ended_open(p->state);
	if (r == 0 && ended >= 0)
		r = cell_list(ended, false, &timelines, &p->n_timelines, err);
	p->found = p->n_cells > 0 || has_state(p);
	for (const struct data_part *part = data_parts; part->name != NULL; part++)
		p->found = p->found || has(p->data, part->name);
	return r;
}

/* ---- nothing may be running ---- */

static int
check_service(const struct purge *p, struct err *err)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	OWN(closep) int fd = p->data < 0 ? -1 : openat(p->data, "serve/lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
		return err_set(err, EBUSY, "the service is running as process %d: stop it first", lock.l_pid);
	return 0;
}

static int
check_dispatches(const struct purge *p, struct err *err)
{
	int fd = p->data < 0 ? -1 : openat(p->data, "dispatches", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	OWN(closedirp) DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	while (list != NULL && (d = readdir(list)) != NULL) {
		OWN(closep) int one = tree_is_dots(d->d_name) ? -1 :
			openat(dirfd(list), d->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

		if (one >= 0 && flock(one, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
			return err_set(err, EBUSY, "dispatch %.32s is running: `cloister dispatches "
			               "cancel %.32s` first",
			               d->d_name, d->d_name);
	}
	return 0;
}

/* A cell of a session with another runtime folder has no entry in this one. */
static int
check_cells(const struct purge *p, struct err *err)
{
	for (size_t i = 0; i < p->n_cells; i++) {
		const struct cell_entry *e = &p->cells[i];
		OWN(closep) int dir = openat(p->state, e->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

		if (dir >= 0 && cell_state_is_live(dir))
			return err_set(err, EBUSY, "cell %s is running: `cloister kill --all` first", e->id);
	}
	return 0;
}

/* ---- removing ---- */

static void
print_line(const char *folder, const char *name, const char *what)
{
	printf("  ");
	text_print_safe(stdout, folder, strlen(folder), false);
	printf("%s%s  (%s)\n", name[0] != '\0' ? "/" : "", name, what);
}

/* The changes may contain work that nobody has looked at. */
static void
print_changes(const struct purge *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_cells; i++) {
		const struct cell_entry *e = &p->cells[i];
		OWN(closep) int dir = openat(p->state, e->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		OWN(cell_record_free) struct cell_record record = {0};

		if (dir < 0 || cell_record_read(dir, &record, NULL) < 0 || record.n_changes == 0)
			continue;
		if (n < CELLS_SHOWN)
			printf("%s%s", n == 0 ? "Changes that can still be applied are those of: " : ", ",
			       e->name[0] != '\0' ? e->name : e->id);
		n++;
	}
	if (n > CELLS_SHOWN)
		printf(" and %zu more", n - CELLS_SHOWN);
	if (n > 0)
		putchar('\n');
}

static void
print_all(const struct purge *p)
{
	char what[128];

	puts("This permanently deletes:");
	for (const struct data_part *part = data_parts; part->name != NULL; part++)
		if (has(p->data, part->name))
			print_line(p->data_path, part->name, part->what);
	snprintf(what, sizeof(what), "changes and logs of %zu cell%s, timelines of %zu other%s", p->n_cells,
	         p->n_cells == 1 ? "" : "s", p->n_timelines, p->n_timelines == 1 ? "" : "s");
	if (p->n_cells > 0 || has_state(p))
		print_line(p->state_path, "", what);
	print_changes(p);
	fflush(stdout);                 /* before messages on standard error */
}

static bool
is_confirmed(void)
{
	char line[32];

	printf("Type \"" WORD "\" to go on: ");
	fflush(stdout);
	return fgets(line, sizeof(line), stdin) != NULL && strcmp(line, WORD "\n") == 0;
}

static int
remove_named(int folder, const char *name, struct err *err)
{
	OWN(closep) int dir = -1;
	int r = 0;

	if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
		return 0;
	dir = tree_open_dir_anyway(folder, name);
	if (dir < 0)
		return err_set(err, -dir, "cannot remove '%s': %s", name, strerrordesc_np(-dir));
	r = tree_empty(dir, err);
	if (r == 0 && unlinkat(folder, name, AT_REMOVEDIR) < 0)
		r = err_errno(err, "cannot remove '%s'", name);
	return r;
}

static int
remove_all(const struct purge *p, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->n_cells; i++)
		r = remove_named(p->state, p->cells[i].dir, err);
	for (size_t i = 0; r == 0 && p->state > 0 && i < ARRAY_LEN(state_parts); i++)
		r = remove_named(p->state, state_parts[i], err);
	for (const struct data_part *part = data_parts; r == 0 && p->data > 0 && part->name != NULL; part++)
		r = remove_named(p->data, part->name, err);
	if (r < 0)
		return err_wrap(err, "some data could not be removed: fix this, then run `cloister "
		                "purge` again");
	/* The folder may hold other files, which are not cloister's. */
	(void)rmdir(p->state_path);
	(void)rmdir(p->data_path);
	return 0;
}

/* Cells that `kill` and `stop` have ended are still being tidied up for a moment. */
static int
await_places(struct err *err)
{
	int places = cell_place_take_all(err);

	for (int ms = 0; places == -EBUSY && ms < ENDING_MS; ms += PAUSE_MS) {
		(void)poll(NULL, 0, PAUSE_MS);
		places = cell_place_take_all(err);
	}
	return places;
}

int
cmd_purge(int argc, char **argv)
{
	OWN(purge_free) struct purge p = {0};
	OWN(closep) int places = -1;
	struct err err = {0};
	bool yes = false;
	int rest;

	if (cli_parse(cli_purge_options, argc, argv, true, NULL, &yes, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest < argc)
		return cli_failf("'purge' takes no cell, because it removes all data: `cloister "
		                 "discard %s` removes the data of one cell",
		                 argv[rest]);
	places = await_places(&err);
	if (places == -EBUSY)
		return cli_failf("cells are running, or are still ending: `cloister kill --all`, then try again in a moment");
	if (places < 0 || look(&p, &err) < 0 || check_cells(&p, &err) < 0 || check_service(&p, &err) < 0 ||
	    check_dispatches(&p, &err) < 0)
		return cli_fail(&err);
	if (!p.found) {
		puts("there is nothing to remove");
		return 0;
	}
	print_all(&p);
	if (!yes && !isatty(STDIN_FILENO))
		return cli_failf("nothing was removed: confirm with `cloister purge --yes`");
	if (!yes && !is_confirmed())
		return cli_failf("nothing was removed");
	return remove_all(&p, &err) < 0 ? cli_fail(&err) : 0;
}

/* cell_dirs.c - tests of cell/cell_dirs: places, stale remains, records. */
#include "cell/cell_dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/io.h"
#include "test.h"

static char cleared[256];

static int
no_timeline(void *arg, int dir, const char *id)
{
	(void)arg;
	(void)dir;
	(void)id;
	return 0;
}

static int
no_room(void *arg, int dir, const char *id)
{
	(void)arg;
	(void)dir;
	(void)id;
	return -ENOSPC;
}

static int
remember_walls(void *arg, int dir, const char *id)
{
	OWN(freep) char *text = NULL;

	CHECK(arg == cleared && strlen(id) == CELL_ID_LEN);
	if (read_file_at(dir, CELL_WALLS, sizeof(cleared) - 1, &text, NULL, NULL) == 0)
		snprintf(cleared, sizeof(cleared), "%s", text);
	return 0;
}

static void
use_own_folders(void)
{
	OWN(freep) char *runtime = str_format("%s/runtime", test_dir());
	OWN(freep) char *state = str_format("%s/state", test_dir());

	setenv("CLOISTER_RUNTIME_DIR", runtime, 1);
	setenv("CLOISTER_STATE_DIR", state, 1);
}

static char *words[] = { (char[]){ "true" }, NULL };

static struct cell_spec
spec_called(const char *name)
{
	struct cell_spec spec = { .name = strdup(name), .hostname = strdup("cell"),
	                          .cwd = strdup("/"), .rootfs = strdup(""), .argv = words,
	                          .env = words + 1, .audit_max = CELL_AUDIT_MAX };

	CHECK_OK(cell_make_id(spec.id, NULL));
	return spec;
}

static void
spec_done(struct cell_spec *spec)
{
	free(spec->name);
	free(spec->hostname);
	free(spec->cwd);
	free(spec->rootfs);
}

static size_t
count_entries(int folder, bool runtime)
{
	OWN(freep) struct cell_entry *entries = NULL;
	size_t n;

	CHECK_OK(cell_list(folder, runtime, &entries, &n, NULL));
	return n;
}

TEST(cell_place_is_found_and_left)
{
	OWN(spec_done) struct cell_spec one = spec_called("one");
	OWN(spec_done) struct cell_spec two = spec_called("");
	struct cell_place a, b;
	struct cell_entry found;
	char prefix[CELL_PREFIX_MIN + 1];

	use_own_folders();
	CHECK_OK(cell_place_take(&one, &a, NULL));
	CHECK_OK(cell_place_take(&two, &b, NULL));
	CHECK(a.entry.slot != b.entry.slot);
	CHECK_OK(cell_find(a.runtime, true, "one", &found, NULL));
	CHECK_STR(found.id, one.id);
	snprintf(prefix, sizeof(prefix), "%.4s", two.id);
	if (strncmp(one.id, prefix, CELL_PREFIX_MIN) != 0) {
		CHECK_OK(cell_find(a.runtime, true, prefix, &found, NULL));
		CHECK_STR(found.id, two.id);
	}
	prefix[CELL_PREFIX_MIN - 1] = '\0';
	CHECK_ERR(cell_find(a.runtime, true, prefix, &found, NULL), ENOENT);
	CHECK_ERR(cell_find(a.runtime, true, "nobody", &found, NULL), ENOENT);
	CHECK_ERR(cell_find(a.runtime, true, "", &found, NULL), ENOENT);
	cell_place_leave(&b, true);
	CHECK(count_entries(a.runtime, true) == 1);
	cell_place_leave(&a, true);
}

TEST(cell_place_name_is_unique)
{
	OWN(spec_done) struct cell_spec one = spec_called("same");
	OWN(spec_done) struct cell_spec two = spec_called("same");
	struct cell_place a, b;

	use_own_folders();
	CHECK_OK(cell_place_take(&one, &a, NULL));
	CHECK_ERR(cell_place_take(&two, &b, NULL), EEXIST);
	CHECK(count_entries(a.runtime, true) == 1);
	cell_place_leave(&a, true);
}

/* A supervisor that was killed: its lock is gone, its entries are not. */
static void
die_with_a_place(const char *id_file)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		struct cell_spec spec = spec_called("dead");
		struct cell_place place;
		int state;

		if (cell_place_take(&spec, &place, NULL) < 0 ||
		    create_file_at(place.dir, CELL_WALLS, 0600, "/sys/fs/cgroup/x\n", NULL) < 0 ||
		    cell_state_make(&spec, &state, NULL) < 0 || mkdirat(state, "changes", 0700) < 0 ||
		    create_file_at(AT_FDCWD, id_file, 0600, spec.id, NULL) < 0)
			_exit(1);
		_exit(0);
	}
	int status;

	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

TEST(cell_stale_remains_are_cleared)
{
	OWN(spec_done) struct cell_spec live = spec_called("live");
	OWN(spec_done) struct cell_spec mine = spec_called("");
	OWN(freep) char *id_file = str_format("%s/id", test_dir());
	OWN(closep) int state = -1, live_state = -1;
	struct cell_place a, b;
	struct cell_entry found;

	use_own_folders();
	CHECK_OK(cell_place_take(&live, &a, NULL));
	CHECK_OK(cell_state_make(&live, &live_state, NULL));
	/* The lock is of an open file, which fork shares: another opening decides. */
	die_with_a_place(id_file);
	state = cell_state_open(false, NULL);
	CHECK_OK(state);
	CHECK(count_entries(a.runtime, true) == 2 && count_entries(state, false) == 2);
	CHECK_OK(cell_place_take(&mine, &b, NULL));
	cell_clear_stale(&b, &(struct cell_clearer){ remember_walls, no_timeline, cleared });
	CHECK_STR(cleared, "/sys/fs/cgroup/x\n");
	CHECK_ERR(cell_find(b.runtime, true, "dead", &found, NULL), ENOENT);
	CHECK_OK(cell_find(b.runtime, true, "live", &found, NULL));
	CHECK_OK(cell_find(state, false, "live", &found, NULL));
	CHECK(count_entries(state, false) == 1);
	cell_place_leave(&a, true);
	cell_place_leave(&b, true);
}

/* A process with a place of its own, until it is killed. */
static pid_t
live_with_a_place(const char *name)
{
	int ends[2];
	char byte;
	pid_t pid;

	CHECK_OK(pipe2(ends, O_CLOEXEC));
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		struct cell_spec spec = spec_called(name);
		struct cell_place place;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (cell_place_take(&spec, &place, NULL) == 0)
			(void)!write(ends[1], "+", 1);
		close(ends[1]);
		pause();
		_exit(1);
	}
	close(ends[1]);
	CHECK(read(ends[0], &byte, 1) == 1);
	close(ends[0]);
	return pid;
}

TEST(cell_is_alive_by_its_lock)
{
	OWN(closep) int runtime = -1;
	struct cell_entry live, stale;
	char path[CELL_ENTRY_MAX];
	pid_t pid;

	use_own_folders();
	runtime = cell_runtime_open(NULL);
	CHECK_OK(runtime);
	pid = live_with_a_place("live");
	CHECK_OK(cell_find(runtime, true, "live", &live, NULL));
	CHECK(cell_is_alive(runtime, &live) && cell_supervisor(runtime, &live) == pid);
	/* Nobody listens there: that is not death. */
	CHECK_ERR(cell_connect_now(runtime, &live, NULL), EAGAIN);
	/* What a crashed cell left, whose slot another one has. */
	snprintf(path, sizeof(path), "aaaaaaaa.%u.stale", live.slot);
	CHECK_OK(mkdirat(runtime, path, 0700));
	CHECK_OK(cell_find(runtime, true, "stale", &stale, NULL));
	CHECK(!cell_is_alive(runtime, &stale) && cell_supervisor(runtime, &stale) == 0);
	CHECK(cell_is_alive(runtime, &live));
	CHECK_OK(kill(pid, SIGKILL));
	CHECK(waitpid(pid, NULL, 0) == pid);
	CHECK(!cell_is_alive(runtime, &live) && !cell_is_alive(runtime, &stale) && cell_supervisor(runtime, &live) == 0);
	CHECK_ERR(cell_connect_now(runtime, &live, NULL), ENOENT);
	CHECK_ERR(cell_connect(runtime, &live, NULL), ENOENT);
}

/* Asking holds a lock for a moment, which is not in the way of who makes the entry. */
TEST(cell_state_is_asked_for_while_it_is_made)
{
	OWN(spec_done) struct cell_spec spec = spec_called("");
	OWN(freep) char *entry = str_format("%s.", spec.id);
	OWN(closep) int state = -1;
	pid_t asker;

	use_own_folders();
	state = cell_state_open(true, NULL);
	CHECK_OK(state);
	asker = fork();
	CHECK(asker >= 0);
	if (asker == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (asker == 0) {
		OWN(closep) int dir = openat(state, entry, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (dir >= 0)
			(void)cell_state_is_live(dir);
	}
	for (int i = 0; i < 5000; i++) {
		OWN(closep) int dir = -1;

		CHECK_OK(cell_state_make(&spec, &dir, NULL));
		CHECK_OK(unlinkat(state, entry, AT_REMOVEDIR));
	}
	CHECK(kill(asker, SIGKILL) == 0 && waitpid(asker, NULL, 0) == asker);
}

TEST(cell_record_outlives_its_supervisor)
{
	OWN(spec_done) struct cell_spec spec = spec_called("kept");
	OWN(spec_done) struct cell_spec other = spec_called("");
	OWN(cell_record_free) struct cell_record out = {0};
	struct cell_record in = { .started_ns = 1, .ended_ns = 2, .status = 137,
	                          .cause = "it was so", .n_changes = 1,
	                          .lost = CELL_LOST_SECRET };
	OWN(freep) char *entry = str_format("%s.kept", spec.id);
	OWN(closep) int state = -1;
	struct cell_place place;
	int dir;

	use_own_folders();
	in.spec = spec;
	CHECK_OK(cell_state_make(&spec, &dir, NULL));
	CHECK_OK(cell_record_write(dir, &in, NULL));
	close(dir);
	CHECK_OK(cell_place_take(&other, &place, NULL));
	cell_clear_stale(&place, &(struct cell_clearer){ remember_walls, no_timeline, cleared });
	state = cell_state_open(false, NULL);
	CHECK(count_entries(state, false) == 1);
	dir = openat(state, entry, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_OK(dir);
	CHECK(!cell_state_is_live(dir));
	CHECK_OK(cell_record_read(dir, &out, NULL));
	CHECK(out.status == 137 && out.n_changes == 1 && out.started_ns == 1);
	CHECK(out.lost == CELL_LOST_SECRET);
	CHECK_STR(out.cause, "it was so");
	close(dir);
	cell_place_leave(&place, true);
}

/* Cells are kept over an upgrade: so may be what they changed. */
TEST(cell_record_of_the_versions_before)
{
	struct cell_grant grant = { .host = (char[]){ "/a" }, .cell = (char[]){ "/a" } };
	OWN(closep) int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(spec_done) struct cell_spec spec = spec_called("old");
	struct cell_record in = { .spec = spec, .status = 3, .lost = 1, .left_out = { 7 } };
	OWN(freep) char *text = NULL;
	OWN(closep) int fd = -1;
	size_t len;

	in.spec.grants = &grant;
	in.spec.n_grants = 1;
	CHECK_OK(cell_record_write(dir, &in, NULL));
	CHECK_OK(read_file_at(dir, "record", 1 << 20, &text, &len, NULL));
	fd = openat(dir, "record", O_WRONLY | O_CLOEXEC);
	for (unsigned before = 0; before <= 2; before++) {
		OWN(cell_record_free) struct cell_record out = {0};

		text[0] = (char)(6 - before);
		CHECK(pwrite(fd, text, len, 0) == (ssize_t)len);
		CHECK(before == 0 || cell_record_read(dir, &out, NULL) == -EBADMSG);
		CHECK_OK(ftruncate(fd, (off_t)(len - before * 4)));
		CHECK_OK(cell_record_read(dir, &out, NULL));
		CHECK(out.status == 3 && out.lost == (before < 2) && out.left_out[0] == (before == 0 ? 7 : 0));
	}
}

TEST(cell_record_malformed_is_refused)
{
	OWN(closep) int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct cell_record out = {0};

	CHECK_ERR(cell_record_read(dir, &out, NULL), ENOENT);
	CHECK_OK(create_file_at(dir, "record", 0600, "\1\1\1\1\1\1\1\1", NULL));
	CHECK_ERR(cell_record_read(dir, &out, NULL), EBADMSG);
}

TEST(cell_folder_of_somebody_else_is_refused)
{
	OWN(freep) char *path = str_format("%s/open", test_dir());
	struct err err = {0};

	CHECK_OK(mkdir(path, 0777));
	CHECK_OK(chmod(path, 0777));
	setenv("CLOISTER_RUNTIME_DIR", path, 1);
	CHECK_ERR(cell_runtime_open(&err), EPERM);
}

static unsigned n_pruned;

static int
count_pruned(void *arg, const char *id)
{
	CHECK(strlen(id) == CELL_ID_LEN);
	n_pruned++;
	/* Who cannot write it down keeps it. */
	return *(const bool *)arg ? 0 : -EIO;
}

TEST(cell_old_timelines_go)
{
	bool may = false;
	OWN(closep) int state = -1, ended = -1;

	use_own_folders();
	state = cell_state_open(true, NULL);
	for (size_t i = 0; i <= CELL_TIMELINES_MAX + CELL_TIMELINES_SLACK; i++) {
		OWN(spec_done) struct cell_spec spec = spec_called("");
		OWN(freep) char *entry = str_format("%s.", spec.id);
		OWN(closep) int dir = -1;

		if (i == CELL_TIMELINES_MAX + CELL_TIMELINES_SLACK) {
			cell_ended_prune(1, count_pruned, &may);
			CHECK(n_pruned == 0);
		}
		CHECK_OK(cell_state_make(&spec, &dir, NULL));
		CHECK_OK(create_file_at(dir, CELL_EVENTS, 0600, "{}\n", NULL));
		CHECK_OK(cell_state_retire(state, entry, true, NULL));
	}
	ended = cell_ended_open(state);
	CHECK(count_entries(state, false) == 0);
	cell_ended_prune(1, count_pruned, &may);
	CHECK(n_pruned == CELL_TIMELINES_SLACK + 1);
	CHECK(count_entries(ended, false) == CELL_TIMELINES_MAX + CELL_TIMELINES_SLACK + 1);
	may = true;
	cell_ended_prune(1, count_pruned, &may);
	CHECK(count_entries(ended, false) == CELL_TIMELINES_MAX);
}

TEST(cell_timeline_is_saved)
{
	OWN(spec_done) struct cell_spec spec = spec_called("again");
	OWN(freep) char *entry = str_format("%s.again", spec.id);
	OWN(closep) int state = -1, ended = -1;
	static const char *const files[] = { CELL_EVENTS, CELL_EVENTS ".1", CELL_POLICY, CELL_LOG,
	                                     "record", NULL };

	use_own_folders();
	/* A name that is there before is not in the way. */
	for (int n = 0; n < 2; n++) {
		OWN(closep) int dir = -1;

		CHECK_OK(cell_state_make(&spec, &dir, NULL));
		CHECK_OK(mkdirat(dir, CELL_CHANGES, 0700));
		CHECK_OK(mkdirat(dir, CELL_CHANGES "/0", 0700));
		for (size_t i = 0; files[i] != NULL; i++)
			CHECK_OK(create_file_at(dir, files[i], 0600, "x", NULL));
		state = state < 0 ? cell_state_open(false, NULL) : state;
		CHECK_OK(cell_state_remove(state, entry, NULL));
		for (size_t i = 0; files[i] != NULL; i++)
			CHECK((faccessat(dir, files[i], F_OK, 0) == 0) == (i < 3));
		CHECK(faccessat(dir, CELL_CHANGES, F_OK, 0) < 0);
	}
	ended = cell_ended_open(state);
	CHECK(count_entries(ended, false) == 2 && count_entries(state, false) == 0);
}

/* Whoever makes the entry first has the id, and it outlives every clearing. */
TEST(cell_id_is_claimed_once)
{
	OWN(spec_done) struct cell_spec late = spec_called(""), kept = spec_called(""),
	                                other = spec_called("");
	OWN(closep) int state = -1, dir = -1;
	struct cell_place place;
	int fd;

	use_own_folders();
	CHECK_OK(cell_state_bury(late.id, NULL));
	CHECK_ERR(cell_state_bury(late.id, NULL), EEXIST);
	CHECK_ERR(cell_state_make(&late, &dir, NULL), EEXIST);
	kept.keep = true;
	CHECK_OK(cell_state_make(&kept, &fd, NULL));
	CHECK_ERR(cell_state_bury(kept.id, NULL), EEXIST);
	/* Its supervisor is killed. */
	close(fd);
	CHECK_OK(cell_place_take(&other, &place, NULL));
	cell_clear_stale(&place, &(struct cell_clearer){ remember_walls, no_timeline, cleared });
	cell_place_leave(&place, true);
	state = cell_state_open(false, NULL);
	CHECK(count_entries(state, false) == 2);
	CHECK_ERR(cell_state_make(&late, &dir, NULL), EEXIST);
	CHECK_ERR(cell_state_make(&kept, &dir, NULL), EEXIST);
}

/* Who is killed while it removes an entry leaves nothing that takes the id for ever: what cannot be
 * emptied is not kept any more. */
TEST(cell_removal_ends_the_keeping)
{
	OWN(spec_done) struct cell_spec kept = spec_called("");
	OWN(closep) int state = -1, dir = -1, held = -1;
	char entry[CELL_ENTRY_MAX];

	use_own_folders();
	kept.keep = true;
	CHECK_OK(cell_state_make(&kept, &dir, NULL));
	CHECK(cell_state_is_kept(dir));
	state = cell_state_open(false, NULL);
	snprintf(entry, sizeof(entry), "%s.", kept.id);
	held = dup(dir);
	CHECK_OK(cell_state_remove(state, entry, NULL));
	CHECK(!cell_state_is_kept(held));
}

/* That a timeline has ended is told before what was left of the cell goes. */
TEST(cell_lost_is_reported_before_it_goes)
{
	OWN(spec_done) struct cell_spec kept = spec_called(""), gone = spec_called(""),
	                                other = spec_called("");
	struct cell_spec *const specs[] = { &kept, &gone };
	OWN(closep) int state = -1;
	struct cell_place place;

	use_own_folders();
	kept.keep = true;
	for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
		OWN(closep) int dir = -1;

		CHECK_OK(cell_state_make(specs[i], &dir, NULL));
		CHECK_OK(create_file_at(dir, CELL_EVENTS, 0600, "", NULL));
	}
	CHECK_OK(cell_place_take(&other, &place, NULL));
	cell_clear_stale(&place, &(struct cell_clearer){ remember_walls, no_room, cleared });
	state = cell_state_open(false, NULL);
	CHECK(count_entries(state, false) == 2);
	cell_clear_stale(&place, &(struct cell_clearer){ remember_walls, no_timeline, cleared });
	CHECK(count_entries(state, false) == 1);
	/* It was told of the one that is kept as well. */
	cell_clear_stale(&place, &(struct cell_clearer){ remember_walls, no_room, cleared });
	CHECK(count_entries(state, false) == 1);
	cell_place_leave(&place, true);
}

TEST(cell_id_of_a_running_cell_is_refused)
{
	OWN(spec_done) struct cell_spec one = spec_called("one"), two = spec_called("");
	struct cell_place a, b;

	use_own_folders();
	CHECK_OK(cell_place_take(&one, &a, NULL));
	memcpy(two.id, one.id, sizeof(two.id));
	two.claim = true;
	CHECK_ERR(cell_place_take(&two, &b, NULL), EEXIST);
	/* What was left by a supervisor that was killed has cgroups of that name. */
	cell_place_leave(&a, false);
	CHECK_ERR(cell_place_take(&two, &b, NULL), EEXIST);
}

TEST(cell_grants_in_own_folders)
{
	const struct { char *host; enum cell_access access; bool ok, is_volume, is_state; } cases[] = {
		{ (char[]){ "/own/volumes/trees/x/files" }, CELL_VOLUME, true, true, false },
		{ (char[]){ "/own/volumes/trees/x/files" }, CELL_READ, true, true, false },
		{ (char[]){ "/own/volumes/trees/x/files" }, CELL_READ, false, false, false },
		{ (char[]){ "/own/volumes/names/x" }, CELL_VOLUME, false, true, false },
		{ (char[]){ "/own/vault" }, CELL_READ, false, true, false },
		{ (char[]){ "/own/states/a/tree/c" }, CELL_OVERLAY, true, false, true },
		{ (char[]){ "/own/states/a/tree/c/x" }, CELL_READ, true, false, true },
		{ (char[]){ "/own/states/a/tree/c" }, CELL_READ, false, false, false },
		{ (char[]){ "/own/states/a/tree/c" }, CELL_WRITE, false, false, true },
		{ (char[]){ "/own/states/a/git" }, CELL_READ, false, false, true },
		{ (char[]){ "/own/states/a/tree/" }, CELL_READ, false, false, true },
		{ (char[]){ "/own" }, CELL_READ, false, false, false },
		{ (char[]){ "/own/abcd1234./changes/0" }, CELL_READ, false, false, false },
		{ (char[]){ "/own/registry/trees/ab/cd" }, CELL_READ, true, false, false },
		{ (char[]){ "/own/registry/trees/ab/cd" }, CELL_WRITE, false, false, false },
		{ (char[]){ "/own/registry/trees" }, CELL_READ, false, false, false },
		{ (char[]){ "/own/registry/db.sqlite" }, CELL_READ, false, false, false },
		{ (char[]){ "/own/dispatches/x/out" }, CELL_OVERLAY, true, false, false },
		{ (char[]){ "/own/dispatches/x/out" }, CELL_WRITE, false, false, false },
		{ (char[]){ "/own/dispatchesx/x" }, CELL_READ, false, false, false },
		{ (char[]){ "/owned/x" }, CELL_WRITE, true, false, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cell_grant grant = { cases[i].host, (char[]){ "/x" }, cases[i].access, .volume = cases[i].is_volume,
		                            .state = cases[i].is_state };
		struct cell_spec spec = { .grants = &grant, .n_grants = 1, .rootfs = (char[]){ "" } };

		CHECK((cell_grants_check(&spec, "/own", NULL) == 0) == cases[i].ok);
		CHECK_OK(cell_grants_check(&spec, NULL, NULL));
	}
}

TEST(cell_rootfs_around_own_folders)
{
	struct cell_spec spec = { .rootfs = (char[]){ "/root/fs" } };

	CHECK_ERR(cell_grants_check(&spec, "/root/fs/opt/own", NULL), EPERM);
	CHECK_ERR(cell_grants_check(&spec, "/root/fs", NULL), EPERM);
	CHECK_OK(cell_grants_check(&spec, "/root/fsx", NULL));
	CHECK_OK(cell_grants_check(&spec, "/root", NULL));
	CHECK_OK(cell_grants_check(&spec, NULL, NULL));
}

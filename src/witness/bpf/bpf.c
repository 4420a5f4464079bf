/* bpf.c - the source that watches a cell by programs in the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "loop/loop.h"
#include "witness/bpf/bpf.h"

/* Samples are read at most this often: waking up for each would cost more than they do. */
#define REST_MS 5
#define LOSSES_MS 1000
#define ENDS 16                         /* of the last processes, of which threads may report the same end */
#define REGISTER_MS 5000

struct bpf_state {
	uint32_t cell;
	int namespace;                  /* held, so that no other cell gets its number meanwhile */
	int cells, rings;               /* CELLS is read-only */
	int links[SAMPLE_PROGRAMS];
	struct bpf_ring ring;
	char **grants;                  /* absolute paths without a slash at the end */
	struct loop *loop;
	struct loop_source ready;
	struct loop_timer rest, losses;
	struct witness_taker taker;
	struct {
		uint32_t pid;
		uint64_t start;
	} ends[ENDS];
	size_t n_ends;
	uint64_t lost[SAMPLE_KINDS], spoilt;
	struct bpf_texts texts;
	struct bpf_links known;
};

static const char *const unseen[] = {
	"all but the first message of one sendmmsg()",
	"what io_uring does, where the filter allows it",
	"32-bit programs: their calls are counted as lost",
	"whether Landlock or the kernel refused a file",
	"names of files to rename, remove or change that another thread replaces while the call runs",
	"files that were renamed, removed or changed through a symbolic link which was there before the cell, and was "
	"replaced or removed at once",
	"the same through links that the cell made before its last 256",
	NULL
};

static int
bpf_able(struct err *err)
{
	struct bpf_ring ring = BPF_RING_NONE;
	int r;

	if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
		return err_set(err, ENOTSUP, "the kernel does not describe its types (/sys/kernel/btf/vmlinux)");
	r = bpf_ring_new((size_t)sysconf(_SC_PAGESIZE), &ring, err);
	bpf_ring_free(&ring);
	return r;
}

/* ---- open ---- */

static int
attach_one(const struct bpf_loaded *loaded, uint32_t which, int *ret_link, struct err *err)
{
	struct bpf_prog_info program = {0};
	struct bpf_link_info info = {0};
	uint32_t size = sizeof(program), id = 0;
	OWN(closep) int link = -1;

	if (bpf_obj_get_info_by_fd(loaded->programs[which], &program, &size) < 0)
		return err_errno(err, "cannot look at the programs that watch cells");
	if (bpf_map_lookup_elem(loaded->links, &which, &id) == 0 && id != 0)
		link = bpf_link_get_fd_by_id(id);
	size = sizeof(info);
	if (link >= 0 && bpf_obj_get_info_by_fd(link, &info, &size) == 0 && info.prog_id == program.id) {
		*ret_link = TAKE_FD(link);
		return 0;
	}
	closep(&link);
	link = bpf_link_create(loaded->programs[which], 0, BPF_TRACE_RAW_TP, NULL);
	size = sizeof(info);
	if (link < 0 || bpf_obj_get_info_by_fd(link, &info, &size) < 0 ||
	    bpf_map_update_elem(loaded->links, &which, &info.id, BPF_ANY) < 0)
		return err_errno(err, "cannot attach the programs that watch cells");
	*ret_link = TAKE_FD(link);
	return 0;
}

/* All that a cell needs and that does not depend on it. */
struct ahead {
	bool done;
	struct bpf_loaded loaded;
	int links[SAMPLE_PROGRAMS], lock;
	struct bpf_ring ring;
};
static struct ahead ahead;

static int
make_ahead(struct ahead *a, struct err *err)
{
	int r = bpf_ring_new(SAMPLE_RING, &a->ring, err);

	if (r < 0)
		return r;
	r = bpf_pins_open(&a->loaded, &a->lock, err);
	if (r == -ENOENT)
		r = bpf_load(&a->loaded, err);
	for (uint32_t i = 0; i < SAMPLE_PROGRAMS && r == 0; i++)
		r = attach_one(&a->loaded, i, &a->links[i], err);
	/* Others may go on; the lock is taken again for what depends on the other cells. */
	if (a->lock >= 0)
		(void)flock(a->lock, LOCK_UN);
	return r;
}

static void
drop_ahead(void)
{
	bpf_loaded_close(&ahead.loaded);
	for (size_t i = 0; i < SAMPLE_PROGRAMS; i++)
		closep(&ahead.links[i]);
	closep(&ahead.lock);
	bpf_ring_free(&ahead.ring);
	ahead.done = false;
}

static int
bpf_prepare(struct err *err)
{
	int r;

	if (ahead.done)
		return 0;
	ahead = (struct ahead){ .loaded = BPF_LOADED_NONE, .links = { -1, -1, -1 }, .lock = -1, .ring = BPF_RING_NONE };
	r = make_ahead(&ahead, err);
	ahead.done = r == 0;
	if (r < 0)
		drop_ahead();
	return r;
}

/* Closes what a child does not need, so that it keeps neither a lock nor a channel open. */
static void
close_others(int a, int b)
{
	unsigned first = (unsigned)(a < b ? a : b), second = (unsigned)(a < b ? b : a);

	if (first > 0)
		(void)close_range(0, first - 1, 0);
	if (second > first + 1)
		(void)close_range(first + 1, second - 1, 0);
	(void)close_range(second + 1, ~0u, 0);
}

/* The kernel lets whoever changes the map of ring buffers wait for tens of milliseconds, after the change
 * is made.  So a child waits; await_ring() sees the change. */
static int
add_ring(struct bpf_state *s, const struct bpf_owners *owners, struct err *err)
{
	pid_t child;

	(void)signal(SIGCHLD, SIG_IGN);
	child = fork();
	if (child < 0)
		return err_errno(err, "cannot start a process");
	if (child > 0)
		return 0;
	close_others(s->rings, s->ring.fd);
	(void)bpf_map_update_elem(s->rings, &s->ring.id, &s->ring.fd, BPF_ANY);
	for (size_t i = 0; i < owners->n_stale; i++)
		(void)bpf_map_delete_elem(s->rings, &owners->rings[i]);
	_exit(0);
}

static int
await_ring(const struct bpf_state *s, struct err *err)
{
	int64_t deadline = io_now_ms() + REGISTER_MS;
	uint32_t id;

	while (bpf_map_lookup_elem(s->rings, &s->ring.id, &id) < 0) {
		if (io_now_ms() > deadline)
			return err_set(err, EIO, "the kernel does not take a cell's ring buffer");
		sched_yield();
	}
	return 0;
}

/* Adds the cell: from here on, its processes are watched, and what finds no ring buffer yet is counted. */
static int
add_cell(struct bpf_state *s, const struct bpf_loaded *loaded, const struct witness_cell *cell,
         struct err *err)
{
	struct sample_cell info = {
		.owner = (uint32_t)getpid(), .ring = s->ring.id, .reads = cell->grants != NULL && cell->grants[0] != NULL,
		.full = cell->level == WITNESS_FULL,
	};
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) < 0)
		return err_errno(err, "cannot find this process's pid namespace");
	info.owner_ns = st.st_ino;
	if (bpf_map_update_elem(loaded->cells, &s->cell, &info, BPF_ANY) < 0)
		return err_errno(err, "cannot tell the kernel of the cell");
	return 0;
}

/* Forgets cells without a witness, and decides whether calls are counted at all. */
static int
settle(const struct bpf_loaded *loaded, const struct witness_cell *cell, struct bpf_owners *ret_owners,
       struct err *err)
{
	uint32_t key = 0, full;

	bpf_owners_count(loaded->cells, ret_owners);
	for (size_t i = 0; i < ret_owners->n_stale; i++)
		(void)bpf_map_delete_elem(loaded->cells, &ret_owners->stale[i]);
	full = (uint32_t)ret_owners->n_full + (cell->level == WITNESS_FULL);
	if (bpf_map_update_elem(loaded->full, &key, &full, BPF_ANY) < 0)
		return err_errno(err, "cannot tell the kernel whether to count calls");
	return 0;
}

/* A descriptor with which the losses can be read, and no other cell's entry changed. */
static int
open_losses(const struct bpf_loaded *loaded, int *ret_cells, struct err *err)
{
	LIBBPF_OPTS(bpf_get_fd_by_id_opts, how, .open_flags = BPF_F_RDONLY);
	struct bpf_map_info info = {0};
	uint32_t size = sizeof(info);

	if (bpf_obj_get_info_by_fd(loaded->cells, &info, &size) < 0)
		return err_errno(err, "cannot look at the map of cells");
	*ret_cells = bpf_map_get_fd_by_id_opts(info.id, &how);
	return *ret_cells < 0 ? err_errno(err, "cannot open the map of cells") : 0;
}

static int
begin(struct bpf_state *s, const struct witness_cell *cell, struct err *err)
{
	struct bpf_owners owners;
	int r = bpf_prepare(err);

	if (r < 0)
		return r;
	s->ring = ahead.ring;
	s->rings = ahead.loaded.rings;
	memcpy(s->links, ahead.links, sizeof(s->links));
	ahead.ring.fd = ahead.loaded.rings = ahead.links[0] = ahead.links[1] = ahead.links[2] = -1;
	while (ahead.lock >= 0 && flock(ahead.lock, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_errno(err, "cannot lock the folder of the programs that watch cells");
	r = settle(&ahead.loaded, cell, &owners, err);
	if (r == 0)
		r = add_cell(s, &ahead.loaded, cell, err);
	if (ahead.lock >= 0)
		(void)flock(ahead.lock, LOCK_UN);
	if (r == 0)
		r = add_ring(s, &owners, err);
	return r == 0 ? open_losses(&ahead.loaded, &s->cells, err) : r;
}

static int
copy_grants(char *const *grants, char ***ret_copy, struct err *err)
{
	size_t n = 0;
	char **copy;

	while (grants != NULL && grants[n] != NULL)
		n++;
	copy = calloc(n + 1, sizeof(*copy));
	*ret_copy = copy;
	for (size_t i = 0; copy != NULL && i < n; i++) {
		copy[i] = strdup(grants[i]);
		if (copy[i] == NULL)
			return err_set(err, ENOMEM, "out of memory");
	}
	return copy != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

static void
bpf_close(void *state)
{
	struct bpf_state *s = state;

	if (s->loop != NULL) {
		loop_unwatch(s->loop, &s->ready);
		loop_cancel_timer(s->loop, &s->rest);
		loop_cancel_timer(s->loop, &s->losses);
	}
	if (s->rings >= 0)
		(void)bpf_map_delete_elem(s->rings, &s->ring.id);
	bpf_ring_free(&s->ring);
	closep(&s->rings);
	closep(&s->cells);
	closep(&s->namespace);
	for (size_t i = 0; i < SAMPLE_PROGRAMS; i++)
		closep(&s->links[i]);
	for (size_t i = 0; s->grants != NULL && s->grants[i] != NULL; i++)
		free(s->grants[i]);
	free(s->grants);
	bpf_links_free(&s->known);
	free(s);
}

static int
hold_namespace(const struct witness_cell *cell, int *ret_namespace, struct err *err)
{
	char path[48];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)cell->first);
	*ret_namespace = open(path, O_RDONLY | O_CLOEXEC);
	if (*ret_namespace < 0 || fstat(*ret_namespace, &st) < 0)
		return err_errno(err, "cannot find the cell's first process");
	if (st.st_ino != cell->pid_namespace)
		return err_set(err, ESRCH, "the cell's first process is not in the cell");
	return 0;
}

static int
bpf_open(const struct witness_cell *cell, void **ret_state, struct err *err)
{
	struct bpf_state *s = calloc(1, sizeof(*s));
	int r;

	if (s == NULL)
		return err_set(err, ENOMEM, "out of memory");
	s->cell = (uint32_t)cell->pid_namespace;
	s->known.first = cell->first;
	s->namespace = s->cells = s->rings = s->ring.fd = -1;
	for (size_t i = 0; i < SAMPLE_PROGRAMS; i++)
		s->links[i] = -1;
	r = hold_namespace(cell, &s->namespace, err);
	if (r == 0)
		r = copy_grants(cell->grants, &s->grants, err);
	if (r == 0)
		r = begin(s, cell, err);
	drop_ahead();
	if (r < 0) {
		bpf_close(s);
		return r;
	}
	*ret_state = s;
	return 0;
}

/* ---- acts ---- */

/* Whether PATH is a granted path or in one. */
static bool
is_granted(const struct bpf_state *s, const struct act_text *path)
{
	for (char **grant = s->grants; *grant != NULL; grant++) {
		size_t len = strlen(*grant);

		while (len > 0 && (*grant)[len - 1] == '/')
			len--;
		if (path->len >= len && memcmp(path->at, *grant, len) == 0 &&
		    (path->len == len || path->at[len] == '/'))
			return true;
	}
	return false;
}

/* The last threads of a process may end at the same time, and then each reports its end. */
static bool
has_ended(struct bpf_state *s, const struct sample *sample)
{
	for (size_t i = 0; i < ENDS; i++)
		if (s->ends[i].pid == sample->pid && s->ends[i].start == sample->exit.start)
			return true;
	s->ends[s->n_ends % ENDS].pid = sample->pid;
	s->ends[s->n_ends++ % ENDS].start = sample->exit.start;
	return false;
}

static void
take_sample(void *arg, const void *data, size_t len)
{
	struct bpf_state *s = arg;
	struct act act;

	if (bpf_decode(data, len, &s->texts, &act) < 0) {
		s->spoilt++;
		return;
	}
	if (act.kind == ACT_FILE && act.file == ACT_READ && !act.path.cut && !is_granted(s, &act.path))
		return;
	if (act.kind == ACT_EXIT && has_ended(s, data))
		return;
	bpf_links_follow(&s->known, &s->texts, &act);
	s->taker.take(s->taker.arg, &act);
	if (s->texts.other.at != NULL) {
		act.path = s->texts.other;
		act.asked = true;
		s->taker.take(s->taker.arg, &act);
	}
}

static void
report_loss(struct bpf_state *s, enum act_kind kind, uint64_t n)
{
	struct act act = { .kind = ACT_LOST, .lost = kind, .n_lost = n };
	struct timespec now;

	if (n == 0)
		return;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	act.time_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	s->taker.take(s->taker.arg, &act);
}

static void
report_losses(struct bpf_state *s)
{
	struct sample_cell info;

	report_loss(s, ACT_KINDS, s->spoilt);
	s->spoilt = 0;
	if (bpf_map_lookup_elem(s->cells, &s->cell, &info) < 0)
		return;
	for (size_t i = 0; i < SAMPLE_KINDS; i++) {
		report_loss(s, (enum act_kind)i, info.lost[i] - s->lost[i]);
		s->lost[i] = info.lost[i];
	}
}

/* ---- the loop ---- */

static void
check_losses(void *arg)
{
	report_losses(arg);
}

static void
read_samples(void *arg, uint32_t events)
{
	struct bpf_state *s = arg;
	size_t n = bpf_ring_read(&s->ring, take_sample, s);

	(void)events;
	if (s->losses.at_ms == 0)
		loop_set_timer(s->loop, &s->losses, LOSSES_MS);
	/* It would be full before the rest is over. */
	if (n > s->ring.size / 8)
		return;
	loop_unwatch(s->loop, &s->ready);
	loop_set_timer(s->loop, &s->rest, REST_MS);
}

static void
watch_again(void *arg)
{
	struct bpf_state *s = arg;
	struct err err = {0};

	if (loop_watch(s->loop, &s->ready, EPOLLIN, &err) < 0)
		s->taker.failed(s->taker.arg, err.text);
}

static int
bpf_watch(void *state, struct loop *loop, const struct witness_taker *taker, struct err *err)
{
	struct bpf_state *s = state;
	int r = await_ring(s, err);

	if (r < 0)
		return r;
	s->loop = loop;
	s->taker = *taker;
	s->ready = (struct loop_source){ .fd = s->ring.fd, .ready = read_samples, .arg = s };
	loop_prepare_timer(&s->rest, watch_again, s);
	loop_prepare_timer(&s->losses, check_losses, s);
	return loop_watch(loop, &s->ready, EPOLLIN, err);
}

static void
bpf_finish(void *state)
{
	struct bpf_state *s = state;

	(void)bpf_ring_read(&s->ring, take_sample, s);
	report_losses(s);
}

const struct witness_source witness_bpf = {
	.name = "ebpf", .unseen = unseen, .able = bpf_able, .prepare = bpf_prepare, .open = bpf_open,
	.watch = bpf_watch, .finish = bpf_finish, .close = bpf_close,
};

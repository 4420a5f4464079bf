/* bpf.h - acts from the kernel itself: needs root, or CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN.
 *
 * Three programs in the kernel (witness.bpf.c), the same for all cells of the machine, write samples
 * into one ring buffer per cell.  The first cell after a boot loads them and pins them in bpffs; they
 * are attached as long as any witness lives, because each holds their links.  Where there is no bpffs,
 * each cell loads its own.
 *
 * After the lockdown, the source needs epoll(7) on the ring buffer's descriptor and these calls:
 *   bpf(BPF_MAP_LOOKUP_ELEM)   losses; in watch(), whether the ring buffer is there
 *   sched_yield                in watch(), until it is
 *   bpf(BPF_MAP_DELETE_ELEM)   gives the ring buffer back, in close()
 *   munmap, close              in close()
 *   openat, openat2, readlink  in /proc and in the roots of the cell's processes
 * It needs no capability of its own since Linux 5.19, and no process.  open() ignores SIGCHLD: it leaves a
 * child behind for some milliseconds, which waits for the kernel.
 *
 * A witness that is taken over can delete the ring buffers of other cells.  Their witnesses then report
 * a loss. */
#ifndef CLOISTER_WITNESS_BPF_H
#define CLOISTER_WITNESS_BPF_H
#include "witness/bpf/sample.h"
#include "witness/source.h"

/* ---- samples: bpf_decode.c ---- */

#define BPF_RAW_MAX (2 * ACT_PATH_MAX)

/* Texts of an act that are put together from a sample. */
struct bpf_texts {
	char path[ACT_PATH_MAX], to[ACT_PATH_MAX], cwd[ACT_PATH_MAX], script[ACT_PATH_MAX];
	struct act_count counts[SAMPLE_CALLS];
	/* A file has been opened, but another name was asked for; a link, or another thread, explains it. */
	struct act_text other;                  /* in TO; AT is NULL: it was the same */
	/* FILE: the names as they were passed, absolute; "": none.  And where bpf_links_follow() puts what they are. */
	char raw[BPF_RAW_MAX], raw_to[BPF_RAW_MAX], real[BPF_RAW_MAX], real_to[BPF_RAW_MAX];
	bool follows;                           /* the call follows a link that RAW is */
	bool is_symlink;                        /* it made one at RAW_TO */
};
/* Reads a sample of LEN bytes.  The act's texts point into TEXTS and DATA.  -EBADMSG: it is none. */
int bpf_decode(const void *data, size_t len, struct bpf_texts *texts, struct act *ret_act);

/* ---- where names lead: bpf_links.c ---- */

#define BPF_LINKS_MAX 256               /* that the cell made last */

struct bpf_link {
	char *path, *to;
	size_t len;                             /* of PATH */
};
struct bpf_links {
	pid_t first;                            /* the cell's first process */
	struct bpf_link all[BPF_LINKS_MAX];
	size_t n, oldest;
};
/* Puts the files that a FILE act is about in place of the names in it, which TEXTS has, and remembers the links that it
 * makes.  Acts come in their order. */
void bpf_links_follow(struct bpf_links *links, struct bpf_texts *texts, struct act *act);
void bpf_links_free(struct bpf_links *links);

/* ---- loading: bpf_load.c ---- */

enum bpf_which { BPF_EXECUTED, BPF_EXITED, BPF_CALL_DONE };

/* What is loaded; descriptors, -1 while there is none. */
struct bpf_loaded {
	int cells, rings, links, full;          /* maps; FULL is the variable full_cells */
	int programs[SAMPLE_PROGRAMS];
};
#define BPF_LOADED_FDS (4 + SAMPLE_PROGRAMS)
#define BPF_LOADED_NONE { -1, -1, -1, -1, { -1, -1, -1 } }

/* Loads the programs in a process of its own, because that takes memory.  The caller owns the
 * descriptors (bpf_loaded_close). */
int bpf_load(struct bpf_loaded *ret_loaded, struct err *err);
void bpf_loaded_close(struct bpf_loaded *loaded);
/* How the programs look at calls. */
void bpf_setup(struct sample_setup *ret_setup);

/* ---- what cells share: bpf_pins.c ---- */

#define BPF_STALE_MAX 64                /* per start; the next one goes on */

/* The programs of this build that are pinned here, loaded and pinned if need be; *ret_lock is held until
 * it is closed.  -ENOENT: there is no bpffs, or not one to trust. */
int bpf_pins_open(struct bpf_loaded *ret_loaded, int *ret_lock, struct err *err);

/* The witnesses of a map of cells, of any build. */
struct bpf_owners {
	size_t n_full;                          /* cells with a witness that want calls counted; this build only */
	size_t n_alive, n_stale;
	uint32_t stale[BPF_STALE_MAX];          /* cells without one */
	uint32_t rings[BPF_STALE_MAX];          /* theirs, to be deleted */
};
void bpf_owners_count(int cells, struct bpf_owners *ret_owners);

/* ---- the ring buffer: bpf_ring.c ---- */

struct bpf_ring {
	int fd;
	uint32_t id;
	size_t size;
	unsigned long *consumer;                /* one page, then none */
	const unsigned long *producer;          /* one page, then the data, twice */
};
#define BPF_RING_NONE { .fd = -1 }
int bpf_ring_new(size_t size, struct bpf_ring *ret_ring, struct err *err);
void bpf_ring_free(struct bpf_ring *ring);
/* Hands all samples to TAKE; returns their bytes. */
size_t bpf_ring_read(struct bpf_ring *ring, void (*take)(void *arg, const void *data, size_t len), void *arg);
#endif

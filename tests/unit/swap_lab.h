/* swap_lab.h - for tests of swap: a stream in pieces of any size, and what came of it. */
#ifndef CLOISTER_SWAP_LAB_H
#define CLOISTER_SWAP_LAB_H
#include "base/buf.h"
#include "sign/swap.h"
#include "test.h"

#define LAB_SEEN_MAX 4096

struct swap_lab {
	enum swap_verdict verdict;
	unsigned allowed;               /* SWAP_REPLACE only in these places (1 << place); 0: all */
	struct swap_seen seen[LAB_SEEN_MAX];
	size_t n_seen, n_missed;
	struct buf out;
	struct swap_stream stream;
	struct err *err;                /* may be NULL */
};

struct http_text text_of(const char *text);
struct swap_set *set_of(const struct swap_needle *needles, size_t n, unsigned flags);
/* Empty, and with a verdict of SWAP_REPLACE. */
struct swap_lab *swap_lab_new(void);
void swap_lab_free(struct swap_lab *lab);
void swap_lab_freep(struct swap_lab **lab);
/* All of DATA in pieces of STEP bytes (0: random ones). */
int swap_lab_run(struct swap_lab *lab, const struct swap_set *set, enum swap_place place,
                 enum swap_lengths lengths, const void *data, size_t len, size_t step);
/* What went on, NUL-terminated. */
const char *swap_lab_text(struct swap_lab *lab);
/* Numbers that are the same in every run. */
uint32_t lab_random(uint32_t below);
swap_judge swap_lab_judge;
swap_sink swap_lab_sink;
#endif

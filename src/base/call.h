/* call.h - the names of system calls, for each architecture that cloister is built for. */
#ifndef CLOISTER_CALL_H
#define CLOISTER_CALL_H
#include <stdbool.h>
#include <stdint.h>

struct buf;

enum call_arch { CALL_X86_64, CALL_AARCH64, CALL_ARCHES };
/* The architecture of this build. */
#if defined(__aarch64__)
#define CALL_ARCH_HERE CALL_AARCH64
#else
#define CALL_ARCH_HERE CALL_X86_64
#endif
#define CALL_NUMBERS_MAX 1024           /* every number is below this */

/* Calls that are taken away from a process, by number. */
struct call_set {
	unsigned char denied[CALL_NUMBERS_MAX / 8];     /* EPERM */
	unsigned char absent[CALL_NUMBERS_MAX / 8];     /* ENOSYS */
	bool namespaces;                /* clone(2) makes none */
	bool programs;                  /* it executes none, once cloister has started it */
};
bool call_set_is_empty(const struct call_set *set);
bool call_set_has(const unsigned char bits[CALL_NUMBERS_MAX / 8], uint32_t nr);
void call_set_add(unsigned char bits[CALL_NUMBERS_MAX / 8], uint32_t nr);
void call_set_put(struct buf *b, const struct call_set *set);
int call_set_get(struct buf *b, struct call_set *ret_set);      /* -EBADMSG */

/* The call NR, or NULL. */
const char *call_name(enum call_arch arch, uint32_t nr);
/* The number of NAME, or -1: the architecture has no such call. */
int call_number(enum call_arch arch, const char *name);
/* Whether any architecture has it. */
bool call_is_known(const char *name);
/* The name nearest to WORD, or NULL. */
const char *call_nearest(const char *word);
#endif

/* programs.h - the SHA-256 of programs' files.
 *
 * A file is read once: its hash is remembered with its device, number, size and times.  How much is read in a
 * second is bounded. */
#ifndef CLOISTER_WITNESS_PROGRAMS_H
#define CLOISTER_WITNESS_PROGRAMS_H
#include <stdint.h>

#include "canon/hash.h"

#define PROGRAMS_FILE_MAX (512ULL << 20)        /* bytes of one file */
#define PROGRAMS_SECOND_MAX (64ULL << 20)       /* bytes in a second, over time; one file more is begun */
#define PROGRAMS_BURST_MAX (512ULL << 20)       /* after a quiet time */
#define PROGRAMS_KNOWN_MAX 512                  /* files */

struct programs;                        /* opaque */

struct programs *programs_new(uint64_t now_ms);         /* NULL: out of memory */
void programs_free(struct programs *p); /* NULL is fine */

/* Hashes the file FD, which stays open: NULL; or why it cannot be done, for people. */
const char *programs_hash(struct programs *p, int fd, uint64_t now_ms, unsigned char ret_hash[HASH_LEN]);
#endif

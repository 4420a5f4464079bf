/* hash.h - SHA-256 and its text form: "sha256:" and 64 digits. */
#ifndef CLOISTER_HASH_H
#define CLOISTER_HASH_H
#include <nettle/sha2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define HASH_LEN 32                     /* bytes */
#define HASH_HEX 64                     /* digits, without a NUL */
#define HASH_PREFIX "sha256:"
#define HASH_NAME (sizeof(HASH_PREFIX) - 1 + HASH_HEX)  /* without a NUL */

struct hash { struct sha256_ctx sha; };

void hash_begin(struct hash *h);
void hash_add(struct hash *h, const void *data, size_t len);
void hash_end(struct hash *h, unsigned char ret_hash[HASH_LEN]);

void hash_of(const void *data, size_t len, unsigned char ret_hash[HASH_LEN]);
/* Hash everything from FD's position on, at most MAX bytes (-EFBIG). */
int hash_fd(int fd, uint64_t max, unsigned char ret_hash[HASH_LEN], uint64_t *ret_size,
            struct err *err);
/* The same, and writes it to the new file TO, from its start.  A hole stays a hole: it took no room where an agent
 * made it. */
int hash_copy(int from, int to, uint64_t max, unsigned char ret_hash[HASH_LEN], uint64_t *ret_size, struct err *err);

/* "sha256:ab12..." and back.  Parsing is strict: lower case, nothing before or behind. */
void hash_name(const unsigned char hash[HASH_LEN], char ret_name[HASH_NAME + 1]);
bool hash_parse_name(const char *name, unsigned char ret_hash[HASH_LEN]);
#endif

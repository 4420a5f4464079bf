/* server_copies.h - a folder of cloister's own with copies of what MCP servers run.
 *
 * Beneath the state folder, each process has one of its own, and keeps it locked.  A copy has the hash of its bytes as its
 * name, and is never changed. */
#ifndef CLOISTER_TOOLS_SERVER_COPIES_H
#define CLOISTER_TOOLS_SERVER_COPIES_H
#include <limits.h>
#include <stdint.h>

#include "canon/hash.h"

struct err;

/* In the state folder.  cell_grants_check() lends its files to cells. */
#define SERVER_COPIES "tools"

/* Make the folder, and remove those of processes that are gone.  Returns a descriptor. */
int server_copies_open(char ret_path[PATH_MAX], struct err *err);
void server_copies_close(int dir, const char *path);
/* Hash the file FROM, at most MAX bytes.  If that is PIN, the folder has a copy called so. */
int server_copies_take(int dir, int from, uint64_t max, const char *pin, char ret_hex[2 * HASH_LEN + 1], struct err *err);
#endif

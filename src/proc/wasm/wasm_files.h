/* wasm_files.h - shared by the files of cloister-wasm that make system calls for a module. */
#ifndef CLOISTER_WASM_FILES_H
#define CLOISTER_WASM_FILES_H
#include <sys/stat.h>
#include <time.h>

#include "proc/wasm/wasm.h"

#define WASM_HTTP "http"                /* in the folder of devices */

enum wasm_kind { FILE_NONE, FILE_OPEN, FILE_INPUT, FILE_OUTPUT, FILE_GRANT, FILE_DEVICES };
/* The numbers that WASI gives to types of files. */
enum wasm_type { TYPE_UNKNOWN, TYPE_BLOCK, TYPE_CHARACTER, TYPE_FOLDER, TYPE_FILE, TYPE_SOCKET = 6, TYPE_LINK };

struct wasm_file {
	enum wasm_kind kind;
	int fd;                         /* -1: none */
	const char *name;               /* of a folder that the module was given; NULL: it opened this */
	const char *path;               /* of a granted file */
};

/* Minus the number that WASI gives to an errno; N, unless that is below 0: then that of errno. */
double wasm_failed(int code);
double wasm_result(long long n);
/* A number of the module's as a whole one: 0 for what is none; at most MAX. */
uint64_t wasm_whole(double n);
size_t wasm_bounded(double n, size_t max);

/* NULL, -1: no such file. */
struct wasm_file *wasm_file_at(double number);
int wasm_fd_of(double number);
/* Takes FD, and returns the module's number for it. */
double wasm_file_add(enum wasm_kind kind, int fd, const char *name);
void wasm_put_state(const struct stat *st);
/* N: time of access, of change, and which of them are meant. */
void wasm_times_of(const double *n, struct timespec ret_times[2]);

/* ---- wasm_walk.c ---- */

/* As openat2(2) with RESOLVE_BENEATH, which a cell's filter does not have: -1, and errno is EXDEV for a path that leads
 * out of DIR. */
int wasm_open_beneath(int dir, const char *path, int flags, mode_t mode);

/* ---- wasm_paths.c: calls with a path, which is in the area ---- */

typedef double wasm_run(const double *n);
wasm_run wasm_call_open, wasm_call_stat_path, wasm_call_times_path, wasm_call_mkdir, wasm_call_remove,
	wasm_call_rename, wasm_call_link, wasm_call_symlink, wasm_call_readlink;
#endif

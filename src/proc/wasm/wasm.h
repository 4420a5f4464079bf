/* wasm.h - cloister-wasm: offers a WASI module (preview 1) as an MCP server over standard input and output.
 *
 * It runs in the server's cell, with the module's rights and no others: the cell is the wall.  The engine is
 * JavaScriptCore from the distribution, which is loaded when the program starts; wasi.js has the module's imports,
 * and asks this program for each system call. */
#ifndef CLOISTER_WASM_H
#define CLOISTER_WASM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct err;

#define WASM_MODULE_MAX (256u << 20)    /* bytes of a module */
#define WASM_MEMORY_MAX (1u << 30)      /* bytes that a module's memory grows to */
#define WASM_ENTRIES_MAX (1u << 20)     /* that all its tables together grow to */
#define WASM_OUTPUT_MAX (8u << 20)      /* bytes that a call may print */
#define WASM_AREA (256 * 1024)          /* bytes that pass between the module's memory and a system call */
#define WASM_FILES_MAX 256              /* that a module has open */
#define WASM_PATH_MAX 4096

/* ---- wasm_files.c: what the module has open, and its system calls ---- */

/* Standard input is INPUT, standard output goes to OUTPUT; NULL: this program's own.  Forgets the files of the run
 * before.  Folders and files at PATHS (NULL-terminated) can be opened; those that do not exist cannot.  The first is
 * the working folder, unless it is "-". */
void wasm_files_begin(const struct buf *input, struct buf *output, const char *const *paths);

/* The bytes that pass, and what they mean: wasi.js has the other end. */
extern unsigned char wasm_area[WASM_AREA];
#define WASM_NUMBERS_MAX 6
struct wasm_call {
	const char *name;
	/* Numbers in, a number out.  Below 0: an error number of WASI.  NAN: the module is to end. */
	double (*run)(const double *n);
};
extern const struct wasm_call wasm_calls[];     /* ends with {0} */

/* ---- wasm_module.c ---- */

/* The module at PATH, whose memory has a maximum now. */
int wasm_module_read(const char *path, struct buf *ret_module, struct err *err);

/* ---- wasm_engine.c ---- */

/* Loads the engine, before this program gives up its rights.  -ENOENT: it is not installed. */
int wasm_engine_load(struct err *err);
/* Runs the command MODULE to its end.  Each run has a memory of its own.  -EFAULT: it is no such module, or trapped. */
int wasm_engine_run(const struct buf *module, const char *const *argv, int *ret_status, struct err *err);
#endif

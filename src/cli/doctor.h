/* doctor.h - the test of `cloister doctor` that runs a cell. */
#ifndef CLOISTER_CLI_DOCTOR_H
#define CLOISTER_CLI_DOCTOR_H
#define DOCTOR_WHY_MAX 512

struct findings;

/* Runs `true` in a cell, in a container of RUNTIME unless that is NULL, started by `cloister run` like any other; nothing is kept of it.  0: it
 * ran.  1: it did not, and RET_WHY is the message of `run`.  Negative: it could not be tried. */
int doctor_try_cell(const char *runtime, char ret_why[DOCTOR_WHY_MAX]);
/* How the processes of cells can be seen. */
void doctor_record(struct findings *f);
/* Whether MCP servers can run in cells. */
void doctor_tools(struct findings *f);
/* Finds the OCI runtimes, and tries each. */
void doctor_runtimes(struct findings *f);
/* Whether the place of blobs can be used, if CLOISTER_BLOBS names one. */
void doctor_blobs(struct findings *f);
/* Whether WASI modules can be run as tools. */
void doctor_wasm(struct findings *f);
#endif

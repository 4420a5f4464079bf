/* doctor.h - what `cloister doctor` tries by running it. */
#ifndef CLOISTER_CLI_DOCTOR_H
#define CLOISTER_CLI_DOCTOR_H
#include <stdbool.h>

#define DOCTOR_WHY_MAX 512

/* A cell that runs `true`, started by `cloister run` as anybody's is; nothing is kept of it.  0: it
 * ran.  1: it did not, and RET_WHY is what `run` said.  Negative: it could not be tried. */
int doctor_try_cell(char ret_why[DOCTOR_WHY_MAX]);

bool doctor_in_container(void);
#endif

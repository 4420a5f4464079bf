/* progress.h - one line on a terminal that shows how far a task is that takes more than two seconds. */
#ifndef CLOISTER_PROGRESS_H
#define CLOISTER_PROGRESS_H
#include <stdint.h>

void progress_begin(const char *what);
/* DONE of TOTAL bytes; a TOTAL of 0 is unknown. */
void progress_show(uint64_t done, uint64_t total);
/* The same for a number of things. */
void progress_count(uint64_t done, uint64_t total);
void progress_end(void);
#endif

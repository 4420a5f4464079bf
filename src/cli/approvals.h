/* approvals.h - one approval for people. */
#ifndef CLOISTER_CLI_APPROVALS_H
#define CLOISTER_CLI_APPROVALS_H
#include <stdbool.h>

/* JSON is as cell_approvals.h has it; what is in it may be an agent's. */
void approvals_print(const char *json, bool behind_others);
#endif

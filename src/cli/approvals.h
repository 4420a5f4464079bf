/* approvals.h - prints one approval for people. */
#ifndef CLOISTER_CLI_APPROVALS_H
#define CLOISTER_CLI_APPROVALS_H
#include <stdbool.h>

/* JSON is as cell_approvals.h describes it; its texts may come from an agent. */
void approvals_print(const char *json, bool behind_others);
#endif

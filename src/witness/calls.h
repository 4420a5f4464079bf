/* calls.h - system calls as people read them: names, errors and arguments, like strace(1) prints them.
 *
 * Pure.  Arguments may be anything: nothing here follows a pointer. */
#ifndef CLOISTER_WITNESS_CALLS_H
#define CLOISTER_WITNESS_CALLS_H
#include <stddef.h>
#include <stdint.h>

#include "witness/act.h"

#define CALLS_NAME_MAX 32               /* bytes, with the NUL */

/* "openat", the number of a call that this build does not know, or "unknown". */
const char *calls_name(uint32_t nr, char ret_name[CALLS_NAME_MAX]);
/* "EPERM", or the number. */
const char *calls_error(int error, char ret_name[CALLS_NAME_MAX]);
/* "KILL", or the number. */
const char *calls_signal(int number, char ret_name[CALLS_NAME_MAX]);

/* The arguments of a refused or dangerous call.  A pointer that is not a text is "ptr" or "NULL", so that the
 * same call twice has the same text.  "" for a call whose arguments this build does not know.  The text that the
 * agent wrote is in it as it is, without NULs: clean it before it is shown.  Returns its length. */
size_t calls_args(const struct act *act, char ret_args[ACT_ARGS_MAX]);
#endif

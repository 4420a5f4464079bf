/* cell_exec_error.h - explains why a command cannot run in a cell, and what to grant.
 *
 * It examines the files outside, as they are now, and does not see files that exist only in the
 * cell's side of an overlay.  ERR may quote those files: print it with text_print_safe(). */
#ifndef CLOISTER_CELL_EXEC_ERROR_H
#define CLOISTER_CELL_EXEC_ERROR_H
struct cell_spec;
struct err;

/* The reason for EUCLEAN. */
#define CELL_NOT_RESOLVED "is not the one that was resolved: it was changed, or another one is in its place"

/* Set ERR to the sentence for COMMAND, which the kernel refused in the cell with ERROR; returns the
 * exit status for the operator. */
int cell_explain_exec_error(const struct cell_spec *spec, const char *command, int error, struct err *err);
#endif

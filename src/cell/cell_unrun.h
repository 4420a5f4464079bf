/* cell_unrun.h - why a command cannot be run in a cell, and what to grant.
 *
 * It looks at the files outside, as they are now: what only the cell's own side of an overlay has is
 * not seen.  What it read there is in ERR, and for text_print_safe(). */
#ifndef CLOISTER_CELL_UNRUN_H
#define CLOISTER_CELL_UNRUN_H
struct cell_spec;
struct err;

/* ERR becomes the sentence for COMMAND, at which the kernel failed with ERROR in the cell; returns
 * the status that is told to the operator. */
int cell_tell_unrun(const struct cell_spec *spec, const char *command, int error, struct err *err);
#endif

/* cell_screen.h - the screen of a detached cell's terminal, from what the cell has stored of its output. */
#ifndef CLOISTER_CELL_SCREEN_H
#define CLOISTER_CELL_SCREEN_H
#include <stdint.h>

#include "base/buf.h"
#include "loop/screen.h"

#define CELL_SCREEN_SHOWN (32u << 10)   /* bytes of old output that are shown: more than a screen */
#define CELL_SCREEN_READ (16u << 20)    /* bytes that are read for the modes: both logs */
#define CELL_SCREEN_WHOLE UINT64_MAX    /* the size of the output of a cell that has ended */
#define CELL_SCREEN_BUF BUF(CELL_SCREEN_SHOWN + SCREEN_MODES_MAX)

/* Puts to OUT (a CELL_SCREEN_BUF) what sets another terminal as the one of the cell ID is, unless the cell has ended,
 * and draws the last output before SIZE, from the beginning of a line.  SCREEN follows.  Nothing is put if there is
 * nothing stored. */
void cell_screen_show(const char *id, uint64_t size, struct screen *screen, struct buf *out);
#endif

/* loop_parts.h - shared only by the files of the loop. */
#ifndef CLOISTER_LOOP_PARTS_H
#define CLOISTER_LOOP_PARTS_H
#include "loop/loop.h"

/* The watched files of a loop. */
struct loop_files {
	struct loop *loop;
	struct loop_source source;      /* inotify */
	struct loop_file *list;
	struct loop_file *after;        /* the next to be called, while events are handled */
};

/* Where the loop keeps them. */
struct loop_files **loop_files(struct loop *loop);
#endif

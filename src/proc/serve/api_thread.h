/* api_thread.h - what each thread of the pool has for itself. */
#ifndef CLOISTER_API_THREAD_H
#define CLOISTER_API_THREAD_H
#include "audit/operator.h"

struct registry;

struct api_thread {
	struct registry *registry;      /* NULL until it is wanted */
	struct operator op;             /* .dir is -1 until it is wanted */
};
void api_thread_free(void *own);
#endif

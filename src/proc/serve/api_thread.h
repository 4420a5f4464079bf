/* api_thread.h - the data that each thread of the pool owns. */
#ifndef CLOISTER_API_THREAD_H
#define CLOISTER_API_THREAD_H
#include "audit/operator.h"

struct err;
struct registry;

struct api_thread {
	struct registry *registry;
	struct operator op;
};
/* Made before there are threads: opening the registry changes the umask for a moment. */
void *api_thread_new(struct err *err);
void api_thread_free(void *own);
#endif

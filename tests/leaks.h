/* leaks.h - ends a test process, looking for leaks only if there may be some.
 *
 * The leak sanitizer takes seconds on some machines (it walks all of a 48-bit
 * address space on arm64), and a test suite has hundreds of processes.  Where
 * as much was freed as was allocated there is nothing to look for. */
#ifndef CLOISTER_LEAKS_H
#define CLOISTER_LEAKS_H
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef CLOISTER_SANITIZED
#include <stdatomic.h>

/* Of <sanitizer/allocator_interface.h>, which gcc does not bring. */
int __sanitizer_install_malloc_and_free_hooks(
	void (*on_malloc)(const volatile void *p, size_t size),
	void (*on_free)(const volatile void *p));

static atomic_long leaks_live;

static void
leaks_on_malloc(const volatile void *p, size_t size)
{
	(void)size;
	if (p != NULL)
		leaks_live++;
}

static void
leaks_on_free(const volatile void *p)
{
	if (p != NULL)
		leaks_live--;
}

static inline void
leaks_watch(void)
{
	__sanitizer_install_malloc_and_free_hooks(leaks_on_malloc, leaks_on_free);
}

static inline _Noreturn void
leaks_exit(int status)
{
	fflush(NULL);
	if (leaks_live == 0)
		_exit(status);
	exit(status);
}
#else
static inline void
leaks_watch(void)
{
}

static inline _Noreturn void
leaks_exit(int status)
{
	exit(status);
}
#endif
#endif

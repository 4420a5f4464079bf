/* test.h - unit tests: a test is a function, and failing one ends only it.
 *
 * TEST(buf_grows) { CHECK(...); }   registers itself; no list to keep.
 * Each test runs in a process of its own, so that a crash, a leak or a changed
 * working directory stays there.  Helpers may use the CHECKs too. */
#ifndef CLOISTER_TEST_H
#define CLOISTER_TEST_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"

struct test {
	const char *name, *file;
	void (*run)(void);
	struct test *next;
};

void test_register(struct test *t);
/* Say what was wrong and end this test. */
_Noreturn void test_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Say why this machine cannot run this test, and end it. */
_Noreturn void test_skip(const char *why);
/* A new empty folder, removed with all that is in it when the test ends. */
const char *test_dir(void);

#define TEST(name_)                                                         \
	static void test_##name_(void);                                         \
	__attribute__((constructor)) static void register_##name_(void)         \
	{                                                                       \
		static struct test t = { #name_, __FILE__, test_##name_, NULL };    \
		test_register(&t);                                                  \
	}                                                                       \
	static void test_##name_(void)

#define CHECK(x)                                                            \
	do {                                                                    \
		if (!(x))                                                           \
			test_fail(__FILE__, __LINE__, "not so: %s", #x);                \
	} while (0)

#define CHECK_OK(r)                                                         \
	do {                                                                    \
		int r_ = (r);                                                       \
		if (r_ < 0)                                                         \
			test_fail(__FILE__, __LINE__, "%s: %s", #r, strerror(-r_));     \
	} while (0)

/* R failed, and with this errno. */
#define CHECK_ERR(r, code)                                                  \
	do {                                                                    \
		int r_ = (r);                                                       \
		if (r_ != -(code))                                                  \
			test_fail(__FILE__, __LINE__, "%s is %d, not -%s", #r, r_, #code); \
	} while (0)

#define CHECK_STR(got, want)                                                \
	do {                                                                    \
		const char *got_ = (got), *want_ = (want);                          \
		if (strcmp(got_, want_) != 0)                                       \
			test_fail(__FILE__, __LINE__, "%s is \"%s\", not \"%s\"", #got, \
			          got_, want_);                                         \
	} while (0)

#define CHECK_U64(got, want)                                                \
	do {                                                                    \
		uint64_t got_ = (got), want_ = (want);                              \
		if (got_ != want_)                                                  \
			test_fail(__FILE__, __LINE__, "%s is %llu, not %llu", #got,     \
			          (unsigned long long)got_, (unsigned long long)want_); \
	} while (0)
#endif

/* link_workers.c - tests of link/link_workers: who is known, and for how long. */
#include "link/link_workers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "test.h"

#define NOW 1000000

static bool
only_c(void *arg, const char *id)
{
	(void)arg;
	return id[0] == 'c';
}

static void
add(int dir, char c, uint64_t seen)
{
	struct link_worker w = { .name = "box", .home = "home", .pool = "", .since = NOW, .seen = seen };

	memset(w.id, c, LINK_ID_LEN);
	memset(w.print, c, LINK_HEX);
	CHECK_OK(link_workers_add(dir, &w, NULL));
}

TEST(link_workers_forget)
{
	char path[] = "/tmp/cloister-unit-XXXXXX", id[LINK_ID_LEN + 1] = "";
	OWN(closep) int dir = mkdtemp(path) == NULL ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct link_worker w;
	const struct {
		char c;
		uint64_t seen;
		bool stays;
	} cases[] = {
		{ 'a', 0, true },                       /* one of an operator's own */
		{ 'b', NOW - LINK_AWAY_S - 1, false },
		{ 'c', NOW - LINK_AWAY_S - 1, true },   /* it is connected */
		{ 'd', NOW - LINK_AWAY_S, true },
	};

	CHECK(dir >= 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		add(dir, cases[i].c, cases[i].seen);
	link_workers_forget(dir, NOW, only_c, NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		memset(id, cases[i].c, LINK_ID_LEN);
		CHECK(link_workers_get(dir, id, &w, NULL) == (cases[i].stays ? 0 : -ENOENT));
		CHECK(!cases[i].stays || w.seen == cases[i].seen);
	}
	(void)tree_empty(dir, NULL);
	(void)rmdir(path);
}

TEST(link_workers_tokens)
{
	char path[] = "/tmp/cloister-unit-XXXXXX", secret[LINK_HEX + 1], pool[LINK_POOL_MAX + 1];
	OWN(closep) int dir = mkdtemp(path) == NULL ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool passes;

	CHECK(dir >= 0);
	for (int i = 0; i < 2; i++) {
		CHECK_OK(link_workers_add_token(dir, i == 0 ? "p" : "", NOW, i == 0, secret, NULL));
		CHECK_OK(link_workers_use_token(dir, secret, NOW - 1, pool, &passes, NULL));
		CHECK(passes == (i == 0) && strcmp(pool, i == 0 ? "p" : "") == 0);
		CHECK(link_workers_use_token(dir, secret, NOW - 1, pool, &passes, NULL) == -ENOENT);
	}
	(void)tree_empty(dir, NULL);
	(void)rmdir(path);
}

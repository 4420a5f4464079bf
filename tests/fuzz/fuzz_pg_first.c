/* fuzz_pg_first.c - what a client of Postgres says first, and its password; and the frame that
 * stands for both, from a gate that an attacker has taken over.  The first byte says which. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "wire/pg.h"

/* What is read again from what was written is the same. */
static void
check_start(const struct pg_start *start)
{
	OWN(buf_free) struct buf b = {0};
	struct pg_first again;
	size_t need;

	buf_init(&b, (size_t)8 * PG_FIRST_MAX);
	pg_put_start(&b, start);
	assert(!buf_failed(&b));
	/* The database is written even where it was not said. */
	if (b.len > PG_FIRST_MAX)
		return;
	assert(pg_first_read(b.data, b.len, &need, &again, NULL) == 0 && need == b.len);
	assert(strcmp(again.start.user, start->user) == 0 && again.start.n == start->n);
	assert(strcmp(again.start.database, start->database) == 0);
	for (size_t i = 0; i < start->n; i++)
		assert(strcmp(again.start.parameters[i].value, start->parameters[i].value) == 0);
}

static void
fuzz_first(const uint8_t *data, size_t size)
{
	OWN(buf_free) struct buf b = {0};
	struct pg_start decoded;
	struct pg_first first;
	const char *password;
	size_t len = 0, need = 0;
	int r;

	while ((r = pg_first_read(data, len, &need, &first, NULL)) == -EAGAIN && need <= size) {
		assert(need > len && need <= PG_FIRST_MAX);
		len = need;
	}
	assert(r == 0 || r == -EAGAIN || r == -EBADMSG);
	if (r != 0 || first.kind != PG_START)
		return;
	check_start(&first.start);
	buf_init(&b, (size_t)8 * PG_FIRST_MAX);
	pg_put_negotiate(&b, &first);
	buf_reset(&b);
	pg_start_encode(&b, &first.start, "word");
	assert(pg_start_decode(&b, &decoded, &password) == 0 && decoded.n == first.start.n);
}

static void
fuzz_password(const uint8_t *data, size_t size)
{
	const char *password;
	size_t len = 0, need = 0;
	int r;

	while ((r = pg_password_read(data, len, &need, &password, NULL)) == -EAGAIN && need <= size) {
		assert(need > len);
		len = need;
	}
	assert(r != 0 || strlen(password) + 6 == len);
}

static void
fuzz_frame(const uint8_t *data, size_t size)
{
	struct pg_start start;
	const char *password;
	struct buf b;

	buf_init_borrowed(&b, data, size);
	if (pg_start_decode(&b, &start, &password) == 0)
		check_start(&start);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	switch (data[0] % 3) {
	case 0:
		fuzz_first(data + 1, size - 1);
		break;
	case 1:
		fuzz_password(data + 1, size - 1);
		break;
	default:
		fuzz_frame(data + 1, size - 1);
	}
	return 0;
}

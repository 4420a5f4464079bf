/* vault_lend.c - boxes of secrets: for one key and one claim. */
#include "vault/lend.h"

#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "test.h"

static const struct lend_claim claim = { .dispatch = "d1", .number = 7, .service = "s", .worker = "w" };

TEST(vault_lend_opens_for_its_claim)
{
	OWN(guard_free) struct guard private = {0}, other = {0}, data = {0};
	OWN(buf_free) struct buf box = BUF(LEND_BOX_MAX);
	unsigned char public[LEND_KEY], others[LEND_KEY];
	static const struct lend_claim wrong[] = {
		{ "d2", 7, "s", "w" }, { "d1", 8, "s", "w" }, { "d1", 7, "w", "s" }, { "d1", 7, "s", "" },
	};

	CHECK_OK(lend_make_key(&private, public, NULL));
	CHECK_OK(lend_make_key(&other, others, NULL));
	CHECK_OK(lend_close(public, &claim, "value", 5, &box, NULL));
	CHECK(memmem(box.data, box.len, "value", 5) == NULL);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		CHECK(lend_open(&private, public, &wrong[i], box.data, box.len, &data, NULL) == -EBADMSG);
	CHECK(lend_open(&other, others, &claim, box.data, box.len, &data, NULL) == -EBADMSG);
	for (size_t len = 0; len < box.len; len++)
		CHECK(lend_open(&private, public, &claim, box.data, len, &data, NULL) == -EBADMSG);
	for (size_t i = 0; i < box.len; i++) {
		box.data[i] ^= 1;
		CHECK(lend_open(&private, public, &claim, box.data, box.len, &data, NULL) == -EBADMSG);
		box.data[i] ^= 1;
	}
	CHECK_OK(lend_open(&private, public, &claim, box.data, box.len, &data, NULL));
	CHECK(data.len == 5 && memcmp(data.at, "value", 5) == 0);
}

TEST(vault_lend_refuses_keys_of_small_order)
{
	OWN(buf_free) struct buf box = BUF(LEND_BOX_MAX);
	unsigned char zero[LEND_KEY] = {0}, one[LEND_KEY] = { 1 };

	CHECK(lend_close(zero, &claim, "value", 5, &box, NULL) == -EBADMSG);
	CHECK(lend_close(one, &claim, "value", 5, &box, NULL) == -EBADMSG);
}

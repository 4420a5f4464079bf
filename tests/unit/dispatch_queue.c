/* dispatch_queue.c - tests of the queue: who is next, keys, and what rows become. */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "canon/canon.h"
#include "dispatch/dispatch_parts.h"
#include "store/db.h"
#include "registry/object.h"
#include "registry/registry.h"
#include "test.h"

static void
put(struct registry *reg, enum registry_kind kind, const char *text)
{
	OWN(json_decrefp) json_t *said = NULL;
	OWN(object_freep) struct object *object = NULL;
	struct registry_version version;
	char pointer[OBJECT_POINTER_MAX];
	struct err err = {0};
	bool created;

	CHECK_OK(canon_read(text, strlen(text), &said, &err));
	if (object_read_json(reg, kind, said, &object, pointer, &err) < 0 ||
	    registry_put(reg, object, NULL, &version, &created, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", pointer, err.text);
}

/* Where cloister is does not matter here, but that it is somewhere does. */
static struct registry *
open_registry(void)
{
	struct registry *reg = NULL;
	struct err err = {0};

	setenv("CLOISTER_DATA_DIR", test_dir(), 1);
	if (registry_open(true, &reg, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	put(reg, REGISTRY_AGENT, "{\"name\":\"a\",\"command\":[\"true\"]}");
	return reg;
}

static int
submit(struct registry *reg, const struct dispatch_request *request, char id[DISPATCH_ID_LEN + 1],
       bool *created, struct err *err)
{
	return dispatch_submit(reg, request, id, created, err);
}

static void
queue(struct registry *reg, char id[DISPATCH_ID_LEN + 1])
{
	const struct dispatch_request request = { .agent = "a" };
	struct err err = {0};
	bool created;

	if (submit(reg, &request, id, &created, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK(created);
}

static enum dispatch_state
state_of(struct registry *reg, const char *id)
{
	OWN(dispatch_free) struct dispatch d = {0};

	CHECK_OK(dispatch_get(reg, id, &d, NULL));
	return d.state;
}

TEST(dispatch_queue_is_in_order)
{
	OWN(registry_closep) struct registry *reg = open_registry();
	struct db *db = registry_db(reg);
	char first[DISPATCH_ID_LEN + 1], second[DISPATCH_ID_LEN + 1], third[DISPATCH_ID_LEN + 1];
	const struct dispatch_ending end = { .state = DISPATCH_FINISHED, .reason = "" };
	uint64_t wait;

	queue(reg, first);
	queue(reg, second);
	queue(reg, third);
	/* There is one place, and it is the first's. */
	CHECK(dispatch_begin(db, second, "cell0002", 1, &wait, NULL) == 0);
	CHECK(dispatch_begin(db, first, "cell0001", 1, &wait, NULL) == 1);
	CHECK(state_of(reg, first) == DISPATCH_STARTING);
	CHECK_ERR(dispatch_begin(db, first, "cell0001", 1, &wait, NULL), EALREADY);
	CHECK(dispatch_begin(db, second, "cell0002", 1, &wait, NULL) == 0);
	/* There are two: the third is not before the second. */
	CHECK(dispatch_begin(db, third, "cell0003", 2, &wait, NULL) == 0);
	CHECK_OK(dispatch_set_running(db, first, NULL));
	CHECK_OK(dispatch_set_end(db, first, &end, NULL));
	CHECK(dispatch_begin(db, second, "cell0002", 1, &wait, NULL) == 1);
	CHECK(dispatch_begin(db, third, "cell0003", 2, &wait, NULL) == 1);
	CHECK_ERR(dispatch_set_end(db, first, &end, NULL), ESTALE);
}

TEST(dispatch_queue_begins_with_the_row)
{
	OWN(registry_closep) struct registry *reg = open_registry();
	int lock = -1;
	const struct dispatch_request request = { .agent = "a", .begin = 2, .lock = &lock };
	char ids[3][DISPATCH_ID_LEN + 1], other[DISPATCH_ID_LEN + 1];
	bool created;

	for (int i = 0; i < 3; i++) {
		CHECK_OK(submit(reg, &request, ids[i], &created, NULL));
		/* From before there was a row: nobody else can have it. */
		CHECK_ERR(dispatch_lock(ids[i], NULL), EBUSY);
		close(lock);
	}
	for (int i = 0; i < 3; i++) {
		OWN(dispatch_free) struct dispatch d = {0};

		CHECK_OK(dispatch_get(reg, ids[i], &d, NULL));
		CHECK(d.state == (i < 2 ? DISPATCH_STARTING : DISPATCH_QUEUED));
		CHECK(d.attempts == (i < 2) && (d.cell[0] != '\0') == (i < 2));
		CHECK(dispatch_is_of_this_boot(d.boot) == (i < 2));
	}
	/* One that waits is not overtaken when there is a place. */
	CHECK_OK(dispatch_set_end(registry_db(reg), ids[0],
	                          &(struct dispatch_ending){ .state = DISPATCH_FINISHED, .reason = "" },
	                          NULL));
	CHECK_OK(submit(reg, &request, other, &created, NULL));
	CHECK(state_of(reg, other) == DISPATCH_QUEUED);
	close(lock);
}

TEST(dispatch_queue_waits_before_it_tries_again)
{
	OWN(registry_closep) struct registry *reg = open_registry();
	struct db *db = registry_db(reg);
	char first[DISPATCH_ID_LEN + 1], second[DISPATCH_ID_LEN + 1];
	uint64_t wait;

	queue(reg, first);
	queue(reg, second);
	CHECK(dispatch_begin(db, first, "cell0001", 1, &wait, NULL) == 1);
	CHECK_OK(dispatch_requeue(db, first, DISPATCH_BACKOFF_MAX_MS, NULL));
	/* Whoever waits for a time keeps nobody from a place. */
	CHECK(dispatch_begin(db, first, "cell0001", 1, &wait, NULL) == 0);
	CHECK(wait > DISPATCH_BACKOFF_MAX_MS / 2 && wait <= DISPATCH_BACKOFF_MAX_MS);
	CHECK(dispatch_begin(db, second, "cell0002", 1, &wait, NULL) == 1);
	/* A clock that was set back keeps nobody waiting: nor does it let others pass. */
	CHECK(db_do(db, NULL, "UPDATE dispatches SET not_before_ms = not_before_ms + 86400000 WHERE id = ?", "s", first) == 1);
	CHECK(dispatch_begin(db, first, "cell0001", 1, &wait, NULL) == 0 && wait == 0);
	CHECK(dispatch_begin(db, first, "cell0001", 2, &wait, NULL) == 1);
}

TEST(dispatch_queue_leaves_out_cancelled_ones)
{
	OWN(registry_closep) struct registry *reg = open_registry();
	char id[DISPATCH_ID_LEN + 1];
	uint64_t wait;
	OWN(closep) int lock = -1;

	queue(reg, id);
	lock = dispatch_lock(id, NULL);
	CHECK(lock >= 0);
	CHECK_ERR(dispatch_lock(id, NULL), EBUSY);
	/* Somebody drives it: the end is theirs to write. */
	CHECK_OK(dispatch_cancel(reg, id, 0, NULL));
	CHECK(state_of(reg, id) == DISPATCH_QUEUED);
	CHECK_ERR(dispatch_begin(registry_db(reg), id, "cell0001", 1, &wait, NULL), ECANCELED);
	closep(&lock);
	lock = -1;
	CHECK_OK(dispatch_cancel(reg, id, 0, NULL));
	CHECK(state_of(reg, id) == DISPATCH_CANCELLED);
	CHECK_ERR(dispatch_cancel(reg, id, 0, NULL), EALREADY);
}

TEST(dispatch_queue_replaces_a_cell_that_never_was)
{
	OWN(registry_closep) struct registry *reg = open_registry();
	OWN(dispatch_free) struct dispatch d = {0};
	struct db *db = registry_db(reg);
	char id[DISPATCH_ID_LEN + 1];
	uint64_t wait;

	queue(reg, id);
	CHECK(dispatch_begin(db, id, "cell0001", 1, &wait, NULL) == 1);
	CHECK_ERR(dispatch_replace_cell(db, id, "cell0003", "cell0002", NULL), ESTALE);
	CHECK_OK(dispatch_replace_cell(db, id, "cell0002", "cell0001", NULL));
	CHECK_OK(dispatch_get(reg, id, &d, NULL));
	CHECK_STR(d.cell, "cell0002");
	CHECK_U64(d.attempts, 1);
	CHECK(dispatch_is_of_this_boot(d.boot));
	/* One that runs is nobody's to replace. */
	CHECK_OK(dispatch_set_running(db, id, NULL));
	CHECK_ERR(dispatch_replace_cell(db, id, "cell0003", "cell0002", NULL), ESTALE);
}

static const struct {
	struct dispatch_request request;
	int want;                       /* errno; 0: the same one again */
} key_cases[] = {
	{ { .agent = "a", .key = "k" }, 0 },
	{ { .agent = "a", .key = "k", .target = "local" }, 0 },
	{ { .agent = "a", .key = "k", .principal = "" }, 0 },
	{ { .agent = "a", .key = "k", .retries = 1 }, EEXIST },
	{ { .agent = "a", .key = "k", .timeout_ms = 1 }, EEXIST },
	{ { .agent = "a", .key = "k", .input = "", .input_len = 0 }, EEXIST },
	{ { .agent = "a", .key = "k", .principal = "jo" }, EEXIST },
	{ { .agent = "a", .key = "k", .envs = (const char *const[]){ "e" }, .n_envs = 1 }, EEXIST },
};

TEST(dispatch_keys)
{
	OWN(registry_closep) struct registry *reg = open_registry();
	char first[DISPATCH_ID_LEN + 1], id[DISPATCH_ID_LEN + 1];
	bool created;

	put(reg, REGISTRY_ENV, "{\"name\":\"e\",\"values\":{}}");
	CHECK_OK(submit(reg, &key_cases[0].request, first, &created, NULL));
	CHECK(created);
	for (size_t i = 0; i < ARRAY_LEN(key_cases); i++) {
		int r = submit(reg, &key_cases[i].request, id, &created, NULL);

		if (r != -key_cases[i].want)
			test_fail(__FILE__, __LINE__, "case %zu: %d", i, r);
		CHECK(r < 0 || (!created && strcmp(id, first) == 0));
	}
}

TEST(dispatch_ids_may_be_cut_short)
{
	OWN(registry_closep) struct registry *reg = open_registry();
	OWN(dispatch_free) struct dispatch d = {0};
	char id[DISPATCH_ID_LEN + 1], part[DISPATCH_PREFIX_MIN + 1];

	queue(reg, id);
	snprintf(part, sizeof(part), "%.4s", id);
	CHECK_OK(dispatch_get(reg, part, &d, NULL));
	CHECK_STR(d.id, id);
	part[DISPATCH_PREFIX_MIN - 1] = '\0';
	CHECK_ERR(dispatch_get(reg, part, &d, NULL), ENOENT);
	queue(reg, id);
	CHECK_ERR(dispatch_get(reg, "", &d, NULL), ENOENT);
	CHECK_ERR(dispatch_get(reg, "UPPER", &d, NULL), ENOENT);
	CHECK_ERR(dispatch_get(reg, "%", &d, NULL), ENOENT);
	CHECK_ERR(dispatch_get(reg, "aaaaaaaaaaaaaaaaa", &d, NULL), ENOENT);
}

TEST(dispatch_states_have_names)
{
	enum dispatch_state state;

	for (int i = 0; i < DISPATCH_STATES; i++) {
		CHECK_OK(dispatch_state_parse(dispatch_state_name((enum dispatch_state)i), &state));
		CHECK(state == (enum dispatch_state)i);
		CHECK(dispatch_state_is_over(state) == (i >= DISPATCH_FINISHED));
	}
	CHECK_ERR(dispatch_state_parse("over", &state), EINVAL);
}

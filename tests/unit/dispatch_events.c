/* dispatch_events.c - tests of a dispatch's events: lines that only grow, whatever is cut off. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "canon/canon.h"
#include "dispatch/dispatch_parts.h"
#include "test.h"

#define ID "abcdefghijklmnop"

static struct dispatch_log
make_log(void)
{
	struct dispatch_log log;
	struct err err = {0};
	OWN(closep) int folder = -1;

	setenv("CLOISTER_DATA_DIR", test_dir(), 1);
	folder = dispatch_folder(ID, true, &err);
	if (folder < 0 || dispatch_log_make(folder, ID, &log, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	return log;
}

static char *
read_log(void)
{
	OWN(freep) char *path = dispatch_events_path(ID, NULL);
	char *text = NULL;

	CHECK_OK(read_file_at(AT_FDCWD, path, 64u << 20, &text, NULL, NULL));
	return text;
}

/* Event N's member NAME, as it was written; "" if it has none. */
static json_t *
event(size_t n)
{
	OWN(freep) char *text = read_log();
	char *line = text, *end;
	json_t *value = NULL;

	for (; n > 1; n--) {
		line = strchr(line, '\n');
		CHECK(line != NULL);
		line++;
	}
	end = strchr(line, '\n');
	CHECK(end != NULL);
	CHECK_OK(canon_read(line, (size_t)(end - line), &value, NULL));
	return value;
}

static void
check_event(size_t n, const char *name, const char *want)
{
	OWN(json_decrefp) json_t *e = event(n);

	CHECK_STR(dispatch_text(e, name), want);
}

TEST(dispatch_events_count_up)
{
	OWN(dispatch_log_close) struct dispatch_log log = make_log(), again = { .fd = -1 };

	CHECK_OK(dispatch_log_put(&log, "dispatch.queued", NULL, false, NULL));
	CHECK_OK(dispatch_log_put(&log, "cell.boot", json_pack("{s:s}", "cell", "abcd1234"), true, NULL));
	check_event(1, "event", "dispatch.queued");
	check_event(2, "cell", "abcd1234");
	check_event(2, "dispatch", ID);
	CHECK_OK(dispatch_log_open(ID, &again, NULL));
	CHECK_U64(again.n, 2);
	CHECK_STR(again.cell, "abcd1234");
	CHECK(again.end == NULL);
}

/* Who comes back to it because the row could not be written must not tell it again. */
TEST(dispatch_events_know_their_end)
{
	OWN(dispatch_log_close) struct dispatch_log log = make_log(), again = { .fd = -1 };

	CHECK_OK(dispatch_log_put(&log, "dispatch.queued", NULL, false, NULL));
	CHECK(log.end == NULL);
	CHECK_OK(dispatch_log_put(&log, "dispatch.finished", json_pack("{s:s}", "state", "failed"), true, NULL));
	CHECK(log.end != NULL);
	CHECK_STR(dispatch_text(log.end, "state"), "failed");
	CHECK_OK(dispatch_log_open(ID, &again, NULL));
	CHECK(json_equal(again.end, log.end));
}

TEST(dispatch_events_mend_a_line_that_was_cut_off)
{
	OWN(dispatch_log_close) struct dispatch_log log = make_log(), again = { .fd = -1 };
	OWN(freep) char *text = NULL;

	CHECK_OK(dispatch_log_put(&log, "dispatch.queued", NULL, false, NULL));
	CHECK_OK(write_all(log.fd, "{\"dispatch\":\"ab", 14, NULL));
	CHECK_OK(dispatch_log_open(ID, &again, NULL));
	CHECK_U64(again.n, 1);
	CHECK_OK(dispatch_log_put(&again, "cell.boot", NULL, false, NULL));
	check_event(2, "event", "cell.boot");
	text = read_log();
	CHECK(strstr(text, "\"ab{") == NULL && text[strlen(text) - 1] == '\n');
}

TEST(dispatch_events_that_are_damaged_are_not_gone_on_with)
{
	OWN(dispatch_log_close) struct dispatch_log log = make_log(), again = { .fd = -1 };
	struct err err = {0};

	CHECK_OK(write_all(log.fd, "nonsense\n", 9, NULL));
	CHECK_ERR(dispatch_log_open(ID, &again, &err), EBADMSG);
}

TEST(dispatch_events_record_how_far_output_was_reported)
{
	OWN(dispatch_log_close) struct dispatch_log log = make_log(), again = { .fd = -1 };

	CHECK_OK(dispatch_log_put(&log, "cell.boot", json_pack("{s:s}", "cell", "a"), false, NULL));
	CHECK_OK(dispatch_log_output(&log, DISPATCH_STDOUT, "hello", 5, true, NULL));
	CHECK_OK(dispatch_log_output(&log, DISPATCH_STDERR, "no", 2, true, NULL));
	CHECK_OK(dispatch_log_output(&log, DISPATCH_STDOUT, " you", 4, true, NULL));
	CHECK_OK(dispatch_log_open(ID, &again, NULL));
	CHECK_U64(again.output[0], 9);
	CHECK_U64(again.output[1], 2);
	/* Another cell begins from its beginning. */
	CHECK_OK(dispatch_log_put(&again, "cell.boot", json_pack("{s:s}", "cell", "b"), false, NULL));
	CHECK_U64(again.output[0], 0);
}

static const struct {
	const char *data;
	size_t len;
	bool more;
	size_t told;                    /* bytes */
	const char *text, *base64;      /* of the first event */
} output_cases[] = {
	{ "plain", 5, true, 5, "plain", "" },
	{ "caf\xc3", 4, true, 3, "caf", "" },           /* the rest of it is to come */
	{ "\xc3", 1, true, 0, NULL, NULL },
	{ "\xf0\x9f\x98", 3, true, 0, NULL, NULL },
	{ "\xc3", 1, false, 1, "", "ww==" },            /* it never came */
	{ "caf\xc3", 4, false, 4, "caf", "" },
	{ "\xff\xfe", 2, true, 2, "", "//4=" },
	{ "a\0b", 3, true, 3, "", "YQBi" },
	{ "\xc0\x80x", 3, true, 3, "", "wIB4" },        /* overlong */
	{ "\xf0\x9f\x98\x80", 4, true, 4, "\xf0\x9f\x98\x80", "" },
};

TEST(dispatch_events_hold_output_as_text_or_not)
{
	for (size_t i = 0; i < ARRAY_LEN(output_cases); i++) {
		OWN(dispatch_log_close) struct dispatch_log log = make_log();

		CHECK_OK(dispatch_log_output(&log, DISPATCH_STDOUT, output_cases[i].data, output_cases[i].len,
		                             output_cases[i].more, NULL));
		CHECK_U64(log.output[0], output_cases[i].told);
		if (output_cases[i].text != NULL) {
			check_event(1, "text", output_cases[i].text);
			check_event(1, "base64", output_cases[i].base64);
		} else {
			CHECK_U64(log.n, 0);
		}
		dispatch_remove_folder(ID);
	}
}

TEST(dispatch_events_hold_the_beginning_of_much_output)
{
	OWN(dispatch_log_close) struct dispatch_log log = make_log();
	OWN(freep) char *data = calloc(1, 1 << 20);
	OWN(json_decrefp) json_t *last = NULL;

	memset(data, 'x', 1 << 20);
	for (int i = 0; i < 9; i++)
		CHECK_OK(dispatch_log_output(&log, DISPATCH_STDOUT, data, 1 << 20, true, NULL));
	CHECK_U64(log.output[0], DISPATCH_EVENTS_OUTPUT_MAX);
	CHECK(log.cut[0] && !log.cut[1]);
	last = event(log.n);
	CHECK(json_is_true(json_object_get(last, "cut")));
}

/* What takes six times its length to write down, attempt after attempt, with a character that every
 * part splits. */
TEST(dispatch_events_stay_readable_with_any_output)
{
	OWN(dispatch_log_close) struct dispatch_log log = make_log(), again = { .fd = -1 };
	OWN(freep) char *data = malloc(1 << 20);

	memset(data, 1, 1 << 20);
	for (size_t i = 16383; i + 1 < 1 << 20; i += 16383)
		memcpy(data + i, "\xc3\xa9", 2);
	for (int attempt = 0; attempt < 3; attempt++) {
		CHECK_OK(dispatch_log_put(&log, "cell.boot", json_pack("{s:s}", "cell", "a"), false, NULL));
		for (int i = 0; i < 9; i++)
			CHECK_OK(dispatch_log_output(&log, DISPATCH_STDOUT, data, 1 << 20, true, NULL));
		CHECK(log.cut[0]);
	}
	CHECK(log.size > 48u << 20 && log.size < 66u << 20);
	CHECK_OK(dispatch_log_open(ID, &again, NULL));
	CHECK_U64(again.size, log.size);
	CHECK(again.cut[0]);
}

TEST(dispatch_events_end)
{
	OWN(dispatch_log_close) struct dispatch_log log = make_log(), again = { .fd = -1 };
	OWN(json_decrefp) json_t *end = NULL, *none = dispatch_peek_end(ID);
	struct dispatch d = { .attempts = 2 };
	struct dispatch_ending ending = { .state = DISPATCH_FINISHED, .exit_code = 3, .reason = "" };

	CHECK(none == NULL);
	CHECK_OK(dispatch_log_put(&log, "dispatch.queued", NULL, false, NULL));
	CHECK(dispatch_peek_end(ID) == NULL);
	CHECK_OK(dispatch_log_end(&log, &d, &ending, NULL));
	end = dispatch_peek_end(ID);
	CHECK(end != NULL && json_integer_value(json_object_get(end, "exit_code")) == 3);
	CHECK_OK(dispatch_log_open(ID, &again, NULL));
	CHECK(again.end != NULL && json_equal(again.end, end));
}

/* egress_scrub.c - tests of responses that cannot be scrubbed because there is no memory. */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/err.h"
#include "egress_lab.h"
#include "test.h"

/* The sanitizer has memory of its own. */
#ifndef CLOISTER_SANITIZED
#define RULE "  - allow: " LAB_HOST ":PORT\n"
#define FAKE "fake-value-of-the-cell"
#define REAL_LEN 32000
#define PIECE 1000
#define ESCAPED 6                       /* \\u0041 */
#define CALL(name, ...) static bool name(struct lab *l) { return __VA_ARGS__; }

static struct lab lab;

CALL(is_asked, lab_heard(l, "\r\n\r\n"))
CALL(is_over, l->streams[1].ended || l->streams[1].is_reset)
CALL(has_begun, l->streams[1].data.len >= 5)

static void
start(char real[REAL_LEN])
{
	OWN(secret_list_free) struct secret_list list = {0};
	OWN(secret_values_free) struct secret_values values = {0};
	struct placeholder fake = { .field = { [SECRET_SECRET] = (char *)(uintptr_t)FAKE } };
	char text[256];
	int fd = memfd_create("bound", MFD_CLOEXEC);

	for (size_t i = 0; i < REAL_LEN; i++)
		real[i] = (char)('A' + i * i % 23);
	lab_start(&lab, RULE);
	snprintf(text, sizeof(text), "version: 1\nsecrets:\n  KEY: {hosts: [" LAB_HOST ":%u], plain: true}\n",
	         lab.port);
	CHECK_OK(secret_load_text("t.yaml", text, strlen(text), &list, NULL));
	CHECK_OK(guard_copy(&values.field[SECRET_SECRET], real, REAL_LEN, NULL));
	CHECK_OK(bound_write(fd, list.at[0], &fake, &values, NULL));
	CHECK_OK(secrets_open(&lab.courier.secrets, fd, NULL));
	close(fd);
}

/* Some of the value, escaped, in chunks; until somebody has enough of it. */
static void
say_beginning(const char *real, size_t from, size_t to)
{
	char chunk[8 + PIECE * ESCAPED + 8];

	for (size_t i = from; i < to && !is_over(&lab); i += PIECE) {
		int n = snprintf(chunk, sizeof(chunk), "%x\r\n", PIECE * ESCAPED);

		for (size_t k = 0; k < PIECE; k++)
			n += snprintf(chunk + n, sizeof(chunk) - (size_t)n, "\\u%04x", real[i + k]);
		snprintf(chunk + n, sizeof(chunk) - (size_t)n, "\r\n");
		lab_answer(&lab, chunk);
		lab_settle(&lab);
	}
}

static void
take_memory_away(void)
{
	struct rlimit none = { 0, RLIM_INFINITY };

	CHECK(setrlimit(RLIMIT_AS, &none) == 0);
}

TEST(courier_scrub_without_memory)
{
	static char real[REAL_LEN];

	start(real);
	lab_ask(&lab, 1, "GET", 0);
	lab_run(&lab, is_asked);
	lab_answer(&lab, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nbegun\r\n");
	lab_run(&lab, has_begun);
	say_beginning(real, 0, 1000);
	take_memory_away();
	say_beginning(real, 1000, REAL_LEN - PIECE);
	if (!is_over(&lab))
		lab_answer(&lab, "4\r\n!end\r\n0\r\n\r\n");
	lab_run(&lab, is_over);
	/* Nothing of it is left out in silence: it fails. */
	CHECK(lab.streams[1].is_reset && !lab.streams[1].ended);
	CHECK(lab_recorded(&lab, "there is no memory to look for secrets in it"));
	lab_end(&lab);
}
#endif

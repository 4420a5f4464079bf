/* base_timing.c - tests of base/timing. */
#include "base/timing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "base/own.h"
#include "test.h"

#define BEGUN 1000000

/* PROC was not done, so what SCRATCH took counts from DEVICES.  INIT has a time before the beginning. */
static const uint64_t times[TIMING_STEPS] = {
	[TIMING_BEGUN] = BEGUN, [TIMING_SCRATCH] = BEGUN + 5000000, [TIMING_DEVICES] = BEGUN + 2000000,
	[TIMING_DESCRIBED] = BEGUN + 1234567, [TIMING_INIT] = 1,
};

TEST(base_timing_table)
{
	OWN(freep) char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	timing_print(out, times);
	fclose(out);
	CHECK_STR(text,
	          "    at ms   took ms  process     step\n"
	          "    0.000     0.000  init        load init\n"
	          "    1.235     1.235  cloister    read the options, describe the cell\n"
	          "    2.000     0.765  child       make /dev\n"
	          "    5.000     3.000  child       make the scratch space\n");
}

TEST(base_timing_json)
{
	OWN(freep) char *text = NULL;
	size_t len = 0;
	struct json w = { .out = open_memstream(&text, &len) };

	timing_put_json(&w, NULL, times);
	fclose(w.out);
	CHECK_STR(text,
	          "[{\"step\":\"init\",\"process\":\"init\",\"at_ns\":0,\"took_ns\":0},"
	          "{\"step\":\"described\",\"process\":\"cloister\",\"at_ns\":1234567,\"took_ns\":1234567},"
	          "{\"step\":\"devices\",\"process\":\"child\",\"at_ns\":2000000,\"took_ns\":765433},"
	          "{\"step\":\"scratch\",\"process\":\"child\",\"at_ns\":5000000,\"took_ns\":3000000}]");
}

/* A process that was forked and one that attached the file write to the same page. */
TEST(base_timing_page)
{
	uint64_t *made;
	pid_t pid;

	timing_mark(TIMING_DEAD);
	CHECK(timing_page == NULL);
	CHECK_OK(timing_make(BEGUN, NULL));
	made = timing_page;
	CHECK(made[TIMING_BEGUN] == BEGUN && made[TIMING_DEAD] == 0);
	CHECK(ftruncate(timing_file, 0) < 0 && errno == EPERM);
	pid = fork();
	if (pid == 0) {
		if (timing_attach(timing_file, NULL) == 0 && timing_page != made)
			timing_mark(TIMING_DEAD);
		_exit(0);
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
	CHECK(made[TIMING_DEAD] > BEGUN && made[TIMING_DEAD] <= timing_now_ns());
}

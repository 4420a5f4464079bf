/* replay.c - runs a fuzz target on stored inputs, and on nothing, as fuzzers do first:
 * replay_X FILE... */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "../leaks.h"
#include "fuzz.h"

#define SEED_MAX (1 << 20)
#define SEED_SECONDS 60

/* Without the NUL that read_file_at puts behind it, so that a sanitizer sees a read
 * past the end. */
static int
replay_bytes(const char *text, size_t len)
{
	OWN(freep) uint8_t *data = malloc(len);

	if (data == NULL && len > 0)
		return EXIT_FAILURE;
	memcpy(data, text, len);
	return LLVMFuzzerTestOneInput(data, len);
}

static int
replay(const char *path)
{
	OWN(freep) char *text = NULL;
	struct err err = {0};
	size_t len;

	if (read_file_at(AT_FDCWD, path, SEED_MAX, &text, &len, &err) < 0) {
		printf("%s\n", err.text);
		return EXIT_FAILURE;
	}
	return replay_bytes(text, len);
}

int
main(int argc, char **argv)
{
	int passed = 0, failed = 0, status;
	pid_t pid;

	for (int i = 0; i < argc; i++) {
		fflush(stdout);
		pid = fork();
		if (pid == 0) {
			alarm(SEED_SECONDS);
			leaks_watch();
			leaks_exit(i == 0 ? replay_bytes("", 0) : replay(argv[i]));
		}
		if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0) {
			passed++;
			continue;
		}
		failed++;
		printf("FAILED: %s\n", i == 0 ? "nothing" : argv[i]);
	}
	printf("%d passed, %d failed\n", passed, failed);
	leaks_exit(failed > 0 || passed == 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* doctor_blobs.c - see doctor.h: whether the place that CLOISTER_BLOBS names can be used. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "boundary/findings.h"
#include "cli/doctor.h"
#include "store/s3_place.h"

#define SAID_MAX 4096

/* cloister-blobs puts one empty object, and removes it. */
static int
check(char **ret_said)
{
	char *argv[] = { (char[]){ "cloister-blobs" }, (char[]){ "--check" }, NULL };
	int ends[2], status;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid = spawn_start(&(struct spawn){ .argv = argv, .n_fds = 3, .flags = SPAWN_DIES | SPAWN_ONLY,
		.fds = (struct spawn_fd[]){ { SPAWN_NULL, STDIN_FILENO }, { ends[1], STDOUT_FILENO },
		                            { ends[1], STDERR_FILENO } } }, NULL, NULL);
	close(ends[1]);
	if (pid > 0)
		(void)read_open(ends[0], "cloister-blobs", SAID_MAX, ret_said, NULL, NULL);
	close(ends[0]);
	status = pid > 0 ? spawn_await(pid, NULL) : -1;
	return status;
}

void
doctor_blobs(struct findings *f)
{
	static const char prefix[] = "cloister: ";
	const char *place = getenv(S3_VARIABLE);
	OWN(freep) char *said = NULL;
	const char *text;
	int status;

	if (place == NULL || *place == '\0')
		return;
	status = check(&said);
	text = said != NULL ? said : "cloister-blobs does not start";
	text += strncmp(text, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
	if (status == 0)
		findings_add(f, "blobs", FINDING_OK, "%.*s can be read and written", (int)strcspn(text, "\n"), text);
	else
		findings_advise(findings_add(f, "blobs", FINDING_MISSING, "%.*s", (int)strcspn(text, "\n"), text),
		                "docs/store.md explains " S3_VARIABLE);
}

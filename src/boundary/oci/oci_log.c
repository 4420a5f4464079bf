/* oci_log.c - what a runtime says, for the error if it fails. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/oci/oci.h"

#define LOG_SIZE 8192
#define LOG_MAX 240

int
oci_make_log(struct err *err)
{
	OWN(closep) int log = memfd_create("runtime", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (log < 0 || ftruncate(log, LOG_SIZE) < 0 ||
	    fcntl(log, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return err_errno(err, "cannot make a log for the runtime");
	return TAKE_FD(log);
}

/* The message in a line such as `time="..." level=error msg="..."`, or all of it. */
static char *
find_message(char *line)
{
	char *at = strstr(line, "msg=\""), *end;

	if (at == NULL)
		return line;
	at += strlen("msg=\"");
	end = strrchr(at, '"');
	if (end != NULL)
		*end = '\0';
	return at;
}

void
oci_explain(int log, const char *runtime, struct err *err)
{
	char text[LOG_SIZE + 1] = "", *rest, *why = NULL;

	if (pread(log, text, LOG_SIZE, 0) <= 0)
		return;
	for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
		why = line;
	if (why == NULL)
		return;
	why = find_message(why);
	for (char *at = why; *at != '\0'; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	(void)err_set(err, err->code, "%s could not make the cell's container: %.*s", runtime, LOG_MAX, why);
}

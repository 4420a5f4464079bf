/* ask.c - questions to the person at the terminal. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proc/lock/lock_proc.h"

bool
ask_line(const char *question, char *ret_line, size_t size)
{
	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return false;
	fputs(question, stderr);
	if (fgets(ret_line, (int)size, stdin) == NULL)
		return false;
	ret_line[strcspn(ret_line, "\n")] = '\0';
	return true;
}

int
ask_yes(const char *question, const char *otherwise, struct err *err)
{
	char line[16] = "";

	if (!ask_line(question, line, sizeof(line)))
		return err_set(err, EPERM, "%s", otherwise);
	return line[0] == 'y' || line[0] == 'Y';
}

/* tell.c - prints a program's final error. */
#include "base/tell.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/text.h"

#define FRONT "cloister: "
#define SAID_MAX 4096

int
tell_error(const struct err *err)
{
	fputs(FRONT, stderr);
	text_print_safe(stderr, err->text, strlen(err->text), false);
	fputc('\n', stderr);
	return TELL_FAILED;
}

void
tell_read(int said, const char *otherwise, char *ret_text, size_t size)
{
	OWN(freep) char *text = NULL;
	const char *at = otherwise;

	if (read_whole(said, SAID_MAX, &text, NULL, NULL) == 0 && *text != '\0') {
		text[strcspn(text, "\n")] = '\0';
		at = strncmp(text, FRONT, strlen(FRONT)) == 0 ? text + strlen(FRONT) : text;
	}
	snprintf(ret_text, size, "%s", at);
}

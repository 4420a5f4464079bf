/* tell.c - prints a program's final error. */
#include "base/tell.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"

int
tell_error(const struct err *err)
{
	fputs("cloister: ", stderr);
	text_print_safe(stderr, err->text, strlen(err->text), false);
	fputc('\n', stderr);
	return TELL_FAILED;
}

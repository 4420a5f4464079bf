/* err.c - see err.h. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void
err_format(struct err *err, const char *fmt, va_list args)
{
	vsnprintf(err->text, sizeof(err->text), fmt, args);
}

int
err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list args;

	if (err != NULL) {
		err->code = code;
		va_start(args, fmt);
		err_format(err, fmt, args);
		va_end(args);
	}
	return -code;
}

int
err_errno(struct err *err, const char *fmt, ...)
{
	int code = errno;
	va_list args;
	size_t used;

	if (err != NULL) {
		err->code = code;
		va_start(args, fmt);
		err_format(err, fmt, args);
		va_end(args);
		used = strlen(err->text);
		/* strerrordesc_np: no locale, no static buffer. */
		snprintf(err->text + used, sizeof(err->text) - used, ": %s",
		         strerrordesc_np(code) != NULL ? strerrordesc_np(code) : "unknown error");
	}
	return -code;
}

int
err_wrap(struct err *err, const char *fmt, ...)
{
	char inner[ERR_TEXT_MAX];
	va_list args;
	size_t used;

	if (err == NULL)
		return -EINVAL;
	memcpy(inner, err->text, sizeof(inner));
	va_start(args, fmt);
	err_format(err, fmt, args);
	va_end(args);
	used = strlen(err->text);
	snprintf(err->text + used, sizeof(err->text) - used, ": %.*s",
	         (int)sizeof(inner) - 1, inner);
	return -err->code;
}

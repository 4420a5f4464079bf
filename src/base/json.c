/* json.c - see json.h. */
#include "base/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/utf8.h"

static void
json_escape(FILE *out, uint32_t code)
{
	static const char named[] = "\bb\ff\nn\rr\tt\"\"\\\\";

	for (const char *p = named; *p != '\0'; p += 2) {
		if (code == (unsigned char)p[0]) {
			fprintf(out, "\\%c", p[1]);
			return;
		}
	}
	if (code > 0xffff)          /* as a surrogate pair */
		fprintf(out, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (code >> 10)),
		        (unsigned)(0xdc00 + (code & 0x3ff)));
	else
		fprintf(out, "\\u%04x", (unsigned)code);
}

static void
json_quote(FILE *out, const char *s)
{
	size_t len = strlen(s), n;
	uint32_t code;

	fputc('"', out);
	for (; len > 0; s += n, len -= n) {
		n = utf8_next(s, len, &code);
		if (n == 0) {
			fputs("\xef\xbf\xbd", out);
			n = 1;
		} else if (code == '"' || code == '\\' || utf8_is_control(code)) {
			/* Control characters are escaped though JSON allows most of them: people
			 * read this on a terminal. */
			json_escape(out, code);
		} else {
			fwrite(s, 1, n, out);
		}
	}
	fputc('"', out);
}

static void
json_begin(struct json *w, const char *key)
{
	if (w->comma)
		fputc(',', w->out);
	if (key != NULL) {
		json_quote(w->out, key);
		fputc(':', w->out);
	}
	w->comma = true;
}

void
json_open(struct json *w, const char *key, char bracket)
{
	json_begin(w, key);
	fputc(bracket, w->out);
	w->comma = false;
}

void
json_close(struct json *w, char bracket)
{
	fputc(bracket, w->out);
	w->comma = true;
}

void
json_str(struct json *w, const char *key, const char *value)
{
	if (value == NULL) {
		json_none(w, key);
		return;
	}
	json_begin(w, key);
	json_quote(w->out, value);
}

void
json_u64(struct json *w, const char *key, uint64_t value)
{
	json_begin(w, key);
	fprintf(w->out, "%" PRIu64, value);
}

void
json_bool(struct json *w, const char *key, bool value)
{
	json_begin(w, key);
	fputs(value ? "true" : "false", w->out);
}

void
json_none(struct json *w, const char *key)
{
	json_begin(w, key);
	fputs("null", w->out);
}

void
json_raw(struct json *w, const char *key, const char *fmt, ...)
{
	va_list args;

	json_begin(w, key);
	va_start(args, fmt);
	vfprintf(w->out, fmt, args);
	va_end(args);
}

void
json_strv(struct json *w, const char *key, const char *const *words)
{
	json_open(w, key, '[');
	for (; *words != NULL; words++)
		json_str(w, NULL, *words);
	json_close(w, ']');
}

/* fuzz_audit_export.c - lines of a timeline in the formats of other systems: always lines of JSON. */
#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/export.h"
#include "fuzz.h"

static void
check_lines(const char *text, size_t len)
{
	while (len > 0) {
		const char *newline = memchr(text, '\n', len);
		size_t n = newline == NULL ? 0 : (size_t)(newline - text);
		json_t *line;

		assert(newline != NULL);
		for (size_t i = 0; i < n; i++)
			assert((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
		line = json_loadb(text, n, 0, NULL);
		assert(json_is_object(line));
		json_decref(line);
		text += n + 1;
		len -= n + 1;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct audit_export x;

	for (int format = AUDIT_OCSF; format <= AUDIT_OTEL; format++) {
		const char *line = (const char *)data, *end = line + size;
		char *text = NULL;
		size_t len = 0;

		memset(&x, 0, sizeof(x));
		x.format = (enum audit_format)format;
		x.host = "host";
		x.out = open_memstream(&text, &len);
		assert(x.out != NULL);
		while (line < end) {
			const char *newline = memchr(line, '\n', (size_t)(end - line));
			size_t n = (size_t)((newline != NULL ? newline : end) - line);

			audit_export_line(&x, line, n);
			line += n + 1;
		}
		audit_export_finish(&x);
		assert(fclose(x.out) == 0);
		check_lines(text, len);
		free(text);
	}
	return 0;
}

/* web.c - see web.h. */
#include "proc/serve/web.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "base/own.h"

/* The files' bytes, and the table of them: made by tools/embed_files.sh. */
#include "web_files.h"

static const struct {
	const char *end, *type;
} types[] = {
	{ ".html", "text/html; charset=utf-8" },     { ".css", "text/css; charset=utf-8" },
	{ ".js", "text/javascript; charset=utf-8" }, { ".json", "application/json" },
	{ ".svg", "image/svg+xml" },                 { ".png", "image/png" },
	{ ".woff2", "font/woff2" },
};

const struct web_file *
web_find(const char *name)
{
	for (const struct web_file *file = web_files; file->name != NULL; file++)
		if (strcmp(file->name, name) == 0)
			return file;
	return NULL;
}

const char *
web_type(const char *name)
{
	const char *end = strrchr(name, '.');

	for (size_t i = 0; end != NULL && i < ARRAY_LEN(types); i++)
		if (strcmp(end, types[i].end) == 0)
			return types[i].type;
	return "application/octet-stream";
}

void
web_etag(const struct web_file *file, char ret_etag[WEB_ETAG_MAX])
{
	unsigned char hash[SHA256_DIGEST_LENGTH];

	SHA256((const unsigned char *)file->data, (size_t)(file->end - file->data), hash);
	ret_etag[0] = '"';
	codec_hex_digits(hash, 16, ret_etag + 1);
	memcpy(ret_etag + 33, "\"", 2);
}

/* web.h - the dashboard's files, which are part of the program: web/ as it was when this was built. */
#ifndef CLOISTER_WEB_H
#define CLOISTER_WEB_H
#include <stddef.h>

#define WEB_INDEX "index.html"
#define WEB_ETAG_MAX 40

struct web_file {
	const char *name;               /* NULL at the end */
	const char *data, *end;
};
extern const struct web_file web_files[];

/* NULL: there is none. */
const struct web_file *web_find(const char *name);
/* The media type that a browser takes it for, by its name's end. */
const char *web_type(const char *name);
/* As an ETag field has it: of its bytes. */
void web_etag(const struct web_file *file, char ret_etag[WEB_ETAG_MAX]);
#endif

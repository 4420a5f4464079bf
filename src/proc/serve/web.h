/* web.h - the dashboard's files, which are part of the program: web/ at build time. */
#ifndef CLOISTER_WEB_H
#define CLOISTER_WEB_H

#define WEB_INDEX "index.html"
#define WEB_ETAG_MAX 40

struct web_file {
	const char *name;               /* NULL at the end */
	const char *data, *end;
};
extern const struct web_file web_files[];

/* NULL: there is none. */
const struct web_file *web_find(const char *name);
/* The media type, by the end of its name. */
const char *web_type(const char *name);
/* The value for an ETag field: a hash of its bytes. */
void web_etag(const struct web_file *file, char ret_etag[WEB_ETAG_MAX]);
#endif

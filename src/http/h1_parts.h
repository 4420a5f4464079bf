/* h1_parts.h - shared by the files of the HTTP/1.1 reader. */
#ifndef CLOISTER_H1_PARTS_H
#define CLOISTER_H1_PARTS_H
#include <errno.h>

#include "base/err.h"
#include "http/h1.h"

#define H1_NOMINATED_MAX 16

/* A head while it is being read. */
struct h1_parse {
	struct h1_reader *r;
	char *at, *end;                 /* the unread rest */
	struct err *err;
	size_t lines;
	uint32_t seen;                  /* bits of fields that may occur once */
	struct http_text target, host, expect;
	bool has_host, has_length, chunked, trailers;
	bool close, keep_alive, upgrade;        /* from `connection` */
	int upgrades;                   /* number of fields; -1: one of them is not websocket */
	struct http_text nominated[H1_NOMINATED_MAX];   /* other names in `connection` */
	size_t n_nominated;
};

/* Refuse the message with this status; evaluates to -EBADMSG. */
#define H1_REFUSE(p, code, ...)                                                 \
	((p)->r->status = (code), err_set((p)->err, EBADMSG, __VA_ARGS__))

/* Parse the head or the trailers in R's text: whole lines that end in CRLF, the last one empty.  On
 * failure r->status is set and ERR has the reason. */
int h1_parse_head(struct h1_reader *r, struct err *err);
int h1_parse_trailers(struct h1_reader *r, struct err *err);

/* Parse the fields from p->at to the empty line, into the head or into P. */
int h1_parse_fields(struct h1_parse *p);
#endif

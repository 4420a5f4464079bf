/* h1_parts.h - what the parts of the HTTP/1.1 reader share. */
#ifndef CLOISTER_H1_PARTS_H
#define CLOISTER_H1_PARTS_H
#include <errno.h>

#include "base/err.h"
#include "http/h1.h"

#define H1_NOMINATED_MAX 16

/* A head while it is being read. */
struct h1_parse {
	struct h1_reader *r;
	char *at, *end;                 /* what is still to be read */
	struct err *err;
	size_t lines;
	uint32_t seen;                  /* fields that may be there once */
	struct http_text target, host, expect;
	bool has_host, has_length, chunked, trailers;
	bool close, keep_alive, upgrade;        /* what `connection` says */
	int upgrades;                   /* how many fields; -1: one of them is not websocket */
	struct http_text nominated[H1_NOMINATED_MAX];   /* further names in `connection` */
	size_t n_nominated;
};

/* Refuse the message with this status; gives -EBADMSG. */
#define H1_REFUSE(p, code, ...)                                                 \
	((p)->r->status = (code), err_set((p)->err, EBADMSG, __VA_ARGS__))

/* Read the head, or the trailers, that are in R's text: whole lines that end in CRLF,
 * the last of them empty.  On failure r->status is set and ERR says why. */
int h1_parse_head(struct h1_reader *r, struct err *err);
int h1_parse_trailers(struct h1_reader *r, struct err *err);

/* The fields from p->at on to the empty line: into the head, or into P. */
int h1_parse_fields(struct h1_parse *p);
#endif

/* secret.h - what a secret is, all but its value: how it is used, what it looks like, and
 * where it may go.
 *
 * Pure.  A secret is immutable once it is read.  "May be reached" is the policy's business,
 * "may receive this credential" is the secret's own: its scope. */
#ifndef CLOISTER_SECRET_H
#define CLOISTER_SECRET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy_rule.h"

struct err;
struct node;

#define SECRET_NAME_MAX 64
#define SECRET_VALUE_MAX (32 * 1024)    /* bytes of one field */
#define SECRET_LIST_MAX 64              /* of anything in one secret */
#define SECRET_ENCODED_MAX (256 * 1024)
#define SECRET_FILES_MAX 128            /* bytes of formats with commas between them */
#define SECRET_EXPIRES_MAX (366u * 24 * 3600)

/* What a credential consists of.  A scheme does not use all of them. */
enum secret_field { SECRET_ID, SECRET_SECRET, SECRET_TOKEN, SECRET_FIELDS };
extern const char *const secret_field_names[SECRET_FIELDS + 1]; /* ends with NULL */

/* The host of the scope of what comes in, where others have hosts. */
#define SECRET_CELL_HOST "cell.cloister.internal"

/* How a credential is used: the name of an engine, and what is known of it here. */
struct secret_scheme {
	const char *name;
	bool wants_id;                  /* there is no using it without an id */
	bool mints_id;                  /* the id in the cell is a placeholder too */
	bool pair;                      /* the secret is two, with "&" between them */
	bool raw;                       /* not over HTTP: hosts are TCP destinations */
	bool has_lines;                 /* it may be of any bytes, or PEM: it signs, and does not go out */
	bool comes_in;                  /* requests that come to the cell, at ports it publishes */
	unsigned places;                /* where it stands if nothing is said; 0: the engine knows */
};
const struct secret_scheme *secret_scheme_find(const char *name);       /* or NULL */
const struct secret_scheme *secret_scheme_at(size_t i);                 /* NULL behind the last */

/* Where in a request it may stand. */
enum secret_place {
	SECRET_IN_HEADER = 1,           /* of the names in HEADERS, or any if there are none */
	SECRET_IN_BASIC_USER = 2, SECRET_IN_BASIC_PASSWORD = 4,
	SECRET_IN_QUERY = 8,            /* of the names in PARAMS, or any */
	SECRET_IN_PATH = 16, SECRET_IN_BODY = 32, SECRET_IN_WEBSOCKET = 64,
	SECRET_IN_ALL = 127
};

#define SECRET_CAPTURES_MAX 4

struct secret {
	struct policy *scope;           /* in each layer one rule that allows; all strings are its
	                                 * memory */
	const char *name;
	const struct secret_scheme *scheme;
	const char *like;               /* the service of the catalogue that it is of, or "" */
	const char *env;                /* the variable that tools look for, or "" */
	struct policy_list files;       /* formats of files that tools look for: placeholder.h */
	/* The value's looks: the first that fits it, or else they are guessed. */
	struct policy_list shapes[SECRET_FIELDS];
	const char *id;                 /* said in the definition, or "" */
	/* Where the value comes from at use: "env:NAME", "file:PATH", "cmd:PROGRAM ARGS", or ""
	 * for the vault. */
	const char *from;
	uint32_t expires;               /* seconds after which it is fetched again; 0: never */
	const char *expires_member;     /* or the place in the output's JSON that tells, or "" */
	const char *members[SECRET_FIELDS]; /* JSON pointers to fields in the value, or "" */
	unsigned places;                /* enum secret_place */
	struct policy_list headers, params;
	struct policy_list with, with_values;   /* the scheme's own: service, region, audience */
	/* The endpoints that give out tokens for it. */
	struct secret_capture {
		const char *kind;       /* sign/capture.h */
		struct secret *gives;   /* what a token is: where it may go, and how */
		struct secret *renews;  /* the same of what gets the next one; its scope is the
		                         * endpoint itself */
	} captures[SECRET_CAPTURES_MAX];
	size_t n_captures;              /* 0 in GIVES and RENEWS */
};

void secret_free(struct secret *s);     /* NULL is fine */
void secret_freep(struct secret **s);   /* for OWN() */

/* "GITHUB_TOKEN", "prod/db": letters, digits and "_-./", a letter or digit first. */
bool secret_name_ok(const char *name);

/* Whether a request may carry it, as far as destination, method and path tell. */
bool secret_in_scope(const struct secret *s, const struct policy_request *req);
/* The part of its scope that REQ does not fit, for people: "PUT is not among its methods".
 * It is one over HTTP. */
void secret_misfit_text(const struct secret *s, const struct policy_request *req, char *text,
                        size_t size);
/* Whether the header (lower case) or parameter NAME may carry it. */
bool secret_in_header(const struct secret *s, const char *name, size_t len);
bool secret_in_param(const struct secret *s, const char *name, size_t len);
/* Whether there is no using it without an id: by its scheme, or what that was told. */
bool secret_wants_id(const struct secret *s);
/* What the scheme was told under NAME, or NULL. */
const char *secret_with(const struct secret *s, const char *name);
/* The scope as one line: "api.github.com methods [GET]". */
const char *secret_scope_text(const struct secret *s);
/* "header:authorization, basic-password"; cut to SIZE. */
void secret_places_text(const struct secret *s, char *text, size_t size);

/* What S is, with the scope of both: where policies lie within each other, and both give it.
 * The caller owns *ret_secret.  EINVAL: they differ in more than where it may go. */
int secret_narrow(const struct secret *s, const struct secret *outer, struct secret **ret_secret,
                  struct err *err);

/* ---- as a message: secret_put.c ---- */

void secret_put(struct buf *b, const struct secret *s);
/* Strict, as for any message: what it gives is as good as read. */
int secret_get(struct buf *b, struct secret **ret_secret, struct err *err);

/* ---- from text: secret_read.c ---- */

/* The secret called NAME that NODE, a map, describes; what it does not say is as the
 * catalogue has it for its `like`, or else for its name.  Every error begins with
 * "file:line:column: ". */
int secret_read(const char *name, const struct node *node, struct secret **ret_secret,
                struct err *err);
/* All of a file, or of the map under `secrets` in one:
 *   version: 1
 *   secrets: {NAME: {hosts: ..., ...}, ...}
 * The caller owns the list (secret_list_free). */
struct secret_list {
	struct secret **at;
	size_t n;
};
int secret_load_text(const char *file, const char *text, size_t len,
                     struct secret_list *ret_list, struct err *err);
int secret_read_map(const struct node *map, struct secret_list *ret_list, struct err *err);
void secret_list_free(struct secret_list *list);        /* for OWN() too */

/* ---- what is captured: secret_captures.c ---- */

/* What `captures` of S says, in NODE; SAID are the secret's own hosts, ports and `plain`, or
 * NULL, for where that says nothing. */
enum secret_said { SECRET_SAID_HOSTS, SECRET_SAID_PORTS, SECRET_SAID_PLAIN, SECRET_SAID };
int secret_read_captures(struct secret *s, const struct node *node,
                         const struct node *const said[SECRET_SAID], struct err *err);

/* ---- secret_short.c ---- */

/* The short form of the command line, taken apart:
 * "NAME[=VARIABLE][:FORMAT[,FORMAT...]][@HOST[,HOST...]]". */
struct secret_short {
	char name[SECRET_NAME_MAX + 1];
	char env[SECRET_NAME_MAX + 1];  /* "" if not said */
	char files[SECRET_FILES_MAX + 1];       /* formats, each known, or "" */
	const char *hosts;              /* in the text; NULL if not said */
};
int secret_short_parse(const char *text, struct secret_short *ret_short, struct err *err);
/* A secret of that name by the catalogue, with HOSTS in place of its own if they are said. */
int secret_short_define(const struct secret_short *s, struct secret **ret_secret,
                        struct err *err);
#endif

/* secret.h - the definition of a secret, without its value: its use, its form, and its
 * destinations.
 *
 * Pure.  A secret is immutable once it is read.  The policy decides which hosts may be reached.
 * The secret's own scope decides which of them may receive this credential. */
#ifndef CLOISTER_SECRET_H
#define CLOISTER_SECRET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "policy/policy_rule.h"

struct err;
struct node;

#define SECRET_NAME_MAX 64
#define SECRET_VALUE_MAX (32 * 1024)    /* bytes of one field */
#define SECRET_LIST_MAX 64              /* of any list in one secret */
#define SECRET_ENCODED_MAX (256 * 1024)
#define SECRET_FILES_MAX 128            /* bytes of formats, separated by commas */
#define SECRET_EXPIRES_MAX (366u * 24 * 3600)

/* The parts of a credential.  A scheme need not use all of them. */
enum secret_field { SECRET_ID, SECRET_SECRET, SECRET_TOKEN, SECRET_FIELDS };
extern const char *const secret_field_names[SECRET_FIELDS + 1]; /* ends with NULL */

/* For incoming requests: the scope's host, in place of a server's. */
#define SECRET_CELL_HOST "cell.cloister.internal"

/* How a credential is used: the name of an engine, and its properties. */
struct secret_scheme {
	const char *name;
	bool wants_id;                  /* it cannot be used without an id */
	bool mints_id;                  /* the id in the cell is a placeholder too */
	bool pair;                      /* the secret is two, joined by "&" */
	bool raw;                       /* not over HTTP: hosts are TCP destinations */
	bool has_lines;                 /* it may contain any bytes, or be PEM: it signs, and is not sent */
	bool comes_in;                  /* for requests to the cell, at published ports */
	unsigned places;                /* its default places; 0: the engine knows */
};
const struct secret_scheme *secret_scheme_find(const char *name);       /* or NULL */
const struct secret_scheme *secret_scheme_at(size_t i);                 /* NULL after the last */

/* Where in a request it may be. */
enum secret_place {
	SECRET_IN_HEADER = 1,           /* with a name in HEADERS, or any if there are none */
	SECRET_IN_BASIC_USER = 2, SECRET_IN_BASIC_PASSWORD = 4,
	SECRET_IN_QUERY = 8,            /* with a name in PARAMS, or any */
	SECRET_IN_PATH = 16, SECRET_IN_BODY = 32, SECRET_IN_WEBSOCKET = 64,
	SECRET_IN_ALL = 127
};

#define SECRET_CAPTURES_MAX 4

struct secret {
	struct policy *scope;           /* one allowing rule per layer; owns all strings */
	const char *name;
	const struct secret_scheme *scheme;
	const char *like;               /* its service in the catalogue, or "" */
	const char *env;                /* the variable that tools read, or "" */
	struct policy_list files;       /* formats of files that tools read: placeholder.h */
	/* The value's form: the first that fits is used; otherwise it is guessed. */
	struct policy_list shapes[SECRET_FIELDS];
	const char *id;                 /* given in the definition, or "" */
	/* The source of the value when it is used: "env:NAME", "file:PATH", "cmd:PROGRAM ARGS", or
	 * "" for the vault. */
	const char *from;
	uint32_t expires;               /* seconds after which it is fetched again; 0: never */
	const char *expires_member;     /* or the member of the output's JSON with the expiry, or "" */
	const char *members[SECRET_FIELDS]; /* JSON pointers to fields in the value, or "" */
	unsigned places;                /* enum secret_place */
	struct policy_list headers, params;
	struct policy_list with, with_values;   /* the scheme's own options: service, region, audience */
	/* The endpoints that issue tokens for it. */
	struct secret_capture {
		const char *kind;       /* sign/capture.h */
		struct secret *gives;   /* a token: its destinations and places */
		struct secret *renews;  /* the same for a refresh token; its scope is the endpoint itself */
	} captures[SECRET_CAPTURES_MAX];
	size_t n_captures;              /* 0 in GIVES and RENEWS */
};

void secret_free(struct secret *s);     /* NULL is fine */
OWN_BY(secret_freep, struct secret *, secret_free)

/* "GITHUB_TOKEN", "prod/db": letters, digits and "_-./", a letter or digit first. */
bool secret_name_ok(const char *name);

/* Whether a request may carry it, judged by destination, method and path. */
bool secret_in_scope(const struct secret *s, const struct policy_request *req);
/* As secret_in_scope(), for a path in lower case; the scope's paths are compared in lower case too. */
bool secret_in_scope_nocase(const struct secret *s, const struct policy_request *req);
/* Whether S is for the host and the port of REQ, whatever else of its scope REQ does not fit. */
bool secret_is_for_host(const struct secret *s, const struct policy_request *req);
/* Explain to people which part of its scope REQ does not fit: "PUT is not among its methods".  For
 * secrets over HTTP. */
void secret_misfit_text(const struct secret *s, const struct policy_request *req, char *text,
                        size_t size);
/* Whether the header (lower case) or parameter NAME may carry it. */
bool secret_in_header(const struct secret *s, const char *name, size_t len);
bool secret_in_param(const struct secret *s, const char *name, size_t len);
/* Whether it cannot be used without an id: by its scheme, or by the scheme's options. */
bool secret_wants_id(const struct secret *s);
/* The scheme's option NAME, or NULL. */
const char *secret_with(const struct secret *s, const char *name);
/* The scope as one line: "api.github.com methods [GET]". */
const char *secret_scope_text(const struct secret *s);
/* "header:authorization, basic-password"; cut to SIZE. */
void secret_places_text(const struct secret *s, char *text, size_t size);

/* Make a copy of S with the scope of both, if one policy lies within another and both give the
 * secret.  The caller owns *ret_secret.  EINVAL: they differ in more than the scope. */
int secret_narrow(const struct secret *s, const struct secret *outer, struct secret **ret_secret,
                  struct err *err);

/* ---- as a message: secret_put.c ---- */

void secret_put(struct buf *b, const struct secret *s);
/* Strict, as for any message: the result is as valid as one that was read. */
int secret_get(struct buf *b, struct secret **ret_secret, struct err *err);

/* ---- from text: secret_read.c ---- */

/* Read the secret called NAME from NODE, a map.  Missing members are taken from the catalogue, by
 * its `like`, or else by its name.  Every error begins with "file:line:column: ". */
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
void secret_list_free(struct secret_list *list);        /* for OWN() too */

/* ---- captures: secret_captures.c ---- */

/* Read `captures` of S from NODE.  SAID holds the secret's own hosts, ports and `plain`, each
 * possibly NULL, as defaults. */
enum secret_said { SECRET_SAID_HOSTS, SECRET_SAID_PORTS, SECRET_SAID_PLAIN, SECRET_SAID };
int secret_read_captures(struct secret *s, const struct node *node,
                         const struct node *const said[SECRET_SAID], struct err *err);

/* ---- secret_short.c ---- */

/* The short form of the command line, parsed:
 * "NAME[=VARIABLE][:FORMAT[,FORMAT...]][@HOST[,HOST...]]". */
struct secret_short {
	char name[SECRET_NAME_MAX + 1];
	char env[SECRET_NAME_MAX + 1];  /* "" if not given */
	char files[SECRET_FILES_MAX + 1];       /* formats, each known, or "" */
	const char *hosts;              /* in the text; NULL if not given */
};
int secret_short_parse(const char *text, struct secret_short *ret_short, struct err *err);
/* Make a secret of that name from the catalogue.  HOSTS, if given, replace its own. */
int secret_short_define(const struct secret_short *s, struct secret **ret_secret,
                        struct err *err);
#endif

/* message_fields.h - parses Signature-Input and Signature (RFC 9421, 4). */
#ifndef CLOISTER_MESSAGE_FIELDS_H
#define CLOISTER_MESSAGE_FIELDS_H
#include "sign/scheme_parts.h"

#define MESSAGE_LABELS_MAX 8            /* signatures of one request */
#define MESSAGE_COMPONENTS_MAX 64       /* of one signature */

/* One covered component: "name";params */
struct message_component {
	struct http_text raw;           /* all of it */
	struct http_text name;          /* without its quotes */
	struct http_text query_param;   /* of @query-param: its `name` as written */
	bool bytes;                     /* ;bs */
};

/* One signature.  All texts are in the head. */
struct message_input {
	struct http_text label;
	int field;                      /* its field in the head */
	struct http_text raw;           /* the list and its parameters: the last line that is signed */
	struct http_text keyid;         /* without its quotes, escapes as written; .at NULL if there is none */
	struct http_text alg;
	struct message_component components[MESSAGE_COMPONENTS_MAX];
	size_t n;
};

struct message_inputs {
	struct message_input list[MESSAGE_LABELS_MAX];
	size_t n;
};

/* Read the inputs, only in the form that RFC 8941 requires of serializers: that text is what is
 * signed.  Unsupported parameters (;sf ;key ;req ;tr and unknown ones) are refused by name. */
int message_read_inputs(const struct http_head *head, struct message_inputs *ret_inputs,
                        struct err *err);
/* Find the base64 between the colons of LABEL's signature, and its field. */
int message_find_signature(const struct http_head *head, struct http_text label,
                           int *ret_field, struct http_text *ret_base64, struct err *err);
/* The same for any dictionary of byte sequences (Content-Digest).  False: NAME is not there. */
bool message_find_bytes(struct http_text dictionary, const char *name,
                        struct http_text *ret_base64);
#endif

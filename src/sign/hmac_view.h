/* hmac_view.h - a request while it is signed anew, and the places in it that a template names. */
#ifndef CLOISTER_HMAC_VIEW_H
#define CLOISTER_HMAC_VIEW_H
#include "sign/sign_hmac.h"

/* A request while it is put together. */
struct hmac_view {
	struct http_head head;
	struct http_text body;
	bool new_body;
};

/* Where a place was found. */
struct hmac_spot {
	int field;                      /* its index, if it is in a header */
	bool in_body;
	struct http_text raw;           /* the value, as written */
};

/* Read one MEMBER=VALUE of a header's list, and advance *REST. */
bool hmac_next_member(struct http_text *rest, struct scheme_param *ret);
/* Count how often PLACE occurs; *ret_spot is the last occurrence. */
int hmac_find_place(const struct hmac_view *v, const struct hmac_place *place,
                    struct hmac_spot *ret_spot);
/* As hmac_find_place(), but PLACE must occur once.  WHAT names its content in errors. */
int hmac_get_place(const struct hmac_view *v, const struct hmac_place *place, const char *what,
                   struct hmac_spot *ret_spot, struct err *err);
/* The value at PLACE must be WANT, the placeholder's. */
int hmac_check_place(const struct hmac_view *v, const struct hmac_place *place,
                     const char *what, struct http_text want, struct err *err);
/* Set the value at PLACE to VALUE. */
int hmac_put_place(struct hmac_view *v, const struct sign_hmac_one *one,
                   const struct hmac_place *place, struct http_text value,
                   struct sign_memory *m, struct err *err);
#endif

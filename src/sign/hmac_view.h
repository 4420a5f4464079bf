/* hmac_view.h - a request as it is signed anew, and the places in it that a template names. */
#ifndef CLOISTER_HMAC_VIEW_H
#define CLOISTER_HMAC_VIEW_H
#include "sign/sign_hmac.h"

/* A request as it is being put together. */
struct hmac_view {
	struct http_head head;
	struct http_text body;
	bool new_body;
};

/* Where a place was found. */
struct hmac_spot {
	int field;                      /* its index, for a header's */
	bool in_body;
	struct http_text raw;           /* the value, as written */
};

/* One MEMBER=VALUE of a header's list; *REST moves on. */
bool hmac_next_member(struct http_text *rest, struct scheme_param *ret);
/* How often PLACE is there; *ret_spot is the last. */
int hmac_find_place(const struct hmac_view *v, const struct hmac_place *place,
                    struct hmac_spot *ret_spot);
/* As that, and it has to be there once.  WHAT is what stands there. */
int hmac_get_place(const struct hmac_view *v, const struct hmac_place *place, const char *what,
                   struct hmac_spot *ret_spot, struct err *err);
/* What PLACE has must be WANT, the placeholder's. */
int hmac_check_place(const struct hmac_view *v, const struct hmac_place *place,
                     const char *what, struct http_text want, struct err *err);
/* VALUE stands at PLACE from now on. */
int hmac_put_place(struct hmac_view *v, const struct sign_hmac_one *one,
                   const struct hmac_place *place, struct http_text value,
                   struct sign_memory *m, struct err *err);
#endif

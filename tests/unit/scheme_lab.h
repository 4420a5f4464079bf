/* scheme_lab.h - requests as text, signed with one key and then with another. */
#ifndef CLOISTER_SCHEME_LAB_H
#define CLOISTER_SCHEME_LAB_H
#include "sign/scheme_parts.h"
#include "sign/sign_schemes.h"
#include "test.h"

struct sl_request {
	char *text;
	struct http_head head;
	struct sign_body body;
	struct sign_memory m;
	char error[1024];               /* of the last sl_sign */
	bool wanted_body;
};

/* "GET https://host/path", lines "name: value", and after an empty line the body.  The path
 * is made canonical as the gate does it; content-length becomes the head's length (else it
 * is the body's). */
struct sl_request *sl_request(const char *text);
void sl_request_free(struct sl_request *r);
void sl_request_freep(struct sl_request **r);
/* All of it as text again, in lower-case names. */
char *sl_show(const struct sl_request *r);
const char *sl_field(const struct sl_request *r, const char *name);   /* kept for ever */

struct sign_key sl_key(const char *id, const char *secret, const char *token);
/* As the courier does it: once more with the body if it is wanted.  What is signed is
 * canonical, and an error gives neither key nor signature away. */
int sl_sign(struct sl_request *r, const struct sign_scheme *scheme, const void *with,
             const struct sign_key *from, const struct sign_key *to);
/* TEXT verifies with FROM; signed with TO and then with FROM again it is what it was. */
void sl_check_there_and_back(const char *text, const struct sign_scheme *scheme,
                              const void *with, const struct sign_key *from,
                              const struct sign_key *to);
/* base64(HMAC(KEY, MESSAGE)); kept for ever. */
const char *sl_hmac(const EVP_MD *md, enum sign_coding coding, const char *key,
                     const char *message);
#endif

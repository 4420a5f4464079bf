/* sign_options.h - what a scheme is told by a secret's definition, made ready for its signer.
 *
 * Pure, and without cryptography: who reads definitions finds here what is wrong with them,
 * so that nobody learns it from a request that is refused. */
#ifndef CLOISTER_SIGN_OPTIONS_H
#define CLOISTER_SIGN_OPTIONS_H
#include "sign/sign_hmac.h"
#include "sign/sign_schemes.h"
#include "sign/sigv4.h"

/* Must not be moved: WITH may point into it. */
struct sign_options {
	const void *with;               /* for struct sign_scheme's sign; NULL: its defaults */
	union {
		struct sign_azure_options azure;
		struct sign_jwt_options jwt;
		struct sign_message_options message;
		struct sign_hmac hmac;
		struct sigv4_options sigv4;
	};
	struct sign_hmac_template template;     /* of an HMAC that is described */
};

/* What SCHEME, by its name in definitions, is told: N names and values, which are borrowed as
 * long as *ret_options lives.  A scheme that is not one of the above takes anything.  On
 * failure *ret_which is the one that is wrong, or N if something is missing. */
int sign_options_read(const char *scheme, const char *const *names, const char *const *values,
                      size_t n, struct sign_options *ret_options, size_t *ret_which,
                      struct err *err);
#endif

/* sign_options.h - reads a scheme's options from a secret's definition, for its signer.
 *
 * Pure, and without cryptography.  The reader of definitions reports errors from here, before a
 * request is refused because of them. */
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
	struct sign_hmac_template template;     /* of an HMAC described in the definition */
};

/* Read the options of SCHEME, named as in definitions: N names and values, borrowed as long as
 * *ret_options lives.  A scheme that is not listed above accepts any options.  On failure
 * *ret_which is the index of the wrong one, or N if one is missing. */
int sign_options_read(const char *scheme, const char *const *names, const char *const *values,
                      size_t n, struct sign_options *ret_options, size_t *ret_which,
                      struct err *err);
#endif

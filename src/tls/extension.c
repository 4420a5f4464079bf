/* extension.c - see extension.h. */
#include "tls/extension.h"

#include <openssl/x509v3.h>

bool
tls_add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *extension;
	X509V3_CTX ctx;
	bool ok;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = extension != NULL && X509_add_ext(cert, extension, -1) == 1;
	X509_EXTENSION_free(extension);
	return ok;
}

/* sign.c - the table of credential schemes. */
#include "sign/sign.h"

#include <string.h>

#include "base/own.h"
#include "sign/sign_schemes.h"
#include "sign/sigv4.h"

static const struct sign_scheme *const schemes[] = {
	&sigv4_scheme,
	&sigv4a_scheme,
	&goog4_hmac_scheme,
	&goog4_rsa_scheme,
	&acs3_scheme,
	&tc3_scheme,
	&sign_azure,
	&sign_message,
	&sign_hmac,
	&sign_jwt,
	&sign_oauth1,
};

const struct sign_scheme *
sign_scheme_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
		if (strcmp(schemes[i]->name, name) == 0)
			return schemes[i];
	return NULL;
}

bool
sign_is_alone(const struct sign_scheme *scheme, const struct http_head *head)
{
	return scheme->alone && (scheme->covers == NULL || !scheme->covers(head));
}

bool
sign_is_signed(const struct http_head *head)
{
	struct http_text id;

	for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
		if (schemes[i]->find != NULL && !sign_is_alone(schemes[i], head) && schemes[i]->find(head, &id))
			return true;
	return false;
}

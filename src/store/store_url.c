/* store_url.c - see store_url.h. */
#include "store/store_url.h"

#include <errno.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"

#define OPTION_MAX 64                /* of an option: libpq has none that is longer */

static const char *
behind_scheme(const char *url)
{
	const char *at = strstr(url, "://");

	return at == NULL ? url : at + 3;
}

/* Where user and password end: at the first of these, as libpq has it, for which a "?" may be part of a password. */
static const char *
end_of_login(const char *rest)
{
	const char *end = rest + strcspn(rest, "/@");

	return *end == '@' ? end : NULL;
}

char *
store_url_shown(const char *url)
{
	const char *rest = behind_scheme(url), *login = end_of_login(rest), *place = login != NULL ? login + 1 : rest, *at;
	size_t len = strcspn(place, "?");

	/* A password with a "/" or "@" in it: such an address does not work. */
	at = memrchr(place, '@', len);
	if (at != NULL) {
		len -= (size_t)(at + 1 - place);
		place = at + 1;
	}
	while (len > 0 && place[len - 1] == '/')
		len--;
	return str_format("%.*s%.*s", (int)(rest - url), url, (int)len, place);
}

/* Names of options may be escaped, too. */
static bool
is_password(const char *option, size_t len)
{
	static const char what[] = "password";
	char name[OPTION_MAX];
	size_t n = 0;

	for (size_t i = 0; i < len && option[i] != '=' && n < sizeof(name); n++) {
		int byte = codec_percent_byte(option + i, len - i);

		name[n] = byte >= 0 ? (char)byte : option[i];
		i += byte >= 0 ? 3 : 1;
	}
	return memmem(name, n, what, strlen(what)) != NULL;
}

bool
store_url_has_password(const char *url)
{
	const char *rest = behind_scheme(url), *login = end_of_login(rest), *option;

	if (login != NULL && memchr(rest, ':', (size_t)(login - rest)) != NULL)
		return true;
	option = strchr(login != NULL ? login : rest, '?');
	for (size_t len; option != NULL && *option != '\0'; option += len) {
		option++;
		len = strcspn(option, "&");
		if (is_password(option, len))
			return true;
	}
	return false;
}

bool
store_url_is_plain(const char *url)
{
	const char *rest = behind_scheme(url), *last = strrchr(rest, '@');

	return !store_url_has_password(url) && (last == NULL || memchr(rest, ':', (size_t)(last - rest)) == NULL);
}

int
store_url_check(const char *url, struct err *err)
{
	const char *rest = behind_scheme(url), *login = end_of_login(rest), *place = login != NULL ? login + 1 : rest;

	if (memchr(place, '@', strcspn(place, "?")) == NULL)
		return 0;
	return err_set(err, EINVAL, "the address of the store is ambiguous: write '%%40' for each '@' in its password, and '%%2F' for "
	               "each '/'");
}

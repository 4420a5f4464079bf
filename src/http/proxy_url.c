/* proxy_url.c - see proxy_url.h. */
#include "http/proxy_url.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/codec.h"

#define PROXY_PORT 80                   /* if the variable has none */

static const char *
take_login(struct http_text text, struct proxy_url *url)
{
	size_t n = 0;
	int byte;

	for (size_t i = 0; i < text.len; i++) {
		if (n >= sizeof(url->login) - 1)
			return "its name and password are too long";
		byte = codec_percent_byte(text.at + i, text.len - i);
		url->login[n++] = byte >= 0 ? (char)byte : text.at[i];
		i += byte >= 0 ? 2 : 0;
	}
	if (memchr(url->login, ':', n) == NULL)
		url->login[n++] = ':';
	url->login_len = n;
	return NULL;
}

const char *
proxy_url_parse(const char *text, struct proxy_url *ret_url)
{
	const char *scheme = strstr(text, "://"), *at, *end, *problem;

	*ret_url = (struct proxy_url){0};
	if (scheme != NULL) {
		if (strncasecmp(text, "http://", 7) != 0)
			return "only proxies that begin with http:// can be used";
		text = scheme + 3;
	}
	end = text + strcspn(text, "/?#");
	at = memrchr(text, '@', (size_t)(end - text));
	if (at != NULL) {
		problem = take_login((struct http_text){ text, (size_t)(at - text) }, ret_url);
		if (problem != NULL)
			return problem;
		text = at + 1;
	}
	if (http_authority_parse((struct http_text){ text, (size_t)(end - text) }, ret_url->host,
	                         &ret_url->port, NULL) < 0)
		return "its host cannot be understood";
	if (ret_url->port == 0)
		ret_url->port = PROXY_PORT;
	return NULL;
}

const char *
proxy_url_find(char *const *environment, const char *name)
{
	const char *found = NULL;
	size_t len = strlen(name);

	for (; environment != NULL && *environment != NULL; environment++) {
		const char *entry = *environment;

		if (strncasecmp(entry, name, len) != 0 || entry[len] != '=')
			continue;
		if (found == NULL || islower((unsigned char)entry[0]))
			found = entry;
	}
	return found != NULL && found[len + 1] != '\0' ? found : NULL;
}

/* project_url.c - reads the URLs of repositories and servers that a project's files name.
 *
 * The text is hostile: whatever is not a plain host name and a plain path is refused. */
#include <ctype.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "project/project.h"

struct span {
	const char *at, *end;
};

static bool
is_label_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

/* Names with a dot and a letter at the end: no addresses, no names of this machine. */
static bool
take_host(struct span s, char ret_host[PROJECT_HOST_MAX + 1])
{
	size_t n = (size_t)(s.end - s.at), label = 0, dots = 0;

	if (n == 0 || n > PROJECT_HOST_MAX)
		return false;
	for (size_t i = 0; i < n; i++) {
		const char c = (char)tolower((unsigned char)s.at[i]);

		if (c != '.' && !is_label_char(c))
			return false;
		if (c == '.' && (label == 0 || ret_host[i - 1] == '-'))
			return false;
		if (c == '-' && label == 0)
			return false;
		dots += c == '.';
		label = c == '.' ? 0 : label + 1;
		if (label > 63)
			return false;
		ret_host[i] = c;
	}
	ret_host[n] = '\0';
	return dots > 0 && label > 0 && isalpha((unsigned char)ret_host[n - 1]);
}

static bool
take_port(struct span s, uint16_t *ret_port)
{
	unsigned port = 0;

	if (s.at == s.end || s.end - s.at > 5)
		return false;
	for (; s.at < s.end; s.at++) {
		if (!isdigit((unsigned char)*s.at))
			return false;
		port = port * 10 + (unsigned)(*s.at - '0');
	}
	*ret_port = (uint16_t)port;
	return port > 0 && port < 65536;
}

/* Whether the part from AT to END is a word that a glob and YAML take as it is, and no step upwards. */
static bool
is_plain_part(const char *at, const char *end)
{
	static const char more[] = "._~-";

	if (at == end || (at[0] == '.' && (end - at == 1 || (end - at == 2 && at[1] == '.'))))
		return false;
	for (; at < end; at++)
		if (!isalnum((unsigned char)*at) && (*at == '\0' || strchr(more, *at) == NULL))
			return false;
	return true;
}

static bool
take_path(struct span s, char ret_path[PROJECT_PATH_MAX + 1])
{
	size_t n;

	for (const char *c = s.at; c < s.end; c++)
		if (*c == '?' || *c == '#')
			s.end = c;
	while (s.at < s.end && *s.at == '/')
		s.at++;
	while (s.end > s.at && s.end[-1] == '/')
		s.end--;
	if (s.end - s.at > 4 && memcmp(s.end - 4, ".git", 4) == 0)
		s.end -= 4;
	n = (size_t)(s.end - s.at);
	if (n > PROJECT_PATH_MAX || (n > 0 && s.end[-1] == '/'))
		return false;
	for (const char *part = s.at; part < s.end;) {
		const char *slash = memchr(part, '/', (size_t)(s.end - part));
		const char *end = slash != NULL ? slash : s.end;

		if (!is_plain_part(part, end))
			return false;
		part = slash != NULL ? slash + 1 : s.end;
	}
	memcpy(ret_path, s.at, n);
	ret_path[n] = '\0';
	return true;
}

/* "[USER@]HOST[:PORT]" */
static bool
take_authority(struct span s, struct project_place *place)
{
	const char *colon;

	for (const char *c = s.at; c < s.end; c++)
		if (*c == '@')
			s.at = c + 1;
	colon = memchr(s.at, ':', (size_t)(s.end - s.at));
	if (colon != NULL && !take_port((struct span){ colon + 1, s.end }, &place->port))
		return false;
	return take_host((struct span){ s.at, colon != NULL ? colon : s.end }, place->host);
}

/* "github:acme/site", as package.json has it. */
static bool
take_short(struct span s, struct project_place *place)
{
	static const struct { const char *word, *host; } forges[] = {
		{ "github:", "github.com" }, { "gitlab:", "gitlab.com" }, { "bitbucket:", "bitbucket.org" },
	};

	for (size_t i = 0; i < ARRAY_LEN(forges); i++)
		if (text_take(&s.at, s.end, forges[i].word)) {
			memcpy(place->host, forges[i].host, strlen(forges[i].host) + 1);
			return take_path(s, place->path);
		}
	return false;
}

/* "git@github.com:acme/site.git", as ssh has it. */
static bool
take_scp(struct span s, struct project_place *place)
{
	const char *at = memchr(s.at, '@', (size_t)(s.end - s.at));
	const char *colon = at == NULL ? NULL : memchr(at, ':', (size_t)(s.end - at));

	place->is_ssh = true;
	return colon != NULL && memchr(s.at, '/', (size_t)(colon - s.at)) == NULL &&
	       take_host((struct span){ at + 1, colon }, place->host) &&
	       take_path((struct span){ colon + 1, s.end }, place->path);
}

bool
project_url(const char *text, size_t len, struct project_place *ret_place)
{
	struct span s = { text, text + len };
	struct project_place place = {0};
	const char *slash;
	bool found = false;

	(void)text_take(&s.at, s.end, "git+");
	place.is_ssh = text_take(&s.at, s.end, "ssh://");
	if (place.is_ssh || text_take(&s.at, s.end, "https://")) {
		slash = memchr(s.at, '/', (size_t)(s.end - s.at));
		found = take_authority((struct span){ s.at, slash != NULL ? slash : s.end }, &place) &&
		        (slash == NULL || take_path((struct span){ slash, s.end }, place.path));
		/* The port is that of the SSH server. */
		place.port = place.is_ssh ? 0 : place.port;
	} else {
		found = take_short(s, &place) || take_scp(s, &place);
	}
	if (found)
		*ret_place = place;
	return found;
}

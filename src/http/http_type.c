/* http_type.c - recognises content types. */
#include <string.h>

#include "http/http_parts.h"

struct http_text
http_trim(struct http_text text)
{
	while (text.len > 0 && http_is_blank(*text.at))
		text = (struct http_text){ text.at + 1, text.len - 1 };
	while (text.len > 0 && http_is_blank(text.at[text.len - 1]))
		text.len--;
	return text;
}

/* Take the text before the next ";" from *rest. */
static struct http_text
next_parameter(struct http_text *rest)
{
	const char *stop = memchr(rest->at, ';', rest->len);
	struct http_text part = { rest->at, stop != NULL ? (size_t)(stop - rest->at) : rest->len };
	size_t n = part.len + (stop != NULL);

	*rest = (struct http_text){ rest->at + n, rest->len - n };
	return http_trim(part);
}

/* application/json, or a type of RFC 6839: one slash, with text before and after it. */
static bool
is_json(struct http_text type)
{
	const char *slash = type.len > 0 ? memchr(type.at, '/', type.len) : NULL;

	if (http_text_is_nocase(type, "application/json"))
		return true;
	if (slash == NULL || slash == type.at || type.at + type.len - slash < 7 ||
	    !http_text_is_nocase((struct http_text){ type.at + type.len - 5, 5 }, "+json"))
		return false;
	for (size_t i = 0; i < type.len; i++) {
		unsigned char c = (unsigned char)type.at[i];
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		             c == '-' || c == '.' || c == '_' || c == '+';

		if (!plain && type.at + i != slash)
			return false;
	}
	return true;
}

/* Servers parse parameters differently: "charset" may not occur anywhere else. */
static bool
is_harmless(struct http_text parameter)
{
	if (http_text_is_nocase(parameter, "charset=utf-8") ||
	    http_text_is_nocase(parameter, "charset=\"utf-8\""))
		return true;
	for (size_t i = 0; i + 7 <= parameter.len; i++)
		if (http_text_is_nocase((struct http_text){ parameter.at + i, 7 }, "charset"))
			return false;
	return true;
}

bool
http_type_is_json(struct http_text content_type)
{
	if (content_type.len == 0)
		return true;
	if (!is_json(next_parameter(&content_type)))
		return false;
	while (content_type.len > 0)
		if (!is_harmless(next_parameter(&content_type)))
			return false;
	return true;
}

/* cloud.c - see cloud.h. */
#include "egress/cloud.h"

#include <string.h>

#include "base/own.h"
#include "sign/scheme_parts.h"

/* Find the service in TEXT, "ID/DATE/REGION/SERVICE/TERMINATOR" with slashes or their escapes. */
static struct http_text
service_in(struct http_text text)
{
	struct http_text last = { text.at, 0 }, word = { text.at, 0 };

	for (size_t i = 0; i < text.len;) {
		bool escaped = text.len - i > 2 && memcmp(text.at + i, "%2F", 3) == 0;

		if (escaped || text.at[i] == '/') {
			last = word;
			i += escaped ? 3 : 1;
			word = (struct http_text){ text.at + i, 0 };
			continue;
		}
		word.len++;
		i++;
	}
	return last;
}

/* False: HEAD is not signed in this way. */
static bool
find_service(const struct http_head *head, struct http_text *ret_service)
{
	struct http_text value = http_head_get(head, "authorization"), credential;
	struct scheme_param param;
	const char *at, *end;

	if (scheme_begins(value, "AWS4-") || scheme_begins(value, "GOOG4-")) {
		at = memmem(value.at, value.len, "Credential=", 11);
		credential = (struct http_text){ at != NULL ? at + 11 : "", 0 };
		if (at != NULL) {
			end = value.at + value.len;
			while (credential.at + credential.len < end && credential.at[credential.len] != ',')
				credential.len++;
		}
		*ret_service = service_in(credential);
		return true;
	}
	if (!scheme_param_find(scheme_query_of(head), "X-Amz-Credential", &param) &&
	    !scheme_param_find(scheme_query_of(head), "X-Goog-Credential", &param))
		return false;
	*ret_service = service_in(param.value);
	return true;
}

enum cloud_dialect
cloud_dialect_of(const struct http_head *head)
{
	static const char *const like_s3[] = { "s3", "s3express", "s3-object-lambda", "s3-outposts",
		"storage" };
	static const char *const like_query[] = { "route53", "cloudfront", "iam", "sts", "sns" };
	struct http_text authorization = http_head_get(head, "authorization"), service;

	if (scheme_begins(authorization, "SharedKey"))
		return CLOUD_AZURE;
	if (!find_service(head, &service))
		return CLOUD_NONE;
	if (http_text_is_one_of(service, like_s3, ARRAY_LEN(like_s3)))
		return CLOUD_S3;
	if (http_text_is(service, "ec2"))
		return CLOUD_EC2;
	return scheme_is_form(head) || http_text_is_one_of(service, like_query, ARRAY_LEN(like_query)) ?
		CLOUD_QUERY : CLOUD_JSON;
}

const char *
cloud_code(enum cloud_dialect dialect, const char *why, bool refused, bool may_retry)
{
	static const struct {
		const char *xml, *json, *azure;
	} codes[] = {
		{ "AccessDenied", "AccessDeniedException", "AuthorizationFailure" },
		{ "ExpiredToken", "ExpiredTokenException", "AuthenticationFailed" },
		{ "SlowDown", "ThrottlingException", "ServerBusy" },
		{ "ServiceUnavailable", "ServiceUnavailableException", "ServerBusy" },
	};
	size_t i = !refused ? 3 : strcmp(why, "expired") == 0 ? 1 : may_retry ? 2 : 0;

	return dialect == CLOUD_JSON ? codes[i].json : dialect == CLOUD_AZURE ? codes[i].azure :
	       codes[i].xml;
}

bool
cloud_is_xml(enum cloud_dialect dialect)
{
	return dialect != CLOUD_NONE && dialect != CLOUD_JSON;
}

/* Characters that XML cannot represent become a question mark. */
static void
put_escaped(struct buf *b, const char *text)
{
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '<' || c == '>' || c == '&')
			buf_put_text(b, c == '<' ? "&lt;" : c == '>' ? "&gt;" : "&amp;");
		else if ((c < 0x20 && c != '\n' && c != '\t') || c >= 0x7f)
			buf_put_text(b, "?");
		else
			buf_put(b, text, 1);
	}
}

static void
put_error(struct buf *b, const char *type, const char *code, const char *message)
{
	buf_put_text(b, "<Error>");
	buf_put_text(b, type);
	buf_put_text(b, "<Code>");
	buf_put_text(b, code);
	buf_put_text(b, "</Code><Message>");
	put_escaped(b, message);
	buf_put_text(b, "</Message>");
}

void
cloud_put_xml(struct buf *b, enum cloud_dialect dialect, const char *code, const char *message)
{
	buf_put_text(b, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
	if (dialect == CLOUD_QUERY) {
		buf_put_text(b, "<ErrorResponse>");
		put_error(b, "<Type>Sender</Type>", code, message);
		buf_put_text(b, "</Error><RequestId>cloister</RequestId></ErrorResponse>\n");
	} else if (dialect == CLOUD_EC2) {
		buf_put_text(b, "<Response><Errors>");
		put_error(b, "", code, message);
		buf_put_text(b, "</Error></Errors><RequestID>cloister</RequestID></Response>\n");
	} else {
		put_error(b, "", code, message);
		buf_put_text(b, "<RequestId>cloister</RequestId></Error>\n");
	}
}

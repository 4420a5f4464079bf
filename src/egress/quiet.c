/* quiet.c - refuses a quietly revoked secret with the service's own error for an invalid
 * key.  Nothing in it names cloister.
 *
 * The texts are the services' own, from their documentation and their servers, without request ids
 * and parts of the key. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/own.h"
#include "egress/courier.h"

#define DATE_MAX 40
#define BODY_MAX 1024

#define JSON "application/json"
#define XML "application/xml"

/* HOST and SCHEME are globs.  FIELD, if not NULL, is a field that the request must have, with a
 * value that begins with VALUE.  The first match counts; the last row always matches. */
static const struct quiet {
	const char *host, *scheme, *field, *value;
	uint16_t status;
	const char *type, *challenge, *body;    /* CHALLENGE: for WWW-Authenticate, or NULL */
} rows[] = {
	{ "api.anthropic.com", "*", "authorization", "", 401, JSON, NULL,
	  "{\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"OAuth token has expired. "
	  "Please obtain a new token or refresh your existing token.\"}}" },
	{ "api.anthropic.com", "*", NULL, NULL, 401, JSON, NULL,
	  "{\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"invalid x-api-key\"}}" },
	{ "*api.openai.com", "*", NULL, NULL, 401, JSON, NULL,
	  "{\n    \"error\": {\n        \"message\": \"Incorrect API key provided. You can find your API key at "
	  "https://platform.openai.com/account/api-keys.\",\n        \"type\": \"invalid_request_error\",\n"
	  "        \"param\": null,\n        \"code\": \"invalid_api_key\"\n    }\n}\n" },
	{ "api.github.com", "*", NULL, NULL, 401, "application/json; charset=utf-8", NULL,
	  "{\"message\":\"Bad credentials\",\"documentation_url\":\"https://docs.github.com/rest\",\"status\":\"401\"}" },
	{ "*github.com", "*", NULL, NULL, 401, "text/plain; charset=UTF-8", "Basic realm=\"GitHub\"",
	  "Invalid username or token. Password authentication is not supported for Git operations." },
	{ "*gitlab.com", "*", NULL, NULL, 401, JSON, NULL, "{\"message\":\"401 Unauthorized\"}" },
	/* Slack reports the error in the body alone. */
	{ "*slack.com", "*", NULL, NULL, 200, "application/json; charset=utf-8", NULL,
	  "{\"ok\":false,\"error\":\"token_expired\"}" },
	{ "api.stripe.com", "*", NULL, NULL, 401, JSON, "Basic realm=\"Stripe\"",
	  "{\n  \"error\": {\n    \"code\": \"api_key_expired\",\n    \"doc_url\": "
	  "\"https://stripe.com/docs/error-codes/api-key-expired\",\n    \"message\": \"Expired API Key provided.\",\n"
	  "    \"type\": \"invalid_request_error\"\n  }\n}\n" },
	{ "generativelanguage.googleapis.com", "*", "x-goog-api-key", "", 400, "application/json; charset=UTF-8", NULL,
	  "{\n  \"error\": {\n    \"code\": 400,\n    \"message\": \"API key expired. Please renew the API key.\",\n"
	  "    \"status\": \"INVALID_ARGUMENT\"\n  }\n}\n" },
	{ "*googleapis.com", "*", NULL, NULL, 401, "application/json; charset=UTF-8",
	  "Bearer realm=\"https://accounts.google.com/\", error=\"invalid_token\"",
	  "{\n  \"error\": {\n    \"code\": 401,\n    \"message\": \"Request had invalid authentication credentials. "
	  "Expected OAuth 2 access token, login cookie or other valid authentication credential. See "
	  "https://developers.google.com/identity/sign-in/web/devconsole-project.\",\n    \"status\": "
	  "\"UNAUTHENTICATED\"\n  }\n}\n" },
	/* AWS and compatible services: JSON services, S3, and the others. */
	{ "*", "sigv4", "x-amz-target", "", 400, "application/x-amz-json-1.0", NULL,
	  "{\"__type\":\"com.amazon.coral.service#UnrecognizedClientException\",\"message\":\"The security token "
	  "included in the request is invalid.\"}" },
	{ "*s3*", "sigv4", NULL, NULL, 403, XML, NULL,
	  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>InvalidAccessKeyId</Code><Message>The AWS Access "
	  "Key Id you provided does not exist in our records.</Message></Error>" },
	{ "*", "sigv4", NULL, NULL, 403, "text/xml", NULL,
	  "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n  <Error>\n    <Type>Sender</Type>\n"
	  "    <Code>InvalidClientTokenId</Code>\n    <Message>The security token included in the request is "
	  "invalid.</Message>\n  </Error>\n</ErrorResponse>\n" },
	{ "*", "azure-sharedkey", NULL, NULL, 403, XML, NULL,
	  "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>AuthenticationFailed</Code><Message>Server failed to "
	  "authenticate the request. Make sure the value of Authorization header is formed correctly including the "
	  "signature.</Message></Error>" },
	{ "*", "mtls", NULL, NULL, 400, "text/html", NULL,
	  "<html>\r\n<head><title>400 The SSL certificate error</title></head>\r\n<body>\r\n<center><h1>400 Bad "
	  "Request</h1></center>\r\n<center>The SSL certificate error</center>\r\n</body>\r\n</html>\r\n" },
	{ "*", "*", "authorization", "Basic ", 401, "text/plain", "Basic realm=\"Restricted\"", "Unauthorized\n" },
	{ "*", "*", "authorization", "Bearer ", 401, JSON,
	  "Bearer error=\"invalid_token\", error_description=\"The access token expired\"",
	  "{\"error\":\"invalid_token\",\"error_description\":\"The access token expired\"}" },
	{ "*", "*", NULL, NULL, 401, JSON, NULL, "{\"error\":\"Unauthorized\",\"message\":\"Invalid API key\"}" },
};

static bool
fits(const struct quiet *row, const struct exchange *ex, const struct http_head *head)
{
	struct http_text value = row->field != NULL ? http_head_get(head, row->field) : (struct http_text){0};

	if (!policy_glob_text(row->host, ex->host, strlen(ex->host)) ||
	    !policy_glob_text(row->scheme, ex->outcome.quiet, strlen(ex->outcome.quiet)))
		return false;
	return row->field == NULL ||
	       (value.at != NULL && value.len > 0 && value.len >= strlen(row->value) &&
	        strncasecmp(value.at, row->value, strlen(row->value)) == 0);
}

static const struct quiet *
find_row(struct exchange *ex)
{
	const struct http_head *head = exchange_head(ex);
	const struct quiet *row = rows;

	while (row < rows + ARRAY_LEN(rows) - 1 && !fits(row, ex, head))
		row++;
	return row;
}

static struct http_field
field(const char *name, const char *value)
{
	return (struct http_field){ { name, strlen(name) }, { value, strlen(value) } };
}

/* In English, whatever the locale of this process. */
static void
format_date(char text[DATE_MAX])
{
	static const char *const days[] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
	static const char *const months[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep",
		"Oct", "Nov", "Dec" };
	time_t now = time(NULL);
	struct tm tm;

	gmtime_r(&now, &tm);
	snprintf(text, DATE_MAX, "%s, %02d %s %d %02d:%02d:%02d GMT", days[tm.tm_wday], tm.tm_mday,
	         months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

void
exchange_note_quiet(struct exchange *ex, const struct secrets_view *view, size_t i)
{
	const struct secrets *s = &ex->courier->secrets;
	size_t of = i < view->n_bound ? i : view->tokens[i - view->n_bound]->of;

	ex->outcome.quiet = s->quiet[of] ? s->bound.at[of].secret->scheme->name : NULL;
}

void
exchange_answer_quietly(struct exchange *ex)
{
	const struct quiet *row = find_row(ex);
	char date[DATE_MAX];
	struct http_head head = { .status = row->status, .n_fields = 2 };
	OWN(buf_free) struct buf body = BUF(BODY_MAX);

	format_date(date);
	head.fields[0] = field("date", date);
	head.fields[1] = field("content-type", row->type);
	if (row->challenge != NULL)
		head.fields[head.n_fields++] = field("www-authenticate", row->challenge);
	buf_put_text(&body, row->body);
	ex->t.status = row->status;
	exchange_record(ex);
	exchange_answer(ex, &head, &body);
}

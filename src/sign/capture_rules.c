/* capture_rules.c - defines which members of which responses are tokens, and their expiries. */
#include <string.h>
#include <time.h>

#include "base/own.h"
#include "sign/capture_parts.h"

#define MILLISECONDS_FROM 100000000000.0        /* larger numbers are milliseconds; in seconds, this is the
                                                 * year 5138 */

static const struct capture_rule oauth2_rules[] = {
	{ "access_token", CAPTURE_TOKEN, { "expires_in", "expires_at" }, false },
	{ "refresh_token", CAPTURE_REFRESH, { "refresh_token_expires_in", "refresh_expires_in" }, false },
	{ "id_token", CAPTURE_ID_TOKEN, { "expires_in", "expires_at" }, false },
	{ NULL, 0, { NULL, NULL }, false },
};

/* Names in STS and S3, Cognito, the metadata services, and single sign-on. */
static const struct capture_rule aws_rules[] = {
	{ "AccessKeyId", CAPTURE_KEY_ID, { "Expiration", NULL }, false },
	{ "SecretAccessKey", CAPTURE_SECRET_KEY, { "Expiration", NULL }, false },
	{ "SecretKey", CAPTURE_SECRET_KEY, { "Expiration", NULL }, false },
	{ "SessionToken", CAPTURE_SESSION_TOKEN, { "Expiration", NULL }, false },
	{ "Token", CAPTURE_SESSION_TOKEN, { "Expiration", NULL }, false },
	{ "accessKeyId", CAPTURE_KEY_ID, { "expiration", NULL }, false },
	{ "secretAccessKey", CAPTURE_SECRET_KEY, { "expiration", NULL }, false },
	{ "sessionToken", CAPTURE_SESSION_TOKEN, { "expiration", NULL }, false },
	{ NULL, 0, { NULL, NULL }, false },
};

static const struct capture_rule github_rules[] = {
	{ "token", CAPTURE_TOKEN, { "expires_at", NULL }, false },
	{ NULL, 0, { NULL, NULL }, false },
};

static const struct capture_rule registry_rules[] = {
	{ "token", CAPTURE_TOKEN, { "expires_in", NULL }, false },
	{ "access_token", CAPTURE_TOKEN, { "expires_in", NULL }, false },
	{ "refresh_token", CAPTURE_REFRESH, { NULL, NULL }, false },
	{ NULL, 0, { NULL, NULL }, false },
};

/* The password for a private registry of AWS, from its own API. */
static const struct capture_rule ecr_rules[] = {
	{ "authorizationToken", CAPTURE_TOKEN, { "expiresAt", NULL }, true },
	{ NULL, 0, { NULL, NULL }, false },
};

static const struct capture_kind kinds[] = {
	{ "oauth2", oauth2_rules, false },
	{ "sts", aws_rules, true },
	{ "s3-session", aws_rules, true },
	{ "github-app", github_rules, false },
	{ "registry", registry_rules, false },
	{ "ecr", ecr_rules, false },
};

const struct capture_kind *
capture_kind_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

const struct capture_rule *
capture_rule_find(const struct capture_kind *kind, struct http_text name)
{
	for (const struct capture_rule *rule = kind->rules; rule->name != NULL; rule++)
		if (http_text_is(name, rule->name))
			return rule;
	return NULL;
}

const char *
capture_expiry_find(const struct capture_kind *kind, struct http_text name)
{
	for (const struct capture_rule *rule = kind->rules; rule->name != NULL; rule++)
		for (size_t i = 0; i < ARRAY_LEN(rule->expiries); i++)
			if (rule->expiries[i] != NULL && http_text_is(name, rule->expiries[i]))
				return rule->expiries[i];
	return NULL;
}

static bool
take_digits(struct http_text *text, int n, int *ret_number)
{
	int number = 0;

	if (text->len < (size_t)n)
		return false;
	for (int i = 0; i < n; i++) {
		if (text->at[i] < '0' || text->at[i] > '9')
			return false;
		number = number * 10 + (text->at[i] - '0');
	}
	text->at += n;
	text->len -= (size_t)n;
	*ret_number = number;
	return true;
}

static bool
take_one(struct http_text *text, const char *of)
{
	if (text->len == 0 || *text->at == '\0' || strchr(of, *text->at) == NULL)
		return false;
	text->at++;
	text->len--;
	return true;
}

/* Parse "Z", "+hh:mm" or "-hhmm", at the end of TEXT, into seconds. */
static bool
take_offset(struct http_text text, int *ret_seconds)
{
	int sign = text.len > 0 && *text.at == '-' ? -1 : 1, hours, minutes;

	*ret_seconds = 0;
	if (take_one(&text, "Zz"))
		return text.len == 0;
	if (!take_one(&text, "+-") || !take_digits(&text, 2, &hours))
		return false;
	take_one(&text, ":");
	if (!take_digits(&text, 2, &minutes) || text.len > 0)
		return false;
	*ret_seconds = sign * (hours * 3600 + minutes * 60);
	return true;
}

int64_t
capture_parse_time(struct http_text text)
{
	struct tm tm = {0};
	int offset, digit;

	if (!take_digits(&text, 4, &tm.tm_year) || !take_one(&text, "-") ||
	    !take_digits(&text, 2, &tm.tm_mon) || !take_one(&text, "-") ||
	    !take_digits(&text, 2, &tm.tm_mday) || !take_one(&text, "Tt ") ||
	    !take_digits(&text, 2, &tm.tm_hour) || !take_one(&text, ":") ||
	    !take_digits(&text, 2, &tm.tm_min) || !take_one(&text, ":") ||
	    !take_digits(&text, 2, &tm.tm_sec))
		return -1;
	if (take_one(&text, "."))
		while (take_digits(&text, 1, &digit))
			continue;
	if (!take_offset(text, &offset) || tm.tm_year < 1970 || tm.tm_mon < 1 || tm.tm_mon > 12 ||
	    tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour > 23 || tm.tm_min > 59 ||
	    tm.tm_sec > 60)
		return -1;
	tm.tm_year -= 1900;
	tm.tm_mon--;
	return (int64_t)timegm(&tm) - offset;
}

static bool
is_relative(const char *name)
{
	size_t len = strlen(name);

	return len > 3 && strcmp(name + len - 3, "_in") == 0;
}

void
capture_draft_expiry_number(struct capture_draft *draft, const char *name, double n)
{
	size_t i = draft->n_expiries;

	if (i == CAPTURE_EXPIRIES_MAX || !(n >= 0 && n < 1e15))
		return;
	draft->expiries[i].name = name;
	draft->expiries[i].in = draft->expiries[i].at = -1;
	if (is_relative(name))
		draft->expiries[i].in = (int64_t)n;
	else
		draft->expiries[i].at = (int64_t)(n >= MILLISECONDS_FROM ? n / 1000 : n);
	draft->n_expiries++;
}

void
capture_draft_expiry(struct capture_draft *draft, const char *name, struct http_text text)
{
	int64_t at = is_relative(name) ? -1 : capture_parse_time(text);
	double n = 0;

	if (at >= 0) {
		capture_draft_expiry_number(draft, name, (double)at);
		return;
	}
	if (text.len == 0 || text.len > 15)
		return;
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return;
		n = n * 10 + (text.at[i] - '0');
	}
	capture_draft_expiry_number(draft, name, n);
}

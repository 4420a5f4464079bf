/* aws_profile.c - see aws_profile.h: sections in brackets, and lines NAME = VALUE. */
#include "store/aws_profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "trust/trust.h"

#define FILE_SIZE_MAX (256 * 1024)
#define AT(member) offsetof(struct aws_profile, member), sizeof(((struct aws_profile *)NULL)->member)

#define N_KEY 3                         /* of these */

static const struct setting {
	const char *name;
	size_t at, size;
} settings[] = {
	{ "aws_access_key_id", AT(id) }, { "aws_secret_access_key", AT(secret) }, { "aws_session_token", AT(token) },
	{ "region", AT(region) }, { "role_arn", AT(role) }, { "source_profile", AT(source) }, { "credential_source", AT(service) },
	{ "external_id", AT(external) }, { "role_session_name", AT(session) }, { "web_identity_token_file", AT(web_token) },
	{ "sso_session", AT(sso) }, { "sso_start_url", AT(sso_url) }, { "sso_region", AT(sso_region) },
	{ "sso_account_id", AT(sso_account) }, { "sso_role_name", AT(sso_role) },
	{ "credential_process", AT(process) },
};

void
aws_profile_wipe(struct aws_profile *p)
{
	explicit_bzero(p, sizeof(*p));
}

static char *
path_of(const char *variable, const char *name)
{
	const char *named = getenv(variable), *home = getenv("HOME");

	return named != NULL && *named != '\0' ? strdup(named) : home != NULL && *home != '\0' ? str_format("%s/.aws/%s", home, name) :
	       NULL;
}

char *
aws_profile_keys_path(void)
{
	return path_of("AWS_SHARED_CREDENTIALS_FILE", "credentials");
}

char *
aws_profile_config_path(void)
{
	return path_of("AWS_CONFIG_FILE", "config");
}

/* ---- lines ---- */

struct line {
	const char *at;
	size_t len;
};

static struct line
trim(const char *from, const char *to)
{
	while (from < to && strchr(" \t\r", *from) != NULL)
		from++;
	while (to > from && strchr(" \t\r", to[-1]) != NULL)
		to--;
	return (struct line){ from, (size_t)(to - from) };
}

static bool
is(struct line l, const char *word)
{
	return l.len == strlen(word) && memcmp(l.at, word, l.len) == 0;
}

/* Each goes into a header field or a URL, but the words of a program. */
static int
take_value(struct aws_profile *p, const struct setting *s, struct line value, struct err *err)
{
	char *to = (char *)p + s->at;
	bool words = s->at == offsetof(struct aws_profile, process);

	/* What was read first counts. */
	if (*to != '\0')
		return 0;
	if (value.len >= s->size)
		return err_set(err, EFBIG, "%s is too long", s->name);
	for (size_t i = 0; i < value.len; i++)
		if ((value.at[i] <= ' ' && !(words && (value.at[i] == ' ' || value.at[i] == '\t'))) || value.at[i] >= 0x7f)
			return err_set(err, EINVAL, "%s has a character that it cannot have", s->name);
	memcpy(to, value.at, value.len);
	to[value.len] = '\0';
	return 0;
}

static int
take_setting(struct aws_profile *p, struct line l, struct err *err)
{
	const char *equals = memchr(l.at, '=', l.len);
	struct line name;

	if (equals == NULL)
		return 0;
	name = trim(l.at, equals);
	for (size_t i = 0; i < ARRAY_LEN(settings); i++)
		if (is(name, settings[i].name))
			return take_value(p, &settings[i], trim(equals + 1, l.at + l.len), err);
	return 0;
}

/* "profile NAME", with any blanks. */
static bool
is_section(struct line l, const char *kind, const char *name)
{
	size_t len = strlen(kind);

	if (l.len < 2 || l.at[l.len - 1] != ']')
		return false;
	l = trim(l.at + 1, l.at + l.len - 1);
	if (len == 0)
		return is(l, name);
	return l.len > len && memcmp(l.at, kind, len) == 0 && strchr(" \t", l.at[len]) != NULL &&
	       is(trim(l.at + len, l.at + l.len), name);
}

static int
read_section(const char *text, size_t len, const char *kind, const char *name, struct aws_profile *p, struct err *err)
{
	bool inside = false;
	int r = 0;

	for (const char *at = text, *next; r == 0 && at < text + len; at = next + 1) {
		struct line l;

		next = memchr(at, '\n', (size_t)(text + len - at));
		next = next != NULL ? next : text + len;
		l = trim(at, next);
		if (l.len == 0 || *l.at == '#' || *l.at == ';')
			continue;
		if (*l.at == '[') {
			inside = is_section(l, kind, name);
			p->found = p->found || inside;
		} else if (inside) {
			r = take_setting(p, l, err);
		}
	}
	return r;
}

/* ---- files ---- */

static int
read_text(const char *path, bool again, char **ret_text, size_t *ret_len, struct err *err)
{
	int r = again ? read_file_at(AT_FDCWD, path, FILE_SIZE_MAX, ret_text, ret_len, err) :
	        trust_read(TRUST_SECRET_FILE, path, FILE_SIZE_MAX, ret_text, ret_len, err);

	return r == -ENOENT ? 0 : r;
}

static int
read_one(const char *path, bool is_config, const char *name, bool again, struct aws_profile *p, struct err *err)
{
	OWN(freep) char *text = NULL;
	const char *kind = is_config && strcmp(name, "default") != 0 ? "profile" : "";
	size_t len = 0;
	int r = path == NULL ? 0 : read_text(path, again, &text, &len, err);

	if (r < 0 || text == NULL)
		return r;
	r = read_section(text, len, kind, name, p, err);
	if (r == 0 && is_config && p->sso[0] != '\0')
		r = read_section(text, len, "sso-session", p->sso, p, err);
	explicit_bzero(text, len);
	return r < 0 ? err_wrap(err, "'%s'", path) : 0;
}

int
aws_profile_read(const char *keys, const char *config, const char *name, bool again, struct aws_profile *ret_profile,
                 struct err *err)
{
	OWN(aws_profile_wipe) struct aws_profile p = {0}, rest = {0};
	int r = read_one(keys, false, name, again, &p, err);
	bool has_key = p.id[0] != '\0' || p.secret[0] != '\0';

	r = r == 0 ? read_one(config, true, name, again, &rest, err) : r;
	if (r < 0)
		return r;
	/* Half a key of each file would be none. */
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		const struct setting *s = &settings[i];
		char *to = (char *)&p + s->at;

		if (i < N_KEY ? !has_key : *to == '\0')
			memcpy(to, (char *)&rest + s->at, s->size);
	}
	p.found = p.found || rest.found;
	*ret_profile = p;
	return 0;
}

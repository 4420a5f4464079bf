/* placeholder_file.c - writes the files in which tools look for credentials, with placeholders. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "vault/placeholder.h"
#include "vault/seal.h"

#define KEYS_MAX 1024                   /* machines, profiles ... in one file */

struct writing {
	const struct placeholder_facts *facts;
	size_t n;
	FILE *out;
	struct err *err;
	/* existing entries, and their owners */
	const char *keys[KEYS_MAX];
	const struct placeholder_facts *owners[KEYS_MAX];
	size_t n_keys;
};

static const char *
with(const struct placeholder_facts *f, const char *name, const char *otherwise)
{
	for (size_t i = 0; f->with != NULL && f->with[i] != NULL; i += 2)
		if (strcmp(f->with[i], name) == 0)
			return f->with[i + 1];
	return otherwise;
}

/* A line of a file cannot contain characters that would end it or begin another word. */
static int
check_word(const char *what, const char *text, struct err *err)
{
	if (text == NULL || *text == '\0')
		return err_set(err, EINVAL, "this file needs %s, which the secret has not", what);
	for (const char *c = text; *c != '\0'; c++)
		if ((unsigned char)*c <= ' ' || *c == 127 || *c == '"' || *c == '\'' || *c == '\\' || *c == '#')
			return err_set(err, EINVAL, "%s has characters that this file cannot hold", what);
	return 0;
}

/* 1: KEY is new.  0: F has it already, and it is not written twice. */
static int
claim(struct writing *w, const struct placeholder_facts *f, const char *key)
{
	for (size_t i = 0; i < w->n_keys; i++) {
		if (strcmp(w->keys[i], key) != 0)
			continue;
		return w->owners[i] == f ? 0 : err_set(w->err, EEXIST, "two secrets want to be '%.64s' in "
		                                       "it: give one of them without this file", key);
	}
	if (w->n_keys == KEYS_MAX)
		return err_set(w->err, E2BIG, "there is too much in it");
	w->keys[w->n_keys] = key;
	w->owners[w->n_keys++] = f;
	return 1;
}

/* Host I of F, or only OTHERWISE; NULL after the last. */
static const char *
host_at(const struct placeholder_facts *f, size_t i, const char *otherwise)
{
	if (f->hosts == NULL || f->hosts[0] == NULL)
		return i == 0 ? otherwise : NULL;
	return f->hosts[i];
}

static int
write_aws(struct writing *w, const struct placeholder_facts *f)
{
	const char *profile = with(f, "profile", "default");
	int r = check_word("a key id", f->id, w->err);

	r = r == 0 ? check_word("a secret", f->secret, w->err) : r;
	r = r == 0 && f->token != NULL ? check_word("a token", f->token, w->err) : r;
	r = r == 0 ? check_word("a profile", profile, w->err) : r;
	r = r == 0 ? check_word("a region", with(f, "region", "*"), w->err) : r;
	r = r == 0 ? claim(w, f, profile) : r;
	if (r < 0)
		return r;
	fprintf(w->out, "[%s]\naws_access_key_id = %s\naws_secret_access_key = %s\n", profile, f->id,
	        f->secret);
	if (f->token != NULL)
		fprintf(w->out, "aws_session_token = %s\n", f->token);
	if (with(f, "region", NULL) != NULL && strchr(with(f, "region", ""), '*') == NULL)
		fprintf(w->out, "region = %s\n", with(f, "region", ""));
	return 0;
}

/* The format has no ports. */
static int
write_netrc(struct writing *w, const struct placeholder_facts *f)
{
	int r = check_word("a host", host_at(f, 0, NULL), w->err);

	r = r == 0 ? check_word("a value", f->secret, w->err) : r;
	r = r == 0 && f->id != NULL ? check_word("a user", f->id, w->err) : r;
	for (size_t i = 0; r >= 0 && host_at(f, i, NULL) != NULL; i++) {
		r = check_word("a host", f->hosts[i], w->err);
		r = r == 0 ? claim(w, f, f->hosts[i]) : r;
		if (r > 0)
			fprintf(w->out, "machine %.*s\nlogin %s\npassword %s\n",
			        (int)strcspn(f->hosts[i], ":"), f->hosts[i], f->id != NULL ? f->id : "token",
			        f->secret);
	}
	return r < 0 ? r : 0;
}

static int
write_npmrc(struct writing *w, const struct placeholder_facts *f)
{
	int r = check_word("a value", f->secret, w->err);
	const char *host;

	for (size_t i = 0; r >= 0 && (host = host_at(f, i, "registry.npmjs.org")) != NULL; i++) {
		r = check_word("a host", host, w->err);
		r = r == 0 ? claim(w, f, host) : r;
		if (r > 0)
			fprintf(w->out, "//%s/:_authToken=%s\n", host, f->secret);
	}
	return r < 0 ? r : 0;
}

/* The name for -r; the two well-known indexes have names of their own. */
static const char *
index_name(const struct placeholder_facts *f)
{
	const char *host = host_at(f, 0, "upload.pypi.org");

	return strcmp(host, "upload.pypi.org") == 0 ? "pypi" :
	       strcmp(host, "test.pypi.org") == 0 ? "testpypi" : host;
}

static int
write_pypirc(struct writing *w, const struct placeholder_facts *f)
{
	const char *host = host_at(f, 0, "upload.pypi.org");
	int r = check_word("a host", host, w->err);

	r = r == 0 ? check_word("a value", f->secret, w->err) : r;
	r = r == 0 && f->id != NULL ? check_word("a user", f->id, w->err) : r;
	r = r == 0 ? claim(w, f, index_name(f)) : r;
	if (r < 0)
		return r;
	if (f == w->facts) {
		fputs("[distutils]\nindex-servers =\n", w->out);
		for (size_t i = 0; i < w->n; i++)
			fprintf(w->out, "    %s\n", index_name(&w->facts[i]));
	}
	fprintf(w->out, "\n[%s]\nrepository = https://%s/legacy/\nusername = %s\npassword = %s\n",
	        index_name(f), host, f->id != NULL ? f->id : "__token__", f->secret);
	return 0;
}

/* In the old layout and in the new one, with its users. */
static int
write_gh(struct writing *w, const struct placeholder_facts *f)
{
	const char *first = host_at(f, 0, "github.com");
	const char *host = strcmp(first, "api.github.com") == 0 ? "github.com" : first;
	const char *user = f->id != NULL ? f->id : with(f, "user", "x-access-token");
	int r = check_word("a host", host, w->err);

	r = r == 0 ? check_word("a value", f->secret, w->err) : r;
	r = r == 0 ? check_word("a user", user, w->err) : r;
	r = r == 0 ? claim(w, f, host) : r;
	if (r > 0)
		fprintf(w->out, "%s:\n    git_protocol: https\n    users:\n        %s:\n"
		        "            oauth_token: %s\n    user: %s\n    oauth_token: %s\n", host, user,
		        f->secret, user, f->secret);
	return r < 0 ? r : 0;
}

static int
write_google(struct writing *w, const struct placeholder_facts *f)
{
	static const char certs[] = "https://www.googleapis.com/robot/v1/metadata/x509/";
	struct json j = { .out = w->out };
	unsigned char random[20];
	char id[2 * sizeof(random) + 1], url[512];
	const char *at = f->id != NULL ? strchr(f->id, '@') : NULL;
	char project[128] = "project";
	int r = at == NULL || f->secret == NULL ?
	        err_set(w->err, EINVAL, "this file needs the account's address as an id, and a key") :
	        seal_random(random, sizeof(random), w->err);

	r = r == 0 ? claim(w, f, "the service account") : r;
	if (r < 0)
		return r;
	codec_hex(random, sizeof(random), id);
	/* name@PROJECT.iam.gserviceaccount.com */
	snprintf(project, sizeof(project), "%.*s", (int)strcspn(at + 1, "."), at + 1);
	snprintf(url, sizeof(url), "%s%.400s", certs, f->id);
	json_open(&j, NULL, '{');
	json_str(&j, "type", "service_account");
	json_str(&j, "project_id", with(f, "project", project));
	json_str(&j, "private_key_id", id);
	json_str(&j, "private_key", f->secret);
	json_str(&j, "client_email", f->id);
	json_str(&j, "client_id", with(f, "client_id", "0"));
	json_str(&j, "auth_uri", "https://accounts.google.com/o/oauth2/auth");
	json_str(&j, "token_uri", with(f, "audience", "https://oauth2.googleapis.com/token"));
	json_str(&j, "auth_provider_x509_cert_url", "https://www.googleapis.com/oauth2/v1/certs");
	json_str(&j, "client_x509_cert_url", url);
	json_str(&j, "universe_domain", "googleapis.com");
	json_close(&j, '}');
	fputc('\n', w->out);
	return 0;
}

/* Docker's own registry has another name here. */
static const char *
registry_name(const char *host)
{
	return strstr(host, "docker.io") != NULL || strcmp(host, "hub.docker.com") == 0 ?
	       "https://index.docker.io/v1/" : host;
}

static int
write_auth(struct writing *w, struct json *j, const struct placeholder_facts *f)
{
	const char *user = f->id != NULL ? f->id : with(f, "user", "token"), *host;
	OWN(freep) char *pair = NULL, *coded = NULL;
	int n, r = f->secret == NULL ? check_word("a value", f->secret, w->err) : 0;

	if (r < 0)
		return r;
	if (strchr(user, ':') != NULL)
		return err_set(w->err, EINVAL, "a user has no ':' in its name");
	n = asprintf(&pair, "%s:%s", user, f->secret);
	if (n < 0) {
		pair = NULL;
		return err_set(w->err, ENOMEM, "out of memory");
	}
	coded = malloc(CODEC_BASE64_LEN((size_t)n) + 1);
	if (coded == NULL)
		return err_set(w->err, ENOMEM, "out of memory");
	codec_base64(CODEC_BASE64, pair, (size_t)n, coded);
	for (size_t i = 0; r >= 0 && (host = host_at(f, i, "docker.io")) != NULL; i++) {
		r = claim(w, f, registry_name(host));
		if (r > 0) {
			json_open(j, registry_name(host), '{');
			json_str(j, "auth", coded);
			json_close(j, '}');
		}
	}
	return r < 0 ? r : 0;
}

/* All entries are in one map. */
static int
write_docker(struct writing *w, const struct placeholder_facts *f)
{
	struct json j = { .out = w->out };
	int r = 0;

	if (f != w->facts)
		return 0;
	json_open(&j, NULL, '{');
	json_open(&j, "auths", '{');
	for (size_t i = 0; r == 0 && i < w->n; i++)
		r = write_auth(w, &j, &w->facts[i]);
	json_close(&j, '}');
	json_close(&j, '}');
	fputc('\n', w->out);
	return r;
}

/* ---- logins of agents ---- */

/* An agent that believes its token to be valid does not try to renew it: that is done outside.  What it would
 * renew it with is worth nothing. */
#define NEVER_MS 4102444800000          /* the year 2100 */
#define NEVER_TEXT "2100-01-01T00:00:00Z"
#define NO_TOKEN "kept-outside-the-cell"

static int
begin_login(struct writing *w, const struct placeholder_facts *f)
{
	int r = check_word("a token", f->secret, w->err);

	r = r == 0 ? claim(w, f, "the login") : r;
	return r < 0 ? r : 0;
}

static int
write_claude(struct writing *w, const struct placeholder_facts *f)
{
	static const char *const scopes[] = { "user:inference", "user:profile", NULL };
	struct json j = { .out = w->out };
	int r = begin_login(w, f);

	if (r < 0)
		return r;
	json_open(&j, NULL, '{');
	json_open(&j, "claudeAiOauth", '{');
	json_str(&j, "accessToken", f->secret);
	json_str(&j, "refreshToken", NO_TOKEN);
	json_u64(&j, "expiresAt", NEVER_MS);
	json_strv(&j, "scopes", scopes);
	json_close(&j, '}');
	json_close(&j, '}');
	fputc('\n', w->out);
	return 0;
}

/* Codex reads an identity from a JWT, which it does not verify.  This one has none. */
static int
write_codex(struct writing *w, const struct placeholder_facts *f)
{
	static const char nobody[] = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.e30.bm9ib2R5";
	struct json j = { .out = w->out };
	int r = begin_login(w, f);

	if (r < 0)
		return r;
	json_open(&j, NULL, '{');
	json_str(&j, "auth_mode", "chatgpt");
	json_str(&j, "OPENAI_API_KEY", NULL);
	json_open(&j, "tokens", '{');
	json_str(&j, "id_token", nobody);
	json_str(&j, "access_token", f->secret);
	json_str(&j, "refresh_token", NO_TOKEN);
	json_str(&j, "account_id", f->id);
	json_close(&j, '}');
	json_str(&j, "last_refresh", NEVER_TEXT);
	json_close(&j, '}');
	fputc('\n', w->out);
	return 0;
}

static int
write_gemini(struct writing *w, const struct placeholder_facts *f)
{
	struct json j = { .out = w->out };
	int r = begin_login(w, f);

	if (r < 0)
		return r;
	json_open(&j, NULL, '{');
	json_str(&j, "access_token", f->secret);
	json_str(&j, "refresh_token", NO_TOKEN);
	json_str(&j, "token_type", "Bearer");
	json_u64(&j, "expiry_date", NEVER_MS);
	json_close(&j, '}');
	fputc('\n', w->out);
	return 0;
}

static int (*const writers[PLACEHOLDER_FORMATS])(struct writing *w,
                                                 const struct placeholder_facts *f) = {
	[PLACEHOLDER_AWS] = write_aws, [PLACEHOLDER_NETRC] = write_netrc,
	[PLACEHOLDER_NPMRC] = write_npmrc, [PLACEHOLDER_PYPIRC] = write_pypirc,
	[PLACEHOLDER_GH] = write_gh, [PLACEHOLDER_GOOGLE] = write_google,
	[PLACEHOLDER_DOCKER] = write_docker, [PLACEHOLDER_CLAUDE] = write_claude,
	[PLACEHOLDER_CODEX] = write_codex, [PLACEHOLDER_GEMINI] = write_gemini,
};

int
placeholder_file_text(const struct placeholder_file *file, const struct placeholder_facts *facts,
                      size_t n, char **ret_text, struct err *err)
{
	OWN(freep) char *text = NULL;
	OWN(freep) struct writing *w = calloc(1, sizeof(*w));
	size_t len;
	FILE *out = w == NULL ? NULL : open_memstream(&text, &len);
	int r = 0;

	if (out == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*w = (struct writing){ .facts = facts, .n = n, .out = out, .err = err };
	for (size_t i = 0; r == 0 && i < n; i++)
		r = writers[file - placeholder_files](w, &facts[i]);
	if (fclose(out) != 0 && r == 0)
		r = err_set(err, ENOMEM, "out of memory");
	if (r == 0)
		*ret_text = TAKE(text);
	return r;
}

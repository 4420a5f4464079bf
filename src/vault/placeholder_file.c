/* placeholder_file.c - the files in which tools look for credentials, made of placeholders. */
#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "vault/placeholder.h"
#include "vault/seal.h"

static const char *
with(const struct placeholder_facts *f, const char *name, const char *otherwise)
{
	for (size_t i = 0; f->with != NULL && f->with[i] != NULL; i += 2)
		if (strcmp(f->with[i], name) == 0)
			return f->with[i + 1];
	return otherwise;
}

/* A line of a file: what would end it, or be a word of its own, cannot be written. */
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

static int
write_aws(const struct placeholder_facts *f, FILE *out, struct err *err)
{
	int r = check_word("a key id", f->id, err);

	r = r == 0 ? check_word("a secret", f->secret, err) : r;
	r = r == 0 && f->token != NULL ? check_word("a token", f->token, err) : r;
	r = r == 0 ? check_word("a profile", with(f, "profile", "default"), err) : r;
	r = r == 0 ? check_word("a region", with(f, "region", "*"), err) : r;
	if (r < 0)
		return r;
	fprintf(out, "[%s]\naws_access_key_id = %s\naws_secret_access_key = %s\n",
	        with(f, "profile", "default"), f->id, f->secret);
	if (f->token != NULL)
		fprintf(out, "aws_session_token = %s\n", f->token);
	if (with(f, "region", NULL) != NULL && strchr(with(f, "region", ""), '*') == NULL)
		fprintf(out, "region = %s\n", with(f, "region", ""));
	return 0;
}

static int
write_netrc(const struct placeholder_facts *f, FILE *out, struct err *err)
{
	int r = check_word("a host", f->host, err);

	r = r == 0 ? check_word("a value", f->secret, err) : r;
	r = r == 0 && f->id != NULL ? check_word("a user", f->id, err) : r;
	if (r == 0)
		fprintf(out, "machine %s\nlogin %s\npassword %s\n", f->host, f->id != NULL ? f->id : "token",
		        f->secret);
	return r;
}

static int
write_npmrc(const struct placeholder_facts *f, FILE *out, struct err *err)
{
	const char *host = f->host != NULL ? f->host : "registry.npmjs.org";
	int r = check_word("a host", host, err);

	r = r == 0 ? check_word("a value", f->secret, err) : r;
	if (r == 0)
		fprintf(out, "//%s/:_authToken=%s\n", host, f->secret);
	return r;
}

static int
write_pypirc(const struct placeholder_facts *f, FILE *out, struct err *err)
{
	const char *host = f->host != NULL ? f->host : "upload.pypi.org";
	int r = check_word("a host", host, err);

	r = r == 0 ? check_word("a value", f->secret, err) : r;
	if (r == 0)
		fprintf(out, "[distutils]\nindex-servers =\n    pypi\n\n[pypi]\nrepository = https://%s/legacy/\n"
		        "username = %s\npassword = %s\n", host, f->id != NULL ? f->id : "__token__", f->secret);
	return r;
}

/* Of the old layout and of the new one, with its users. */
static int
write_gh(const struct placeholder_facts *f, FILE *out, struct err *err)
{
	const char *host = f->host != NULL && strcmp(f->host, "api.github.com") != 0 ? f->host :
	                                                                               "github.com";
	const char *user = f->id != NULL ? f->id : with(f, "user", "x-access-token");
	int r = check_word("a host", host, err);

	r = r == 0 ? check_word("a value", f->secret, err) : r;
	r = r == 0 ? check_word("a user", user, err) : r;
	if (r == 0)
		fprintf(out, "%s:\n    git_protocol: https\n    users:\n        %s:\n            oauth_token: %s\n"
		        "    user: %s\n    oauth_token: %s\n", host, user, f->secret, user, f->secret);
	return r;
}

static int
write_google(const struct placeholder_facts *f, FILE *out, struct err *err)
{
	static const char certs[] = "https://www.googleapis.com/robot/v1/metadata/x509/";
	struct json w = { .out = out };
	unsigned char random[20];
	char id[2 * sizeof(random) + 1], url[512];
	const char *at = f->id != NULL ? strchr(f->id, '@') : NULL;
	char project[128] = "project";
	int r = at == NULL || f->secret == NULL ?
	        err_set(err, EINVAL, "this file needs the account's address as an id, and a key") :
	        seal_random(random, sizeof(random), err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(id + 2 * i, 3, "%02x", random[i]);
	/* name@PROJECT.iam.gserviceaccount.com */
	snprintf(project, sizeof(project), "%.*s", (int)strcspn(at + 1, "."), at + 1);
	snprintf(url, sizeof(url), "%s%.400s", certs, f->id);
	json_open(&w, NULL, '{');
	json_str(&w, "type", "service_account");
	json_str(&w, "project_id", with(f, "project", project));
	json_str(&w, "private_key_id", id);
	json_str(&w, "private_key", f->secret);
	json_str(&w, "client_email", f->id);
	json_str(&w, "client_id", with(f, "client_id", "0"));
	json_str(&w, "auth_uri", "https://accounts.google.com/o/oauth2/auth");
	json_str(&w, "token_uri", with(f, "audience", "https://oauth2.googleapis.com/token"));
	json_str(&w, "auth_provider_x509_cert_url", "https://www.googleapis.com/oauth2/v1/certs");
	json_str(&w, "client_x509_cert_url", url);
	json_str(&w, "universe_domain", "googleapis.com");
	json_close(&w, '}');
	fputc('\n', out);
	return 0;
}

static int
write_docker(const struct placeholder_facts *f, FILE *out, struct err *err)
{
	struct json w = { .out = out };
	const char *user = f->id != NULL ? f->id : with(f, "user", "token");
	OWN(freep) char *pair = NULL, *coded = NULL;
	const char *host = f->host;
	int n, r = f->secret == NULL ? check_word("a value", f->secret, err) : 0;

	if (r < 0)
		return r;
	if (strchr(user, ':') != NULL)
		return err_set(err, EINVAL, "a user has no ':' in its name");
	/* Docker's own registry goes by another name here. */
	if (host == NULL || strstr(host, "docker.io") != NULL)
		host = "https://index.docker.io/v1/";
	n = asprintf(&pair, "%s:%s", user, f->secret);
	if (n < 0) {
		pair = NULL;
		return err_set(err, ENOMEM, "out of memory");
	}
	coded = malloc((size_t)n / 3 * 4 + 8);
	if (coded == NULL)
		return err_set(err, ENOMEM, "out of memory");
	EVP_EncodeBlock((unsigned char *)coded, (unsigned char *)pair, n);
	json_open(&w, NULL, '{');
	json_open(&w, "auths", '{');
	json_open(&w, host, '{');
	json_str(&w, "auth", coded);
	json_close(&w, '}');
	json_close(&w, '}');
	json_close(&w, '}');
	fputc('\n', out);
	return 0;
}

const struct placeholder_file placeholder_files[] = {
	{ "aws-credentials", ".aws/credentials", "AWS_SHARED_CREDENTIALS_FILE", write_aws },
	{ "netrc", ".netrc", NULL, write_netrc },
	{ "npmrc", ".npmrc", "NPM_CONFIG_USERCONFIG", write_npmrc },
	{ "pypirc", ".pypirc", NULL, write_pypirc },
	{ "gh-hosts", ".config/gh/hosts.yml", NULL, write_gh },
	{ "google-service-account", ".config/gcloud/application_default_credentials.json",
	  "GOOGLE_APPLICATION_CREDENTIALS", write_google },
	{ "docker-config", ".docker/config.json", NULL, write_docker },
	{0}
};

const struct placeholder_file *
placeholder_file_find(const char *name)
{
	for (const struct placeholder_file *f = placeholder_files; f->name != NULL; f++)
		if (strcmp(f->name, name) == 0)
			return f;
	return NULL;
}

int
placeholder_file_text(const struct placeholder_file *file, const struct placeholder_facts *facts,
                      char **ret_text, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	int r;

	if (out == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = file->write(facts, out, err);
	if (fclose(out) != 0 && r == 0)
		r = err_set(err, ENOMEM, "out of memory");
	if (r == 0)
		*ret_text = TAKE(text);
	return r;
}

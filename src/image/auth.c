/* auth.c - see auth.h.  The formats: containers-auth.json(5), and "Token Authentication" of the registry's
 * specification. */
#include "image/auth.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"

#define HUB "docker.io"
/* Docker's own name for its registry, in files and for helpers. */
#define HUB_SERVER "https://index.docker.io/v1/"

void
auth_free(struct auth *a)
{
	wipe_text(&a->user);
	wipe_text(&a->password);
	wipe_text(&a->identity);
	wipe_text(&a->bearer);
}

/* ---- names of registries ---- */

/* "https://host/v1/" and "host" are the same. */
static void
clean_key(const char *key, char ret_name[AUTH_SERVER_MAX + 1])
{
	static const char *const ends[] = { "/", "/v1", "/v2" };
	const char *at = strstr(key, "://");
	size_t len;

	at = at != NULL ? at + 3 : key;
	len = strlen(at);
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (len > strlen(ends[i]) && strncmp(at + len - strlen(ends[i]), ends[i], strlen(ends[i])) == 0)
			len -= strlen(ends[i]);
	len = len > AUTH_SERVER_MAX ? 0 : len;
	memcpy(ret_name, at, len);
	ret_name[len] = '\0';
	if (strcmp(ret_name, "index.docker.io") == 0 || strcmp(ret_name, "registry-1.docker.io") == 0)
		memcpy(ret_name, HUB, sizeof(HUB));
	for (size_t i = 0; ret_name[i] != '\0' && ret_name[i] != '/'; i++)
		ret_name[i] = (char)tolower((unsigned char)ret_name[i]);
}

static bool
is_for(const char *key, const char *wanted, size_t len)
{
	char name[AUTH_SERVER_MAX + 1];

	clean_key(key, name);
	return strlen(name) == len && memcmp(name, wanted, len) == 0;
}

static json_t *
find_key(json_t *map, const char *wanted, size_t len)
{
	const char *key;
	json_t *value;

	json_object_foreach(map, key, value)
		if (is_for(key, wanted, len))
			return value;
	return NULL;
}

/* ---- entries ---- */

static int
copy_text(const json_t *object, const char *name, char **ret_text)
{
	const json_t *member = json_object_get(object, name);
	const char *text = json_string_value(member);

	if (text == NULL || *text == '\0')
		return member == NULL || json_is_null(member) || text != NULL ? 0 : -EBADMSG;
	if (strlen(text) != json_string_length(member) || strlen(text) > AUTH_TOKEN_MAX)
		return -EBADMSG;
	free(*ret_text);
	*ret_text = strdup(text);
	return *ret_text != NULL ? 0 : -ENOMEM;
}

/* A token ends up in a header field. */
static bool
is_token(const char *text)
{
	for (; *text != '\0'; text++)
		if (*text <= ' ' || *text >= 0x7f)
			return false;
	return true;
}

/* "auth": base64 of "user:password". */
static int
split_login(const char *text, size_t len, struct auth *auth)
{
	OWN(freep) char *plain = malloc(CODEC_BYTES_LEN(len) + 1);
	char *colon;
	size_t n = 0;
	int r = 0;

	if (plain == NULL)
		return -ENOMEM;
	if (len > AUTH_WORD_MAX || codec_unbase64(CODEC_BASE64, text, len, (unsigned char *)plain,
	                                          CODEC_BYTES_LEN(len), &n) < 0)
		return -EBADMSG;
	/* Old versions of Docker fill up with NULs. */
	while (n > 0 && plain[n - 1] == '\0')
		n--;
	plain[n] = '\0';
	colon = strchr(plain, ':');
	if (strlen(plain) != n || colon == NULL || colon == plain) {
		r = -EBADMSG;
	} else {
		*colon = '\0';
		auth->user = strdup(plain);
		auth->password = strdup(colon + 1);
		r = auth->user == NULL || auth->password == NULL ? -ENOMEM : 0;
	}
	explicit_bzero(plain, n);
	return r;
}

/* 1: there are credentials in it. */
static int
read_entry(const json_t *entry, struct auth *auth)
{
	const json_t *login = json_object_get(entry, "auth");
	int r = json_is_object(entry) ? 0 : -EBADMSG;

	if (r == 0 && json_string_length(login) > 0)
		r = split_login(json_string_value(login), json_string_length(login), auth);
	r = r == 0 ? copy_text(entry, "username", &auth->user) : r;
	r = r == 0 ? copy_text(entry, "password", &auth->password) : r;
	r = r == 0 ? copy_text(entry, "identitytoken", &auth->identity) : r;
	r = r == 0 ? copy_text(entry, "registrytoken", &auth->bearer) : r;
	if (r == 0 && auth->bearer != NULL && !is_token(auth->bearer))
		r = -EBADMSG;
	return r < 0 ? r : auth->identity != NULL || auth->bearer != NULL ||
	                   (auth->user != NULL && auth->password != NULL);
}

/* The nearest entry counts: host/a/b, then host/a, then host. */
static int
search_entries(const json_t *root, const char *registry, const char *repository, struct auth *auth)
{
	json_t *entries = json_object_get(root, "auths"), *entry;
	char name[AUTH_SERVER_MAX + 1];
	size_t len = (size_t)snprintf(name, sizeof(name), "%s/%s", registry, repository);
	int r;

	for (len = len < sizeof(name) ? len : 0; entries != NULL && len > 0; ) {
		entry = find_key(entries, name, len);
		r = entry != NULL ? read_entry(entry, auth) : 0;
		if (r != 0)
			return r;
		auth_free(auth);
		while (len > 0 && name[len] != '/')
			len--;
		if (len == 0)
			break;
		name[len] = '\0';
	}
	return 0;
}

/* ---- helpers ---- */

static int
take_helper(const json_t *name, const char *registry, struct auth_helper *ret_helper)
{
	const char *text = json_string_value(name);

	if (text == NULL || *text == '\0')
		return json_is_null(name) || text != NULL ? 0 : -EBADMSG;
	/* It is a part of a program's name, not a path. */
	if (strlen(text) > AUTH_HELPER_MAX || strlen(registry) > AUTH_SERVER_MAX ||
	    strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != strlen(text))
		return -EBADMSG;
	snprintf(ret_helper->name, sizeof(ret_helper->name), "%s", text);
	snprintf(ret_helper->server, sizeof(ret_helper->server), "%s", strcmp(registry, HUB) == 0 ? HUB_SERVER : registry);
	return 2;
}

static int
search_file(const json_t *root, const char *registry, const char *repository, struct auth *auth,
            struct auth_helper *helper)
{
	json_t *helpers = json_object_get(root, "credHelpers"), *store = json_object_get(root, "credsStore");
	json_t *own = find_key(helpers, registry, strlen(registry));
	int r = own != NULL ? take_helper(own, registry, helper) : 0;

	r = r == 0 ? search_entries(root, registry, repository, auth) : r;
	return r == 0 && store != NULL ? take_helper(store, registry, helper) : r;
}

int
auth_find(const char *text, size_t len, const char *registry, const char *repository,
          struct auth *ret_auth, struct auth_helper *ret_helper, struct err *err)
{
	OWN(json_decrefp) json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	OWN(auth_free) struct auth found = {0};
	struct auth_helper helper = { .name = "" };
	int r = json_is_object(root) ? search_file(root, registry, repository, &found, &helper) : -EBADMSG;

	if (r < 0)
		return r == -ENOMEM ? err_set(err, ENOMEM, "out of memory") :
		       err_set(err, EBADMSG, "it is not a file of logins: JSON with \"auths\", \"credHelpers\" or "
		               "\"credsStore\"");
	if (r == 1) {
		*ret_auth = found;
		found = (struct auth){0};
	}
	if (r == 2)
		*ret_helper = helper;
	return r;
}

int
auth_read_answer(const char *text, size_t len, struct auth *ret_auth, struct err *err)
{
	OWN(json_decrefp) json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	OWN(auth_free) struct auth found = {0};
	int r = json_is_object(root) ? 0 : -EBADMSG;

	r = r == 0 ? copy_text(root, "Username", &found.user) : r;
	r = r == 0 ? copy_text(root, "Secret", &found.password) : r;
	if (r == 0 && (found.user == NULL || found.password == NULL))
		r = -EBADMSG;
	if (r < 0)
		return err_set(err, -r, "it printed no Username and Secret");
	if (strcmp(found.user, "<token>") == 0) {
		wipe_text(&found.user);
		found.identity = TAKE(found.password);
	}
	*ret_auth = found;
	found = (struct auth){0};
	return 0;
}

int
auth_read_token(const char *text, size_t len, char **ret_token, uint64_t *ret_seconds, struct err *err)
{
	OWN(json_decrefp) json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	const json_t *expires = json_object_get(root, "expires_in");
	OWN(freep) char *token = NULL;
	int r = json_is_object(root) ? copy_text(root, "token", &token) : -EBADMSG;

	if (r == 0 && token == NULL)
		r = copy_text(root, "access_token", &token);
	if (r < 0 || token == NULL || !is_token(token))
		return err_set(err, EBADMSG, "the token server's answer has no token");
	*ret_seconds = json_is_integer(expires) && json_integer_value(expires) > 0 ?
	               (uint64_t)json_integer_value(expires) : AUTH_TOKEN_S;
	*ret_token = TAKE(token);
	return 0;
}

/* docker_image.c - has the container engine fetch an image, with the operator's login. */
#include "target/docker_image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/own.h"
#include "canon/hash.h"
#include "image/auth.h"
#include "image/login.h"
#include "image/ref.h"

/* The value of X-Registry-Auth; the caller wipes it. */
static int
encode(const struct auth *auth, const char *registry, char **ret_login, struct err *err)
{
	OWN(wipe_text) char *text = NULL;
	size_t len = 0;
	struct json w = { .out = open_memstream(&text, &len) };
	char *login;

	if (w.out == NULL)
		return err_set(err, ENOMEM, "out of memory");
	json_open(&w, NULL, '{');
	json_str(&w, "username", auth->user != NULL ? auth->user : "");
	json_str(&w, "password", auth->password != NULL ? auth->password : "");
	json_str(&w, "identitytoken", auth->identity != NULL ? auth->identity : "");
	json_str(&w, "registrytoken", auth->bearer != NULL ? auth->bearer : "");
	json_str(&w, "serveraddress", registry);
	json_close(&w, '}');
	login = fclose(w.out) == 0 ? malloc(CODEC_BASE64_LEN(len) + 1) : NULL;
	if (login == NULL)
		return err_set(err, ENOMEM, "out of memory");
	/* The API wants the alphabet of URLs, and padding. */
	(void)codec_base64(CODEC_BASE64, text, len, login);
	for (char *at = login; *at != '\0'; at++)
		*at = *at == '+' ? '-' : *at == '/' ? '_' : *at;
	*ret_login = login;
	return 0;
}

static int
find_login(const char *ref, char **ret_login, struct err *err)
{
	OWN(freep) struct image_name *name = calloc(1, sizeof(*name));
	OWN(auth_free) struct auth auth = {0};
	int r = name == NULL ? err_set(err, ENOMEM, "out of memory") : image_name_parse(ref, name, err);

	if (r == 0)
		r = login_find(name->registry, name->repository, &auth, err);
	if (r < 0 || (auth.user == NULL && auth.identity == NULL && auth.bearer == NULL))
		return r;
	return encode(&auth, name->registry, ret_login, err);
}

int
docker_image_get(const char *socket, const char *ref, struct engine_image *ret_image, struct err *err)
{
	OWN(wipe_text) char *login = NULL;
	int r = engine_find_image(socket, ref, ret_image, err);

	/* An id names no image of a registry. */
	if (r != -ENOENT || strncmp(ref, HASH_PREFIX, strlen(HASH_PREFIX)) == 0)
		return r;
	r = find_login(ref, &login, err);
	if (r == 0)
		r = engine_pull(socket, ref, login, err);
	return r < 0 ? r : engine_find_image(socket, ref, ret_image, err);
}

/* e2b_door.c - who may use E2B's API: clients with a token of the service, and in one sandbox those with its token. */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "proc/serve/e2b.h"

#define KEY_FILE "e2b.key"
#define FIELD_MAX 128
#define LABEL "cloister e2b sandbox "
#define BY_SIGNATURE "signature"
#define FORM_MAX 65536                  /* of a form, around a file */

/* ---- tokens of sandboxes ---- */

static int
make_key(int folder, struct e2b *e, struct err *err)
{
	char text[2 * sizeof(e->key) + 1];
	int r;

	if (RAND_bytes(e->key, sizeof(e->key)) != 1)
		return err_set(err, EIO, "there is no randomness for a key");
	codec_hex(e->key, sizeof(e->key), text);
	r = create_file_at(folder, KEY_FILE, 0600, text, err);
	OPENSSL_cleanse(text, sizeof(text));
	return r;
}

/* It stays, and with it the tokens. */
static int
read_key(int folder, struct e2b *e, struct err *err)
{
	OWN(freep) char *text = NULL;
	struct err none = {0};
	size_t len = 0;
	int r = read_file_at(folder, KEY_FILE, 4 * sizeof(e->key), &text, &len, &none);

	if (r == -ENOENT)
		return make_key(folder, e, err);
	if (r < 0)
		return err_set(err, -r, "%s", none.text);
	if (len != 2 * sizeof(e->key) || !codec_unhex_lower(text, e->key, sizeof(e->key)))
		r = err_set(err, EINVAL, "the file serve/" KEY_FILE " in the data folder is damaged: remove it, and one is made");
	OPENSSL_cleanse(text, len);
	return r;
}

void
e2b_make_token(const struct e2b *e, const char *id, char ret_token[E2B_TOKEN_LEN + 1])
{
	unsigned char mac[EVP_MAX_MD_SIZE] = {0};
	char text[sizeof(LABEL) + DISPATCH_ID_LEN];
	unsigned n = 0;

	snprintf(text, sizeof(text), LABEL "%s", id);
	/* Without it, nothing that a client can show is this. */
	memset(ret_token, 0, E2B_TOKEN_LEN + 1);
	if (HMAC(EVP_sha256(), e->key, sizeof(e->key), (unsigned char *)text, strlen(text), mac, &n) != NULL)
		codec_hex(mac, E2B_TOKEN_LEN / 2, ret_token);
}

int
e2b_start(struct api *api, int folder, struct err *err)
{
	struct e2b *e = calloc(1, sizeof(*e));
	int r = e == NULL ? err_errno(err, "cannot serve E2B's API") : read_key(folder, e, err);

	if (r < 0) {
		free(e);
		return r;
	}
	e->api = api;
	api->e2b = e;
	return 0;
}

void
e2b_free(struct e2b *e)
{
	if (e == NULL)
		return;
	e2b_processes_free(e);
	e2b_watches_free(e);
	e2b_hosts_free(e);
	OPENSSL_cleanse(e->key, sizeof(e->key));
	free(e);
}

bool
e2b_is_idle(const struct e2b *e)
{
	return e == NULL || (e->processes == NULL && e->watches == NULL && e->hosts == NULL);
}

/* ---- judging ---- */

static bool
refuse(struct serve_request *q, const char *message)
{
	serve_refuse(q, 401, "unauthorized", NULL, message);
	return false;
}

static bool
judge_key(struct serve_request *q)
{
	char key[SERVE_TOKEN_MAX + 2];
	const struct serve_token *token = NULL;

	if (serve_read_field(q, "x-api-key", key, sizeof(key)) && strlen(key) <= SERVE_TOKEN_MAX)
		token = serve_token_find(q->door, key, strlen(key));
	OPENSSL_cleanse(key, sizeof(key));
	if (token == NULL)
		return refuse(q, "the API key is missing or wrong: it is the token of this service (serve/token in its data "
		              "folder)");
	q->role = token->role;
	snprintf(q->who, sizeof(q->who), "token %.*s", (int)sizeof(q->who) - 7, token->name);
	return true;
}

/* Such a client has the role of a guest: only the routes of sandboxes are there for it.  WHO is also how they know which
 * one it may use. */
static bool
judge_inside(const struct e2b *e, struct serve_request *q)
{
	char id[DISPATCH_ID_LEN + 2], shown[FIELD_MAX], token[E2B_TOKEN_LEN + 1];

	q->role = SERVE_GUEST;
	/* The signature is judged with the sandboxes that there are. */
	if (!serve_read_field(q, "x-access-token", shown, sizeof(shown)) && strcmp(q->path, "/files") == 0) {
		snprintf(q->who, sizeof(q->who), BY_SIGNATURE);
		return true;
	}
	if (!serve_read_field(q, "e2b-sandbox-id", id, sizeof(id)) || strlen(id) != DISPATCH_ID_LEN)
		return refuse(q, "the field E2b-Sandbox-Id is missing: an SDK of 2026 or later sends it");
	e2b_make_token(e, id, token);
	if (strlen(shown) != E2B_TOKEN_LEN || CRYPTO_memcmp(shown, token, E2B_TOKEN_LEN) != 0)
		return refuse(q, "the sandbox's access token is missing or wrong");
	snprintf(q->who, sizeof(q->who), "sandbox %s", id);
	/* Others who say nothing do not push it out. */
	serve_know(q);
	return true;
}

bool
e2b_judge(void *arg, struct serve_request *q)
{
	const struct api *api = arg;

	return e2b_is_inside(q->path) ? judge_inside(api->e2b, q) : judge_key(q);
}

bool
e2b_admit(struct api_call *c)
{
	struct serve_request *q = c->q;

	if (q->body_max == 0 || strcmp(q->who, BY_SIGNATURE) != 0)
		return true;
	if (c->api->e2b->n_signed == E2B_SIGNED_MAX)
		return false;
	c->api->e2b->n_signed++;
	c->is_signed = true;
	q->body_max = API_FILE_MAX + FORM_MAX;
	return true;
}

void
e2b_dismiss(const struct api_call *c)
{
	if (c->is_signed)
		c->api->e2b->n_signed--;
}

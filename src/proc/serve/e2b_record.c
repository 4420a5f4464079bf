/* e2b_record.c - what is known of a sandbox of E2B's API, and which one a request uses. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "canon/canon.h"
#include "cell/cell_control.h"
#include "proc/serve/e2b.h"
#include "proc/serve/sandbox.h"

#define RECORD "e2b.json"
#define RECORD_NEW "e2b.json.new"
#define RECORD_MAX (2u << 20)
#define FIELD_MAX 256

/* ---- calls ---- */

struct e2b_call *
e2b_call_of(struct api_call *c)
{
	if (c->e2b == NULL)
		c->e2b = calloc(1, sizeof(*c->e2b));
	if (c->e2b == NULL)
		(void)api_fail_with(c, 503, "unavailable", "out of memory");
	else
		c->e2b->out.fd = c->e2b->in.fd = c->e2b->out.fd > 0 ? c->e2b->out.fd : -1;
	return c->e2b;
}

/* ---- records ---- */

json_t *
e2b_record_load(const char *id)
{
	OWN(closep) int folder = api_dispatch_folder(id);
	OWN(freep) char *text = NULL;
	size_t len;

	return folder < 0 || read_file_at(folder, RECORD, RECORD_MAX, &text, &len, NULL) < 0 ? NULL : canon_value(text, len);
}

int
e2b_record_store(const char *id, json_t *record, struct err *err)
{
	OWN(closep) int folder = api_dispatch_folder(id);
	OWN(freep) char *text = json_dumps(record, JSON_COMPACT | JSON_SORT_KEYS);
	int r;

	if (folder < 0 || text == NULL)
		return err_set(err, EIO, "what is known of the sandbox %s cannot be kept: its folder is gone", id);
	(void)unlinkat(folder, RECORD_NEW, 0);
	r = create_file_at(folder, RECORD_NEW, 0600, text, err);
	if (r == 0 && renameat(folder, RECORD_NEW, folder, RECORD) < 0)
		r = err_errno(err, "what is known of the sandbox %s cannot be kept", id);
	return r;
}

/* ---- which sandbox ---- */

struct signed_one {
	struct api_call *call;
	const char *path, *operation, *user, *until, *shown;
	char found[DISPATCH_ID_LEN + 1];
};

static int
try_signature(void *arg, const struct dispatch *d)
{
	struct signed_one *s = arg;
	char token[E2B_TOKEN_LEN + 1], text[CODEC_BASE64_LEN(SHA256_DIGEST_LENGTH) + 1];
	unsigned char hash[SHA256_DIGEST_LENGTH];
	OWN(freep) char *signed_text = NULL;
	size_t len;

	e2b_make_token(s->call->api->e2b, d->id, token);
	signed_text = str_format("%s:%s:%s:%s%s%s", s->path, s->operation, s->user, token, s->until != NULL ? ":" : "",
	                         s->until != NULL ? s->until : "");
	OPENSSL_cleanse(token, sizeof(token));
	if (signed_text == NULL)
		return 0;
	SHA256((unsigned char *)signed_text, strlen(signed_text), hash);
	OPENSSL_cleanse(signed_text, strlen(signed_text));
	codec_base64(CODEC_BASE64, hash, sizeof(hash), text);
	len = strcspn(text, "=");
	if (strlen(s->shown) != len || CRYPTO_memcmp(text, s->shown, len) != 0)
		return 0;
	snprintf(s->found, sizeof(s->found), "%s", d->id);
	return 1;
}

/* A signed address names no sandbox: it is the one whose token made the signature. */
static int
find_signed(struct api_call *c, char ret_id[DISPATCH_ID_LEN + 1])
{
	static const char version[] = "v1_";
	const char *shown = api_query(c, "signature"), *user = api_query(c, "username"), *path = api_query(c, "path");
	struct signed_one s = { .call = c, .path = path != NULL ? path : "", .user = user != NULL ? user : "",
		.operation = strcmp(c->route->method, "GET") == 0 ? "read" : "write",
		.until = api_query(c, "signature_expiration") };
	struct dispatch_filter filter = { .state = DISPATCH_RUNNING };
	uint64_t until;

	if (shown == NULL || strncmp(shown, version, sizeof(version) - 1) != 0)
		return api_fail_with(c, 401, "unauthorized", "the signature is missing");
	s.shown = shown + sizeof(version) - 1;
	if (dispatch_list(api_registry(c), &filter, try_signature, &s, &c->err) < 0)
		return api_fail(c);
	if (s.found[0] == '\0')
		return api_fail_with(c, 401, "unauthorized", "the signature is wrong, or its sandbox is over");
	if (s.until != NULL && (num_parse_count(s.until, 0, INT64_MAX, &until, NULL) < 0 || until < (uint64_t)time(NULL)))
		return api_fail_with(c, 401, "unauthorized", "the signature is expired");
	memcpy(ret_id, s.found, sizeof(s.found));
	snprintf(c->q->who, sizeof(c->q->who), "sandbox %s", s.found);
	return 0;
}

static int
is_over(struct api_call *c, const char *id)
{
	return api_fail_with(c, 409, "over", "The sandbox %s is over", id);
}

int
e2b_enter(struct api_call *c, char ret_cell[CELL_ID_LEN + 1])
{
	static const char word[] = "sandbox ";
	OWN(dispatch_free) struct dispatch d = {0};
	struct e2b_call *e = e2b_call_of(c);
	char id[DISPATCH_ID_LEN + 1] = "";
	int r;

	if (e == NULL)
		return -EIO;
	if (strncmp(c->q->who, word, sizeof(word) - 1) == 0)
		snprintf(id, sizeof(id), "%s", c->q->who + sizeof(word) - 1);
	else if (find_signed(c, id) < 0)
		return -EIO;
	r = dispatch_get(api_registry(c), id, &d, &c->err);
	if (r < 0)
		return r == -ENOENT ? is_over(c, id) : api_fail(c);
	if (dispatch_state_is_over(d.state) || d.cell[0] == '\0')
		return is_over(c, id);
	if (e->record == NULL)
		e->record = e2b_record_load(id);
	if (e->record == NULL || json_is_true(json_object_get(e->record, "killed")))
		return is_over(c, id);
	if (sandbox_reach(c, &d) < 0)
		return -EIO;
	snprintf(c->id, sizeof(c->id), "%s", id);
	snprintf(ret_cell, CELL_ID_LEN + 1, "%s", d.cell);
	return 0;
}

int
e2b_look(struct api_call *c, const char *cell, struct cell_info *ret_info)
{
	OWN(closep) int runtime = cell_runtime_open(&c->err);
	struct cell_entry entry;
	int r = runtime;

	r = r >= 0 ? cell_find(runtime, true, cell, &entry, &c->err) : r;
	r = r >= 0 ? cell_control_info(runtime, &entry, ret_info, &c->err) : r;
	if (r == -ENOENT)
		return is_over(c, c->id);
	return r < 0 ? api_fail(c) : 0;
}

/* ---- paths and users ---- */

static const char *
variable(char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; env != NULL && *env != NULL; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}

int
e2b_resolve(struct api_call *c, const char *cell, const char *path, char **ret_path)
{
	const bool is_home = path[0] == '~' && (path[1] == '\0' || path[1] == '/');
	struct cell_info info = {0};
	const char *base;

	if (path[0] == '/') {
		*ret_path = strdup(path);
	} else {
		if (e2b_look(c, cell, &info) < 0)
			return -EIO;
		base = is_home ? variable(info.spec.env, "HOME") : info.spec.cwd;
		base = base != NULL ? base : "/";
		path += is_home;
		*ret_path = str_format("%s%s%s", base, path[0] == '/' || path[0] == '\0' || strcmp(base, "/") == 0 ? "" : "/", path);
		cell_spec_free(&info.spec);
	}
	if (*ret_path == NULL)
		return api_fail_with(c, 503, "unavailable", "out of memory");
	return strlen(*ret_path) < PATH_MAX ? 0 :
	       api_fail_with(c, 400, "invalid", "the path is over %d bytes long", PATH_MAX - 1);
}

/* The user of "Authorization: Basic USER:", as envd reads it. */
static bool
read_user(const struct serve_request *q, char *ret_user, size_t size)
{
	static const char basic[] = "Basic ";
	char field[FIELD_MAX];
	unsigned char user[CODEC_BYTES_LEN(FIELD_MAX) + 1];
	size_t len = 0;

	if (!serve_read_field(q, "authorization", field, sizeof(field)) || strncasecmp(field, basic, sizeof(basic) - 1) != 0)
		return false;
	if (codec_unbase64(CODEC_BASE64, field + sizeof(basic) - 1, strlen(field) - sizeof(basic) + 1, user, sizeof(user) - 1,
	                   &len) < 0)
		len = 0;
	user[len] = '\0';
	snprintf(ret_user, size, "%.*s", (int)strcspn((char *)user, ":"), (char *)user);
	return true;
}

int
e2b_check_user(struct api_call *c, const char *cell, const char *name)
{
	char user[FIELD_MAX];
	struct cell_info info = {0};
	bool is_root;

	if (name == NULL && read_user(c->q, user, sizeof(user)))
		name = user;
	if (name == NULL || name[0] == '\0' || strcmp(name, "user") == 0)
		return 0;
	if (e2b_look(c, cell, &info) < 0)
		return -EIO;
	is_root = cell_spec_uid(&info.spec) == 0;
	cell_spec_free(&info.spec);
	if (strcmp(name, is_root ? "root" : "agent") == 0)
		return 0;
	return api_fail_with(c, 400, "invalid", "there is no user '%.64s' in the sandbox: it has one, its agent, so leave 'user' "
	                     "out", name);
}

int
e2b_run(struct api_call *c, const char *cell, struct inside_order *order)
{
	order->by = c->q->who;
	if (inside_open(cell, order, &c->inside, &c->err) == 0)
		return 0;
	return c->err.code == ENOENT ? is_over(c, c->id) : api_fail(c);
}

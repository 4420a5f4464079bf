/* object.c - makes objects from files and from JSON. */
#include "registry/object.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "canon/canon.h"
#include "registry/object_parts.h"
#include "registry/registry_parts.h"
#include "trust/trust.h"

void
object_free(struct object *o)
{
	if (o == NULL)
		return;
	json_decref(o->content);
	free(o->text);
	free(o);
}

int
object_new(enum registry_kind kind, json_t *content, struct object **ret_object, struct err *err)
{
	OWN(object_freep) struct object *o = calloc(1, sizeof(*o));
	OWN(json_decrefp) json_t *given = content;
	unsigned char hash[HASH_LEN];
	int r;

	if (o == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = canon_dump(given, OBJECT_TEXT_MAX, &o->text, &o->len, err);
	/* As it will be read from the registry: 1.0 is 1. */
	r = r == 0 ? canon_read(o->text, o->len, &o->content, err) : r;
	if (r < 0)
		return r;
	o->kind = kind;
	snprintf(o->name, sizeof(o->name), "%s",
	         json_string_value(json_object_get(o->content, "name")));
	hash_of(o->text, o->len, hash);
	hash_name(hash, o->hash);
	*ret_object = TAKE(o);
	return 0;
}

/* ---- files ---- */

/* "team/web.yaml" is "web". */
static char *
name_of_file(const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
	size_t len = strlen(base);

	if (len > 5 && strcmp(base + len - 5, ".yaml") == 0)
		len -= 5;
	else if (len > 4 && strcmp(base + len - 4, ".yml") == 0)
		len -= 4;
	return strndup(base, len);
}

static int
read_policy_file(const char *path, const char *name, struct object **ret_object, struct err *err)
{
	OWN(freep) char *own = name == NULL ? name_of_file(path) : strdup(name);
	OWN(json_decrefp) json_t *document = NULL;
	int r;

	if (own == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (!registry_name_ok(own))
		return err_set(err, EINVAL, "'%.80s' cannot be a name: small letters, digits and '._-', at "
		               "most %d, a letter or digit first%s", own, REGISTRY_NAME_MAX,
		               name == NULL ? "; say another with --name" : "");
	r = object_read_policy(path, NULL, &document, err);
	if (r < 0)
		return r;
	return object_new(REGISTRY_POLICY, json_pack("{s:O,s:s,s:s,s:i}", "document", document, "kind",
	                                             "policy", "name", own, "version", 1),
	                  ret_object, err);
}

int
object_read_file(enum registry_kind kind, const char *path, const char *name,
                 struct object **ret_object, struct err *err)
{
	OWN(node_freep) struct node *root = NULL;
	OWN(freep) char *text = NULL;
	struct stat st;
	size_t len;
	int r;

	r = trust_path(TRUST_REGISTERED, path, err);
	if (r < 0)
		return r;
	if (kind == REGISTRY_POLICY)
		return read_policy_file(path, name, ret_object, err);
	if (stat(path, &st) < 0)
		return err_errno(err, "cannot open '%s'", path);
	if (S_ISDIR(st.st_mode))
		return err_set(err, EISDIR, "'%s' is a folder: %s are files", path, registry_plurals[kind]);
	r = trust_read(TRUST_REGISTERED, path, OBJECT_FILE_MAX, &text, &len, err);
	r = r == 0 ? node_parse(path, text, len, &root, err) : r;
	return r < 0 ? r : object_read_node(kind, root, name, NULL, ret_object, err);
}

/* ---- JSON ---- */

struct json_files {
	struct registry *r;
	struct object_files files;
	char *pointer;                  /* OBJECT_POINTER_MAX: the place of the error */
	struct err *err;
};

/* As in RFC 4648, with padding and nothing else. */
static int
decode(const char *text, size_t len, unsigned char **ret_data, size_t *ret_len)
{
	OWN(freep) unsigned char *data = malloc(CODEC_BYTES_LEN(len) + 1);
	int r = data == NULL ? -ENOMEM :
	        codec_unbase64(CODEC_BASE64, text, len, data, CODEC_BYTES_LEN(len), ret_len);

	if (r == 0)
		*ret_data = TAKE(data);
	return r;
}

static int
refuse_file(struct json_files *j, size_t index, const char *member, const char *text)
{
	snprintf(j->pointer, OBJECT_POINTER_MAX, "/files/%zu%s%s", index, *member != '\0' ? "/" : "",
	         member);
	return err_set(j->err, EINVAL, "%s", text);
}

static int
check_file_members(struct json_files *j, size_t index, json_t *file)
{
	static const struct { const char *name; bool text; } known[] = {
		{ "path", true }, { "content", true }, { "content_base64", true }, { "executable", false },
	};
	const char *name;
	json_t *value;
	size_t k;

	if (!json_is_object(file))
		return refuse_file(j, index, "", "a file is an object: {\"path\": ..., \"content\": ...}");
	json_object_foreach(file, name, value) {
		for (k = 0; k < ARRAY_LEN(known) && strcmp(known[k].name, name) != 0; k++)
			;
		if (k == ARRAY_LEN(known))
			return refuse_file(j, index, "", "a file has 'path', 'content' or 'content_base64', and "
			                   "'executable', and nothing else");
		if (known[k].text ? !json_is_string(value) : !json_is_boolean(value))
			return refuse_file(j, index, name, known[k].text ? "this is text" : "this is true or false");
	}
	if (json_object_get(file, "path") == NULL)
		return refuse_file(j, index, "", "a file has a 'path'");
	if ((json_object_get(file, "content") == NULL) == (json_object_get(file, "content_base64") == NULL))
		return refuse_file(j, index, "", "a file has either 'content' or 'content_base64'");
	return 0;
}

static int
take_json_file(struct json_files *j, size_t index, json_t *file)
{
	json_t *content = json_object_get(file, "content"), *coded = json_object_get(file, "content_base64");
	bool executable = json_is_true(json_object_get(file, "executable"));
	OWN(freep) unsigned char *data = NULL;
	struct err err = {0};
	size_t len = 0;
	int r = check_file_members(j, index, file);

	if (r < 0)
		return r;
	if (coded != NULL) {
		r = decode(json_string_value(coded), json_string_length(coded), &data, &len);
		if (r < 0)
			return refuse_file(j, index, "content_base64", "this is not base64");
	}
	r = object_add_file(j->r, &j->files, json_string_value(json_object_get(file, "path")), -1,
	                    coded != NULL ? (const char *)data : json_string_value(content),
	                    coded != NULL ? len : json_string_length(content), executable, &err);
	if (r == -EINVAL || r == -ENAMETOOLONG || r == -EFBIG)
		return refuse_file(j, index, r == -EFBIG ? "" : "path", err.text);
	return r < 0 ? err_set(j->err, err.code, "%s", err.text) : 0;
}

static int
take_json_files(struct json_files *j, json_t *files)
{
	int r = 0;

	snprintf(j->pointer, OBJECT_POINTER_MAX, "/files");
	if (files != NULL && !json_is_array(files))
		return err_set(j->err, EINVAL, "`files` is a list of {\"path\": ..., \"content\": ...}");
	for (size_t i = 0; r == 0 && i < json_array_size(files); i++)
		r = take_json_file(j, i, json_array_get(files, i));
	r = r == 0 ? object_sort_files(&j->files, j->err) : r;
	if (r == 0)
		*j->pointer = '\0';
	return r;
}

static int
read_said(enum registry_kind kind, json_t *said, json_t *files, struct object **ret_object,
          char ret_pointer[OBJECT_POINTER_MAX], struct err *err)
{
	OWN(node_freep) struct node *root = NULL;
	struct err why = {0};
	int r = object_to_nodes(said, &root, &why);

	r = r == 0 ? object_read_node(kind, root, NULL, files, ret_object, &why) : r;
	if (r < 0) {
		object_find_pointer(said, ret_pointer, &why);
		return err_set(err, -r, "%s", why.text);
	}
	return 0;
}

int
object_read_json(struct registry *r, enum registry_kind kind, json_t *said,
                 struct object **ret_object, char ret_pointer[OBJECT_POINTER_MAX], struct err *err)
{
	OWN(json_decrefp) json_t *list = json_array(), *rest = json_copy(said);
	OWN(object_freep) struct object *checked = NULL;
	struct json_files j = { .r = r, .files = { .list = list }, .pointer = ret_pointer, .err = err };
	int n;

	*ret_pointer = '\0';
	if (list == NULL || rest == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (kind != REGISTRY_CAPABILITY)
		return read_said(kind, said, NULL, ret_object, ret_pointer, err);
	/* The parser of rules does not see the contents; and a wrong object stores nothing. */
	json_object_del(rest, "files");
	n = read_said(kind, rest, list, &checked, ret_pointer, err);
	n = n == 0 ? take_json_files(&j, json_object_get(said, "files")) : n;
	n = n == 0 ? read_said(kind, rest, list, ret_object, ret_pointer, err) : n;
	if (n < 0 && r != NULL)
		registry_drop_staged(r);
	return n;
}

/* ---- canonical content ---- */

static int
check_canonical_files(json_t *files, struct err *err)
{
	unsigned char hash[HASH_LEN];
	json_t *file;
	uint64_t left = OBJECT_TREE_MAX;
	size_t i;
	int r = 0;

	if (!json_is_array(files) || json_array_size(files) > OBJECT_FILES_MAX)
		return err_set(err, EBADMSG, "`files` is not a list of at most %d files", OBJECT_FILES_MAX);
	json_array_foreach(files, i, file) {
		const char *path = json_string_value(json_object_get(file, "path"));
		const char *name = json_string_value(json_object_get(file, "hash"));
		json_int_t size = json_integer_value(json_object_get(file, "size"));

		if (json_object_size(file) != 4 || path == NULL || name == NULL || !hash_parse_name(name, hash) ||
		    !json_is_integer(json_object_get(file, "size")) || size < 0 || (uint64_t)size > left ||
		    !json_is_boolean(json_object_get(file, "executable")))
			return err_set(err, EBADMSG, "`files` has one that is malformed");
		r = object_check_path(path, err);
		if (r < 0)
			return r;
		left -= (uint64_t)size;
	}
	return 0;
}

int
object_read_canonical(enum registry_kind kind, const char *text, size_t len, struct object **ret_object, struct err *err)
{
	OWN(json_decrefp) json_t *content = NULL, *list = NULL;
	OWN(object_freep) struct object *o = NULL;
	struct object_files files = {0};
	char pointer[OBJECT_POINTER_MAX];
	int r = len > OBJECT_TEXT_MAX ? err_set(err, EFBIG, "it is over %d MiB", OBJECT_TEXT_MAX >> 20) :
	        canon_read(text, len, &content, err);

	if (r == 0 && kind == REGISTRY_CAPABILITY) {
		list = json_incref(json_object_get(content, "files"));
		r = check_canonical_files(list, err);
		files.list = list;
		r = r == 0 ? object_sort_files(&files, err) : r;
		/* Both are found in the files. */
		json_object_del(content, "files");
		json_object_del(content, "setup");
	}
	r = r == 0 ? read_said(kind, content, list, &o, pointer, err) : r;
	if (r < 0)
		return err_wrap(err, "not the content of a registered %s", registry_kinds[kind]);
	/* Everything in it was read, and nothing else. */
	if (o->len != len || memcmp(o->text, text, len) != 0)
		return err_set(err, EBADMSG, "not the content of a registered %s: registering it would make another one",
		               registry_kinds[kind]);
	*ret_object = TAKE(o);
	return 0;
}

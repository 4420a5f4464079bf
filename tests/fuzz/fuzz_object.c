/* fuzz_object.c - objects to be registered, as YAML and as JSON: what is taken is canonical. */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "canon/canon.h"
#include "fuzz.h"
#include "registry/object_parts.h"

/* Read again, it is the same object. */
static void
check_again(const struct object *o)
{
	OWN(object_freep) struct object *again = NULL;
	OWN(json_decrefp) json_t *said = json_copy(o->content);
	char pointer[OBJECT_POINTER_MAX];
	struct err err = {0};

	json_object_del(said, "files");
	json_object_del(said, "setup");
	assert(object_read_json(NULL, o->kind, said, &again, pointer, &err) == 0);
	assert(strcmp(again->hash, o->hash) == 0 && again->len == o->len);
}

static int
read_json(enum registry_kind kind, const char *text, size_t len, struct object **ret_object,
          struct err *err)
{
	OWN(json_decrefp) json_t *said = NULL;
	char pointer[OBJECT_POINTER_MAX] = "";
	int r = canon_read(text, len, &said, err);

	if (r < 0)
		return r;
	/* Their contents would go to a registry. */
	if (kind == REGISTRY_CAPABILITY)
		json_object_del(said, "files");
	r = object_read_json(NULL, kind, said, ret_object, pointer, err);
	assert(strlen(pointer) < OBJECT_POINTER_MAX && (pointer[0] == '\0' || pointer[0] == '/'));
	return r;
}

static int
read_yaml(enum registry_kind kind, const char *text, size_t len, struct object **ret_object,
          struct err *err)
{
	OWN(json_decrefp) json_t *files = json_array();
	OWN(node_freep) struct node *root = NULL;
	int r = node_parse("fuzz", text, len, &root, err);

	return r < 0 ? r : object_read_node(kind, root, NULL, files, ret_object, err);
}

/* The first byte: a digit says the kind, a letter from 'a' on the same in YAML. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(object_freep) struct object *o = NULL;
	struct err err = {0};
	bool yaml;
	int r;

	if (size == 0)
		return 0;
	yaml = data[0] >= 'a';
	r = (yaml ? read_yaml : read_json)(data[0] % REGISTRY_KINDS, (const char *)data + 1, size - 1, &o,
	                                   &err);
	assert((r == 0) == (err.text[0] == '\0') && r == -err.code);
	if (r == 0)
		check_again(o);
	return 0;
}

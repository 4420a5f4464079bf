/* cell_doc.c - see cell_doc.h: the form of a document as tables, and their check. */
#include "cell/cell_doc.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/text.h"
#include "canon/canon.h"
#include "canon/hash.h"
#include "cell/cell_rlimits.h"
#include "cell/cell_spec.h"
#include "ipc/init_channel.h"
#include "policy/policy.h"

#define PLACE_MAX 96                    /* "grants[3].access" */
#define MEMBERS_MAX 32                  /* of an object */
#define VALUE_MAX CELL_SPEC_MAX
#define AUTHORITIES_MAX (1u << 20)

/* ---- the form ---- */

enum kind { TEXT, PATH, HASH, WORD, NUMBER, TRUTH, LIST, OBJECT };

struct type {
	enum kind kind;
	uint64_t least, most;           /* of a number; of a text's bytes, or a list's items */
	const char *const *words;       /* WORD: one of these; TRUTH: or one of these, unless NULL */
	const struct type *item;        /* LIST */
	const struct member *members;   /* OBJECT: ends with a NULL name */
	/* OBJECT: exactly one of these two, if any. */
	const char *either, *or;
};

struct member {
	const char *name;
	const struct type *type;
	const char *with;               /* required; "": always; else with this member */
	const char *without;            /* not with this member */
	const char *only_with;          /* not without this member */
};

static const struct type number_of_version = { .kind = NUMBER, .least = CELL_DOC_VERSION,
                                               .most = CELL_DOC_VERSION };
static const struct type truth = { .kind = TRUTH };
static const struct type path = { .kind = PATH };
static const struct type hash = { .kind = HASH };
static const struct type word_of_command = { .kind = TEXT, .most = VALUE_MAX };
static const struct type command = { .kind = LIST, .most = CELL_ARGS_MAX, .item = &word_of_command };

static const struct type variable_name = { .kind = TEXT, .least = 1, .most = 4096 };
static const struct type variable_value = { .kind = TEXT, .most = VALUE_MAX };
static const struct member variable_members[] = {
	{ .name = "file", .type = &path, .without = "name" },
	{ .name = "name", .type = &variable_name, .without = "file" },
	{ .name = "value", .type = &variable_value, .with = "name", .only_with = "name" },
	{0}
};
static const struct type variable = { .kind = OBJECT, .members = variable_members, .either = "name",
                                      .or = "file" };
static const struct type env = { .kind = LIST, .most = CELL_ARGS_MAX / 2, .item = &variable };

static const char *const accesses[] = { "overlay", "ro", "rw", NULL };
static const struct type access_word = { .kind = WORD, .words = accesses };
static const struct member grant_members[] = {
	{ .name = "access", .type = &access_word, .with = "host", .only_with = "host" },
	{ .name = "blob", .type = &hash, .without = "host" },
	{ .name = "cell", .type = &path, .with = "blob", .without = "workspace" },
	{ .name = "host", .type = &path, .without = "blob" },
	{ .name = "workspace", .type = &truth, .without = "blob" },
	{0}
};
static const struct type grant = { .kind = OBJECT, .members = grant_members, .either = "host",
                                   .or = "blob" };
static const struct type grants = { .kind = LIST, .most = CELL_GRANTS_MAX, .item = &grant };

static const struct member input_members[] = {
	{ .name = "blob", .type = &hash, .without = "host" },
	{ .name = "host", .type = &path, .without = "blob" },
	{0}
};
static const struct type input = { .kind = OBJECT, .members = input_members, .either = "host",
                                   .or = "blob" };

static const struct type image_name = { .kind = TEXT, .least = 1, .most = CELL_IMAGE_NAME_MAX };
static const struct member image_members[] = {
	{ .name = "digest", .type = &hash },
	{ .name = "name", .type = &image_name },
	{0}
};
static const struct type image = { .kind = OBJECT, .members = image_members, .either = "name", .or = "digest" };

static const char *const roots[] = { "host", "minimal", "none", NULL };
static const struct type root = { .kind = TRUTH, .words = roots };

static const struct type setups = { .kind = LIST, .most = CELL_SETUPS_MAX, .item = &path };

static const struct type start_hashes = { .kind = LIST, .least = 1, .most = INIT_EXECS_MAX, .item = &hash };
static const struct type start_word = { .kind = TEXT, .least = 1, .most = PATH_MAX - 1 };
static const struct member start_members[] = {
	{ .name = "hashes", .type = &start_hashes, .with = "" },
	{ .name = "start", .type = &start_word, .with = "" },
	{0}
};
static const struct type start = { .kind = OBJECT, .members = start_members };
static const struct type starts = { .kind = LIST, .most = CELL_STARTS_MAX, .item = &start };

static const struct type policy_name = { .kind = TEXT, .least = 1, .most = PATH_MAX - 1 };
static const struct type policy_text = { .kind = TEXT, .most = POLICY_FILE_MAX };
static const struct member policy_members[] = {
	{ .name = "name", .type = &policy_name, .with = "" },
	{ .name = "text", .type = &policy_text, .with = "" },
	{0}
};
static const struct type rules = { .kind = OBJECT, .members = policy_members };
static const struct type within = { .kind = LIST, .most = POLICY_GIVEN_MAX - 1, .item = &rules };
static const struct type authorities = { .kind = TEXT, .least = 1, .most = AUTHORITIES_MAX };

static const struct type secret = { .kind = TEXT, .least = 1, .most = 4096 };
static const struct type secrets = { .kind = LIST, .most = CELL_SECRETS_MAX, .item = &secret };

static const struct type memory = { .kind = NUMBER, .least = POLICY_MEMORY_LEAST, .most = CANON_INTEGER_MAX };
static const struct type disk = { .kind = NUMBER, .least = POLICY_DISK_LEAST, .most = CANON_INTEGER_MAX };
static const struct type io = { .kind = NUMBER, .least = POLICY_IO_LEAST, .most = CANON_INTEGER_MAX };
static const struct type cpus = { .kind = NUMBER, .least = POLICY_CPUS_MILLI_LEAST,
                                  .most = CANON_INTEGER_MAX };
static const struct type pids = { .kind = NUMBER, .least = 1, .most = 4194304 };
static const struct type duration = { .kind = NUMBER, .least = 1, .most = CANON_INTEGER_MAX };
static const struct member limit_members[] = {
	{ .name = "cpus_milli", .type = &cpus },
	{ .name = "disk", .type = &disk },
	{ .name = "idle_pause_ms", .type = &duration },
	{ .name = "io", .type = &io },
	{ .name = "memory", .type = &memory },
	{ .name = "pids", .type = &pids },
	{ .name = "time_ms", .type = &duration },
	{ .name = "ttl_ms", .type = &duration },
	{0}
};
static const struct type limits = { .kind = OBJECT, .members = limit_members };

static const struct type port_number = { .kind = NUMBER, .least = 1, .most = 65535 };
static const struct member port_members[] = {
	{ .name = "cell", .type = &port_number, .with = "" },
	{ .name = "host", .type = &port_number },
	{0}
};
static const struct type port = { .kind = OBJECT, .members = port_members };
static const struct type ports = { .kind = LIST, .most = CELL_PORTS_MAX, .item = &port };

static const struct type layers = { .kind = LIST, .least = 1, .most = CELL_BUNDLE_LAYERS_MAX, .item = &path };
static const struct type scratches = { .kind = LIST, .most = CELL_SCRATCHES_MAX, .item = &path };
static const struct type inner_id = { .kind = NUMBER, .most = 65535 };
static const struct type groups = { .kind = LIST, .most = CELL_GROUPS_MAX, .item = &inner_id };
static const struct type rlimit_name = { .kind = WORD, .words = cell_rlimit_names };
static const struct type rlimit_value = { .kind = NUMBER, .most = CANON_INTEGER_MAX };
static const struct member rlimit_members[] = {
	{ .name = "hard", .type = &rlimit_value },
	{ .name = "soft", .type = &rlimit_value },
	{ .name = "type", .type = &rlimit_name, .with = "" },
	{0}
};
static const struct type rlimit = { .kind = OBJECT, .members = rlimit_members };
static const struct type rlimits = { .kind = LIST, .most = CELL_RLIMITS_MAX, .item = &rlimit };
static const struct type outer_id = { .kind = NUMBER, .most = UINT32_MAX - 65536 };
static const struct member bundle_members[] = {
	{ .name = "cwd", .type = &path, .with = "" },
	{ .name = "first_gid", .type = &outer_id },
	{ .name = "first_uid", .type = &outer_id },
	{ .name = "gid", .type = &inner_id },
	{ .name = "groups", .type = &groups },
	{ .name = "layers", .type = &layers, .with = "" },
	{ .name = "metacopy", .type = &truth },
	{ .name = "readonly", .type = &truth },
	{ .name = "rlimits", .type = &rlimits },
	{ .name = "scratches", .type = &scratches },
	{ .name = "uid", .type = &inner_id },
	{0}
};
static const struct type bundle = { .kind = OBJECT, .members = bundle_members };

static const char *const volume_accesses[] = { "ro", "rw", NULL };
static const struct type volume_access = { .kind = WORD, .words = volume_accesses };
static const struct type volume_name = { .kind = TEXT, .least = 1, .most = 2 * CELL_NAME_MAX + 1 };
static const struct member volume_members[] = {
	{ .name = "access", .type = &volume_access, .with = "" },
	{ .name = "cell", .type = &path, .with = "" },
	{ .name = "name", .type = &volume_name, .with = "" },
	{0}
};
static const struct type volume = { .kind = OBJECT, .members = volume_members };
static const struct type volumes = { .kind = LIST, .most = CELL_VOLUMES_MAX, .item = &volume };
static const struct type cache_name = { .kind = TEXT, .least = 1, .most = CELL_NAME_MAX + 65 };
static const struct member cache_members[] = {
	{ .name = "cell", .type = &path },
	{ .name = "name", .type = &cache_name, .with = "" },
	{0}
};
static const struct type cache = { .kind = OBJECT, .members = cache_members };
static const struct type caches = { .kind = LIST, .least = 1, .most = CELL_CACHES_MAX, .item = &cache };
static const struct type state_name = { .kind = TEXT, .least = 1, .most = POLICY_STATE_NAME_MAX };
static const struct type state_commit = { .kind = TEXT, .least = 40, .most = CELL_COMMIT_MAX };
static const struct type state_path = { .kind = TEXT, .least = 1, .most = POLICY_STATE_PATH_MAX };
static_assert(CELL_GUARDS_MAX == POLICY_STATE_GUARDS_MAX, "guards fit");
static const struct type state_guards = { .kind = TEXT, .least = 1, .most = POLICY_STATE_GUARDS_MAX };
static const struct type state_busy = { .kind = WORD, .words = policy_state_busy_words };
static const struct type state_every = { .kind = NUMBER, .least = POLICY_STATE_EVERY_LEAST,
                                         .most = POLICY_STATE_EVERY_MOST };
static const struct member state_members[] = {
	{ .name = "commit", .type = &state_commit },
	{ .name = "every_ms", .type = &state_every },
	{ .name = "guards", .type = &state_guards },
	{ .name = "name", .type = &state_name, .with = "" },
	{ .name = "on_busy", .type = &state_busy },
	{ .name = "path", .type = &state_path },
	{ .name = "quiet", .type = &truth },
	{0}
};
static const struct type state = { .kind = OBJECT, .members = state_members };
static const struct type states = { .kind = LIST, .least = 1, .most = CELL_STATES_MAX, .item = &state };

static const struct type boundary = { .kind = TEXT, .least = 1, .most = CELL_BOUNDARY_MAX };
static const struct type images = { .kind = TEXT, .least = 1, .most = POLICY_IMAGES_TEXT_MAX };
static const struct type runtime = { .kind = TEXT, .least = 1, .most = POLICY_RUNTIME_MAX };
static const char *const profiles[] = { "default", "nested", NULL };
static const struct type profile = { .kind = WORD, .words = profiles };
static const char *const levels[] = { "off", "acts", "full", NULL };
static const struct type record = { .kind = WORD, .words = levels };
static const struct type hostname = { .kind = TEXT, .least = 1, .most = 63 };
static const struct type principal = { .kind = TEXT, .least = 1, .most = CELL_PRINCIPAL_MAX };
static const struct type chain = { .kind = TEXT, .least = 1, .most = CELL_CHAIN_MAX };

static const struct member document_members[] = {
	{ .name = "authorities", .type = &authorities },
	{ .name = "boundary", .type = &boundary },
	{ .name = "bundle", .type = &bundle, .only_with = "rootfs" },
	{ .name = "caches", .type = &caches },
	{ .name = "chain", .type = &chain },
	{ .name = "command", .type = &command, .with = "" },
	{ .name = "env", .type = &env },
	{ .name = "grants", .type = &grants },
	{ .name = "hostname", .type = &hostname },
	{ .name = "image", .type = &image, .without = "rootfs" },
	{ .name = "images", .type = &images },
	{ .name = "input", .type = &input },
	{ .name = "limits", .type = &limits },
	{ .name = "policy", .type = &rules },
	{ .name = "ports", .type = &ports },
	{ .name = "principal", .type = &principal },
	{ .name = "profile", .type = &profile },
	{ .name = "record", .type = &record },
	{ .name = "root", .type = &root },
	{ .name = "rootfs", .type = &path },
	{ .name = "runtime", .type = &runtime, .only_with = "boundary" },
	{ .name = "secrets", .type = &secrets },
	{ .name = "setups", .type = &setups },
	{ .name = "starts", .type = &starts },
	{ .name = "states", .type = &states },
	{ .name = "terminal", .type = &truth },
	{ .name = "version", .type = &number_of_version, .with = "" },
	{ .name = "volumes", .type = &volumes },
	{ .name = "waits", .type = &truth },
	{ .name = "within", .type = &within },
	{0}
};
static_assert(ARRAY_LEN(document_members) <= MEMBERS_MAX, "their names fit a list");
static const struct type document = { .kind = OBJECT, .members = document_members };

/* ---- the check ---- */

/* PLACE is "" for the document itself. */
static int bad(struct err *err, const char *place, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int
bad(struct err *err, const char *place, const char *fmt, ...)
{
	char text[320];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return err_set(err, EINVAL, "the cell document%s%s %s", place[0] != '\0' ? "'s " : "", place, text);
}

static int
check_number(const struct type *type, const json_t *value, const char *place, struct err *err)
{
	json_int_t n = json_integer_value(value);

	if (!json_is_integer(value))
		return bad(err, place, "must be a whole number");
	if (n != (json_int_t)type->least && type->least == type->most)
		return bad(err, place, "is %lld: use %llu", (long long)n, (unsigned long long)type->least);
	if (n < (json_int_t)type->least || n > (json_int_t)type->most)
		return bad(err, place, "is %lld: use %llu to %llu", (long long)n,
		           (unsigned long long)type->least, (unsigned long long)type->most);
	return 0;
}

static int
check_text(const struct type *type, const json_t *value, const char *place, struct err *err)
{
	size_t len = json_string_length(value);
	unsigned char digest[HASH_LEN];

	if (!json_is_string(value))
		return bad(err, place, "must be a string");
	if (type->kind == PATH && (len >= PATH_MAX || json_string_value(value)[0] != '/'))
		return bad(err, place, "must be an absolute path of at most %d bytes", PATH_MAX - 1);
	if (type->kind == HASH && !hash_parse_name(json_string_value(value), digest))
		return bad(err, place, "must be sha256: and 64 lower-case digits");
	if (type->kind == TEXT && len > type->most)
		return bad(err, place, "is longer than %llu bytes", (unsigned long long)type->most);
	return type->kind == TEXT && len < type->least ? bad(err, place, "is empty: leave it out") : 0;
}

static int
check_word(const struct type *type, const json_t *value, const char *place, struct err *err)
{
	char all[128] = "";

	if (type->kind == TRUTH)
		snprintf(all, sizeof(all), "true, false, ");
	for (size_t i = 0; type->words[i] != NULL; i++) {
		if (json_is_string(value) && strcmp(json_string_value(value), type->words[i]) == 0)
			return 0;
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i == 0 ? "" :
		         type->words[i + 1] == NULL ? " or " : ", ", type->words[i]);
	}
	return bad(err, place, "must be %s", all);
}

static int check(const struct type *type, const json_t *value, const char *place, struct err *err);

static int
check_list(const struct type *type, const json_t *value, const char *place, struct err *err)
{
	char inner[PLACE_MAX];
	const json_t *item;
	size_t i;
	int r = 0;

	if (!json_is_array(value))
		return bad(err, place, "must be a list");
	if (json_array_size(value) < type->least)
		return bad(err, place, "is empty");
	if (json_array_size(value) > type->most)
		return bad(err, place, "has more than %llu items", (unsigned long long)type->most);
	json_array_foreach(value, i, item) {
		snprintf(inner, sizeof(inner), "%s[%zu]", place, i);
		r = check(type->item, item, inner, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static const struct member *
find_member(const struct type *type, const char *name)
{
	for (const struct member *m = type->members; m->name != NULL; m++)
		if (strcmp(m->name, name) == 0)
			return m;
	return NULL;
}

static int
refuse_member(const struct type *type, const char *name, const char *place, struct err *err)
{
	const char *names[MEMBERS_MAX + 1], *nearest;
	char all[480] = "";
	size_t n = 0;

	for (; type->members[n].name != NULL && n < MEMBERS_MAX; n++)
		names[n] = type->members[n].name;
	names[n] = NULL;
	nearest = text_nearest(name, names);
	if (nearest != NULL)
		return bad(err, place, "has no member '%.40s': did you mean '%s'?", name, nearest);
	for (size_t i = 0, len = 0; i < n && len < sizeof(all); i++)
		len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s", i > 0 ? ", " : "", names[i]);
	return bad(err, place, "has no member '%.40s': use %s", name, all);
}

/* Whether M has to be in VALUE, may be there, or must not. */
static int
check_presence(const struct member *m, const json_t *value, const char *place, struct err *err)
{
	bool is_there = json_object_get(value, m->name) != NULL;

	if (!is_there && m->with != NULL &&
	    (m->with[0] == '\0' || json_object_get(value, m->with) != NULL))
		return bad(err, place, "needs '%s'", m->name);
	if (is_there && m->only_with != NULL && json_object_get(value, m->only_with) == NULL)
		return bad(err, place, "cannot have '%s' without '%s'", m->name, m->only_with);
	if (is_there && m->without != NULL && json_object_get(value, m->without) != NULL)
		return bad(err, place, "cannot have both '%s' and '%s'", m->name, m->without);
	return 0;
}

static int
check_object(const struct type *type, const json_t *value, const char *place, struct err *err)
{
	char inner[PLACE_MAX];
	const char *name;
	json_t *item;
	int r = 0;

	if (!json_is_object(value))
		return bad(err, place, "must be an object");
	json_object_foreach((json_t *)(uintptr_t)value, name, item) {
		const struct member *m = find_member(type, name);

		if (m == NULL)
			return refuse_member(type, name, place, err);
		snprintf(inner, sizeof(inner), "%s%s%s", place, place[0] != '\0' ? "." : "", name);
		r = check(m->type, item, inner, err);
		if (r < 0)
			return r;
	}
	if (type->either != NULL && json_object_get(value, type->either) == NULL &&
	    json_object_get(value, type->or) == NULL)
		return bad(err, place, "needs '%s' or '%s'", type->either, type->or);
	for (const struct member *m = type->members; r == 0 && m->name != NULL; m++)
		r = check_presence(m, value, place, err);
	return r;
}

static int
check(const struct type *type, const json_t *value, const char *place, struct err *err)
{
	switch (type->kind) {
	case NUMBER: return check_number(type, value, place, err);
	case WORD:   return check_word(type, value, place, err);
	case LIST:   return check_list(type, value, place, err);
	case OBJECT: return check_object(type, value, place, err);
	case TRUTH:
		if (!json_is_boolean(value) && type->words != NULL)
			return check_word(type, value, place, err);
		return json_is_boolean(value) ? 0 : bad(err, place, "must be true or false");
	default:     return check_text(type, value, place, err);
	}
}

/* ---- reading and writing ---- */

int
cell_doc_read(const char *text, size_t len, json_t **ret_doc, struct err *err)
{
	OWN(json_decrefp) json_t *doc = NULL;
	int r;

	if (len > CELL_DOC_MAX)
		return err_set(err, EFBIG, "the cell document is over %u MiB", CELL_DOC_MAX >> 20);
	r = canon_read(text, len, &doc, err);
	if (r < 0)
		return err_wrap(err, "the cell document cannot be read");
	r = check(&document, doc, "", err);
	if (r == 0)
		*ret_doc = TAKE(doc);
	return r;
}

int
cell_doc_write(json_t *doc, char **ret_text, size_t *ret_len, struct err *err)
{
	int r = check(&document, doc, "", err);

	return r < 0 ? r : canon_dump(doc, CELL_DOC_MAX, ret_text, ret_len, err);
}

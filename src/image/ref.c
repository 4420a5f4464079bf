/* ref.c - see ref.h. */
#include "image/ref.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

/* The longest match comes first. */
static const struct scheme {
	const char *prefix;
	enum image_ref_kind kind;
	const char *word;
} schemes[] = {
	{ "docker://", IMAGE_REF_REGISTRY, "docker" },
	{ "oci:", IMAGE_REF_OCI, "oci" },
	{ "oci-archive:", IMAGE_REF_OCI_ARCHIVE, "oci-archive" },
	{ "docker-archive:", IMAGE_REF_DOCKER_ARCHIVE, "docker-archive" },
	{ "docker-daemon:", IMAGE_REF_DOCKER_DAEMON, "docker-daemon" },
	{ "containers-storage:", IMAGE_REF_CONTAINERS_STORAGE, "containers-storage" },
	{ "dir:", IMAGE_REF_DIR, "dir" },
	{ "minimal:", IMAGE_REF_MINIMAL, "minimal" },
};

const char *
image_ref_kind_word(enum image_ref_kind kind)
{
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
		if (schemes[i].kind == kind)
			return schemes[i].word;
	return "docker";
}

static bool
is_lower_or_digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Words of lower-case letters and digits, with ".", "_", "__" or any number of "-" between them. */
static bool
is_path_part(const char *text, size_t len)
{
	size_t i = 0;

	while (i < len) {
		size_t word = i, gap;

		while (i < len && is_lower_or_digit(text[i]))
			i++;
		if (i == word)
			return false;
		if (i == len)
			return true;
		gap = i;
		while (i < len && text[i] == text[gap] && strchr("._-", text[i]) != NULL)
			i++;
		if (i == gap || (text[gap] == '.' && i - gap > 1) || (text[gap] == '_' && i - gap > 2))
			return false;
	}
	return false;
}

static bool
is_repository(const char *text)
{
	size_t len = strlen(text);

	if (len == 0 || len > IMAGE_REPOSITORY_MAX)
		return false;
	for (;;) {
		size_t part = strcspn(text, "/");

		if (!is_path_part(text, part))
			return false;
		if (text[part] == '\0')
			return true;
		text += part + 1;
	}
}

static bool
is_tag(const char *text)
{
	size_t len = strlen(text);

	if (len == 0 || len > IMAGE_TAG_MAX || text[0] == '.' || text[0] == '-')
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && strchr("._-", text[i]) == NULL)
			return false;
	return true;
}

static bool
is_port(const char *text)
{
	size_t len = strspn(text, "0123456789");

	return len > 0 && len <= 5 && text[len] == '\0';
}

static bool
is_host_part(const char *text, size_t len)
{
	if (len == 0 || text[0] == '-' || text[len - 1] == '-')
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '-')
			return false;
	return true;
}

/* HOST[:PORT], where HOST is a name, an address or an IPv6 address in brackets. */
static bool
is_registry(const char *text)
{
	size_t len = strcspn(text, ":");

	if (text[0] == '[') {
		len = strspn(text + 1, "0123456789abcdefABCDEF:");
		if (len < 2 || text[len + 1] != ']')
			return false;
		text += len + 2;
		return text[0] == '\0' || (text[0] == ':' && is_port(text + 1));
	}
	if (text[len] == ':' && !is_port(text + len + 1))
		return false;
	for (const char *end = text + len; text <= end;) {
		size_t part = strcspn(text, ".:");

		if (!is_host_part(text, part))
			return false;
		text += part + 1;
	}
	return true;
}

/* Docker's rule: the first part of a name is a registry if it could not be the name of a user. */
static bool
names_registry(const char *first)
{
	if (strcmp(first, "localhost") == 0 || strpbrk(first, ".:[") != NULL)
		return true;
	for (; *first != '\0'; first++)
		if (isupper((unsigned char)*first))
			return true;
	return false;
}

bool
image_ref_is_digest(const char *text)
{
	const char *digits = text + sizeof(HASH_PREFIX) - 1;
	size_t len;

	if (strncmp(text, HASH_PREFIX, sizeof(HASH_PREFIX) - 1) != 0)
		return false;
	len = strspn(digits, "0123456789abcdef");
	return len >= IMAGE_PREFIX_MIN && len <= HASH_HEX && digits[len] == '\0';
}

static int
bad_name(const char *text, const char *why, struct err *err)
{
	return err_set(err, EINVAL, "'%.200s' is no name of an image: %s", text, why);
}

/* The full name, of its parts. */
static int
join_name(struct image_name *n, const char *text, struct err *err)
{
	int len = snprintf(n->full, sizeof(n->full), "%s/%s%s%s%s%s", n->registry, n->repository,
	                   n->tag[0] != '\0' ? ":" : "", n->tag, n->digest[0] != '\0' ? "@" : "", n->digest);

	return len >= (int)sizeof(n->full) ? bad_name(text, "it is too long", err) : 0;
}

/* Takes "@DIGEST" and ":TAG" off the end of REST. */
static int
take_version(char *rest, const char *text, struct image_name *n, struct err *err)
{
	unsigned char hash[HASH_LEN];
	char *at = strchr(rest, '@'), *colon;

	if (at != NULL) {
		*at = '\0';
		if (!hash_parse_name(at + 1, hash))
			return bad_name(text, "a digest is 'sha256:' and 64 digits", err);
		memcpy(n->digest, at + 1, HASH_NAME + 1);
	}
	colon = strrchr(rest, ':');
	if (colon != NULL && strchr(colon, '/') == NULL) {
		*colon = '\0';
		if (!is_tag(colon + 1))
			return bad_name(text, "a tag has letters, digits and '.', '_', '-', at most 128", err);
		memcpy(n->tag, colon + 1, strlen(colon + 1) + 1);
	} else if (at == NULL) {
		memcpy(n->tag, IMAGE_TAG_DEFAULT, sizeof(IMAGE_TAG_DEFAULT));
	}
	return 0;
}

int
image_name_parse(const char *text, struct image_name *ret_name, struct err *err)
{
	struct image_name n = {0};
	char rest[IMAGE_NAME_MAX + 1], first[IMAGE_NAME_MAX + 1];
	const char *registry = IMAGE_HUB, *repository = rest, *folder = "";
	size_t slash;
	int r;

	if (text[0] == '\0' || strlen(text) > IMAGE_NAME_MAX)
		return bad_name(text, text[0] == '\0' ? "it is empty" : "it is too long", err);
	if (image_ref_is_digest(text))
		return bad_name(text, "a digest stands behind a name, as in NAME@sha256:...", err);
	memcpy(rest, text, strlen(text) + 1);
	r = take_version(rest, text, &n, err);
	if (r < 0)
		return r;
	slash = strcspn(rest, "/");
	snprintf(first, sizeof(first), "%.*s", (int)slash, rest);
	if (rest[slash] == '/' && names_registry(first)) {
		registry = strcmp(first, "index.docker.io") == 0 ? IMAGE_HUB : first;
		repository = rest + slash + 1;
	}
	if (!is_registry(registry) || strlen(registry) > IMAGE_REPOSITORY_MAX)
		return bad_name(text, "its registry is no host name with an optional port", err);
	if (strcmp(registry, IMAGE_HUB) == 0 && strchr(repository, '/') == NULL)
		folder = IMAGE_HUB_FOLDER;
	if (!is_repository(repository) || strlen(folder) + strlen(repository) > IMAGE_REPOSITORY_MAX)
		return bad_name(text, "names have lower-case letters, digits and '.', '_', '-' between them", err);
	snprintf(n.registry, sizeof(n.registry), "%s", registry);
	snprintf(n.repository, sizeof(n.repository), "%s%s", folder, repository);
	r = join_name(&n, text, err);
	if (r == 0)
		*ret_name = n;
	return r;
}

int
image_name_check_giver(const struct image_name *name, struct err *err)
{
	return strcmp(name->registry, IMAGE_OWN) == 0 ?
	       err_set(err, EPERM, "names of %s are cloister's own: choose another name", IMAGE_OWN) : 0;
}

int
image_name_parse_new(const char *text, struct image_name *ret_name, struct err *err)
{
	struct image_name n;
	int r = image_name_parse(text, &n, err);

	if (r == 0)
		r = image_name_check_giver(&n, err);
	if (r == 0 && n.digest[0] != '\0')
		r = err_set(err, EINVAL, "a name that is given has no digest: the image has its own");
	if (r == 0)
		*ret_name = n;
	return r;
}

/* PATH[:TAG] */
static int
parse_path(const char *rest, const struct scheme *scheme, struct image_ref *ref, struct err *err)
{
	size_t len = scheme->kind == IMAGE_REF_DIR ? strlen(rest) : strcspn(rest, ":");

	if (len == 0)
		return err_set(err, EINVAL, "'%s' needs a path behind it", scheme->prefix);
	memcpy(ref->path, rest, len);
	if (rest[len] != ':')
		return 0;
	memcpy(ref->tag, rest + len + 1, strlen(rest + len + 1) + 1);
	if (ref->tag[0] == '\0')
		return err_set(err, EINVAL, "'%s%.200s' has no tag behind its last colon", scheme->prefix, rest);
	if (scheme->kind == IMAGE_REF_DOCKER_ARCHIVE)
		return image_name_parse(ref->tag, &ref->name, err);
	return 0;
}

static int
parse_rest(const char *rest, const struct scheme *scheme, struct image_ref *ref, struct err *err)
{
	switch (scheme->kind) {
	case IMAGE_REF_REGISTRY:
		return image_name_parse(rest, &ref->name, err);
	case IMAGE_REF_DOCKER_DAEMON:
	case IMAGE_REF_CONTAINERS_STORAGE:
		memcpy(ref->tag, rest, strlen(rest) + 1);
		return image_name_parse(rest, &ref->name, err);
	case IMAGE_REF_MINIMAL:
		if (rest[0] != '\0')
			return err_set(err, EINVAL, "nothing follows 'minimal:', there is one minimal image only");
		return image_name_parse(IMAGE_MINIMAL, &ref->name, err);
	default:
		return parse_path(rest, scheme, ref, err);
	}
}

int
image_ref_parse(const char *text, struct image_ref *ret_ref, struct err *err)
{
	struct image_ref ref = {0};
	const struct scheme *scheme = NULL;
	const char *rest = text;
	int r;

	if (strlen(text) > IMAGE_REF_MAX)
		return err_set(err, EINVAL, "a reference of an image is over %d bytes long", IMAGE_REF_MAX);
	for (size_t i = 0; scheme == NULL && i < ARRAY_LEN(schemes); i++)
		if (strncmp(text, schemes[i].prefix, strlen(schemes[i].prefix)) == 0)
			scheme = &schemes[i];
	if (scheme != NULL)
		rest = text + strlen(scheme->prefix);
	else
		scheme = &schemes[0];
	ref.kind = scheme->kind;
	r = parse_rest(rest, scheme, &ref, err);
	if (r == 0)
		*ret_ref = ref;
	return r;
}

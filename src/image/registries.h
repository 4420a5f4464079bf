/* registries.h - registries.yaml: where the images of a registry are fetched, and how.
 *
 *     registries:
 *       docker.io: {mirrors: [mirror.example.com/hub]}
 *       registry.lab:5000: {insecure: true}
 *       registry.example.com: {ca: /etc/lab/ca.pem, realm: login.example.net}
 *     limits: {blob: 20G, image: 50G}
 *
 * Pure. */
#ifndef CLOISTER_IMAGE_REGISTRIES_H
#define CLOISTER_IMAGE_REGISTRIES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define REGISTRIES_FILE_MAX (256 * 1024)
#define REGISTRIES_MAX 256
#define REGISTRIES_MIRRORS_MAX 8
#define REGISTRIES_NAME_MAX 255

struct registries_row {
	char *name;                     /* host[:port], in lower case */
	char *mirrors[REGISTRIES_MIRRORS_MAX];  /* host[:port][/path] */
	size_t n_mirrors;
	bool insecure;                  /* plain HTTP */
	char *ca;                       /* absolute path, or NULL */
	char *realm;                    /* the host that may get the registry's password for tokens, or NULL */
};
struct registries {
	struct registries_row *rows;
	size_t n;
	uint64_t blob_max, image_max;   /* bytes; 0: not set */
};

/* FILE is its name in errors, which begin with the place.  *ret_registries is the caller's. */
int registries_parse(const char *file, const char *text, size_t len, struct registries *ret_registries,
                     struct err *err);
void registries_free(struct registries *r);     /* for OWN() too */
/* The row of HOST ("host[:port]"), or NULL. */
const struct registries_row *registries_find(const struct registries *r, const char *host);

/* Whether TEXT is host[:port] and, with MAY_HAVE_PATH, perhaps a path behind it. */
bool registries_is_name(const char *text, bool may_have_path);
#endif

/* pull_config.c - reads what the operator has set up: registries.yaml, certificates, keys and logins.
 *
 * Runs before the lockdown. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "cell/cell_trust.h"
#include "image/login.h"
#include "policy/policy_images.h"
#include "proc/pull/pull.h"
#include "trust/trust.h"

#define FILE_NAME "registries.yaml"
#define HUB_HOST "registry-1.docker.io"

/* ---- registries.yaml ---- */

static char *
own_file(void)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (config != NULL && *config == '/')
		return str_format("%s/cloister/" FILE_NAME, config);
	return home != NULL && *home == '/' ? str_format("%s/.config/cloister/" FILE_NAME, home) : NULL;
}

/* The operator's own file is used instead of the machine's. */
static int
read_registries(struct pull *p, struct err *err)
{
	OWN(freep) char *own = own_file(), *text = NULL;
	const char *path = own != NULL && access(own, F_OK) == 0 ? own : "/etc/cloister/" FILE_NAME;
	size_t len;
	int r;

	if (access(path, F_OK) < 0)
		return 0;
	r = trust_read(TRUST_REGISTRIES, path, REGISTRIES_FILE_MAX, &text, &len, err);
	return r < 0 ? r : registries_parse(path, text, len, &p->registries, err);
}

/* ---- certificates ---- */

static int
read_certificates(const struct pull *p, struct pull_source *s, const struct registries_row *row, struct err *err)
{
	struct buf pem = BUF(3 * PULL_CA_MAX);
	int r = cell_trust_add_host(&pem, getenv("SSL_CERT_FILE"), PULL_CA_MAX, err);

	if (r == 0 && row != NULL && row->ca != NULL)
		r = cell_trust_add_file(&pem, row->ca, PULL_CA_MAX, err);
	if (r == 0 && p->ca != NULL)
		r = cell_trust_add_file(&pem, p->ca, PULL_CA_MAX, err);
	if (r == 0 && buf_failed(&pem))
		r = err_set(err, EFBIG, "there are too many certificates");
	if (r < 0) {
		buf_free(&pem);
		return r;
	}
	s->pem_len = pem.len;
	s->pem = (char *)pem.data;
	return 0;
}

/* ---- sources ---- */

static int
set_origin(struct pull_source *s, struct err *err)
{
	char url[REGISTRIES_NAME_MAX + 16];

	snprintf(url, sizeof(url), "%s://%s", s->insecure ? "http" : "https",
	         strcmp(s->name, IMAGE_HUB) == 0 ? HUB_HOST : s->name);
	return challenge_parse_url(url, &s->origin) < 0 ? err_set(err, EINVAL, "'%s' is not a registry", s->name) : 0;
}

/* PLACE: host[:port][/path].  A mirror has its own login, not the registry's. */
static int
add_source(struct pull *p, const char *place, struct err *err)
{
	struct pull_source *s = &p->sources[p->n_sources];
	const struct registries_row *row;
	const char *slash = strchrnul(place, '/');
	int r;

	snprintf(s->name, sizeof(s->name), "%.*s", (int)(slash - place), place);
	snprintf(s->repository, sizeof(s->repository), "%s%s%s", *slash != '\0' ? slash + 1 : "", *slash != '\0' ? "/" : "",
	         p->name.repository);
	row = registries_find(&p->registries, s->name);
	s->insecure = row != NULL && row->insecure;
	s->realm = row != NULL ? row->realm : NULL;
	p->n_sources++;
	r = set_origin(s, err);
	r = r == 0 ? read_certificates(p, s, row, err) : r;
	r = r == 0 ? login_find(s->name, s->repository, &s->auth, err) : r;
	return r < 0 ? err_wrap(err, "'%s'", s->name) : 0;
}

int
pull_read_config(struct pull *p, struct err *err)
{
	const struct registries_row *row;
	int r = read_registries(p, err);

	if (r < 0)
		return r;
	p->blob_max = p->blob_max != 0 ? p->blob_max : p->registries.blob_max != 0 ? p->registries.blob_max : PULL_BLOB_MAX;
	p->image_max = p->image_max != 0 ? p->image_max :
	               p->registries.image_max != 0 ? p->registries.image_max : PULL_IMAGE_MAX;
	row = registries_find(&p->registries, p->name.registry);
	for (size_t i = 0; r == 0 && row != NULL && i < row->n_mirrors; i++)
		r = add_source(p, row->mirrors[i], err);
	return r == 0 ? add_source(p, p->name.registry, err) : r;
}

/* ---- keys ---- */

int
pull_add_key(struct pull *p, const char *file, unsigned set, struct err *err)
{
	struct pull_key *key = &p->keys[p->n_keys];
	OWN(freep) char *text = NULL;
	size_t len;
	int r;

	if (p->n_keys == PULL_KEYS_MAX)
		return err_set(err, E2BIG, "there are over %d keys for images", PULL_KEYS_MAX);
	r = trust_read(TRUST_IMAGE_KEY, file, SIGNATURE_KEY_MAX, &text, &len, err);
	if (r < 0)
		return r;
	r = signature_read_key(text, len, &key->key, err);
	if (r < 0)
		return err_wrap(err, "'%.200s'", file);
	key->set = set;
	p->n_keys++;
	return 0;
}

int
pull_read_required(struct pull *p, const char *require, struct err *err)
{
	struct policy_images images = {0};
	char *sets = images.keys, *set, *file;
	int r = policy_images_parse(require, &images, err);

	p->needs_digest = p->needs_digest || images.digest;
	while (r == 0 && sets != NULL && *sets != '\0' && (set = strsep(&sets, ";")) != NULL) {
		if (p->n_sets == PULL_SETS_MAX)
			return err_set(err, E2BIG, "there are too many sets of keys for images");
		while (r == 0 && (file = strsep(&set, ",")) != NULL)
			r = pull_add_key(p, file, p->n_sets, err);
		p->n_sets++;
	}
	return r;
}

void
pull_free_config(struct pull *p)
{
	for (size_t i = 0; i < p->n_sources; i++) {
		auth_free(&p->sources[i].auth);
		free(p->sources[i].pem);
		if (p->sources[i].token != NULL)
			explicit_bzero(p->sources[i].token, strlen(p->sources[i].token));
		free(p->sources[i].token);
	}
	for (size_t i = 0; i < p->n_keys; i++)
		signature_key_free(p->keys[i].key);
	registries_free(&p->registries);
	proxies_free(&p->proxies);
}

/* cell_trust.c - see cell_trust.h. */
#include "cell/cell_trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cell/cell_spec.h"
#include "trust/trust.h"

const char *const cell_trust_bundles[] = {
	"ssl/certs/ca-certificates.crt",                /* Debian, Arch, Alpine, Gentoo */
	"pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* Fedora */
	"pki/tls/certs/ca-bundle.crt",                  /* the same, under its usual name */
	"ca-certificates/extracted/tls-ca-bundle.pem",  /* Arch */
	"ssl/ca-bundle.pem",                            /* SUSE */
	"ssl/cert.pem",                                 /* Alpine; OpenSSL's own */
	NULL
};
const char *const cell_trust_java[] = {
	"ssl/certs/java/cacerts",                       /* Debian */
	"pki/ca-trust/extracted/java/cacerts",          /* Fedora */
	NULL
};

int
cell_trust_open(void)
{
	char path[96];
	int fd = -1;

	for (size_t i = 0; fd < 0 && cell_trust_bundles[i] != NULL; i++) {
		snprintf(path, sizeof(path), "/etc/%s", cell_trust_bundles[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	return fd;
}

int
cell_trust_add_file(struct buf *pem, const char *path, size_t max, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len;
	int r = trust_read(TRUST_AUTHORITY, path, max, &text, &len, err);

	if (r < 0)
		return r;
	if (strstr(text, "-----BEGIN CERTIFICATE-----") == NULL)
		return err_set(err, EINVAL, "there is no certificate in '%.200s' (PEM)", path);
	buf_put(pem, text, len);
	buf_put_text(pem, "\n");
	return 0;
}

int
cell_trust_add_host(struct buf *pem, const char *instead, size_t max, struct err *err)
{
	OWN(closep) int fd = -1;
	OWN(freep) char *text = NULL;
	size_t len;
	int r;

	if (instead != NULL && *instead != '\0')
		return cell_trust_add_file(pem, instead, max, err);
	fd = cell_trust_open();
	if (fd < 0)
		return 0;
	r = read_open(fd, "the machine's certificate authorities", max, &text, &len, err);
	if (r < 0)
		return r;
	buf_put(pem, text, len);
	buf_put_text(pem, "\n");
	return 0;
}

/* ROOT is "" for the host. */
static bool
has_java(const char *root)
{
	char path[PATH_MAX];

	for (size_t i = 0; cell_trust_java[i] != NULL; i++) {
		snprintf(path, sizeof(path), "%s/etc/%s", root, cell_trust_java[i]);
		if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	}
	return false;
}

bool
cell_trust_has_java(const struct cell_spec *spec)
{
	for (char **layer = spec->image.layers; layer != NULL && *layer != NULL; layer++)
		if (has_java(*layer))
			return true;
	return spec->image.layers == NULL && !spec->bare && has_java(spec->rootfs);
}

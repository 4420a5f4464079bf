/* cell_trust.c - see cell_trust.h. */
#include "cell/cell_trust.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "cell/cell_spec.h"

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

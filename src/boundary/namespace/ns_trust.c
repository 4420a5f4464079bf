/* ns_trust.c - puts the cell's own certificate authority where programs look for trusted ones:
 * beside the system's, in its bundle, its folder and Java's store. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/namespace/ns_plan.h"
#include "cell/cell_net.h"
#include "cell/cell_trust.h"

#define PEM_MAX 4096
#define IN_ETC(path) (&(path)[sizeof("/etc/") - 1])
#define BUNDLE IN_ETC(CELL_NET_BUNDLE)
#define CA IN_ETC(CELL_NET_CA)

/* Folders of the host that are shown with the cell's own files on top. */
const char *const ns_trust_folders[] = {
	"ssl/certs", "pki/tls/certs", "pki/ca-trust/extracted", "ca-certificates/extracted", NULL
};

int
ns_await_trust(int pipe, char ret_hash[NS_SUBJECT_HASH + 1], struct err *err)
{
	char line[NS_SUBJECT_HASH + 1];
	size_t len = 0;
	ssize_t n = 1;

	while (len < sizeof(line) && n > 0) {
		n = read(pipe, line + len, sizeof(line) - len);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0)
			len += (size_t)n;
	}
	if (len != sizeof(line) || line[NS_SUBJECT_HASH] != '\n')
		return err_set(err, EIO, "cannot make the cell's certificate authority");
	line[NS_SUBJECT_HASH] = '\0';
	memcpy(ret_hash, line, sizeof(line));
	return 0;
}

static int
make_parents(int etc, const char *path, struct err *err)
{
	char part[128];

	for (const char *slash = path; (slash = strchr(slash, '/')) != NULL; slash++) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		if (mkdirat(etc, part, 0755) < 0 && errno != EEXIST)
			return err_errno(err, "cannot make /etc/%s", part);
	}
	return 0;
}

/* A container's /etc may have such a file. */
static int
new_file(int etc, const char *path, struct err *err)
{
	int r = make_parents(etc, path, err), fd;

	if (r < 0)
		return r;
	(void)unlinkat(etc, path, 0);
	fd = openat(etc, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	return fd >= 0 ? fd : err_errno(err, "cannot make /etc/%s", path);
}

/* Appends all of FROM to TO; does nothing without FROM. */
static int
append(int to, int from, struct err *err)
{
	off_t at = 0;
	ssize_t n = from < 0 ? 0 : 1;

	while (n > 0)
		n = sendfile(to, from, &at, 1 << 20);
	return n < 0 ? err_errno(err, "cannot copy the trusted certificates") : 0;
}

/* In the folder ROOT. */
static int
find_bundle(int root)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
	                        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	int fd = -1;

	for (size_t i = 0; root >= 0 && fd < 0 && cell_trust_bundles[i] != NULL; i++) {
		char path[96];

		snprintf(path, sizeof(path), "etc/%s", cell_trust_bundles[i]);
		fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	}
	return fd;
}

/* That of the topmost layer that has one. */
static int
find_in_layers(const struct ns_plan *plan)
{
	int fd = -1;

	for (size_t i = strv_len(plan->spec->image.layers); i-- > 0 && fd < 0;) {
		OWN(closep) int own = plan->layers[i] >= 0 ? -1 :
		                      open(plan->spec->image.layers[i], O_PATH | O_DIRECTORY | O_CLOEXEC);

		fd = find_bundle(own >= 0 ? own : plan->layers[i]);
	}
	return fd;
}

int
ns_open_bundle(const struct ns_plan *plan)
{
	const char *folder = plan->spec->rootfs;
	OWN(closep) int root = folder[0] == '\0' ? -1 : open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return plan->spec->image.layers != NULL ? find_in_layers(plan) : find_bundle(root);
}

/* The system's, or that of the cell's own programs if they have one. */
static int
open_bundle(const struct ns_plan *plan)
{
	int own = ns_open_bundle(plan);

	return own >= 0 ? own : cell_trust_open();
}

int
ns_write_trust(const struct boundary_trust *trust, int ca, int bundle, int system, struct err *err)
{
	int r = append(ca, trust->certificate, err);

	r = r == 0 ? append(bundle, system, err) : r;
	r = r == 0 ? append(bundle, trust->authorities, err) : r;
	return r == 0 ? append(bundle, trust->certificate, err) : r;
}

static int
write_files(int etc, const struct ns_plan *plan, const struct boundary_trust *trust,
            const char *hash, struct err *err)
{
	OWN(closep) int bundle = -1, ca = -1, system = open_bundle(plan), keystore = -1;
	char link[64];
	int r;

	ca = new_file(etc, CA, err);
	bundle = ca < 0 ? ca : new_file(etc, BUNDLE, err);
	if (bundle < 0)
		return bundle;
	r = ns_write_trust(trust, ca, bundle, system, err);
	snprintf(link, sizeof(link), "ssl/certs/%s.0", hash);
	if (r == 0 && symlinkat(CELL_NET_CA, etc, link) < 0)
		r = err_errno(err, "cannot make /etc/%s", link);
	for (size_t i = 0; r == 0 && cell_trust_bundles[i] != NULL; i++) {
		r = make_parents(etc, cell_trust_bundles[i], err);
		if (r == 0 && strcmp(cell_trust_bundles[i], BUNDLE) != 0)
			(void)unlinkat(etc, cell_trust_bundles[i], 0);
		if (r == 0 && linkat(etc, BUNDLE, etc, cell_trust_bundles[i], 0) < 0 && errno != EEXIST)
			r = err_errno(err, "cannot make /etc/%s", cell_trust_bundles[i]);
	}
	if (r < 0 || trust->keystore < 0)
		return r;
	keystore = new_file(etc, cell_trust_java[0], err);
	r = keystore < 0 ? keystore : append(keystore, trust->keystore, err);
	for (size_t i = 1; r == 0 && cell_trust_java[i] != NULL; i++) {
		r = make_parents(etc, cell_trust_java[i], err);
		(void)unlinkat(etc, cell_trust_java[i], 0);
		if (r == 0 && linkat(etc, cell_trust_java[0], etc, cell_trust_java[i], 0) < 0)
			r = err_errno(err, "cannot make /etc/%s", cell_trust_java[i]);
	}
	return r;
}

/* Reads the text between the marker lines of a PEM certificate, as one line. */
static int
read_base64(int certificate, char ret_text[PEM_MAX], struct err *err)
{
	char pem[PEM_MAX];
	ssize_t n = pread(certificate, pem, sizeof(pem) - 1, 0);
	char *from, *to, *out = ret_text;

	pem[n < 0 ? 0 : n] = '\0';
	from = strchr(pem, '\n');
	to = from == NULL ? NULL : strstr(from, "-----END");
	if (to == NULL)
		return err_set(err, EIO, "cannot read the cell's certificate");
	for (; from < to; from++)
		if (*from != '\n')
			*out++ = *from;
	*out = '\0';
	return 0;
}

/* Browsers have their own list of authorities; a browser policy adds one more. */
static const char *const chromes[] = {
	"chromium/policies/managed/cloister.json",
	"opt/chrome/policies/managed/cloister.json",
	"opt/edge/policies/managed/cloister.json",
};

static int
put_browsers_policy(const struct boundary_trust *trust, char ret_text[PEM_MAX + 64], struct err *err)
{
	char base64[PEM_MAX];
	int r = read_base64(trust->certificate, base64, err);

	snprintf(ret_text, PEM_MAX + 64, "{\"CACertificates\":[\"%s\"]}\n", r < 0 ? "" : base64);
	return r;
}

static int
tell_browsers(int etc, const struct boundary_trust *trust, struct err *err)
{
	static const char firefox[] = "{\"policies\":{\"Certificates\":{\"Install\":[\"" CELL_NET_CA
	                              "\"]}}}\n";
	char text[PEM_MAX + 64];
	int r = put_browsers_policy(trust, text, err);

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(chromes); i++) {
		r = make_parents(etc, chromes[i], err);
		if (r == 0)
			r = create_file_at(etc, chromes[i], 0644, text, err);
	}
	if (r == 0)
		r = make_parents(etc, "firefox/policies/policies.json", err);
	(void)unlinkat(etc, "firefox/policies/policies.json", 0);
	return r < 0 ? r : create_file_at(etc, "firefox/policies/policies.json", 0644, firefox, err);
}

/* Lays cloister's files over a folder of the host.  If that cannot be mounted (a kernel without
 * unprivileged overlays, or a host that is an overlay itself), cloister's files have to suffice. */
static void
lay_over_host(int root, const char *folder)
{
	char ours[64], both[160];
	const char *const options[] = { "lowerdir", both, NULL };
	OWN(closep) int mount = -1;
	struct stat st;

	snprintf(ours, sizeof(ours), "etc/%s", folder);
	snprintf(both, sizeof(both), "%s:/%s", ours, ours);
	if (lstat(both + strlen(ours) + 1, &st) < 0 || !S_ISDIR(st.st_mode))
		return;
	mount = mounts_new_fs("overlay", options, MOUNTS_QUIET | MOUNT_ATTR_RDONLY, NULL);
	if (mount >= 0)
		(void)mounts_attach(mount, root, ours, NULL);
}

int
ns_make_trust(int root, const struct ns_plan *plan, struct err *err)
{
	const struct boundary_trust *trust = plan->ground->trust;
	OWN(closep) int etc = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char hash[NS_SUBJECT_HASH + 1];
	int r;

	if (etc < 0)
		return err_errno(err, "cannot open the cell's /etc");
	r = ns_await_trust(trust->ready, hash, err);
	if (r == 0)
		r = write_files(etc, plan, trust, hash, err);
	if (r == 0)
		r = tell_browsers(etc, trust, err);
	/* Any other /etc is laid under cloister's as a whole. */
	if (r == 0 && cell_spec_programs(plan->spec) == CELL_PROGRAMS_HOST)
		for (size_t i = 0; ns_trust_folders[i] != NULL; i++)
			lay_over_host(root, ns_trust_folders[i]);
	return r;
}

/* An existing file of /etc, which is emptied. */
static int
open_again(int etc, const char *path, struct err *err)
{
	int fd = openat(etc, path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW);

	return fd >= 0 ? fd : err_errno(err, "cannot write /etc/%s again", path);
}

int
ns_renew_trust(int etc, const struct boundary_trust *trust, int system, struct err *err)
{
	OWN(closep) int ca = -1, bundle = -1, keystore = -1;
	char hash[NS_SUBJECT_HASH + 1], link[64], text[PEM_MAX + 64];
	int r = ns_await_trust(trust->ready, hash, err);

	ca = r < 0 ? r : open_again(etc, CA, err);
	bundle = ca < 0 ? ca : open_again(etc, BUNDLE, err);
	if (bundle < 0)
		return bundle;
	r = ns_write_trust(trust, ca, bundle, system, err);
	snprintf(link, sizeof(link), "ssl/certs/%s.0", hash);
	if (r == 0 && symlinkat(CELL_NET_CA, etc, link) < 0 && errno != EEXIST)
		r = err_errno(err, "cannot make /etc/%s", link);
	r = r == 0 ? put_browsers_policy(trust, text, err) : r;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(chromes); i++) {
		OWN(closep) int file = open_again(etc, chromes[i], err);

		r = file < 0 ? file : write_all(file, text, strlen(text), err);
	}
	if (r < 0 || trust->keystore < 0)
		return r;
	keystore = open_again(etc, cell_trust_java[0], err);
	return keystore < 0 ? keystore : append(keystore, trust->keystore, err);
}

/* main.c - cloister-pull: fetches an image from a registry into the store.
 *
 *   cloister-pull [OPTION...] NAME
 *
 *   --platform OS/ARCH[/VARIANT]   choose this image of an index instead of this machine's
 *   --ca FILE                      trust these certificate authorities as well
 *   --require TEXT                 what the image must have: see policy/policy_images.h; "signature" alone means one
 *                                  by a key of --key
 *   --key FILE                     a public key that may have signed it; one of those given must have
 *   --blob-max SIZE, --image-max SIZE   limits, instead of those of registries.yaml
 *   --stall SECONDS                end a try that gets next to nothing for so long
 *   --progress-fd N                write lines of JSON to descriptor N
 *   --quiet                        draw no bars
 *   --verify[=DIGEST]              fetch nothing: check the signatures of the image that the store has, under the name
 *                                  or with this digest
 *
 * Prints one line of JSON: {"name":...,"digest":...,"index":...,"source":...}.
 *
 * The operator's configuration, logins and keys are read first; credential helpers run then.  Before its first
 * byte goes out, the process locks itself down: of the host's files it can change the store alone, and read the
 * configuration of name servers. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/num.h"
#include "base/own.h"
#include "base/tell.h"
#include "base/text.h"
#include "confine/lockdown.h"
#include "loop/loop.h"
#include "policy/policy_images.h"
#include "proc/pull/pull.h"
#include "upstream/resolve.h"

#define STORED_SHOWN 200                /* bytes of the names in an error */

struct request {
	const char *reference, *require;
	const char *keys[PULL_KEYS_MAX];
	size_t n_keys;
	int progress_fd;
	bool quiet;
};

/* ---- options ---- */

enum { PLATFORM = 1, CA, REQUIRE, KEY, BLOB_MAX, IMAGE_MAX, STALL, PROGRESS_FD, QUIET, VERIFY };

static const struct option options[] = {
	{ "platform", required_argument, NULL, PLATFORM }, { "ca", required_argument, NULL, CA },
	{ "require", required_argument, NULL, REQUIRE }, { "key", required_argument, NULL, KEY },
	{ "blob-max", required_argument, NULL, BLOB_MAX }, { "image-max", required_argument, NULL, IMAGE_MAX },
	{ "stall", required_argument, NULL, STALL }, { "progress-fd", required_argument, NULL, PROGRESS_FD },
	{ "quiet", no_argument, NULL, QUIET }, { "verify", optional_argument, NULL, VERIFY }, { 0 },
};

static int
take_option(int option, const char *value, struct request *request, struct pull *p, struct err *err)
{
	uint64_t n = 0;
	int r = 0;

	switch (option) {
	case PLATFORM:
		p->platform = value;
		return 0;
	case CA:
		p->ca = value;
		return 0;
	case REQUIRE:
		request->require = value;
		return 0;
	case KEY:
		if (request->n_keys == PULL_KEYS_MAX)
			return err_set(err, E2BIG, "there are over %d keys", PULL_KEYS_MAX);
		request->keys[request->n_keys++] = value;
		return 0;
	case BLOB_MAX:
		return num_parse_size(value, &p->blob_max, err);
	case IMAGE_MAX:
		return num_parse_size(value, &p->image_max, err);
	case STALL:
		r = num_parse_count(value, 1, 3600, &n, err);
		p->stall_s = (unsigned)n;
		return r;
	case PROGRESS_FD:
		r = num_parse_count(value, 1, 1000, &n, err);
		request->progress_fd = (int)n;
		return r;
	case QUIET:
		request->quiet = true;
		return 0;
	case VERIFY:
		p->verify_only = true;
		p->verify_digest = value;
		return 0;
	default:
		return err_set(err, EINVAL, "cloister-pull is started by cloister only");
	}
}

static int
parse_options(int argc, char **argv, struct request *request, struct pull *p, struct err *err)
{
	int option, r = 0;

	opterr = 0;
	while (r == 0 && (option = getopt_long(argc, argv, "", options, NULL)) != -1)
		r = take_option(option, optarg, request, p, err);
	if (r == 0 && optind != argc - 1)
		r = err_set(err, EINVAL, "cloister-pull takes one name");
	request->reference = r == 0 ? argv[optind] : NULL;
	return r;
}

/* ---- before the first byte ---- */

static int
name_image(struct pull *p, const char *reference, struct err *err)
{
	struct image_ref ref;
	int r = image_ref_parse(reference, &ref, err);

	if (r < 0)
		return r;
	if (ref.kind != IMAGE_REF_REGISTRY)
		return err_set(err, EINVAL, "'%.200s' is not an image of a registry", reference);
	p->name = ref.name;
	return image_name_check_giver(&ref.name, err);
}

static int
read_keys(struct pull *p, const struct request *request, struct err *err)
{
	bool by_given = request->require != NULL && strcmp(request->require, "signature") == 0;
	int r = request->require != NULL && !by_given ? pull_read_required(p, request->require, err) : 0;

	if (by_given && request->n_keys == 0)
		return err_set(err, EINVAL, "a signature is by a key: give it with --key FILE");
	for (size_t i = 0; r == 0 && i < request->n_keys; i++)
		r = pull_add_key(p, request->keys[i], p->n_sets, err);
	p->n_sets += request->n_keys > 0;
	if (r == 0 && p->needs_digest && p->name.digest[0] == '\0')
		r = err_set(err, EPERM, "the policy requires a digest: write %s@sha256:...", p->name.full);
	return r;
}

static int
open_network(struct pull *p, struct err *err)
{
	int r;

	if (curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK)
		return err_set(err, ENOMEM, "cannot set up libcurl");
	p->small = curl_multi_init();
	p->large = curl_multi_init();
	if (p->small == NULL || p->large == NULL)
		return err_set(err, ENOMEM, "cannot set up libcurl");
	proxies_load(&p->proxies, environ);
	r = loop_new(&p->loop, err);
	r = r == 0 ? resolver_new(&p->resolver, err) : r;
	if (r == 0)
		resolver_start(p->resolver, p->loop);
	return r;
}

static int
lock_down(const struct pull *p, struct err *err)
{
	static const char *const readable[] = { "/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/gai.conf",
		NULL };
	const char *const writable[] = { store_path(p->store), NULL };

	/* All descriptors that are open now are our own. */
	return lockdown_enter(&(struct lockdown){ .filter = FILTER_PULL, .network = true, .readable = readable,
	                                          .writable = writable }, INT_MAX, err);
}

/* ---- the image ---- */

static int
name_in_store(struct pull *p, struct err *err)
{
	OWN(store_image_free) struct store_image image = {0};
	struct image_descriptor d = { .size = p->manifest_size, .name = p->name.full };
	int r = store_load(p->store, p->digest, &image, err);

	if (r < 0)
		return r;
	snprintf(d.media_type, sizeof(d.media_type), "%s", image.manifest.media_type);
	snprintf(d.digest, sizeof(d.digest), "%s", p->digest);
	snprintf(d.index, sizeof(d.index), "%s", p->index);
	snprintf(d.os, sizeof(d.os), "%s", image.config.os);
	snprintf(d.architecture, sizeof(d.architecture), "%s", image.config.architecture);
	snprintf(d.variant, sizeof(d.variant), "%s", image.config.variant);
	return store_set(p->store, &d, err);
}

static int
load_manifest(const struct pull *p, struct image_manifest *ret_manifest, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len;
	int r = store_read_blob(p->store, p->digest, IMAGE_DOCUMENT_MAX, &text, &len, err);

	return r < 0 ? r : image_manifest_parse(text, len, ret_manifest, err);
}

static int
pull_from(struct pull *p, struct pull_source *source, struct err *err)
{
	OWN(image_manifest_free) struct image_manifest manifest = {0};
	int r = pull_greet(p, source, err);

	r = r == 0 ? pull_find_manifest(p, source, err) : r;
	r = r == 0 ? pull_check_signed(p, source, err) : r;
	r = r == 0 ? load_manifest(p, &manifest, err) : r;
	r = r == 0 ? pull_blobs(p, source, &manifest, err) : r;
	return r == 0 ? name_in_store(p, err) : r;
}

static int
verify_with(struct pull *p, struct pull_source *source, struct err *err)
{
	int r = pull_greet(p, source, err);

	return r == 0 ? pull_check_signed(p, source, err) : r;
}

/* With a digest, the image that has it, whichever has the name now. */
static int
find_stored(struct pull *p, struct err *err)
{
	OWN(image_index_free) struct image_index index = {0};
	const struct image_descriptor *found = NULL;
	int r = store_list(p->store, &index, err);

	for (size_t i = 0; r == 0 && i < index.n; i++) {
		const struct image_descriptor *d = &index.list[i];
		const bool is_named = d->name != NULL && strcmp(d->name, p->name.full) == 0;

		if (p->verify_digest != NULL ? strcmp(d->digest, p->verify_digest) == 0 && (is_named || found == NULL) : is_named)
			found = d;
	}
	if (r < 0 || found == NULL)
		return r < 0 ? r : err_set(err, ENOENT, "there is no image '%s' here", p->name.full);
	snprintf(p->digest, sizeof(p->digest), "%s", found->digest);
	snprintf(p->index, sizeof(p->index), "%s", found->index);
	return 0;
}

/* The names that the store has of the same repository, "a:1, a:2"; "" if there are none. */
static void
name_stored(const struct pull *p, char *ret_text, size_t size)
{
	OWN(image_index_free) struct image_index index = {0};
	OWN(freep) char *prefix = str_format("%s/%s:", p->name.registry, p->name.repository);
	size_t len = 0;

	ret_text[0] = '\0';
	if (prefix == NULL || p->store == NULL || store_list(p->store, &index, NULL) < 0)
		return;
	for (size_t i = 0; i < index.n && len < size; i++)
		if (index.list[i].name != NULL && strncmp(index.list[i].name, prefix, strlen(prefix)) == 0 &&
		    strcmp(index.list[i].name, p->name.full) != 0)
			len += (size_t)snprintf(ret_text + len, size - len, "%s%s", len > 0 ? ", " : "", index.list[i].name);
}

/* Somebody who mistyped the tag finds the right one here. */
static int
wrap_failed(const struct pull *p, struct err *err)
{
	char stored[STORED_SHOWN];

	name_stored(p, stored, sizeof(stored));
	return stored[0] == '\0' ? err_wrap(err, "%s", p->name.full) :
	       err_wrap(err, "%s cannot be pulled (the store has %s)", p->name.full, stored);
}

static int
print_result(const struct pull *p, const struct pull_source *source)
{
	struct json w = { .out = stdout };

	json_open(&w, NULL, '{');
	json_str(&w, "name", p->name.full);
	json_str(&w, "digest", p->digest);
	json_str(&w, "index", p->index[0] != '\0' ? p->index : NULL);
	json_str(&w, "source", source != NULL ? source->name : NULL);
	json_close(&w, '}');
	return putchar('\n') == EOF || fflush(stdout) != 0 ? -EIO : 0;
}

/* A mirror that fails is passed over; the registry itself comes last. */
static int
try_sources(struct pull *p, struct err *err)
{
	int r = -ENOENT;

	for (size_t i = 0; r < 0 && i < p->n_sources; i++) {
		struct pull_source *source = &p->sources[i];

		r = p->verify_only ? verify_with(p, source, err) : pull_from(p, source, err);
		if (r == 0)
			return print_result(p, source);
		if (i + 1 < p->n_sources) {
			fprintf(stderr, "cloister: the mirror '%s' is passed over: ", source->name);
			text_print_safe(stderr, err->text, strlen(err->text), false);
			fputc('\n', stderr);
			pull_progress_note(p->progress, "mirror-failed", err->text);
		}
	}
	return r;
}

static int
run(struct pull *p, const struct request *request, struct err *err)
{
	OWN(closep) int adding = -1;
	int r = read_keys(p, request, err);

	r = r == 0 ? pull_read_config(p, err) : r;
	r = r == 0 ? open_network(p, err) : r;
	r = r == 0 ? store_open(!p->verify_only, &p->store, err) : r;
	if (r == 0 && (adding = store_adding(p->store, err)) < 0)
		r = adding;
	if (r == 0)
		r = pull_progress_new(request->progress_fd, request->quiet, &p->progress, err);
	r = r == 0 ? lock_down(p, err) : r;
	if (r < 0)
		return r;
	if (p->verify_only) {
		r = find_stored(p, err);
		if (r < 0 || pull_check_signed(p, NULL, err) == 0)
			return r < 0 ? r : print_result(p, NULL);
	}
	return try_sources(p, err);
}

int
main(int argc, char **argv)
{
	static struct pull p = { .stall_s = PULL_STALL_S };
	struct request request = { .progress_fd = -1 };
	struct err err = {0};
	int keep, r = parse_options(argc, argv, &request, &p, &err);

	if (r < 0)
		return tell_error(&err);
	signal(SIGPIPE, SIG_IGN);
	/* Descriptors that somebody left open are not kept. */
	keep = request.progress_fd > STDERR_FILENO ? request.progress_fd : STDERR_FILENO;
	(void)syscall(SYS_close_range, (unsigned)keep + 1, ~0u, 0u);
	r = name_image(&p, request.reference, &err);
	if (r == 0) {
		r = run(&p, &request, &err);
		if (r < 0)
			(void)wrap_failed(&p, &err);
	}
	pull_free_config(&p);
	return r == 0 ? 0 : tell_error(&err);
}

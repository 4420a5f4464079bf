/* cell_spec.c - tests of cell/cell_spec. */
#include "cell/cell_spec.h"

#include <errno.h>

#include "test.h"

static char *argv_of_sample[] = { (char[]){ "sh" }, (char[]){ "-c" },
                                  (char[]){ "echo \"\n\"" }, NULL };
static char *starts_of_sample[] = { (char[]){ "sha256:0,sha256:1 /b" }, NULL };
static char *setups_of_sample[] = { (char[]){ "/caps/a/setup.sh" }, (char[]){ "/b" }, NULL };
static char *sources_of_sample[] = { (char[]){ "/w/policies/base.yaml" }, (char[]){ "/p" }, NULL };
static char *layers_of_sample[] = { (char[]){ "/l/0" }, (char[]){ "/l/1" }, NULL };
static char *env_of_sample[] = { (char[]){ "A=1" }, NULL };
static char path_of_sample[] = ".aws/credentials", text_of_sample[] = "text\n";
static struct cell_grant grants_of_sample[] = {
	{ (char[]){ "/h/x" }, (char[]){ "/c/x" }, CELL_READ, .workspace = false },
	{ (char[]){ "/w" }, (char[]){ "/w" }, CELL_OVERLAY, .workspace = true, .state = true },
	{ (char[]){ "/g" }, (char[]){ "/g" }, CELL_WRITE, .workspace = true, .git_dir = true },
	{ (char[]){ "/v" }, (char[]){ "/v" }, CELL_VOLUME, .volume = true, .out = (char[]){ "/o" }, .size = 1ULL << 40, .entries = 7 },
	{ (char[]){ "/p" }, (char[]){ "/cache/p" }, CELL_VOLUME, .volume = true, .cache = (char[]){ "p@0123" }, .size = 5, .entries = 6 },
};

static struct cell_spec
sample(void)
{
	struct cell_spec spec = {
		.id = "abcdefgh", .name = strdup("one"), .hostname = strdup("cell"),
		.cwd = strdup("/w"), .rootfs = strdup(""), .argv = argv_of_sample,
		.env = env_of_sample, .grants = grants_of_sample, .n_grants = 5,
		.profile = CELL_PROFILE_NESTED, .root = true, .tty = true,
		.has_policy = true, .learn = true, .egress_env = env_of_sample,
		.ports = { { 8080, 0 }, { 80, 65535 } }, .n_ports = 2,
		.webhook_ports = 2, .placeholders = env_of_sample, .exfiltration = CELL_FREEZE, .keeper = 7,
		.files = { { path_of_sample, text_of_sample } }, .n_files = 1,
		.known_hosts = strdup("a.example ssh-ed25519 AAAA\n"),
		.audit_strict = true, .audit_max = 5 << 20,
		.record = CELL_RECORD_FULL, .record_demanded = true, .record_lost = CELL_LOST_KILL,
		.watch = { .limits = { { { 1, 2 }, { 3, 4 } }, { { 5, 6 }, { 7, 8 } } }, .principal = true },
		.claim = true, .streams = true, .setups = setups_of_sample, .starts = starts_of_sample,
		.sources = sources_of_sample, .boundary = "other", .weaker = strdup("no KVM"),
		.vm_kernel = strdup("/boot/k"), .vm_initramfs = strdup("/i"), .vm_emulated = true,
		.vm_disk = strdup("/d"), .vm_disk_hash = { 5, [HASH_LEN - 1] = 6 },
		.vm_kernel_hash = { 1, [HASH_LEN - 1] = 2 }, .vm_initramfs_hash = { 3, [HASH_LEN - 1] = 4 },
		.image = { layers_of_sample, strdup("a.example/b:1"), { 7, [HASH_LEN - 1] = 8 }, 33, 44, false, 0 }, .bare = true,
		.held = true, .waits = true, .bundle = { .layers = layers_of_sample, .scratches = setups_of_sample, .uid = 33, .gid = 65535,
			.groups = { 4, 5 }, .n_groups = 2, .rlimits = { { 7, 1, CELL_RLIMIT_NONE } },
			.n_rlimits = 1, .first_uid = 100000, .first_gid = 1, .metacopy = true },
		.principal = strdup("J\303\274rgen <j@a.example>"), .chain = strdup("lead/helper-2"),
	};

	cell_limits_default(&spec.limits);
	spec.limits.asked = CELL_LIMIT_IO;
	return spec;
}

static void
sample_free(struct cell_spec *spec)
{
	free(spec->name);
	free(spec->hostname);
	free(spec->cwd);
	free(spec->rootfs);
	free(spec->image.name);
	free(spec->known_hosts);
	free(spec->principal);
	free(spec->chain);
	free(spec->weaker);
	free(spec->vm_kernel);
	free(spec->vm_initramfs);
	free(spec->vm_disk);
}

TEST(cell_spec_round_trip)
{
	OWN(sample_free) struct cell_spec in = sample();
	OWN(cell_spec_free) struct cell_spec out = {0};
	OWN(buf_free) struct buf b, again;

	buf_init(&b, CELL_SPEC_MAX);
	cell_spec_put(&b, &in);
	CHECK_OK(cell_spec_get(&b, &out, NULL));
	CHECK(buf_left(&b) == 0);
	CHECK_STR(out.argv[2], "echo \"\n\"");
	CHECK(out.n_grants == 5 && out.grants[2].git_dir && !out.grants[0].workspace);
	CHECK(out.grants[1].access == CELL_OVERLAY && !out.grants[1].volume && out.grants[1].out == NULL);
	CHECK(out.grants[3].access == CELL_VOLUME && out.grants[3].size == 1ULL << 40 && out.grants[3].entries == 7);
	CHECK_STR(out.grants[3].out, "/o");
	CHECK(out.grants[3].cache == NULL && out.grants[4].out == NULL && out.grants[4].size == 5);
	CHECK_STR(out.grants[4].cache, "p@0123");
	CHECK(out.grants[1].state && !out.grants[2].state && !out.grants[3].state);
	CHECK(out.root && out.tty && !out.detached && !out.quiet);
	CHECK(out.has_policy && out.learn && !out.has_authorities);
	CHECK_STR(out.egress_env[0], "A=1");
	CHECK_STR(out.known_hosts, "a.example ssh-ed25519 AAAA\n");
	CHECK(out.n_ports == 2 && out.ports[0].cell == 8080 && out.ports[0].host == 0 &&
	      out.ports[1].cell == 80 && out.ports[1].host == 65535);
	CHECK(out.webhook_ports == 2);
	CHECK_STR(out.placeholders[0], "A=1");
	CHECK(out.exfiltration == CELL_FREEZE && out.keeper == 7 && out.n_files == 1);
	CHECK_STR(out.files[0].path, ".aws/credentials");
	CHECK_STR(out.files[0].text, "text\n");
	CHECK(out.claim && !out.keep && out.streams && !out.input);
	CHECK_STR(out.setups[1], "/b");
	CHECK_STR(out.starts[0], "sha256:0,sha256:1 /b");
	CHECK_STR(out.sources[0], "/w/policies/base.yaml");
	CHECK(strcmp(out.sources[1], "/p") == 0 && out.sources[2] == NULL);
	CHECK(out.setups[2] == NULL);
	CHECK(out.record == CELL_RECORD_FULL && out.record_demanded && out.record_lost == CELL_LOST_KILL);
	CHECK_STR(out.principal, "J\303\274rgen <j@a.example>");
	CHECK_STR(out.chain, "lead/helper-2");
	CHECK_STR(out.boundary, "other");
	CHECK_STR(out.weaker, "no KVM");
	CHECK_STR(out.vm_kernel, "/boot/k");
	CHECK_STR(out.vm_initramfs, "/i");
	CHECK_STR(out.vm_disk, "/d");
	CHECK(memcmp(out.vm_disk_hash, in.vm_disk_hash, HASH_LEN) == 0);
	CHECK(out.vm_emulated && memcmp(out.vm_kernel_hash, in.vm_kernel_hash, HASH_LEN) == 0 &&
	      memcmp(out.vm_initramfs_hash, in.vm_initramfs_hash, HASH_LEN) == 0);
	CHECK(strcmp(out.image.layers[1], "/l/1") == 0 && out.image.layers[2] == NULL);
	CHECK_STR(out.image.name, "a.example/b:1");
	CHECK(out.bare && out.image.uid == 33 && out.image.gid == 44 &&
	      memcmp(out.image.digest, in.image.digest, HASH_LEN) == 0);
	CHECK_STR(out.bundle.layers[1], "/l/1");
	CHECK(out.held && out.waits && out.bundle.layers[2] == NULL && out.bundle.uid == 33 && out.bundle.gid == 65535 &&
	      out.bundle.n_rlimits == 1 && out.bundle.rlimits[0].soft == 1 &&
	      out.bundle.rlimits[0].hard == CELL_RLIMIT_NONE && out.bundle.n_groups == 2 && out.bundle.groups[1] == 5 && out.bundle.first_uid == 100000 &&
	      out.bundle.first_gid == 1 && out.bundle.metacopy && !out.bundle.readonly);
	CHECK(cell_spec_uid(&out) == 33 && cell_spec_gid(&out) == 65535 && cell_spec_has_fd(&out, CELL_STARTED_FD));
	CHECK(out.limits.asked == CELL_LIMIT_IO && out.limits.pids == 1024);
	buf_init(&again, CELL_SPEC_MAX);
	cell_spec_put(&again, &out);
	CHECK(again.len == b.len && memcmp(again.data, b.data, b.len) == 0);
}

TEST(cell_spec_of_an_image_is_strict)
{
	char *relative[] = { (char[]){ "/l/0" }, (char[]){ "l/1" }, NULL }, *none[] = { NULL };
	char *many[CELL_LAYERS_MAX + 2] = { NULL };
	char long_name[CELL_IMAGE_NAME_MAX + 2];
	const struct { char **layers, *name; } bad[] = {
		{ relative, NULL }, { none, NULL }, { many, NULL }, { layers_of_sample, long_name },
	};

	memset(long_name, 'a', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	for (size_t i = 0; i <= CELL_LAYERS_MAX; i++)
		many[i] = layers_of_sample[0];
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		OWN(sample_free) struct cell_spec in = sample();
		struct cell_spec changed = in, out = {0};
		OWN(buf_free) struct buf b = BUF(CELL_SPEC_MAX);

		changed.image.layers = bad[i].layers;
		changed.image.name = bad[i].name != NULL ? bad[i].name : in.image.name;
		cell_spec_put(&b, &changed);
		CHECK(cell_spec_get(&b, &out, NULL) == -EBADMSG);
	}
}

TEST(cell_spec_programs_of_each_kind)
{
	struct cell_spec spec = { .rootfs = (char[]){ "" } };

	CHECK(cell_spec_programs(&spec) == CELL_PROGRAMS_HOST && !cell_spec_has_fd(&spec, CELL_IMAGE_FD));
	spec.rootfs = (char[]){ "/r" };
	CHECK(cell_spec_programs(&spec) == CELL_PROGRAMS_FOLDER);
	spec.rootfs = (char[]){ "" };
	spec.bare = true;
	CHECK(cell_spec_programs(&spec) == CELL_PROGRAMS_NONE);
	spec.bare = false;
	spec.image.layers = layers_of_sample;
	CHECK(cell_spec_programs(&spec) == CELL_PROGRAMS_IMAGE && cell_spec_has_fd(&spec, CELL_IMAGE_FD));
}

TEST(cell_file_paths)
{
	static const char *const good[] = { "a", ".netrc", ".a/b", "a/..b", "..." };
	static const char *const bad[] = { "", "/a", "a/", "a//b", "..", "../a", "a/../b", "a/..", ".", "./a" };

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		CHECK(cell_file_ok(good[i]));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(!cell_file_ok(bad[i]));
}

TEST(cell_spec_cut_anywhere_is_refused)
{
	OWN(sample_free) struct cell_spec in = sample();
	OWN(buf_free) struct buf b;

	buf_init(&b, CELL_SPEC_MAX);
	cell_spec_put(&b, &in);
	for (size_t len = 0; len < b.len; len++) {
		struct cell_spec out = {0};
		struct buf cut;

		buf_init_borrowed(&cut, b.data, len);
		CHECK(cell_spec_get(&cut, &out, NULL) < 0);
		CHECK(out.argv == NULL);
	}
}

/* What the options check is checked again where it is read. */
TEST(cell_spec_of_a_dispatch_is_strict)
{
	char *relative[] = { (char[]){ "setup.sh" }, NULL };
	const struct { char *principal, *chain, **setups; } bad[] = {
		{ (char[]){ "a\nb" }, NULL, NULL },
		{ (char[]){ "\xff" }, NULL, NULL },
		{ NULL, (char[]){ "a//b" }, NULL },
		{ NULL, NULL, relative },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		OWN(sample_free) struct cell_spec in = sample();
		struct cell_spec changed = in, out = {0};
		OWN(buf_free) struct buf b;

		if (bad[i].principal != NULL)
			changed.principal = bad[i].principal;
		if (bad[i].chain != NULL)
			changed.chain = bad[i].chain;
		if (bad[i].setups != NULL)
			changed.setups = bad[i].setups;
		buf_init(&b, CELL_SPEC_MAX);
		cell_spec_put(&b, &changed);
		CHECK_ERR(cell_spec_get(&b, &out, NULL), EBADMSG);
	}
}

TEST(cell_chains_and_principals)
{
	static const struct { const char *chain; bool ok; } chains[] = {
		{ "", true }, { "a", true }, { "a/b", true }, { "9.a_b-c/x", true },
		{ "/", false }, { "/a", false }, { "a/", false }, { "a//b", false }, { ".a", false },
		{ "A", false }, { "a b", false }, { "a/../b", false }, { "\xc3\xa9", false },
		{ "a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a", true }, { "a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a", false },
	};
	static const struct { const char *text; bool ok; } principals[] = {
		{ "", true }, { "J\303\274rgen <j@a.example>", true }, { "a\tb", false }, { "a\x1b[m", false },
		{ "\xe2\x80\xae", false }, { "\xc3", false },
	};
	char long_one[CELL_PRINCIPAL_MAX + 2];

	for (size_t i = 0; i < ARRAY_LEN(chains); i++)
		CHECK(cell_chain_ok(chains[i].chain) == chains[i].ok);
	for (size_t i = 0; i < ARRAY_LEN(principals); i++)
		CHECK(cell_principal_ok(principals[i].text) == principals[i].ok);
	memset(long_one, 'a', sizeof(long_one) - 1);
	long_one[sizeof(long_one) - 1] = '\0';
	CHECK(!cell_principal_ok(long_one));
	CHECK(cell_principal_ok(long_one + 1));
	CHECK(!cell_chain_ok(long_one) && !cell_chain_ok(long_one + CELL_PRINCIPAL_MAX + 1 - 64) &&
	      cell_chain_ok(long_one + CELL_PRINCIPAL_MAX + 1 - 63));
}

TEST(cell_ids)
{
	CHECK(cell_id_ok("abcd1234") && cell_id_ok("ABCDEFGH") && cell_id_ok("00000000"));
	CHECK(!cell_id_ok("") && !cell_id_ok("abcd123") && !cell_id_ok("abcd12345") &&
	      !cell_id_ok("abcd-234") && !cell_id_ok("abcd.234") && !cell_id_ok("../../.."));
}

TEST(cell_limits_are_finite)
{
	struct cell_limits l;

	cell_limits_default(&l);
	CHECK(l.memory > 0 && l.disk > 0 && l.io > 0 && l.cpus_milli >= 1000 && l.pids > 0 &&
	      l.inodes > 0 && l.time_ms > 0);
	CHECK(l.asked == 0);
}

TEST(cell_names)
{
	static const struct { const char *name; bool ok; } cases[] = {
		{ "a", true }, { "web-1", true }, { "a_b", true }, { "9", true },
		{ "", false }, { "-a", false }, { "_a", false }, { "a.b", false }, { "a/b", false },
		{ "a b", false }, { "..", false }, { "\xc3\xa9", false }, { "a\n", false },
	};
	char id[CELL_ID_LEN + 1], long_name[CELL_NAME_MAX + 2];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK(cell_name_ok(cases[i].name) == cases[i].ok);
	memset(long_name, 'a', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	CHECK(!cell_name_ok(long_name));
	CHECK_OK(cell_make_id(id, NULL));
	CHECK(strlen(id) == CELL_ID_LEN && cell_name_ok(id));
}

/* What is there is a path, and without one there is no list. */
TEST(cell_spec_sources)
{
	char *const lists[][2] = { { NULL }, { (char[]){ "p" } }, { (char[]){ "" } } };

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		OWN(sample_free) struct cell_spec in = sample();
		struct cell_spec out = {0};
		OWN(buf_free) struct buf b;
		char *list[] = { lists[i][0], NULL };

		in.sources = list;
		buf_init(&b, CELL_SPEC_MAX);
		cell_spec_put(&b, &in);
		CHECK_ERR(cell_spec_get(&b, &out, NULL), EBADMSG);
	}
}

TEST(cell_spec_of_a_container_is_strict)
{
	char *relative[] = { (char[]){ "a" }, NULL }, *none[] = { NULL };
	const struct { char **layers, **scratches; uint32_t uid, gid, group; } bad[] = {
		{ relative, setups_of_sample, 0, 0, 0 }, { none, setups_of_sample, 0, 0, 0 },
		{ layers_of_sample, relative, 0, 0, 0 }, { layers_of_sample, none, 65536, 0, 0 },
		{ layers_of_sample, none, 0, 65536, 0 }, { layers_of_sample, none, 0, 0, 65536 },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		OWN(sample_free) struct cell_spec in = sample();
		struct cell_spec out = {0};
		OWN(buf_free) struct buf b;

		in.bundle = (struct cell_bundle){ .layers = bad[i].layers, .scratches = bad[i].scratches, .uid = bad[i].uid,
			.gid = bad[i].gid, .groups = { bad[i].group }, .n_groups = 1 };
		buf_init(&b, CELL_SPEC_MAX);
		cell_spec_put(&b, &in);
		CHECK_ERR(cell_spec_get(&b, &out, NULL), EBADMSG);
	}
}

TEST(cell_spec_states)
{
	OWN(sample_free) struct cell_spec in = sample();
	OWN(cell_spec_free) struct cell_spec out = {0};
	struct cell_spec wrong = {0};
	OWN(buf_free) struct buf b, bad;

	buf_init(&b, CELL_SPEC_MAX);
	buf_init(&bad, CELL_SPEC_MAX);
	in.n_states = 2;
	in.states[0] = (struct cell_state){ .name = (char[]){ "brain" }, .branch = (char[]){ "main" }, .commit = (char[]){ "c0" }, .guards = (char[]){ "protect x\n" },
		.grant = 1, .quiet = true, .every_ms = 60000 };
	in.states[1] = (struct cell_state){ .name = (char[]){ "notes" }, .branch = (char[]){ "" }, .commit = (char[]){ "c1" }, .guards = (char[]){ "" },
		.number = 1 };
	cell_spec_put(&b, &in);
	CHECK_OK(cell_spec_get(&b, &out, NULL));
	CHECK(buf_left(&b) == 0 && out.n_states == 2 && out.states[0].grant == 1 && out.states[0].quiet);
	CHECK(out.states[0].every_ms == 60000 && out.states[1].number == 1 && cell_spec_writes_state(&out));
	CHECK_STR(out.states[0].name, "brain");
	CHECK_STR(out.states[1].commit, "c1");
	CHECK_STR(out.states[0].guards, "protect x\n");
	CHECK(cell_spec_has_fd(&out, CELL_SAVER_FD));
	in.states[1].grant = 5;
	cell_spec_put(&bad, &in);
	CHECK_ERR(cell_spec_get(&bad, &wrong, NULL), EBADMSG);
	in.n_states = 0;
}

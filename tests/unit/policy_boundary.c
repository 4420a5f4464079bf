/* policy_boundary.c - tests of policy/policy_boundary. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "policy/policy.h"
#include "policy/policy_yaml.h"
#include "test.h"

static const struct {
	const char *text, *error;       /* in YAML; "": no error */
	const char *canonical;
} texts[] = {
	{ "namespace", "", "namespace" },
	{ "microvm", "", "microvm" },
	{ "docker", "", "docker" },
	{ "strongest,docker", "'strongest,docker' is not a boundary: 'docker' is no stronger than 'namespace'", "" },
	{ "'microvm'", "", "microvm" },
	{ "strongest", "", "strongest" },
	{ "strongest,namespace", "", "strongest,namespace" },
	{ "strongest,microvm", "", "strongest" },
	{ "[microvm]", "", "microvm" },
	{ "[strongest]", "", "strongest" },
	{ "[strongest, namespace]", "", "strongest,namespace" },
	{ "Microvm", "there is no boundary 'Microvm': use namespace, oci, gvisor, microvm, docker, process or strongest", "" },
	{ "''", "there is no boundary '': use namespace, oci, gvisor, microvm, docker, process or strongest", "" },
	{ "microvm,", "'microvm,' is not a boundary: only 'strongest' can have another one behind it, as in "
	  "'strongest,namespace'", "" },
	{ "[namespace, strongest]", "'namespace,strongest' is not a boundary: only 'strongest' can have another one "
	  "behind it, as in 'strongest,namespace'", "" },
	{ "cardboard,namespace", "there is no boundary 'cardboard': use namespace, oci, gvisor, microvm, docker, process or strongest", "" },
	{ "strongest,", "there is no boundary '': use namespace, oci, gvisor, microvm, docker or process", "" },
	{ "strongest,cardboard", "there is no boundary 'cardboard': use namespace, oci, gvisor, microvm, docker or process", "" },
	{ "strongest,strongest", "there is no boundary 'strongest': use namespace, oci, gvisor, microvm, docker or process", "" },
	{ "strongest,namespace,microvm", "there is no boundary 'namespace,microvm': use namespace, oci, gvisor, microvm, docker or process", "" },
	{ "[strongest, namespace, microvm]", "the boundary is a name, or [strongest, namespace]", "" },
	{ "['strongest,namespace']", "the boundary is a name, or [strongest, namespace]", "" },
	{ "[strongest, ~]", "the boundary is a name, or [strongest, namespace]", "" },
	{ "[]", "the boundary is a name, or [strongest, namespace]", "" },
	{ "{}", "the boundary is a name, or [strongest, namespace]", "" },
	{ "~", "the boundary is a name, or [strongest, namespace]", "" },
};

TEST(policy_boundary_texts)
{
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		OWN(node_freep) struct node *root = NULL;
		struct policy_boundary b = {0};
		char text[POLICY_BOUNDARY_TEXT_MAX + 1];
		struct err err = {0};
		const char *behind;

		CHECK_OK(node_parse("f", texts[i].text, strlen(texts[i].text), &root, NULL));
		CHECK((policy_boundary_read(root, &b, &err) == 0) == (texts[i].error[0] == '\0'));
		behind = strchr(err.text, ' ');
		CHECK_STR(behind != NULL ? behind + 1 : "", texts[i].error);
		if (texts[i].error[0] == '\0')
			CHECK_STR(policy_boundary_text(&b, text), texts[i].canonical);
		else
			CHECK(!b.is_set);
	}
}

#define MISSING "no KVM"
#define WEAKER(asked, demanded) "I asks for the boundary '" asked "', which is weaker than the policy's '" demanded \
	"': ask for nothing, or for a stronger one"

/* What a cell gets on a machine with virtual machines, and on one without; or the error. */
static const struct {
	const char *asked, *policy, *outer;     /* "": nothing */
	const char *with, *without;
} sources[] = {
	{ "", "", "", "namespace", "namespace" },
	{ "namespace", "", "", "namespace", "namespace" },
	{ "microvm", "", "", "microvm", MISSING },
	/* As strong as the default. */
	{ "docker", "", "", "docker", "docker" },
	{ "docker", "namespace", "", "docker", "docker" },
	{ "docker", "microvm", "", WEAKER("docker", "microvm"), WEAKER("docker", "microvm") },
	{ "docker", "strongest,namespace", "", WEAKER("docker", "strongest,namespace"), "docker" },
	{ "strongest", "", "", "microvm", MISSING },
	{ "strongest,namespace", "", "", "microvm", "namespace" },
	/* A policy is a minimum. */
	{ "", "namespace", "", "namespace", "namespace" },
	{ "", "microvm", "", "microvm", "the policy's boundary is 'microvm': " MISSING },
	{ "", "strongest", "", "microvm", "the policy's boundary is 'strongest': " MISSING },
	{ "", "strongest,namespace", "", "microvm", "namespace" },
	{ "microvm", "namespace", "", "microvm", MISSING },
	{ "microvm", "strongest", "", "microvm", MISSING },
	{ "microvm", "strongest,namespace", "", "microvm", MISSING },
	{ "strongest,namespace", "namespace", "", "microvm", "namespace" },
	{ "strongest,namespace", "microvm", "", "microvm", "the policy's boundary is 'microvm': " MISSING },
	{ "namespace", "microvm", "", WEAKER("namespace", "microvm"), WEAKER("namespace", "microvm") },
	{ "namespace", "strongest", "", WEAKER("namespace", "strongest"), WEAKER("namespace", "strongest") },
	{ "namespace", "strongest,namespace", "", WEAKER("namespace", "strongest,namespace"), "namespace" },
	/* So are the policies around it. */
	{ "", "", "microvm", "microvm", "the policy's boundary is 'microvm': " MISSING },
	{ "", "namespace", "microvm", "microvm", "the policy's boundary is 'microvm': " MISSING },
	{ "", "microvm", "namespace", "microvm", "the policy's boundary is 'microvm': " MISSING },
	{ "", "strongest,namespace", "namespace", "microvm", "namespace" },
	{ "", "strongest,namespace", "microvm", "microvm", "the policy's boundary is 'strongest': " MISSING },
	{ "namespace", "namespace", "strongest", WEAKER("namespace", "strongest"),
	  WEAKER("namespace", "strongest") },
};

struct machine {
	int missing;
	unsigned times;                 /* how often it was asked */
};

static int
can(void *arg, struct err *err)
{
	struct machine *m = arg;

	m->times++;
	if (m->missing != 0)
		err_set(err, ENOTSUP, MISSING);
	return m->missing;
}

static struct policy_boundary
parsed(const char *text)
{
	struct policy_boundary b = {0};

	if (text[0] != '\0')
		CHECK_OK(policy_boundary_parse(text, &b, NULL));
	return b;
}

TEST(policy_boundary_of_several_sources)
{
	for (size_t i = 0; i < ARRAY_LEN(sources) * 2; i++) {
		struct policy_boundary asked = parsed(sources[i / 2].asked), demanded = parsed(sources[i / 2].policy);
		struct policy_boundary outer = parsed(sources[i / 2].outer);
		struct machine machine = { .missing = i % 2 };
		const char *want = i % 2 == 0 ? sources[i / 2].with : sources[i / 2].without, *name = NULL;
		struct err err = {0};
		int r;

		CHECK_OK(policy_boundary_raise(&demanded, &outer, NULL));
		r = policy_boundary_resolve(&asked, "I", &demanded, can, &machine, &name, &err);
		CHECK_STR(r < 0 ? err.text : name, want);
		/* A weaker boundary comes with its reason. */
		CHECK(r < 0 || (r == 1) == (machine.times > 0 && machine.missing != 0));
		if (r == 1)
			CHECK_STR(err.text, MISSING);
		CHECK(machine.times <= 1);
	}
}

static const struct {
	const char *text, *error;       /* "": no error */
} runtimes[] = {
	{ "crun", "" }, { "youki-0.1_b", "" }, { "/opt/a b/crun", "" },
	{ "", "'' is no OCI runtime: use a name such as crun, or an absolute path" },
	{ ".", "'.' is no OCI runtime: use a name such as crun, or an absolute path" },
	{ "-v", "'-v' is no OCI runtime: use a name such as crun, or an absolute path" },
	{ "bin/crun", "'bin/crun' is no OCI runtime: use a name such as crun, or an absolute path" },
	{ "//", "'//' is no program" },
	{ "/opt/a\nb", "an OCI runtime has no control characters" },
};

TEST(policy_boundary_runtimes)
{
	for (size_t i = 0; i < ARRAY_LEN(runtimes); i++) {
		struct policy_boundary b = parsed("oci");
		struct err err = {0};

		CHECK((policy_boundary_add_runtime(&b, runtimes[i].text, &err) == 0) == (runtimes[i].error[0] == '\0'));
		CHECK_STR(err.text, runtimes[i].error);
		CHECK_STR(b.runtime, err.code == 0 ? runtimes[i].text : "");
	}
}

/* BOUNDARY RUNTIME, or less of it. */
static struct policy_boundary
with_runtime(const char *text)
{
	char name[32] = "";
	struct policy_boundary b;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, " "), text);
	b = parsed(name);
	if (strchr(text, ' ') != NULL)
		CHECK_OK(policy_boundary_add_runtime(&b, strchr(text, ' ') + 1, NULL));
	return b;
}

static const struct {
	const char *asked, *policy, *outer, *want;      /* WANT: the cell's boundary and runtime, or the error */
} runtimes_of_sources[] = {
	{ "oci crun", "", "", "oci crun" },
	{ "oci", "oci crun", "", "oci crun" },
	{ "", "oci crun", "", "oci crun" },
	{ "oci crun", "oci crun", "oci", "oci crun" },
	{ "oci runc", "oci crun", "", "I asks for the OCI runtime 'runc', and the policy demands 'crun'" },
	{ "oci runc", "", "oci crun", "I asks for the OCI runtime 'runc', and the policy demands 'crun'" },
	{ "", "oci crun", "oci runc", "a cell has one OCI runtime, and both 'crun' and 'runc' are demanded" },
	/* A stronger boundary replaces both. */
	{ "gvisor", "oci crun", "", "gvisor " },
	{ "gvisor runsc", "oci crun", "", "gvisor runsc" },
	{ "microvm", "oci crun", "", "microvm " },
	{ "", "oci crun", "gvisor", "gvisor " },
	{ "", "oci crun", "gvisor runsc", "gvisor runsc" },
	{ "", "namespace", "oci crun", "oci crun" },
};

TEST(policy_boundary_runtime_of_several_sources)
{
	for (size_t i = 0; i < ARRAY_LEN(runtimes_of_sources); i++) {
		struct policy_boundary asked = with_runtime(runtimes_of_sources[i].asked);
		struct policy_boundary demanded = with_runtime(runtimes_of_sources[i].policy);
		struct policy_boundary outer = with_runtime(runtimes_of_sources[i].outer);
		struct machine machine = {0};
		const char *name = "", *runtime = "";
		struct err err = {0};
		OWN(freep) char *got = NULL;
		int r = policy_boundary_raise(&demanded, &outer, &err);

		r = r < 0 ? r : policy_boundary_resolve(&asked, "I", &demanded, can, &machine, &name, &err);
		r = r < 0 ? r : policy_boundary_runtime(&asked, "I", &demanded, name, &runtime, &err);
		got = str_format("%s %s", name, runtime);
		CHECK_STR(r < 0 ? err.text : got, runtimes_of_sources[i].want);
	}
}

/* Whoever wants no virtual machine pays for no test of KVM. */
TEST(policy_boundary_asks_the_machine_only_if_it_matters)
{
	struct policy_boundary asked = parsed("namespace"), nothing = {0};
	struct machine machine = {0};
	const char *name;

	CHECK_OK(policy_boundary_resolve(&asked, "I", &nothing, can, &machine, &name, NULL));
	CHECK_OK(policy_boundary_resolve(&nothing, "I", &asked, can, &machine, &name, NULL));
	CHECK(machine.times == 0);
}

/* If nobody knows whether it can, there is no weaker one. */
TEST(policy_boundary_is_not_weaker_by_accident)
{
	static const struct { const char *asked, *demanded, *want; } cases[] = {
		{ "strongest,namespace", "", MISSING },
		{ "strongest,namespace", "namespace", MISSING },
		{ "strongest", "", MISSING },
		{ "", "strongest,namespace", "the policy's boundary is 'strongest,namespace': " MISSING },
		{ "namespace", "strongest,namespace", "the policy's boundary is 'strongest,namespace': " MISSING },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct policy_boundary asked = parsed(cases[i].asked), demanded = parsed(cases[i].demanded);
		struct machine machine = { .missing = -EAGAIN };
		const char *name = NULL;
		struct err err = {0};

		CHECK(policy_boundary_resolve(&asked, "I", &demanded, can, &machine, &name, &err) < 0);
		CHECK_STR(err.text, cases[i].want);
		CHECK(name == NULL);
	}
}

/* fleet_kube_access.c - tests of kubeconfigs: what is read of them, and what is refused. */
#include "fleet/kube_access.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "test.h"

#define AROUND "apiVersion: v1\nkind: Config\ncurrent-context: here\n" \
	"contexts: [{name: here, context: {cluster: c, user: u, namespace: ns}}, {name: other, context: {cluster: c, user: v}}]\n"
#define CLUSTER "clusters: [{name: c, cluster: {server: 'https://k.example:6443', certificate-authority-data: Q0E=}}]\n"
#define USERS "users: [{name: u, user: {token: abc}}, {name: v, user: {client-certificate-data: Q0VSVA==, client-key-data: S0VZ}}]\n"

static int
read_config(const char *text, const char *context, struct kube_access *a, struct err *err)
{
	return kube_access_read("config", text, strlen(text), context, a, err);
}

TEST(kube_access_read)
{
	OWN(kube_access_free) struct kube_access a = {0}, b = {0}, c = {0};
	OWN(freep) char *line = NULL, *none = NULL;

	CHECK_OK(read_config(AROUND CLUSTER USERS, NULL, &a, NULL));
	CHECK_STR(a.server, "https://k.example:6443");
	CHECK_STR(a.prefix, "");
	CHECK_STR(a.ca, "CA");
	CHECK_STR(a.namespace, "ns");
	CHECK(a.cert == NULL && a.key == NULL && a.token_file == NULL);
	CHECK_OK(kube_access_line(&a, &line, NULL));
	CHECK_STR(line, "Authorization: Bearer abc");
	CHECK_OK(read_config(AROUND CLUSTER USERS, "other", &b, NULL));
	CHECK_STR(b.cert, "CERT");
	CHECK_STR(b.key, "KEY");
	CHECK(b.token == NULL && b.namespace == NULL);
	CHECK_OK(kube_access_line(&b, &none, NULL));
	CHECK(none == NULL);
	/* The path of an address is in front of all others. */
	CHECK_OK(read_config(AROUND USERS "clusters: [{name: c, cluster: {server: https://k.example/k8s/c-1/}}]\n", NULL, &c, NULL));
	CHECK_STR(c.server, "https://k.example");
	CHECK_STR(c.prefix, "/k8s/c-1");
	CHECK(c.ca == NULL);
}

#define OF_CLUSTER(text) AROUND USERS "clusters: [{name: c, cluster: {" text "}}]\n"
#define OF_USER(text) AROUND CLUSTER "users: [{name: u, user: {" text "}}]\n"

static const struct {
	const char *text, *context, *part;      /* of the sentence */
	int code;
} refused[] = {
	{ "", NULL, "no current context", ENOENT },
	{ "[]", NULL, "no current context", ENOENT },
	{ AROUND CLUSTER USERS, "third", "no context 'third'", ENOENT },
	{ AROUND USERS, NULL, "no cluster 'c'", ENOENT },
	{ AROUND CLUSTER, NULL, "no user 'u'", ENOENT },
	{ OF_CLUSTER("server: 'http://k.example'"), NULL, "has no TLS", EPERM },
	{ OF_CLUSTER("server: k.example"), NULL, "has no TLS", EPERM },
	{ OF_CLUSTER("certificate-authority-data: Q0E="), NULL, "no `server`", EINVAL },
	{ OF_CLUSTER("server: 'https://k.example/?x'"), NULL, "is no address", EINVAL },
	{ OF_CLUSTER("server: 'https://k', insecure-skip-tls-verify: true"), NULL, "insecure-skip-tls-verify", ENOTSUP },
	{ OF_CLUSTER("server: 'https://k', proxy-url: 'http://p'"), NULL, "set HTTPS_PROXY", ENOTSUP },
	{ OF_CLUSTER("server: 'https://k', certificate-authority-data: '*'"), NULL, "is not base64", EINVAL },
	{ OF_CLUSTER("server: 'https://k', certificate-authority-data: QQBC"), NULL, "is no PEM", EINVAL },
	{ OF_USER("exec: {command: aws}"), NULL, "by 'exec'", ENOTSUP },
	{ OF_USER("exec: [], token: abc"), NULL, "by 'exec'", ENOTSUP },
	{ OF_USER("auth-provider: {name: gcp}"), NULL, "by 'auth-provider'", ENOTSUP },
	{ OF_USER("username: a, password: b"), NULL, "by 'username'", ENOTSUP },
	{ OF_USER("token: abc, as: admin"), NULL, "by 'as'", ENOTSUP },
	{ OF_USER(""), NULL, "no token and no certificate", EACCES },
	{ OF_USER("client-certificate-data: QQ=="), NULL, "no client-key", EINVAL },
	{ OF_USER("tokenFile: token"), NULL, "no file with a token", EINVAL },
};

TEST(kube_access_refuses)
{
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		OWN(kube_access_free) struct kube_access a = {0};
		struct err err = {0};
		int r = read_config(refused[i].text, refused[i].context, &a, &err);

		if (r != -refused[i].code || strstr(err.text, refused[i].part) == NULL)
			test_fail(__FILE__, __LINE__, "case %zu: %d, '%s' instead of '%s'", i, r, err.text, refused[i].part);
	}
}

/* What is in a header field could end it. */
TEST(kube_access_line_refuses)
{
	static const char *const tokens[] = { "", "a b", "a\r\nHost: x", "\xc3\xa4" };

	for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
		struct kube_access a = { .token = (char *)(uintptr_t)tokens[i], .from = (char *)(uintptr_t)"config" };
		OWN(freep) char *line = NULL;

		CHECK(kube_access_line(&a, &line, NULL) == -EINVAL && line == NULL);
	}
}

/* vault_secret.c - tests of vault/secret, its readers and its message. */
#include <errno.h>

#include "base/err.h"
#include "credential/shape.h"
#include "policy_lab.h"
#include "test.h"
#include "vault/catalogue.h"
#include "vault/secret.h"

static struct secret_list
load(const char *text)
{
	struct secret_list list = {0};
	struct err err = {0};

	if (secret_load_text("s", text, strlen(text), &list, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	return list;
}

static const char everything[] =
	"version: 1\n"
	"secrets:\n"
	"  db/main:\n"
	"    scheme: sigv4\n"
	"    shape: {id: ['AKIA{b16}'], secret: '{x40}'}\n"
	"    from: cmd:aws sts get 'a b'\n"
	"    expires: /Expiration\n"
	"    members: {id: /AccessKeyId, secret: /SecretAccessKey, token: /SessionToken}\n"
	"    hosts: [s3.example.com, '*.b.example.com:8443', 10.0.0.0/8]\n"
	"    ports: [443, 9000-9010]\n"
	"    methods: [GET, PUT]\n"
	"    paths: [/bucket/**]\n"
	"    in: ['header:X-Api-Key', 'header:authorization', 'query:key', body]\n"
	"    with: {service: s3, region: eu-*}\n"
	"    env: SOME_KEY\n"
	"    files: [netrc, npmrc]\n"
	"    id: me\n"
	"    plain: true\n"
	"    captures:\n"
	"      - oauth2\n"
	"      - {kind: sts, at: {hosts: [sts.x], paths: [/sts]}, for: {hosts: ['*.y'], methods: [GET],\n"
	"         shape: {id: 'ASIA{b16}'}}}\n";

TEST(vault_secret_put_and_get)
{
	OWN(secret_list_free) struct secret_list list = load(everything);
	OWN(secret_freep) struct secret *again = NULL;
	OWN(buf_free) struct buf b, c;
	struct err err = {0};
	char places[128];

	buf_init(&b, SECRET_ENCODED_MAX);
	buf_init(&c, SECRET_ENCODED_MAX);
	secret_put(&b, list.at[0]);
	CHECK_OK(secret_get(&b, &again, &err));
	CHECK_U64(buf_left(&b), 0);
	secret_put(&c, again);
	CHECK(b.len == c.len && memcmp(b.data, c.data, b.len) == 0);
	CHECK_STR(again->name, "db/main");
	CHECK_STR(again->scheme->name, "sigv4");
	CHECK_STR(again->from, "cmd:aws sts get 'a b'");
	CHECK_STR(again->expires_member, "/Expiration");
	CHECK_STR(again->members[SECRET_TOKEN], "/SessionToken");
	CHECK_STR(again->shapes[SECRET_ID].at[0], "AKIA{b16}");
	CHECK_STR(again->env, "SOME_KEY");
	CHECK_STR(again->id, "me");
	CHECK(again->files.n == 2 && strcmp(again->files.at[1], "npmrc") == 0);
	CHECK_STR(secret_with(again, "region"), "eu-*");
	CHECK(secret_with(again, "nothing") == NULL);
	secret_places_text(again, places, sizeof(places));
	CHECK_STR(places, "header:x-api-key, header:authorization, query:key, body");
	CHECK(strstr(secret_scope_text(again), "s3.example.com") != NULL);
	CHECK_U64(again->n_captures, 2);
	CHECK_STR(again->captures[0].kind, "oauth2");
	CHECK(strstr(secret_scope_text(again->captures[0].gives), "s3.example.com") != NULL);
	CHECK(strstr(secret_scope_text(again->captures[0].renews), "/**/token") != NULL);
	CHECK_U64(again->captures[0].renews->places, SECRET_IN_BODY);
	CHECK_STR(again->captures[1].gives->name, "db/main");
	CHECK_STR(again->captures[1].gives->scheme->name, "sigv4");
	CHECK_STR(again->captures[1].gives->shapes[SECRET_ID].at[0], "ASIA{b16}");
	CHECK(strstr(secret_scope_text(again->captures[1].renews), "sts.x") != NULL);
}

/* Tokens that give tokens are nothing that is written here. */
TEST(vault_secret_get_nested)
{
	OWN(secret_list_free) struct secret_list list = load(everything);
	struct secret *inner = list.at[0]->captures[0].gives, *again = NULL;
	OWN(buf_free) struct buf b;

	buf_init(&b, SECRET_ENCODED_MAX);
	inner->captures[0] = list.at[0]->captures[1];
	inner->n_captures = 1;
	secret_put(&b, list.at[0]);
	inner->n_captures = 0;
	CHECK_ERR(secret_get(&b, &again, NULL), EBADMSG);
}

/* Whether a request is in the scope of the first secret of TEXT. */
static bool
in_scope(const char *text, const char *request)
{
	OWN(secret_list_free) struct secret_list list = load(text);
	struct lab_request lab;

	lab_request(&lab, request);
	return secret_in_scope(list.at[0], &lab.req);
}

/* Where a service gives out tokens, they are captured; or else the secret does not go there. */
TEST(vault_secret_captures_all_of_a_service)
{
	static const struct {
		const char *text, *request;
	} at[] = {
		{ "{version: 1, secrets: {k: {like: azure}}}",
		  "POST https://login.microsoftonline.com/t/oauth2/v2.0/token" },
		{ "{version: 1, secrets: {k: {like: azure}}}",
		  "POST https://login.microsoftonline.com/te/t/b2c_1/oauth2/v2.0/token" },
		{ "{version: 1, secrets: {k: {like: google-service-account}}}",
		  "POST https://oauth2.googleapis.com/token" },
		{ "{version: 1, secrets: {k: {like: google-service-account}}}",
		  "POST https://www.googleapis.com/oauth2/v4/token" },
	};

	for (size_t i = 0; i < ARRAY_LEN(at); i++) {
		OWN(secret_list_free) struct secret_list list = load(at[i].text);
		struct lab_request lab;

		lab_request(&lab, at[i].request);
		CHECK(secret_in_scope(list.at[0]->captures[0].renews, &lab.req) ||
		      !secret_in_scope(list.at[0], &lab.req));
	}
}

TEST(vault_secret_scope)
{
	static const char narrow[] = "{version: 1, secrets: {k: {hosts: [a.x, '*.b.x:8443'], "
	                             "methods: [GET], paths: [/v1/**]}}}";
	static const char plain[] = "{version: 1, secrets: {k: {hosts: a.x, plain: true}}}";
	static const char raw[] = "{version: 1, secrets: {k: {hosts: 'db.x:5432', scheme: postgres}}}";

	CHECK(in_scope(narrow, "GET https://a.x/v1/y"));
	CHECK(in_scope(narrow, "GET https://c.b.x:8443/v1/y"));
	/* A handshake is a request, and a large body is no reason. */
	CHECK(in_scope(narrow, "GET https://a.x/v1/y\nupgrade: websocket"));
	CHECK(in_scope(plain, "POST https://a.x/\nlength: 99999999999"));
	CHECK(!in_scope(narrow, "GET https://a.x/v2/y"));
	CHECK(!in_scope(narrow, "POST https://a.x/v1/y"));
	CHECK(!in_scope(narrow, "GET https://a.x:8443/v1/y"));
	CHECK(!in_scope(narrow, "GET https://xa.x/v1/y"));
	CHECK(!in_scope(narrow, "GET https://b.x:8443/v1/y"));
	CHECK(!in_scope(narrow, "GET http://a.x/v1/y"));
	CHECK(in_scope(plain, "GET http://a.x/"));
	CHECK(in_scope(raw, "- tcp://db.x:5432"));
	CHECK(!in_scope(raw, "- tcp://db.x:5433"));
	CHECK(!in_scope(raw, "GET https://db.x:5432/"));
}

TEST(vault_secret_misfit)
{
	static const char narrow[] = "{version: 1, secrets: {k: {hosts: [a.x, '*.b.x:8443'], "
	                             "methods: [GET], paths: [/v1/**]}}}";
	static const char raw[] = "{version: 1, secrets: {k: {hosts: 'db.x:5432', scheme: postgres}}}";
	static const struct {
		const char *secret, *request, *want;
	} cases[] = {
		{ narrow, "GET https://xa.x/v1/y", "'xa.x' is not among its hosts" },
		{ narrow, "GET https://a.x:8443/v1/y", "port 8443 is not among its ports" },
		{ narrow, "GET http://a.x:443/v1/y", "it goes over TLS only, unless it was added with `cloister secret add --plain`" },
		{ narrow, "POST https://a.x/v1/y", "POST is not among its methods" },
		{ narrow, "GET https://a.x/v2/y?/v1/z", "'/v2/y' is not among its paths" },
		{ raw, "GET https://db.x:5432/", "it is not for HTTP" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(secret_list_free) struct secret_list list = load(cases[i].secret);
		struct lab_request lab;
		char text[160];

		lab_request(&lab, cases[i].request);
		CHECK(!secret_in_scope(list.at[0], &lab.req));
		secret_misfit_text(list.at[0], &lab.req, text, sizeof(text));
		CHECK_STR(text, cases[i].want);
	}
}

TEST(vault_secret_places)
{
	OWN(secret_list_free) struct secret_list list = load(
		"{version: 1, secrets: {a: {hosts: a.x, in: ['header:x-key', 'query:k']}, "
		"b: {hosts: a.x, in: [header]}, c: {hosts: a.x}, d: {hosts: a.x, scheme: basic}}}");

	CHECK(secret_in_header(list.at[0], "x-key", 5));
	CHECK(!secret_in_header(list.at[0], "x-keys", 6));
	CHECK(secret_in_param(list.at[0], "k", 1));
	CHECK(!secret_in_param(list.at[0], "q", 1));
	CHECK(secret_in_header(list.at[1], "anything", 8));
	CHECK(!secret_in_param(list.at[1], "k", 1));
	CHECK_U64(list.at[2]->places, SECRET_IN_HEADER | SECRET_IN_BASIC_USER | SECRET_IN_BASIC_PASSWORD);
	CHECK_U64(list.at[3]->places, SECRET_IN_BASIC_PASSWORD);
}

static const struct { const char *text, *says; } refused[] = {
	{ "{}", "s:1:1: a file begins with `version: 1`" },
	{ "{version: 1}", "s:1:1: there are no `secrets:`" },
	{ "{version: 1, secrets: [a]}", "s:1:23: secrets are a map" },
	{ "{version: 1, secrets: {a: {}}}", "'a' is of no service" },
	{ "{version: 1, secrets: {'a b': {hosts: x.y}}}", "is not the name of a secret" },
	{ "{version: 1, secrets: {a: {host: x.y}}}", "s:1:28: there is no key 'host' in a secret: did "
	  "you mean 'hosts'?" },
	{ "{version: 1, secrets: {a: {hosts: x.y, value: hunter2}}}", "a value does not stand in a file" },
	{ "{version: 1, secrets: {a: {hosts: '*'}}}", "any host is none" },
	{ "{version: 1, secrets: {a: {hosts: 'http://x.y'}}}", "this is a URL" },
	{ "{version: 1, secrets: {a: {hosts: x.y, scheme: sigv5}}}", "did you mean 'sigv4'?" },
	{ "{version: 1, secrets: {a: {hosts: x.y, shape: '{q}'}}}", "in a shape" },
	{ "{version: 1, secrets: {a: {hosts: x.y, scheme: hmac}}}", "s:1:27: hmac wants to know what is "
	  "signed" },
	{ "{version: 1, secrets: {a: {hosts: x.y, scheme: hmac, with: {at: 'header:x', message: 'x'}}}}",
	  "s:1:77: the HMAC template 'HMAC': the message has no part of the request in it" },
	{ "{version: 1, secrets: {a: {hosts: x.y, scheme: jwt, with: {audiance: x}}}}", "s:1:60: 'jwt' "
	  "has no option 'audiance': did you mean 'audience'?" },
	{ "{version: 1, secrets: {a: {hosts: x.y, scheme: jwt, with: {key-coding: hunter2}}}}",
	  "s:1:60: `key-coding` is how the secret is written" },
	{ "{version: 1, secrets: {a: {hosts: x.y, from: 'op://x'}}}", "env:NAME, file:PATH or cmd:" },
	{ "{version: 1, secrets: {a: {hosts: x.y, expires: 1h}}}", "only what comes from a command" },
	{ "{version: 1, secrets: {a: {hosts: x.y, from: 'cmd:x', expires: soon}}}", "neither a time" },
	{ "{version: 1, secrets: {a: {hosts: x.y, in: [head]}}}", "there is no place 'head'" },
	{ "{version: 1, secrets: {a: {hosts: x.y, captures: oauth3}}}", "s:1:50: say what kind of tokens" },
	{ "{version: 1, secrets: {a: {hosts: x.y, captures: {kind: sts, to: {}}}}}", "there is no key 'to'" },
	{ "{version: 1, secrets: {a: {hosts: x.y, captures: {kind: sts, for: {in: [head]}}}}}", "'head'" },
	{ "{version: 1, secrets: {a: {hosts: x.y, captures: {kind: sts, for: {captures: sts}}}}}",
	  "there is no key 'captures'" },
	{ "{version: 1, secrets: {a: {hosts: x.y, captures: {kind: oauth2, for: {hosts: '*'}}}}}",
	  "any host is none" },
	{ "{version: 1, secrets: {a: {hosts: x.y, captures: [sts, sts, sts, sts, sts]}}}", "at most 4" },
	{ "{version: 1, secrets: {a: {hosts: 'x.y:1', scheme: redis, captures: oauth2}}}", "not over HTTP" },
	{ "{version: 1, secrets: {a: {hosts: x.y, in: ['body:x']}}}", "only a header or a parameter" },
	{ "{version: 1, secrets: {a: {hosts: x.y, in: [header, 'header:x']}}}", "not both" },
	{ "{version: 1, secrets: {a: {hosts: x.y, like: gihub}}}", "did you mean 'github'?" },
	{ "{version: 1, secrets: {a: {hosts: 'x.y', scheme: redis}}}", "raw TCP needs a port" },
	{ "{version: 1, secrets: {a: {hosts: 'x.y:1', scheme: redis, in: [header]}}}", "not over HTTP" },
	{ "{version: 1, secrets: {a: {hosts: x.y, methods: [get]}}}", "methods are in capitals" },
	{ "{version: 1, secrets: {a: {hosts: x.y, env: '1X'}}}", "is not the name of a variable" },
	{ "{version: 1, secrets: {a: {hosts: x.y, members: {secret: token}}}}", "begins with '/'" },
};

TEST(vault_secret_refuses)
{
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		struct secret_list list = {0};
		struct err err = {0};

		CHECK(secret_load_text("s", refused[i].text, strlen(refused[i].text), &list, &err) < 0);
		if (strstr(err.text, refused[i].says) == NULL || strncmp(err.text, "s:1:", 4) != 0 ||
		    strstr(err.text, "hunter2") != NULL)
			test_fail(__FILE__, __LINE__, "%s: %s", refused[i].text, err.text);
	}
}

TEST(vault_secret_by_name)
{
	OWN(secret_list_free) struct secret_list list = load(
		"version: 1\nsecrets:\n  GITHUB_TOKEN:\n  mine: {like: stripe, hosts: [x.y]}\n"
		"  other: {like: github, scheme: basic}\n");

	CHECK_STR(list.at[0]->like, "github");
	CHECK_STR(list.at[0]->env, "GITHUB_TOKEN");
	CHECK_STR(list.at[0]->shapes[SECRET_SECRET].at[0], "ghp_{w30}{crc62}");
	CHECK(strstr(secret_scope_text(list.at[0]), "api.github.com") != NULL);
	CHECK_STR(list.at[1]->env, "STRIPE_API_KEY");
	CHECK(strncmp(secret_scope_text(list.at[1]), "x.y", 3) == 0);
	/* Used otherwise, only where it goes is known. */
	CHECK_U64(list.at[2]->shapes[SECRET_SECRET].n, 0);
	CHECK_U64(list.at[2]->places, SECRET_IN_BASIC_PASSWORD);
}

TEST(vault_secret_short)
{
	OWN(secret_freep) struct secret *s = NULL, *t = NULL;
	struct secret_short given;
	struct err err = {0};

	CHECK_OK(secret_short_parse("GITHUB_TOKEN@api.github.com,b.x:8443", &given, &err));
	CHECK_OK(secret_short_define(&given, &s, &err));
	CHECK_STR(s->name, "GITHUB_TOKEN");
	CHECK(strstr(secret_scope_text(s), "b.x:8443") != NULL);
	CHECK(strstr(secret_scope_text(s), "uploads") == NULL);
	CHECK_OK(secret_short_parse("openai=MY_KEY", &given, &err));
	CHECK_OK(secret_short_define(&given, &t, &err));
	CHECK_STR(t->env, "MY_KEY");
	/* Whatever is wrong may be a value. */
	CHECK_OK(secret_short_parse("K=V:netrc,gh-hosts@a.x:8443", &given, &err));
	CHECK_STR(given.name, "K");
	CHECK_STR(given.env, "V");
	CHECK_STR(given.files, "netrc,gh-hosts");
	CHECK_STR(given.hosts, "a.x:8443");
	CHECK_ERR(secret_short_parse("K@http://a.x:8443/", &given, &err), EINVAL);
	CHECK_STR(err.text, "behind 'K@' stands HOST or HOST:PORT, not a URL");
	CHECK_ERR(secret_short_parse("K:hunter2", &given, &err), EINVAL);
	CHECK(strstr(err.text, "hunter2") == NULL);
	CHECK_ERR(secret_short_parse("K:netrc,", &given, &err), EINVAL);
	CHECK_ERR(secret_short_parse("K:", &given, &err), EINVAL);
	CHECK_ERR(secret_short_parse("X=sk-hunter2!", &given, &err), EINVAL);
	CHECK(strstr(err.text, "hunter2") == NULL && strstr(err.text, "never the value") != NULL);
	CHECK_ERR(secret_short_parse("sk ant hunter2", &given, &err), EINVAL);
	CHECK(strstr(err.text, "hunter2") == NULL);
	CHECK_ERR(secret_short_parse("X@", &given, &err), EINVAL);
	CHECK_ERR(secret_short_parse("", &given, &err), EINVAL);
}

TEST(vault_catalogue_is_sound)
{
	for (const struct catalogue_entry *e = catalogue; e->name != NULL; e++) {
		OWN(secret_freep) struct secret *s = NULL;
		struct secret_short given = { .hosts = NULL };
		struct err err = {0};

		snprintf(given.name, sizeof(given.name), "%s", e->name);
		/* Of a database the hosts are everybody's own. */
		if (strstr(e->text, "hosts:") == NULL)
			given.hosts = "db.example.com";
		if (secret_short_define(&given, &s, &err) < 0)
			test_fail(__FILE__, __LINE__, "%s: %s", e->name, err.text);
		CHECK_STR(s->like, e->name);
		CHECK(*s->env != '\0' && *e->title != '\0');
		/* Its variables are its own, and the one that it sets is among all of them. */
		for (const struct catalogue_entry *o = catalogue; o != e; o++)
			CHECK(strcmp(o->name, e->name) != 0);
	}
	CHECK_STR(catalogue_find("gh_token")->name, "github");
	CHECK_STR(catalogue_find("Anthropic")->name, "anthropic");
	CHECK(catalogue_find("GH") == NULL && catalogue_find("") == NULL);
}

/* Given by two policies, one within the other. */
TEST(vault_secret_narrow)
{
	OWN(secret_list_free) struct secret_list mine = load(
		"version: 1\nsecrets: {K: {hosts: ['*.x', b.y], env: A}, M: {hosts: a.x, from: 'env:A'}}\n");
	OWN(secret_list_free) struct secret_list theirs = load(
		"version: 1\nsecrets: {K: {hosts: [a.x, b.z], methods: [GET], env: B}, M: {hosts: a.x}}\n");
	OWN(secret_freep) struct secret *both = NULL, *again = NULL;
	static const struct { const char *request; bool in; } cases[] = {
		{ "GET https://a.x/", true }, { "POST https://a.x/", false }, { "GET https://c.x/", false },
		{ "GET https://b.y/", false }, { "GET https://b.z/", false },
	};
	OWN(buf_free) struct buf b;
	struct err err = {0};

	CHECK_OK(secret_narrow(mine.at[0], theirs.at[0], &both, NULL));
	buf_init(&b, SECRET_ENCODED_MAX);
	secret_put(&b, both);
	CHECK_OK(secret_get(&b, &again, NULL));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct lab_request lab;

		lab_request(&lab, cases[i].request);
		CHECK(secret_in_scope(again, &lab.req) == cases[i].in);
	}
	CHECK_STR(again->env, "A");
	CHECK_ERR(secret_narrow(mine.at[1], theirs.at[1], &both, &err), EINVAL);
	CHECK(strstr(err.text, "'M' is not the same") != NULL);
}

/* A layer of a scope is one rule that allows, each of them. */
TEST(vault_secret_get_layers)
{
	OWN(secret_list_free) struct secret_list list = load("version: 1\nsecrets: {K: {hosts: a.x}}\n");
	static const char *const outer[] = { "- deny: a.x\n", "- allow: a.x\n- allow: b.x\n", "" };

	for (size_t i = 0; i < ARRAY_LEN(outer); i++) {
		OWN(secret_freep) struct secret *both = NULL, *again = NULL;
		OWN(policy_freep) struct policy *p = *outer[i] != '\0' ? lab_rules(outer[i]) : policy_new_empty();
		OWN(buf_free) struct buf b;

		buf_init(&b, SECRET_ENCODED_MAX);
		CHECK_OK(secret_narrow(list.at[0], list.at[0], &both, NULL));
		CHECK_OK(policy_within(both->scope, &p, NULL));
		secret_put(&b, both);
		CHECK_ERR(secret_get(&b, &again, NULL), EBADMSG);
	}
}

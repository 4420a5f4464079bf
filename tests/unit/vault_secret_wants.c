/* vault_secret_wants.c - tests of vault/secret_wants: `secrets` in a policy. */
#include "base/err.h"
#include "policy/policy_yaml.h"
#include "test.h"
#include "vault/secret_wants.h"

static const char *
read_text(const char *text, struct secret_wants *wants)
{
	static struct err err;
	struct node *root = NULL;

	err = (struct err){0};
	CHECK_OK(node_parse("p", text, strlen(text), &root, &err));
	(void)secret_wants_read(wants, root, &err);
	node_free(root);
	return err.text;
}

TEST(vault_secret_wants_names)
{
	OWN(secret_wants_free) struct secret_wants w = {0};

	CHECK_STR(read_text("[GITHUB_TOKEN, backups=AWS, 'KEY@a.example,b.example']", &w), "");
	CHECK_U64(w.n, 3);
	CHECK_STR(w.at[0].said.name, "GITHUB_TOKEN");
	CHECK(w.at[0].secret == NULL && !w.at[0].unless_known);
	CHECK_STR(w.at[1].said.env, "AWS");
	CHECK(w.at[2].secret != NULL && w.at[2].said.hosts == NULL);
	CHECK(strstr(secret_scope_text(w.at[2].secret), "b.example") != NULL);
}

TEST(vault_secret_wants_definitions)
{
	OWN(secret_wants_free) struct secret_wants w = {0};

	CHECK_STR(read_text("{search: {hosts: a.example, from: 'file:/x'}, GITHUB_TOKEN: , mine: }", &w),
	          "");
	CHECK_U64(w.n, 3);
	CHECK_STR(w.at[0].secret->from, "file:/x");
	CHECK(!w.at[0].unless_known);
	CHECK_STR(w.at[1].secret->like, "github");
	CHECK(w.at[1].unless_known);
	CHECK(w.at[2].secret == NULL);
	CHECK(secret_wants_find(&w, "mine") == &w.at[2] && secret_wants_find(&w, "min") == NULL);
}

TEST(vault_secret_wants_nearest_file_counts)
{
	OWN(secret_wants_free) struct secret_wants w = {0};

	CHECK_STR(read_text("{KEY: {hosts: a.example}}", &w), "");
	CHECK_STR(read_text("{KEY: {hosts: b.example}, OTHER: {hosts: c.example}}", &w), "");
	CHECK_U64(w.n, 2);
	CHECK(strstr(secret_scope_text(w.at[0].secret), "a.example") != NULL);
}

TEST(vault_secret_wants_refuses)
{
	static const struct { const char *text, *error; } rows[] = {
		{ "[a b]", "p:1:2: a secret is given as" },
		{ "[[a]]", "p:1:2: here stands the name" },
		{ "[a, b, a]", "p:1:8: this secret is in the list twice" },
		{ "{a: {hots: x}}", "p:1:6: there is no key 'hots'" },
		{ "{a: {hosts: x.example, value: y}}", "p:1:24: a value does not stand" },
		{ "{a: {hosts: x.example, from: 'cmd:/bin/echo x'}}", "p:1:30: a policy starts no program" },
		{ "{'a b': }", "p:1:2: 'a b' is not the name" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		OWN(secret_wants_free) struct secret_wants w = {0};
		const char *said = read_text(rows[i].text, &w);

		if (strncmp(said, rows[i].error, strlen(rows[i].error)) != 0)
			test_fail(__FILE__, __LINE__, "%s: %s", rows[i].text, said);
	}
}

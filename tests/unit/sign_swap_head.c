/* sign_swap_head.c - tests of sign/swap_head: every part of a head, and Basic. */
#include <errno.h>

#include "base/err.h"
#include "sign/sign.h"
#include "swap_lab.h"

#define FAKE "tok_AAAAbbbb/cc+dd"
#define REAL "tok_ZZZZyyyy/xx+ww"

static const struct swap_needle needles[] = {
	{ { FAKE, 18 }, { REAL, 18 } },
	{ { "user-fake", 9 }, { "the-real-user-name", 18 } },
};

static struct http_head
head_with(const char *path, const char *name, const char *value)
{
	struct http_head head = { .method = text_of("GET"), .host = text_of("a.example"),
		.path = text_of(path), .port = 443, .scheme = HTTP_TLS };

	head.fields[head.n_fields++] = (struct http_field){ text_of("accept"), text_of("*/*") };
	head.fields[head.n_fields++] = (struct http_field){ text_of(name), text_of(value) };
	return head;
}

static void
check_text(struct http_text got, const char *want)
{
	if (got.len != strlen(want) || memcmp(got.at, want, got.len) != 0)
		test_fail(__FILE__, __LINE__, "it is \"%.*s\", not \"%s\"", (int)got.len, got.at, want);
}

static const struct {
	const char *path, *name, *value;
	const char *want_path, *want_value;     /* NULL: as it was */
	enum swap_place place;                  /* of the first that is seen */
	size_t n_seen;
} head_cases[] = {
	{ "/a?b=c", "x-api-key", "something else", NULL, NULL, 0, 0 },
	{ "/", "x-api-key", FAKE, NULL, REAL, SWAP_HEADER, 1 },
	{ "/", "authorization", "Bearer " FAKE, NULL, "Bearer " REAL, SWAP_HEADER, 1 },
	{ "/", "cookie", "a=b; c=tok_AAAAbbbb%2Fcc%2Bdd; d=e", NULL,
	  "a=b; c=tok_ZZZZyyyy%2Fxx%2Bww; d=e", SWAP_HEADER, 1 },
	{ "/bot" FAKE "/get", "a", "b", "/bot" REAL "/get", NULL, SWAP_PATH, 1 },
	{ "/x?k=tok_AAAAbbbb%2Fcc%2Bdd&l=m", "a", "b", "/x?k=tok_ZZZZyyyy%2Fxx%2Bww&l=m", NULL,
	  SWAP_QUERY, 1 },
	{ "/user-fake/x?k=" FAKE, "a", FAKE, "/the-real-user-name/x?k=" REAL, REAL, SWAP_PATH, 3 },
	/* user-fake:tok_AAAAbbbb/cc+dd */
	{ "/", "authorization", "Basic dXNlci1mYWtlOnRva19BQUFBYmJiYi9jYytkZA==", NULL,
	  "Basic dGhlLXJlYWwtdXNlci1uYW1lOnRva19aWlpaeXl5eS94eCt3dw==", SWAP_BASIC_USER, 2 },
	{ "/", "authorization", "basic   dXNlci1mYWtlOnRva19BQUFBYmJiYi9jYytkZA", NULL,
	  "Basic dGhlLXJlYWwtdXNlci1uYW1lOnRva19aWlpaeXl5eS94eCt3dw==", SWAP_BASIC_USER, 2 },
	/* x:tok_AAAAbbbb/cc+dd */
	{ "/", "authorization", "Basic eDp0b2tfQUFBQWJiYmIvY2MrZGQ=", NULL,
	  "Basic eDp0b2tfWlpaWnl5eXkveHgrd3c=", SWAP_BASIC_PASSWORD, 1 },
	/* tok_AAAAbbbb/cc+dd, without a colon */
	{ "/", "authorization", "Basic dG9rX0FBQUFiYmJiL2NjK2Rk", NULL,
	  "Basic dG9rX1paWlp5eXl5L3h4K3d3", SWAP_BASIC_USER, 1 },
	/* a:b; not base64; base64 in another field */
	{ "/", "authorization", "Basic YTpi", NULL, NULL, 0, 0 },
	{ "/", "authorization", "Basic " FAKE "!", NULL, "Basic " REAL "!", SWAP_HEADER, 1 },
	{ "/", "authorization", "Basic dG9rX0FBQUFiYmJiL2NjK2R", NULL, NULL, 0, 0 },
	{ "/", "x-authorization", "Basic dG9rX0FBQUFiYmJiL2NjK2Rk", NULL, NULL, 0, 0 },
};

TEST(swap_head_parts)
{
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, ARRAY_LEN(needles), 0);
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();
	struct swap_heads how = { .set = set, .judge = swap_lab_judge, .arg = lab };
	static struct sign_memory m;

	for (size_t i = 0; i < ARRAY_LEN(head_cases); i++) {
		struct http_head head = head_with(head_cases[i].path, head_cases[i].name,
		                                  head_cases[i].value);

		m.used = lab->n_seen = 0;
		CHECK_OK(swap_head(&how, &head, &m, NULL));
		check_text(head.path, head_cases[i].want_path != NULL ? head_cases[i].want_path
		                                                      : head_cases[i].path);
		check_text(head.fields[1].value, head_cases[i].want_value != NULL
		           ? head_cases[i].want_value : head_cases[i].value);
		check_text(head.fields[1].name, head_cases[i].name);
		CHECK_U64(lab->n_seen, head_cases[i].n_seen);
		CHECK(lab->n_seen == 0 || lab->seen[0].place == head_cases[i].place);
		CHECK(lab->n_seen > 0 || m.used == 0);
		CHECK_OK(http_head_check(&head, NULL));
	}
}

TEST(swap_head_reports_the_place)
{
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, ARRAY_LEN(needles), 0);
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();
	struct swap_heads how = { .set = set, .judge = swap_lab_judge, .arg = lab };
	struct http_head head = head_with("/p?q=" FAKE, "x-key", "Token " FAKE);
	static struct sign_memory m;

	/* Only where it may be. */
	lab->allowed = 1u << SWAP_QUERY;
	CHECK_OK(swap_head(&how, &head, &m, NULL));
	check_text(head.path, "/p?q=" REAL);
	check_text(head.fields[1].value, "Token " FAKE);
	CHECK_U64(lab->n_seen, 2);
	CHECK(lab->seen[0].place == SWAP_QUERY && lab->seen[0].at == 3 && lab->seen[0].len == 18);
	CHECK(lab->seen[1].place == SWAP_HEADER && lab->seen[1].at == 6);
	check_text(lab->seen[1].name, "x-key");
	lab->verdict = SWAP_STOP;
	lab->allowed = 0;
	head = head_with("/", "x-key", FAKE);
	CHECK_ERR(swap_head(&how, &head, &m, NULL), EACCES);
	head = head_with("/", "x-key", "v");
	head.host = text_of("user-fake.example");
	lab->n_seen = 0;
	CHECK_ERR(swap_head(&how, &head, &m, NULL), EACCES);
	CHECK(lab->seen[0].place == SWAP_HOST);
}

/* Names have no case, and of HTTP/2 only the lower one is known. */
static const struct {
	const char *name;
	bool found;
} name_cases[] = {
	{ "user-fake", true }, { "x-user-fake-y", true }, { "X-USER-Fake", true }, { "x-user_fake", true },
	{ "x-user-fak", false }, { "user", false }, { "x-userfake", false }, { "x-%75ser-fake", true },
	{ "x-%55ser-fake", true }, { "x-757365722d66616b65", true }, { "x-757365722D66616B65", true },
	{ "x-dxnlci1mywtl", true },         /* its base64, in lower case */
	{ "x-tok_aaaabbbb-cc-dd", true }, { "x-tok_aaaabbbb-ccdd", false },
};

TEST(swap_head_names)
{
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, ARRAY_LEN(needles), SWAP_CODED);
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();
	struct swap_heads how = { .set = set, .judge = swap_lab_judge, .arg = lab };
	static struct sign_memory m;

	for (size_t i = 0; i < ARRAY_LEN(name_cases); i++) {
		struct http_head head = head_with("/", name_cases[i].name, "v");

		head.fields[head.n_fields++] = (struct http_field){ text_of("x-last"), text_of(FAKE) };
		lab->verdict = SWAP_REPLACE;
		m.used = lab->n_seen = 0;
		CHECK_OK(swap_head(&how, &head, &m, NULL));
		CHECK_U64(head.n_fields, name_cases[i].found ? 2 : 3);
		check_text(head.fields[head.n_fields - 1].value, REAL);
		CHECK(lab->seen[0].place == (name_cases[i].found ? SWAP_NAME : SWAP_HEADER));
		head = head_with("/", name_cases[i].name, "v");
		lab->verdict = SWAP_STOP;
		CHECK(swap_head(&how, &head, &m, NULL) == (name_cases[i].found ? -EACCES : 0));
		lab->verdict = SWAP_LEAVE;
		CHECK_OK(swap_head(&how, &head, &m, NULL));
		CHECK_U64(head.n_fields, 2);
	}
}

TEST(swap_head_of_answers)
{
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, ARRAY_LEN(needles), SWAP_CODED);
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();
	struct swap_heads how = { .set = set, .lengths = SWAP_FIT_LENGTH, .judge = swap_lab_judge,
		.arg = lab };
	struct http_head head = head_with("/" FAKE, "x-echo",
	                                  "Basic eDp0b2tfQUFBQWJiYmIvY2MrZGQ= 746f6b5f414141416262"
	                                  "62622f63632b6464 user-fake");
	static struct sign_memory m;

	head.status = 200;
	CHECK_OK(swap_head(&how, &head, &m, NULL));
	check_text(head.path, "/" FAKE);
	check_text(head.fields[1].value, "Basic eDp0b2tfWlpaWnl5eXkveHgrd3c= 746f6b5f5a5a5a5a7979"
	           "79792f78782b7777 the-real-");
	CHECK_U64(lab->n_seen, 3);
	CHECK(lab->seen[0].form == SWAP_BASE64 && lab->seen[1].form == SWAP_HEX);
}

TEST(swap_head_is_bounded)
{
	static char big[SWAP_NEEDLE_MAX], value[HTTP_HEAD_MAX];
	struct swap_needle needle = { { FAKE, 18 }, { big, 40000 } };
	OWN(swap_set_freep) struct swap_set *set = NULL;
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();
	struct swap_heads how = { .judge = swap_lab_judge, .arg = lab };
	static struct sign_memory m;
	struct http_head head;
	struct err err = {0};

	memset(big, 'k', sizeof(big));
	how.set = set = set_of(&needle, 1, 0);
	snprintf(value, sizeof(value), "%s", FAKE);
	head = head_with("/", "x-key", value);
	CHECK_OK(swap_head(&how, &head, &m, NULL));
	CHECK_U64(head.fields[1].value.len, 40000);
	m.used = 0;
	snprintf(value, sizeof(value), "%s %s", FAKE, FAKE);
	head = head_with("/", "x-key", value);
	CHECK_ERR(swap_head(&how, &head, &m, &err), E2BIG);
	CHECK(strstr(err.text, "too large") != NULL && strstr(err.text, "kk") == NULL);
	/* Base64 that there is no room for is looked at as it is, and does not go. */
	m.used = SIGN_MEMORY_MAX - 10;
	head = head_with("/", "authorization", "Basic eDp0b2tfQUFBQWJiYmIvY2MrZGQ=");
	CHECK_ERR(swap_head(&how, &head, &m, &err), E2BIG);
}

TEST(swap_asks_plain)
{
	struct http_head head = head_with("/", "accept-encoding", "gzip, br");

	head.fields[head.n_fields++] = (struct http_field){ text_of("sec-websocket-extensions"),
		text_of("permessage-deflate") };
	CHECK(!swap_is_plain(&head));
	CHECK_OK(swap_ask_plain(&head, NULL));
	CHECK_U64(head.n_fields, 2);
	check_text(http_head_get(&head, "accept-encoding"), "identity");
	CHECK(swap_is_plain(&head));
	CHECK_OK(http_head_check(&head, NULL));
	head = head_with("/", "content-encoding", "br");
	CHECK(!swap_is_plain(&head));
	head = head_with("/", "content-encoding", "Identity");
	CHECK(swap_is_plain(&head));
	for (; head.n_fields < HTTP_FIELDS_MAX; head.n_fields++)
		head.fields[head.n_fields] = head.fields[0];
	CHECK_ERR(swap_ask_plain(&head, NULL), E2BIG);
}

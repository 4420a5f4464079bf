/* egress_renew.c - tests of new values for secrets, and of exchanges that keep the old ones. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "egress/courier.h"
#include "egress/secrets.h"
#include "test.h"

static void
open_secrets(struct secrets *s)
{
	OWN(secret_list_free) struct secret_list list = {0};
	static const char text[] = "{version: 1, secrets: {a: {hosts: a.x}, b: {hosts: b.x}}}";
	static char fake[] = "placeholder-of-one", other[] = "placeholder-of-two";
	struct placeholder fakes[] = { { { NULL, fake, NULL } }, { { NULL, other, NULL } } };
	int fd = memfd_create("secrets", 0);
	struct err err = {0};

	CHECK_OK(secret_load_text("s", text, strlen(text), &list, &err));
	for (size_t i = 0; i < 2; i++) {
		OWN(secret_values_free) struct secret_values values = { .expires = 7 };

		CHECK_OK(guard_copy(&values.field[SECRET_SECRET], "first-value", 11, &err));
		CHECK_OK(bound_write(fd, list.at[i], &fakes[i], &values, &err));
	}
	CHECK_OK(secrets_open(s, fd, &err));
	close(fd);
}

static int
renew(struct secrets *s, const char *name, const char *value, struct err *err)
{
	OWN(guard_free) struct guard memory = {0};
	struct http_text real[SECRET_FIELDS] = { [SECRET_ID] = { "", 0 }, [SECRET_TOKEN] = { "", 0 } };

	CHECK_OK(guard_copy(&memory, value, strlen(value), NULL));
	real[SECRET_SECRET] = (struct http_text){ memory.at, memory.len };
	return secrets_renew(s, name, 99, real, &memory, err);
}

static bool
has(struct http_text text, const char *wanted)
{
	return text.len == strlen(wanted) && memcmp(text.at, wanted, text.len) == 0;
}

TEST(courier_renew_leaves_requests_under_way)
{
	OWN(secrets_close) struct secrets s = {0};
	struct secrets_view *before;

	open_secrets(&s);
	before = secrets_view_use(s.view);
	CHECK_OK(renew(&s, "b", "second-value", NULL));
	CHECK(s.view != before && s.view->n == 2 && before->n == 2);
	CHECK(has(s.view->leaving[1].find, "placeholder-of-two"));
	CHECK(has(s.view->leaving[1].with, "second-value"));
	CHECK(has(s.view->coming[1].find, "second-value"));
	CHECK(has(s.view->leaving[0].with, "first-value"));
	CHECK_U64(s.view->at[1]->expires, 99);
	CHECK_U64(s.view->at[0]->expires, 7);
	/* Whoever began with it has it still, also after another one. */
	CHECK(has(before->leaving[1].with, "first-value"));
	CHECK_U64(before->at[1]->expires, 7);
	secrets_view_release(before);
	before = secrets_view_use(s.view);
	CHECK_OK(renew(&s, "b", "third-value", NULL));
	CHECK(has(before->leaving[1].with, "second-value"));
	CHECK(has(s.view->leaving[1].with, "third-value"));
	secrets_view_release(before);
}

static bool
comes(const struct secrets_view *view, const char *value)
{
	for (size_t i = 0; i < view->n_coming; i++)
		if (has(view->coming[i].find, value) && has(view->coming[i].with, "placeholder-of-two"))
			return true;
	return false;
}

TEST(courier_renew_looks_for_earlier_values)
{
	OWN(secrets_close) struct secrets s = {0};
	struct err err = {0};

	open_secrets(&s);
	CHECK_OK(renew(&s, "b", "second-value", NULL));
	CHECK(comes(s.view, "first-value") && comes(s.view, "second-value"));
	CHECK_OK(renew(&s, "b", "third-value", NULL));
	CHECK_ERR(renew(&s, "b", "", &err), EBADMSG);
	CHECK(comes(s.view, "first-value") && comes(s.view, "second-value") && comes(s.view, "third-value"));
	CHECK_OK(renew(&s, "b", "fourth-value", NULL));
	CHECK(comes(s.view, "first-value") && comes(s.view, "third-value") && comes(s.view, "fourth-value"));
	/* It is never sent again. */
	CHECK_U64(s.view->n, 2);
}

TEST(courier_renew_refuses)
{
	OWN(secrets_close) struct secrets s = {0};
	const struct secrets_view *before;
	struct err err = {0};

	open_secrets(&s);
	before = s.view;
	CHECK_ERR(renew(&s, "c", "second-value", &err), ENOENT);
	/* A placeholder that stands for nothing would be sent as it is. */
	CHECK_ERR(renew(&s, "b", "", &err), EBADMSG);
	CHECK(s.view == before);
}

static struct token *
new_token(const struct secrets *s, size_t number, uint64_t expires)
{
	struct token *t = calloc(1, sizeof(*t));
	char text[32];

	CHECK(t != NULL);
	snprintf(text, sizeof(text), "real-token-%05zu", number);
	CHECK_OK(guard_copy(&t->memory, text, strlen(text), NULL));
	memcpy(text, "fake", 4);
	t->fake[SECRET_SECRET] = strdup(text);
	t->known = (struct bound_secret){ .secret = s->bound.at[0].secret, .expires = expires };
	t->known.real[SECRET_SECRET] = (struct http_text){ t->memory.at, t->memory.len };
	t->known.placeholder[SECRET_SECRET] = (struct http_text){ t->fake[SECRET_SECRET], strlen(text) };
	t->users = 1;
	return t;
}

static bool
comes_token(const struct secrets *s, const char *value)
{
	for (size_t i = 0; i < s->view->n_coming; i++)
		if (has(s->view->coming[i].find, value))
			return true;
	return false;
}

TEST(courier_tokens_that_are_good_stay)
{
	static struct courier c;
	struct token *tokens[TOKENS_MAX], *more;
	struct secrets *s = &c.secrets;
	struct err err = {0};

	open_secrets(s);
	for (size_t i = 0; i < TOKENS_MAX; i++)
		tokens[i] = new_token(s, i, i == 7 ? 1 : 0);
	CHECK_OK(secrets_add_tokens(&c, tokens, TOKENS_MAX, &err));
	CHECK(comes_token(s, "real-token-00000") && comes_token(s, "real-token-00007"));
	/* What has ended makes room; then there is none. */
	more = new_token(s, 1000, 0);
	CHECK_OK(secrets_add_tokens(&c, &more, 1, &err));
	CHECK(!comes_token(s, "real-token-00007"));
	more = new_token(s, 1001, 0);
	CHECK_ERR(secrets_add_tokens(&c, &more, 1, &err), ENOSPC);
	token_release(more);
	CHECK(comes_token(s, "real-token-00000") && comes_token(s, "real-token-00255") &&
	      comes_token(s, "real-token-01000") && !comes_token(s, "real-token-01001"));
	secrets_close(s);
}

TEST(courier_secret_ends)
{
	struct bound_secret known = {0};

	CHECK(!secret_has_ended(&known));
	known.expires = 7;
	CHECK(secret_has_ended(&known));
	known.expires = UINT64_MAX;
	CHECK(!secret_has_ended(&known));
}

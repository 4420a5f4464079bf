/* secret_short.c - parses the short form of secrets on the command line. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "policy/policy_yaml.h"
#include "vault/placeholder.h"
#include "vault/secret.h"

static int
copy_word(char *to, size_t size, const char *from, size_t len)
{
	if (len == 0 || len >= size)
		return -EINVAL;
	memcpy(to, from, len);
	to[len] = '\0';
	return 0;
}

/* Separated by commas. */
static bool
are_formats(const char *text)
{
	char word[SECRET_FILES_MAX + 1];
	size_t n;

	for (;; text += n + 1) {
		n = strcspn(text, ",");
		if (copy_word(word, sizeof(word), text, n) < 0 || placeholder_file_find(word) == NULL)
			return false;
		if (text[n] == '\0')
			return true;
	}
}

int
secret_short_parse(const char *text, struct secret_short *ret_short, struct err *err)
{
	struct secret_short s = {0};
	const char *at = strchr(text, '@');
	size_t all = at != NULL ? (size_t)(at - text) : strlen(text);
	const char *colon = memchr(text, ':', all);
	size_t len = colon != NULL ? (size_t)(colon - text) : all;
	const char *equals = memchr(text, '=', len);
	size_t name = equals != NULL ? (size_t)(equals - text) : len;

	/* The invalid text may be a value, so it is not repeated. */
	if (copy_word(s.name, sizeof(s.name), text, name) < 0 || !secret_name_ok(s.name))
		return err_set(err, EINVAL, "a secret is given as NAME, NAME=VARIABLE, NAME:FORMAT or "
		               "NAME@HOST");
	if (equals != NULL &&
	    (copy_word(s.env, sizeof(s.env), equals + 1, len - name - 1) < 0 ||
	     strspn(s.env, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") !=
	     strlen(s.env) || isdigit((unsigned char)s.env[0])))
		return err_set(err, EINVAL, "behind '%s=' stands the name of a variable in the cell, never "
		               "the value: `cloister secret add %s` takes that", s.name, s.name);
	if (colon != NULL && (copy_word(s.files, sizeof(s.files), colon + 1, all - len - 1) < 0 ||
	                      !are_formats(s.files)))
		return err_set(err, EINVAL, "behind '%s:' stand formats of files: " PLACEHOLDER_FORMAT_NAMES,
		               s.name);
	if (at != NULL && at[1] == '\0')
		return err_set(err, EINVAL, "there is no host behind '%s@'", s.name);
	if (at != NULL && strstr(at, "://") != NULL)
		return err_set(err, EINVAL, "behind '%s@' stands HOST or HOST:PORT, not a URL", s.name);
	s.hosts = at != NULL ? at + 1 : NULL;
	*ret_short = s;
	return 0;
}

int
secret_short_define(const struct secret_short *s, struct secret **ret_secret, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(4 * POLICY_TEXT_MAX);
	OWN(node_freep) struct node *root = NULL;
	const char *host;
	size_t n;
	int e;

	/* As YAML, so that there is one reader. */
	buf_put(&b, "{", 1);
	if (s->env[0] != '\0') {
		buf_put(&b, "env: ", 5);
		buf_put_text(&b, s->env);
		buf_put(&b, ", ", 2);
	}
	if (s->hosts != NULL)
		buf_put(&b, "hosts: [", 8);
	for (host = s->hosts; host != NULL; host = host[n] == ',' ? host + n + 1 : NULL) {
		n = strcspn(host, ",");
		if (memchr(host, '\'', n) != NULL)
			return err_set(err, EINVAL, "'%.64s' is not the name of a host", host);
		buf_put(&b, "'", 1);
		buf_put(&b, host, n);
		buf_put(&b, "', ", 3);
	}
	if (s->hosts != NULL)
		buf_put(&b, "]", 1);
	buf_put(&b, "}", 1);
	if (buf_failed(&b))
		return err_set(err, E2BIG, "the hosts of '%s' are too long", s->name);
	e = node_parse(s->name, (const char *)b.data, b.len, &root, err);
	return e == 0 ? secret_read(s->name, root, ret_secret, err) : e;
}

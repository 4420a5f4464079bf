/* policy_short.c - parses rules in the command line's short form. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_load.h"

struct shortcut {
	char text[POLICY_TEXT_MAX + 1]; /* taken apart in place */
	const char *methods, *scheme, *host, *path, *protocol;
};

static bool
is_methods(const char *word, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((word[i] < 'A' || word[i] > 'Z') && word[i] != ',' && word[i] != '-')
			return false;
	return len > 0;
}

/* In "10.0.0.0/8:443" the slash begins no path.  In "db:5432/tcp" it precedes the protocol. */
static void
split_slash(struct shortcut *s, char *host)
{
	char *slash = strchr(host, '/');

	s->host = host;
	if (slash == NULL)
		return;
	if (strspn(host, "0123456789.[]:abcdefABCDEF") == (size_t)(slash - host) &&
	    slash[1] >= '0' && slash[1] <= '9' && strpbrk(host, ".:") != NULL)
		slash = strchr(slash + 1, '/');
	if (slash == NULL)
		return;
	if (strcmp(slash, "/tcp") == 0 || strcmp(slash, "/tls") == 0)
		s->protocol = slash + 1;
	else
		s->path = slash;
}

/* Refuse HTTP rules for ports where another protocol is usual. */
static int
check_port(const char *host, struct err *err)
{
	static const struct {
		const char *end, *what;
	} ports[] = { { ":22", "SSH" }, { ":25", "SMTP" }, { ":3306", "MySQL" },
	              { ":5432", "PostgreSQL" }, { ":6379", "Redis" } };
	const char *colon = strrchr(host, ':');

	/* An address without brackets has no port. */
	if (colon != strchr(host, ':') && *host != '[')
		return 0;
	for (size_t i = 0; colon != NULL && i < ARRAY_LEN(ports); i++)
		if (strcmp(colon, ports[i].end) == 0)
			return err_set(err, EINVAL, "this would let HTTP through to the port of %s: write "
			               "%.100s/tcp for raw TCP", ports[i].what, host);
	return 0;
}

static int
check_split(const struct shortcut *s, const char *host, struct err *err)
{
	const char *scheme = strstr(host, "://");

	if (scheme != NULL && (s->path == NULL || scheme < s->path))
		return err_set(err, EINVAL, "there is no %.*s here: only http:// and https:// may stand in "
		               "front of a host, or /tcp behind its port for raw TCP",
		               (int)(scheme - host), host);
	if (*host == '-')
		return err_set(err, EINVAL, "'%.64s' is not the name of a host", host);
	if (s->path != NULL && strcmp(s->path, "/udp") == 0)
		return err_set(err, EINVAL, "UDP never leaves a cell; /tcp and /tls can stand there");
	return s->path == NULL && s->protocol == NULL && s->scheme == NULL && s->methods == NULL ?
	       check_port(host, err) : 0;
}

/* Refuse a single word that is probably not a host: such a rule would match nothing. */
static int
check_word(const char *word, struct err *err)
{
	static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS" };

	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (strcmp(word, methods[i]) == 0)
			return err_set(err, EINVAL, "the host is missing: '%s api.example.com', or '%s *' for "
			               "every host", word, word);
	if (policy_find_preset(word) != NULL)
		return err_set(err, EINVAL, "this is the name of a preset: write preset:%s, or https://%s for "
		               "a host that is called so", word, word);
	return 0;
}

static int
split(struct shortcut *s, const char *text, struct err *err)
{
	char *host = s->text, *space;

	if (strlen(text) > POLICY_TEXT_MAX / 2)
		return err_set(err, EINVAL, "this is too long");
	if (*text == '\0')
		return err_set(err, EINVAL, "there is no host");
	memcpy(s->text, text, strlen(text) + 1);
	if (policy_is_call(text)) {
		s->host = s->text;
		return 0;
	}
	space = strchr(host, ' ');
	if (space != NULL) {
		if (!is_methods(host, (size_t)(space - host)))
			return err_set(err, EINVAL, "methods stand in front of the host, in capitals: "
			               "'GET,POST api.example.com'");
		*space = '\0';
		s->methods = host;
		host = space + 1 + strspn(space + 1, " ");
	} else if (check_word(host, err) < 0) {
		return -EINVAL;
	}
	if (strchr(host, ' ') != NULL)
		return err_set(err, EINVAL, "one host at a time: give the other in a rule of its own");
	if (strncmp(host, "https://", 8) == 0 || strncmp(host, "http://", 7) == 0) {
		s->scheme = host[4] == 's' ? "https" : "http";
		host = strchr(host, '/') + 2;
	}
	split_slash(s, host);
	return check_split(s, host, err);
}

/* Written as YAML, so that there is only one parser of rules. */
static void
put_key(struct buf *b, const char *before, const char *text, size_t len)
{
	buf_put_text(b, before);
	node_put_quoted(b, text, len);
}

static void
write_rule(struct buf *b, const char *verb, const struct shortcut *s)
{
	const char *end = s->path != NULL ? s->path : s->protocol != NULL ? s->protocol - 1 :
	                  s->host + strlen(s->host);

	buf_put(b, "{", 1);
	buf_put_text(b, verb);
	put_key(b, ": ", s->host, (size_t)(end - s->host));
	if (s->path != NULL && strcmp(s->path, "/") != 0)
		put_key(b, ", paths: ", s->path, strlen(s->path));
	if (s->protocol != NULL)
		put_key(b, ", protocol: ", s->protocol, strlen(s->protocol));
	if (s->scheme != NULL)
		put_key(b, ", scheme: ", s->scheme, strlen(s->scheme));
	if (s->methods != NULL) {
		buf_put(b, ", methods: [", 12);
		buf_put_text(b, s->methods);
		buf_put(b, "]", 1);
	}
	buf_put(b, "}", 1);
}

static int
add_rule(struct policy *p, const char *text, const char *from, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(4 * POLICY_TEXT_MAX);
	OWN(node_freep) struct node *root = NULL;
	struct shortcut s = {0};
	struct policy_rule *rule;
	char place[POLICY_TEXT_MAX + 16];
	int r;

	r = split(&s, text, err);
	if (r < 0)
		return r;
	write_rule(&b, "allow", &s);
	if (buf_failed(&b))
		return err_set(err, ENOMEM, "out of memory");
	r = node_parse("", (const char *)b.data, b.len, &root, err);
	r = r == 0 ? policy_read_rule(p, root, "--allow", err) : r;
	if (r < 0)
		return r;
	rule = &p->rules[p->n_rules - 1];
	snprintf(place, sizeof(place), from != NULL ? "%s" : "--allow %s", from != NULL ? from : text);
	rule->place = policy_copy(p, place, strlen(place));
	return rule->place != NULL ? 0 : err_set(err, ENOMEM, "the policy is too large");
}

/* A rule may repeat an earlier `allow`.  One that an earlier rule refuses would have no effect. */
static int
check_reach(const struct policy *p, size_t first, struct err *err)
{
	for (size_t i = first; i < p->n_rules; i++) {
		const struct policy_rule *by = policy_who_covers(p, i);

		if (by != NULL && by->verb != POLICY_VERB_ALLOW)
			return err_set(err, EINVAL, "the rule at %s (%s) comes first, so that this would "
			               "never count: change that rule", by->place, by->text);
	}
	return 0;
}

/* Drop the place: it is a position in generated text. */
static int
wrap(struct err *err, const char *what, const char *text)
{
	char *rest = err != NULL ? strstr(err->text, ": ") : NULL;
	size_t digits = err != NULL ? strspn(err->text, ":0123456789") : 0;

	if (rest != NULL && err->text[0] == ':' && err->text + digits == rest + 1)
		memmove(err->text, rest + 2, strlen(rest + 2) + 1);
	return err_wrap(err, "%s '%.200s'", what, text);
}

/* "PLACE, preset:npm:3:5" for each rule of a preset, from FIRST on. */
static int
place_preset(struct policy *p, size_t first, const char *place, struct err *err)
{
	char text[POLICY_PLACE_MAX];

	for (size_t i = first; i < p->n_rules; i++) {
		struct policy_rule *rule = &p->rules[i];

		snprintf(text, sizeof(text), "%s, %s", place, rule->place);
		rule->place = policy_copy(p, text, strlen(text));
		if (rule->place == NULL)
			return err_set(err, ENOMEM, "the policy is too large");
	}
	return 0;
}

int
policy_add_short(struct policy **base, const char *text, struct err *err)
{
	return policy_add_short_from(base, text, NULL, err);
}

int
policy_add_short_from(struct policy **base, const char *text, const char *place, struct err *err)
{
	OWN(policy_freep) struct policy *fresh = NULL;
	struct err reason = {0};
	struct policy *p = *base;
	size_t first;
	int r;

	if (p == NULL)
		p = fresh = policy_new_empty();
	if (p == NULL)
		return err_set(err, ENOMEM, "out of memory");
	first = p->n_rules;
	if (strncmp(text, "preset:", 7) == 0)
		r = policy_load_preset(p, text + 7, &reason);
	else
		r = add_rule(p, text, place, &reason);
	if (r == 0 && place != NULL && strncmp(text, "preset:", 7) == 0)
		r = place_preset(p, first, place, &reason);
	r = r == 0 ? policy_settle_annotations(p, &reason) : r;
	r = r == 0 ? check_reach(p, first, &reason) : r;
	r = r == 0 ? policy_add_uncalled(p, &reason) : r;
	r = r == 0 ? policy_seal(p, &reason) : r;
	if (r < 0) {
		p->n_rules = first;
		if (fresh == NULL)
			policy_seal(p, NULL);
		wrap(&reason, "--allow", text);
		return err_set(err, -r, "%s", reason.text);
	}
	*base = p;
	fresh = NULL;
	return 0;
}

int
policy_put_short(struct buf *b, const char *verb, const char *what, const char *text,
                 struct err *err)
{
	struct shortcut s = {0};
	struct err reason = {0};
	int r = 0;

	if (strncmp(text, "preset:", 7) != 0) {
		r = split(&s, text, &reason);
		if (r == 0)
			write_rule(b, verb, &s);
	} else if (strcmp(verb, "allow") != 0) {
		r = err_set(&reason, EINVAL, "a preset can only be allowed");
	} else if (policy_find_preset(text + 7) == NULL) {
		const struct node node = { .file = "", .line = 1, .column = 1 };

		r = policy_no_preset(&node, text + 7, &reason);
	} else {
		put_key(b, "{include: ", text, strlen(text));
		buf_put(b, "}", 1);
	}
	if (r == 0 && buf_failed(b))
		r = err_set(&reason, ENOMEM, "out of memory");
	if (r < 0) {
		wrap(&reason, what, text);
		return err_set(err, -r, "%s", reason.text);
	}
	return 0;
}

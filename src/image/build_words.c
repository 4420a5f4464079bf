/* build_words.c - see build_words.h. */
#include "image/build_words.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "image/build_plan.h"

#define NESTED_MAX 8                    /* variables in defaults of variables */

struct expansion {
	const char *at, *word;
	char escape;
	const struct build_vars *first, *second;
	struct buf out;
};

void
build_vars_free(struct build_vars *vars)
{
	for (size_t i = 0; i < vars->n; i++) {
		free(vars->list[i].name);
		free(vars->list[i].value);
	}
	free(vars->list);
	*vars = (struct build_vars){0};
}

bool
build_vars_set(struct build_vars *vars, const char *name, const char *value)
{
	struct build_var *more;
	char *copy = strdup(value);

	if (copy == NULL)
		return false;
	for (size_t i = 0; i < vars->n; i++)
		if (strcmp(vars->list[i].name, name) == 0) {
			free(vars->list[i].value);
			vars->list[i].value = copy;
			return true;
		}
	more = vars->n >= BUILD_VARS_MAX ? NULL : reallocarray(vars->list, vars->n + 1, sizeof(*more));
	if (more != NULL) {
		vars->list = more;
		more[vars->n] = (struct build_var){ strdup(name), copy };
		if (more[vars->n].name != NULL) {
			vars->n++;
			return true;
		}
	}
	free(copy);
	return false;
}

const char *
build_vars_get(const struct build_vars *vars, const char *name)
{
	for (size_t i = 0; vars != NULL && i < vars->n; i++)
		if (strcmp(vars->list[i].name, name) == 0)
			return vars->list[i].value;
	return NULL;
}

static size_t
name_len(const char *text)
{
	size_t n = 0;

	if (!isalpha((unsigned char)text[0]) && text[0] != '_')
		return 0;
	while (isalnum((unsigned char)text[n]) || text[n] == '_')
		n++;
	return n;
}

bool
build_var_name_ok(const char *name, size_t len)
{
	return len > 0 && name_len(name) >= len;
}

int
build_word_len(const char *text, char escape, size_t *ret_len, struct err *err)
{
	const char *at = text;
	char quote = '\0';

	for (; *at != '\0' && (quote != '\0' || !isspace((unsigned char)*at)); at++) {
		if (*at == quote)
			quote = '\0';
		else if (quote == '\0' && (*at == '"' || *at == '\''))
			quote = *at;
		else if (*at == escape && quote != '\'' && at[1] != '\0')
			at++;
	}
	if (quote != '\0')
		return err_set(err, EINVAL, "a quote is not closed in: %.60s", text);
	*ret_len = (size_t)(at - text);
	return 0;
}

static const char *
value_of(const struct expansion *x, const char *name, size_t len)
{
	OWN(freep) char *copy = strndup(name, len);
	const char *value = NULL;

	if (copy != NULL)
		value = build_vars_get(x->first, copy);
	if (copy != NULL && value == NULL)
		value = build_vars_get(x->second, copy);
	return value;
}

static int expand_until(struct expansion *x, char end, int depth, struct err *err);

/* After "${NAME": an operator and another word, up to the bracket.  The word is parsed in any case. */
static int
expand_choice(struct expansion *x, const char *value, int depth, struct err *err)
{
	const bool colon = *x->at == ':';
	const char kind = x->at[colon];
	const bool set = value != NULL && (!colon || value[0] != '\0');
	const size_t before = x->out.len;
	int r;

	if (kind != '-' && kind != '+')
		return err_set(err, EINVAL, "only ${NAME}, ${NAME:-WORD} and ${NAME:+WORD} are known in: %.60s", x->word);
	if (depth >= NESTED_MAX)
		return err_set(err, EINVAL, "variables are nested too deeply in: %.60s", x->word);
	x->at += colon + 1;
	r = expand_until(x, '}', depth + 1, err);
	if (r == 0 && set == (kind == '-')) {
		x->out.len = before;
		buf_put_text(&x->out, set ? value : "");
	}
	return r;
}

static int
expand_variable(struct expansion *x, int depth, struct err *err)
{
	const bool bracket = x->at[1] == '{';
	const char *name = x->at + 1 + bracket, *value;
	const size_t len = name_len(name);
	int r = 0;

	if (len == 0 && !bracket) {
		buf_put(&x->out, x->at++, 1);
		return 0;
	}
	if (len == 0)
		return err_set(err, EINVAL, "a variable has no name in: %.60s", x->word);
	value = value_of(x, name, len);
	x->at = name + len;
	if (!bracket || *x->at == '}') {
		if (value != NULL)
			buf_put_text(&x->out, value);
	} else {
		r = expand_choice(x, value, depth, err);
	}
	if (r == 0 && bracket && *x->at != '}')
		return err_set(err, EINVAL, "a bracket is not closed in: %.60s", x->word);
	x->at += bracket;
	return r;
}

static int
expand_single(struct expansion *x, struct err *err)
{
	const char *end = strchr(x->at + 1, '\'');

	if (end == NULL)
		return err_set(err, EINVAL, "a quote is not closed in: %.60s", x->word);
	buf_put(&x->out, x->at + 1, (size_t)(end - x->at - 1));
	x->at = end + 1;
	return 0;
}

static int
expand_double(struct expansion *x, int depth, struct err *err)
{
	int r = 0;

	for (x->at++; r == 0 && *x->at != '"';) {
		if (*x->at == '\0')
			return err_set(err, EINVAL, "a quote is not closed in: %.60s", x->word);
		if (*x->at == x->escape && x->at[1] != '\0') {
			/* Another character keeps its escape. */
			if (x->at[1] != '"' && x->at[1] != '$' && x->at[1] != x->escape)
				buf_put(&x->out, x->at, 1);
			buf_put(&x->out, x->at + 1, 1);
			x->at += 2;
		} else if (*x->at == '$') {
			r = expand_variable(x, depth, err);
		} else {
			buf_put(&x->out, x->at++, 1);
		}
	}
	x->at += r == 0;
	return r;
}

static int
expand_until(struct expansion *x, char end, int depth, struct err *err)
{
	int r = 0;

	while (r == 0 && *x->at != end && *x->at != '\0') {
		if (*x->at == '\'')
			r = expand_single(x, err);
		else if (*x->at == '"')
			r = expand_double(x, depth, err);
		else if (*x->at == '$')
			r = expand_variable(x, depth, err);
		else {
			x->at += *x->at == x->escape && x->at[1] != '\0';
			buf_put(&x->out, x->at++, 1);
		}
	}
	return r;
}

int
build_word_expand(const char *word, char escape, const struct build_vars *first, const struct build_vars *second,
                  char **ret_text, struct err *err)
{
	struct expansion x = { .at = word, .word = word, .escape = escape, .first = first, .second = second,
		.out = BUF(BUILD_TEXT_MAX) };
	int r = expand_until(&x, '\0', 0, err);

	buf_put(&x.out, "", 1);
	if (r == 0 && buf_failed(&x.out))
		r = err_set(err, E2BIG, "it is over %u KiB, with its variables replaced: %.60s", BUILD_TEXT_MAX >> 10, word);
	if (r < 0)
		buf_free(&x.out);
	else
		*ret_text = (char *)x.out.data;
	return r;
}

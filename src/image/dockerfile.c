/* dockerfile.c - parses a Dockerfile into a plan.
 *
 * An instruction that is not in the table is an error: leaving it out would make another image than its author
 * meant. */
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "image/build_plan.h"
#include "image/build_words.h"

#define SPACES " \t\r\n\v\f"
#define NAME_MAX_LEN 32

struct reader {
	const char *file;
	const char *at, *end;
	unsigned line;                  /* of the instruction */
	unsigned next;                  /* of the text at AT */
	struct build_plan *plan;
	struct buf text;                /* the instruction as one line */
};

static int
fail(const struct reader *d, struct err *err, const char *why)
{
	return err_set(err, EINVAL, "%s:%u: %s", d->file, d->line, why);
}

static int
wrap(const struct reader *d, struct err *err)
{
	return err_wrap(err, "%s:%u", d->file, d->line);
}

static int
no_room(const struct reader *d, struct err *err)
{
	return fail(d, err, "it has too many instructions or words, or there is too little memory");
}

/* ---- lines ---- */

struct line {
	const char *text;
	size_t len;                     /* without spaces at its end */
};

static bool
next_line(struct reader *d, struct line *ret_line)
{
	const char *newline;

	if (d->at == d->end)
		return false;
	newline = memchr(d->at, '\n', (size_t)(d->end - d->at));
	ret_line->text = d->at;
	ret_line->len = (size_t)((newline != NULL ? newline : d->end) - d->at);
	d->at = newline != NULL ? newline + 1 : d->end;
	d->next++;
	while (ret_line->len > 0 && isspace((unsigned char)ret_line->text[ret_line->len - 1]))
		ret_line->len--;
	return true;
}

/* Blank lines and comments. */
static bool
is_nothing(const struct line *line)
{
	size_t i = 0;

	while (i < line->len && isspace((unsigned char)line->text[i]))
		i++;
	return i == line->len || line->text[i] == '#';
}

/* "# escape=`", in the lines before anything else. */
static int
read_directive(struct reader *d, const struct line *line, bool *ret_more, struct err *err)
{
	OWN(freep) char *text = strndup(line->text, line->len);
	char *name, *value;

	*ret_more = false;
	if (text == NULL)
		return no_room(d, err);
	name = text + strspn(text, SPACES "#");
	value = strchr(name, '=');
	if (text[strspn(text, SPACES)] != '#' || value == NULL)
		return 0;
	*value++ = '\0';
	name[strcspn(name, SPACES)] = '\0';
	value += strspn(value, SPACES);
	*ret_more = strcasecmp(name, "escape") == 0 || strcasecmp(name, "syntax") == 0 || strcasecmp(name, "check") == 0;
	if (strcasecmp(name, "escape") != 0)
		return 0;
	if (strcmp(value, "\\") != 0 && strcmp(value, "`") != 0)
		return fail(d, err, "the escape character can only be \\ or `");
	d->plan->escape = value[0];
	return 0;
}

static int
read_directives(struct reader *d, struct err *err)
{
	struct line line;
	bool more = true;
	int r = 0;

	while (r == 0 && more) {
		const char *at = d->at;
		const unsigned next = d->next;

		d->line = next;
		more = next_line(d, &line);
		if (more)
			r = read_directive(d, &line, &more, err);
		if (!more) {
			d->at = at;
			d->next = next;
		}
	}
	return r;
}

static bool
is_continued(const struct line *line, char escape)
{
	return line->len > 0 && line->text[line->len - 1] == escape &&
	       (line->len == 1 || line->text[line->len - 2] != escape);
}

/* One instruction into d->text, NUL-terminated.  False at the end of the file. */
static bool
next_instruction(struct reader *d)
{
	struct line line = {0};
	bool continued = true;

	buf_reset(&d->text);
	while (continued) {
		const unsigned number = d->next;

		if (!next_line(d, &line))
			break;
		if (is_nothing(&line))
			continue;
		if (d->text.len == 0)
			d->line = number;
		continued = is_continued(&line, d->plan->escape);
		buf_put(&d->text, line.text, line.len - continued);
	}
	if (d->text.len == 0)
		return false;
	buf_put(&d->text, "", 1);
	return true;
}

/* ---- words ---- */

static int
add_word(struct reader *d, struct build_step *step, const char *word, size_t len, struct err *err)
{
	return build_step_add_word(step, word, len) ? 0 : no_room(d, err);
}

static int
add_words(struct reader *d, struct build_step *step, const char *text, struct err *err)
{
	size_t len;
	int r = 0;

	for (text += strspn(text, SPACES); r == 0 && *text != '\0'; text += strspn(text, SPACES)) {
		r = build_word_len(text, d->plan->escape, &len, err);
		if (r < 0)
			return wrap(d, err);
		r = add_word(d, step, text, len, err);
		text += len;
	}
	return r;
}

/* ["a", "b"], if it is one; otherwise step->exec stays false. */
static int
add_json(struct reader *d, struct build_step *step, const char *text, struct err *err)
{
	json_t *list = text[0] == '[' ? json_loads(text, 0, NULL) : NULL, *item;
	size_t i, n = 0;
	int r = 0;

	json_array_foreach(list, i, item)
		n += json_is_string(item) && strlen(json_string_value(item)) == json_string_length(item);
	step->exec = json_is_array(list) && n == json_array_size(list);
	if (step->exec)
		json_array_foreach(list, i, item)
			if (r == 0)
				r = add_word(d, step, json_string_value(item), json_string_length(item), err);
	json_decref(list);
	return r;
}

/* As newer Docker files have it: "<<EOF", "2<<-'EOF'". */
static bool
is_heredoc(const char *word, size_t len)
{
	size_t i = strspn(word, "0123456789");

	if (i + 2 >= len || word[i] != '<' || word[i + 1] != '<')
		return false;
	i += 2 + (word[i + 2] == '-');
	return i < len && memchr(word + i, '<', len - i) == NULL;
}

static int
refuse_heredoc(const struct reader *d, const char *text, struct err *err)
{
	size_t len;

	for (text += strspn(text, SPACES); *text != '\0'; text += len + strspn(text + len, SPACES)) {
		len = strcspn(text, SPACES);
		if (is_heredoc(text, len))
			return err_set(err, EINVAL, "%s:%u: '%.*s': here-documents are not supported, put the text into a file",
			               d->file, d->line, (int)len, text);
	}
	return 0;
}

/* ---- flags ---- */

struct flag {
	const char *name;
	char **value;
};

/* Takes the "--NAME=VALUE" at the start of *TEXT. */
static int
take_flags(struct reader *d, const char **text, const struct flag *flags, size_t n, struct err *err)
{
	while (strncmp(*text, "--", 2) == 0) {
		const size_t len = strcspn(*text, SPACES), name = strcspn(*text + 2, "=" SPACES);
		size_t i = 0;

		while (i < n && (strncmp(*text + 2, flags[i].name, name) != 0 || flags[i].name[name] != '\0'))
			i++;
		if (i == n || (*text)[2 + name] != '=')
			return err_set(err, EINVAL, "%s:%u: the flag '%.*s' is not supported", d->file, d->line, (int)len, *text);
		free(*flags[i].value);
		*flags[i].value = strndup(*text + name + 3, len - name - 3);
		if (*flags[i].value == NULL)
			return no_room(d, err);
		*text += len;
		*text += strspn(*text, SPACES);
	}
	return 0;
}

/* ---- instructions ---- */

static int
read_command(struct reader *d, struct build_step *step, const char *text, struct err *err)
{
	int r = take_flags(d, &text, &(struct flag){0}, 0, err);

	if (r == 0)
		r = refuse_heredoc(d, text, err);
	if (r == 0)
		r = add_json(d, step, text, err);
	if (r < 0 || step->exec)
		return r;
	return add_word(d, step, text, strlen(text), err);
}

static int
read_copy(struct reader *d, struct build_step *step, const char *text, struct err *err)
{
	/* Docker's ADD has no --from. */
	const struct flag flags[] = { { "chown", &step->chown }, { "chmod", &step->chmod }, { "from", &step->from } };
	int r = take_flags(d, &text, flags, ARRAY_LEN(flags) - (step->kind == BUILD_ADD), err);

	if (r == 0)
		r = refuse_heredoc(d, text, err);
	if (r == 0)
		r = add_json(d, step, text, err);
	if (r == 0 && !step->exec)
		r = add_words(d, step, text, err);
	if (r == 0 && step->n_words < 2)
		return fail(d, err, "it needs a source and a target");
	return r;
}

/* "NAME VALUE": the value is the rest of the line, and its quotes are removed later. */
static int
read_one_pair(struct reader *d, struct build_step *step, const char *text, struct err *err)
{
	const size_t name = strcspn(text, SPACES);
	const char *value = text + name + strspn(text + name, SPACES);
	int r;

	if (value[0] == '\0')
		return fail(d, err, "a name needs a value: NAME=VALUE");
	r = add_word(d, step, text, name, err);
	return r < 0 ? r : add_word(d, step, value, strlen(value), err);
}

static int
read_pairs(struct reader *d, struct build_step *step, const char *text, struct err *err)
{
	size_t len, name = strcspn(text, "=" SPACES);
	int r = 0;

	if (text[name] != '=')
		return read_one_pair(d, step, text, err);
	for (; r == 0 && *text != '\0'; text += strspn(text, SPACES)) {
		r = build_word_len(text, d->plan->escape, &len, err);
		if (r < 0)
			return wrap(d, err);
		name = strcspn(text, "=" SPACES);
		if (name == 0 || name >= len)
			return err_set(err, EINVAL, "%s:%u: '%.*s' is not NAME=VALUE", d->file, d->line, (int)len, text);
		r = add_word(d, step, text, name, err);
		if (r == 0)
			r = add_word(d, step, text + name + 1, len - name - 1, err);
		text += len;
	}
	return r;
}

static int
read_arg(struct reader *d, struct build_step *step, const char *text, struct err *err)
{
	int r = add_words(d, step, text, err);

	for (size_t i = 0; r == 0 && i < step->n_words; i++)
		if (!build_var_name_ok(step->words[i], strcspn(step->words[i], "=")))
			r = err_set(err, EINVAL, "%s:%u: '%s' is not the name of a variable", d->file, d->line, step->words[i]);
	return r;
}

static int
read_env(struct reader *d, struct build_step *step, const char *text, struct err *err)
{
	int r = read_pairs(d, step, text, err);

	for (size_t i = 0; r == 0 && i < step->n_words; i += 2)
		if (!build_var_name_ok(step->words[i], strlen(step->words[i])))
			r = err_set(err, EINVAL, "%s:%u: '%s' is not the name of a variable", d->file, d->line, step->words[i]);
	return r;
}

static int
read_line(struct reader *d, struct build_step *step, const char *text, struct err *err)
{
	return add_word(d, step, text, strlen(text), err);
}

typedef int read_step(struct reader *, struct build_step *, const char *, struct err *);

static read_step *const readers[] = {
	[BUILD_ADD] = read_copy, [BUILD_ARG] = read_arg, [BUILD_CMD] = read_command, [BUILD_COPY] = read_copy,
	[BUILD_ENTRYPOINT] = read_command, [BUILD_ENV] = read_env, [BUILD_EXPOSE] = add_words,
	[BUILD_LABEL] = read_pairs, [BUILD_RUN] = read_command, [BUILD_USER] = read_line, [BUILD_WORKDIR] = read_line,
};

/* FROM [--platform=P] BASE [AS NAME] */
static int
read_from(struct reader *d, const char *text, struct err *err)
{
	struct build_stage *stage = build_plan_add_stage(d->plan, d->line, "");
	struct build_step words = {0};
	const struct flag flags[] = { { "platform", stage == NULL ? NULL : &stage->platform } };
	int r = stage == NULL ? no_room(d, err) : take_flags(d, &text, flags, 1, err);

	if (r == 0)
		r = add_words(d, &words, text, err);
	if (r == 0 && words.n_words != 1 && (words.n_words != 3 || strcasecmp(words.words[1], "as") != 0))
		r = fail(d, err, "it is not FROM IMAGE, nor FROM IMAGE AS NAME");
	for (size_t i = 0; i < words.n_words; i++) {
		char **place = r < 0 ? NULL : i == 0 ? &stage->base : i == 2 ? &stage->name : NULL;

		if (place != NULL) {
			free(*place);
			*place = TAKE(words.words[i]);
		}
		free(words.words[i]);
	}
	free(words.words);
	return r;
}

static int
read_step_of(struct reader *d, enum build_kind kind, const char *line, const char *text, struct err *err)
{
	struct build_plan *p = d->plan;
	struct build_stage *stage = p->n_stages == 0 ? NULL : &p->stages[p->n_stages - 1];
	struct build_step *step;

	if (stage == NULL && kind != BUILD_ARG)
		return fail(d, err, "the first instruction must be FROM, or ARG");
	step = build_plan_add_step(p, stage, kind, d->line, line);
	return step == NULL ? no_room(d, err) : readers[kind](d, step, text, err);
}

static int
read_instruction(struct reader *d, struct err *err)
{
	static const struct { const char *name, *instead; } others[] = {
		{ "HEALTHCHECK", "leave it out, nothing here would check it" },
		{ "MAINTAINER", "write LABEL maintainer=..." },
		{ "ONBUILD", "write its instruction into the Dockerfile that it is for" },
		{ "SHELL", "write RUN [\"/bin/bash\", \"-c\", \"...\"]" },
		{ "STOPSIGNAL", "leave it out, `cloister stop` sends SIGTERM" },
		{ "VOLUME", "leave it out, and grant a folder with `cloister run -v`" },
	};
	char *line = (char *)d->text.data + strspn((char *)d->text.data, SPACES);
	const size_t len = strcspn(line, SPACES);
	const char *text = line + len + strspn(line + len, SPACES);
	char name[NAME_MAX_LEN + 1] = "";

	if (len <= NAME_MAX_LEN)
		memcpy(name, line, len);
	if (text[0] == '\0')
		return err_set(err, EINVAL, "%s:%u: the instruction '%.*s' needs arguments", d->file, d->line, (int)len, line);
	if (strcasecmp(name, "FROM") == 0)
		return read_from(d, text, err);
	for (int i = 0; build_kind_names[i] != NULL; i++)
		if (strcasecmp(name, build_kind_names[i]) == 0)
			return read_step_of(d, (enum build_kind)i, line, text, err);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (strcasecmp(name, others[i].name) == 0)
			return err_set(err, EINVAL, "%s:%u: the instruction %s is not supported: %s", d->file, d->line, others[i].name,
			               others[i].instead);
	return err_set(err, EINVAL, "%s:%u: there is no instruction '%.*s'", d->file, d->line,
	               len > NAME_MAX_LEN ? NAME_MAX_LEN : (int)len, line);
}

static int
read_all(struct reader *d, struct err *err)
{
	int r = read_directives(d, err);

	while (r == 0 && next_instruction(d)) {
		r = buf_failed(&d->text) ? no_room(d, err) : read_instruction(d, err);
	}
	if (r == 0 && d->plan->n_stages == 0)
		r = err_set(err, EINVAL, "%s: it has no FROM", d->file);
	return r;
}

int
build_plan_dockerfile(const char *file, const char *text, size_t len, struct build_plan **ret_plan, struct err *err)
{
	OWN(build_plan_freep) struct build_plan *plan = calloc(1, sizeof(*plan));
	struct reader d = { .file = file, .at = text, .end = text + len, .line = 1, .next = 1, .plan = plan,
		.text = BUF(BUILD_FILE_MAX + 1) };
	int r;

	if (plan == NULL)
		return err_set(err, ENOMEM, "out of memory");
	plan->escape = '\\';
	if (len > BUILD_FILE_MAX)
		return err_set(err, EFBIG, "%s: it is over %u MiB", file, BUILD_FILE_MAX >> 20);
	if (memchr(text, '\0', len) != NULL)
		return err_set(err, EINVAL, "%s: it is not a text", file);
	r = read_all(&d, err);
	buf_free(&d.text);
	if (r == 0)
		*ret_plan = TAKE(plan);
	return r;
}

/* image_build.c - tests of image/build_words, image/dockerfile and image/build_yaml. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "image/build_plan.h"
#include "image/build_words.h"
#include "test.h"

/* ---- words ---- */

static const struct {
	const char *word, *want;        /* NULL: an error */
} word_cases[] = {
	{ "a",                   "a" },
	{ "'a b'",               "a b" },
	{ "\"a b\"",             "a b" },
	{ "a\\ b",               "a b" },
	{ "'$X'",                "$X" },
	{ "\"$X\"",              "ex" },
	{ "$X/$X",               "ex/ex" },
	{ "${X}y",               "exy" },
	{ "$Xy",                 "" },
	{ "\\$X",                "$X" },
	{ "\"\\$X\"",            "$X" },
	{ "\"\\a\"",             "\\a" },
	{ "\"\\\"\"",            "\"" },
	{ "$NONE",               "" },
	{ "${NONE:-d}",          "d" },
	{ "${NONE-d}",           "d" },
	{ "${EMPTY:-d}",         "d" },
	{ "${EMPTY-d}",          "" },
	{ "${X:-d}",             "ex" },
	{ "${X:+p}",             "p" },
	{ "${NONE:+p}",          "" },
	{ "${EMPTY:+p}",         "" },
	{ "${EMPTY+p}",          "p" },
	{ "${NONE:-${X:-z}}/a",  "ex/a" },
	{ "${NONE:-'a}b'}",      "a}b" },
	{ "${X:+${NONE:-q}}",    "q" },
	{ "$SECOND",             "two" },
	{ "a$",                  "a$" },
	{ "a$1",                 "a$1" },
	{ "\\",                  "\\" },
	{ "'it'\\''s'",          "it's" },
	{ "${X",                 NULL },
	{ "${}",                 NULL },
	{ "${X:?e}",             NULL },
	{ "${X#e}",              NULL },
	{ "'a",                  NULL },
	{ "\"a",                 NULL },
	{ "\"a\\",               NULL },
	{ "${N:-${N:-${N:-${N:-${N:-${N:-${N:-${N:-${N:-a}}}}}}}}}", NULL },
};

TEST(build_word_expand)
{
	OWN(build_vars_free) struct build_vars first = {0}, second = {0};

	CHECK(build_vars_set(&first, "X", "before") && build_vars_set(&first, "EMPTY", ""));
	CHECK(build_vars_set(&first, "X", "ex") && first.n == 2);
	CHECK(build_vars_set(&second, "X", "hidden") && build_vars_set(&second, "SECOND", "two"));
	for (size_t i = 0; i < ARRAY_LEN(word_cases); i++) {
		OWN(freep) char *got = NULL;
		struct err err = {0};
		int r = build_word_expand(word_cases[i].word, '\\', &first, &second, &got, &err);

		if ((r == 0) != (word_cases[i].want != NULL) || (r == 0 && strcmp(got, word_cases[i].want) != 0))
			test_fail(__FILE__, __LINE__, "%s: %s %s", word_cases[i].word, r == 0 ? got : "error", err.text);
	}
}

/* ---- plans ---- */

static void
put_step(struct buf *b, const struct build_step *s)
{
	buf_put_decimal(b, s->line);
	buf_put_text(b, " ");
	buf_put_text(b, build_kind_names[s->kind]);
	buf_put_text(b, s->exec ? "!" : "");
	if (s->from != NULL) {
		buf_put_text(b, " from=");
		buf_put_text(b, s->from);
	}
	if (s->chown != NULL) {
		buf_put_text(b, " chown=");
		buf_put_text(b, s->chown);
	}
	if (s->chmod != NULL) {
		buf_put_text(b, " chmod=");
		buf_put_text(b, s->chmod);
	}
	for (size_t i = 0; i < s->n_words; i++) {
		buf_put_text(b, "|");
		buf_put_text(b, s->words[i]);
	}
	buf_put_text(b, ";");
}

static void
put_plan(struct buf *b, const struct build_plan *p)
{
	for (size_t i = 0; i < p->n_globals; i++)
		put_step(b, &p->globals[i]);
	for (size_t i = 0; i < p->n_stages; i++) {
		const struct build_stage *s = &p->stages[i];

		buf_put_text(b, "FROM ");
		buf_put_text(b, s->base);
		if (s->platform != NULL) {
			buf_put_text(b, " on ");
			buf_put_text(b, s->platform);
		}
		if (s->name != NULL) {
			buf_put_text(b, " as ");
			buf_put_text(b, s->name);
		}
		buf_put_text(b, ";");
		for (size_t n = 0; n < s->n_steps; n++)
			put_step(b, &s->steps[n]);
	}
	buf_put(b, "", 1);
}

typedef int parse_plan(const char *, const char *, size_t, struct build_plan **, struct err *);

/* WANT, or the error that begins with "F:". */
static void
check_plan(parse_plan *parse, const char *text, const char *want)
{
	OWN(build_plan_freep) struct build_plan *plan = NULL;
	OWN(buf_free) struct buf b = BUF(1 << 20);
	struct err err = {0};
	int r = parse("F", text, strlen(text), &plan, &err);

	if (r == 0)
		put_plan(&b, plan);
	if (strncmp(want, "F:", 2) == 0 ? r == 0 || strncmp(err.text, want, strlen(want)) != 0 :
	    r < 0 || strcmp((char *)b.data, want) != 0)
		test_fail(__FILE__, __LINE__, "%s\n  want: %s\n  got:  %s", text, want, r == 0 ? (char *)b.data : err.text);
}

static const struct {
	const char *text, *want;
} docker_cases[] = {
	{ "FROM a", "FROM a;" },
	{ "from a\nrun x  y ", "FROM a;2 RUN|x  y;" },
	{ "FROM a:1 AS b\nFROM b", "FROM a:1 as b;FROM b;" },
	{ "FROM --platform=linux/amd64 a as b", "FROM a on linux/amd64 as b;" },
	{ "ARG V=1\nFROM a:$V", "1 ARG|V=1;FROM a:$V;" },
	{ "# c\n\nFROM a\n  # c\nRUN a \\\n  # c\n\n  && b\\\n c\nCMD x", "FROM a;5 RUN|a   && b c;10 CMD|x;" },
	{ "FROM a\r\nRUN x \\\r\n y\r\n", "FROM a;2 RUN|x  y;" },
	{ "FROM a\nRUN x \\  \n y", "FROM a;2 RUN|x  y;" },
	{ "FROM a\nRUN x\\\\\nCMD y", "FROM a;2 RUN|x\\\\;3 CMD|y;" },
	{ "# escape=`\nFROM a\nRUN c:\\ `\n d", "FROM a;3 RUN|c:\\  d;" },
	{ "# syntax=docker/dockerfile:1\n# escape=`\nFROM a\nRUN b `\n c", "FROM a;4 RUN|b  c;" },
	{ "# a comment\n# escape=`\nFROM a\nRUN b \\\n c", "FROM a;4 RUN|b  c;" },
	{ "FROM a\nRUN [\"a\", \"b c\"]", "FROM a;2 RUN!|a|b c;" },
	{ "FROM a\nRUN [ \"a\" ] && b", "FROM a;2 RUN|[ \"a\" ] && b;" },
	{ "FROM a\nRUN ['a']", "FROM a;2 RUN|['a'];" },
	{ "FROM a\nRUN [\"a\", 1]", "FROM a;2 RUN|[\"a\", 1];" },
	{ "FROM a\nENTRYPOINT []", "FROM a;2 ENTRYPOINT!;" },
	{ "FROM a\nCOPY a b /c/", "FROM a;2 COPY|a|b|/c/;" },
	{ "FROM a\nCOPY \"a b\" c\\ d /e", "FROM a;2 COPY|\"a b\"|c\\ d|/e;" },
	{ "FROM a\nCOPY --from=x --chown=1:2 --chmod=755 a /b", "FROM a;2 COPY from=x chown=1:2 chmod=755|a|/b;" },
	{ "FROM a\nCOPY [\"a b\", \"/c\"]", "FROM a;2 COPY!|a b|/c;" },
	{ "FROM a\nADD --chown=1 x /", "FROM a;2 ADD chown=1|x|/;" },
	{ "FROM a\nENV A=1 B=\"2 3\" C=a\\ b", "FROM a;2 ENV|A|1|B|\"2 3\"|C|a\\ b;" },
	{ "FROM a\nENV A b c", "FROM a;2 ENV|A|b c;" },
	{ "FROM a\nENV A=", "FROM a;2 ENV|A|;" },
	{ "FROM a\nLABEL a.b=c d=\"e f\"", "FROM a;2 LABEL|a.b|c|d|\"e f\";" },
	{ "FROM a\nEXPOSE 80 53/udp", "FROM a;2 EXPOSE|80|53/udp;" },
	{ "FROM a\nARG A B=2", "FROM a;2 ARG|A|B=2;" },
	{ "FROM a\nUSER u:g\nWORKDIR /a b", "FROM a;2 USER|u:g;3 WORKDIR|/a b;" },
	{ "FROM a\nRUN echo $((1<<2)) <<<x", "FROM a;2 RUN|echo $((1<<2)) <<<x;" },
	/* errors */
	{ "", "F: it has no FROM" },
	{ "# c\n", "F: it has no FROM" },
	{ "RUN x", "F:1: the first instruction must be FROM" },
	{ "ENV a=b\nFROM x", "F:1: the first instruction must be FROM" },
	{ "FROM", "F:1: the instruction 'FROM' needs arguments" },
	{ "FROM a b", "F:1: it is not FROM IMAGE" },
	{ "FROM a AS", "F:1: it is not FROM IMAGE" },
	{ "FROM a\n\nFOO bar", "F:3: there is no instruction 'FOO'" },
	{ "FROM a\nSHELL [\"x\"]", "F:2: the instruction SHELL is not supported" },
	{ "FROM a\nVOLUME /x", "F:2: the instruction VOLUME is not supported" },
	{ "FROM a\nONBUILD RUN x", "F:2: the instruction ONBUILD is not supported" },
	{ "FROM a\nHEALTHCHECK NONE", "F:2: the instruction HEALTHCHECK is not supported" },
	{ "FROM a\nRUN --mount=type=cache,target=/x y", "F:2: the flag '--mount=type=cache,target=/x' is not" },
	{ "FROM a\nRUN --network=none y", "F:2: the flag" },
	{ "FROM a\nCOPY --link a b", "F:2: the flag '--link' is not" },
	{ "FROM a\nADD --from=x a b", "F:2: the flag '--from=x' is not" },
	{ "FROM a\nCOPY a", "F:2: it needs a source and a target" },
	{ "FROM a\nRUN <<EOF\nx\nEOF", "F:2: '<<EOF': here-documents" },
	{ "FROM a\nRUN cat <<-'E' >x\nx\nE", "F:2: '<<-'E'': here-documents" },
	{ "FROM a\nCOPY <<E /x\nE", "F:2: '<<E': here-documents" },
	{ "FROM a\nENV A", "F:2: a name needs a value" },
	{ "FROM a\nENV A=1 B", "F:2: 'B' is not NAME=VALUE" },
	{ "FROM a\nENV 1A=1", "F:2: '1A' is not the name of a variable" },
	{ "FROM a\nENV A=\"1", "F:2: a quote is not closed" },
	{ "FROM a\nARG a-b", "F:2: 'a-b' is not the name" },
	{ "# escape=x\nFROM a", "F:1: the escape character" },
};

TEST(build_dockerfile)
{
	for (size_t i = 0; i < ARRAY_LEN(docker_cases); i++)
		check_plan(build_plan_dockerfile, docker_cases[i].text, docker_cases[i].want);
}

TEST(build_stages_are_found)
{
	static const char text[] = "FROM a AS one\nFROM b\nFROM c AS One\n";
	OWN(build_plan_freep) struct build_plan *plan = NULL;

	CHECK_OK(build_plan_dockerfile("F", text, strlen(text), &plan, NULL));
	CHECK(build_plan_find(plan, "one", 1) == 0);
	CHECK(build_plan_find(plan, "one", 3) == 2);
	CHECK(build_plan_find(plan, "1", 3) == 1);
	CHECK(build_plan_find(plan, "1", 1) == -1);
	CHECK(build_plan_find(plan, "0", 0) == -1);
	CHECK(build_plan_find(plan, "two", 3) == -1);
}

TEST(build_bounds)
{
	OWN(buf_free) struct buf b = BUF(2 * BUILD_FILE_MAX);
	OWN(build_plan_freep) struct build_plan *plan = NULL;

	buf_put_text(&b, "FROM a\n");
	for (int i = 0; i < BUILD_STEPS_MAX; i++)
		buf_put_text(&b, "USER a\n");
	CHECK_OK(build_plan_dockerfile("F", (char *)b.data, b.len, &plan, NULL));
	buf_put_text(&b, "USER a\n");
	CHECK_ERR(build_plan_dockerfile("F", (char *)b.data, b.len, &plan, NULL), EINVAL);
	while (b.len <= BUILD_FILE_MAX)
		buf_put_text(&b, "# a comment\n");
	CHECK_ERR(build_plan_dockerfile("F", (char *)b.data, b.len, &plan, NULL), EFBIG);
	CHECK_ERR(build_plan_dockerfile("F", "FROM a\0b", 8, &plan, NULL), EINVAL);
}

static const struct {
	const char *text, *want;
} yaml_cases[] = {
	{ "base: a:1", "FROM 'a:1';" },
	{ "base: scratch\nenv: {A: it's, B: 1}", "FROM 'scratch';2 ENV|'A'|'it'\\''s'|'B'|'1';" },
	{ "cmd: [a, b c]\nbase: a\nentrypoint: x y", "FROM 'a';3 ENTRYPOINT|x y;1 CMD!|a|b c;" },
	{ "base: a\nfiles:\n- {from: x, to: /y, owner: '1:2', mode: '0644'}",
	  "FROM 'a';3 COPY chown='1:2' chmod='0644'|'x'|'/y';" },
	{ "base: a\nrun: [a, 'b $X']", "FROM 'a';2 RUN|a;2 RUN|b $X;" },
	{ "base: a\nuser: $u\nworkdir: /w", "FROM 'a';3 WORKDIR|'/w';2 USER|'$u';" },
	{ "base: a\npackages: {apk: [x, y=1]}", "FROM 'a';2 RUN|apk add --no-cache 'x' 'y=1';" },
	{ "base: a\npackages: {npm: ['@a/b@^1']}",
	  "FROM 'a';2 RUN|npm install --global --no-audit --no-fund --no-update-notifier '@a/b@^1'"
	  " && rm -rf \"$HOME/.npm\";" },
	{ "base: a\nlabels: {a.b: c}", "FROM 'a';2 LABEL|'a.b'|'c';" },
	{ "", "F:1:1: it needs a base" },
	{ "- a", "F:1:1: it needs a base" },
	{ "base: [a]", "F:1:7: base must be a text" },
	{ "base: a\npolicy: x", "F:2:1: there is no 'policy'" },
	{ "base: a\npackages: {yum: [x]}", "F:2:12: there is no 'yum'" },
	{ "base: a\npackages: {apt: ['-o=x']}", "F:2:18: '-o=x' is not the name of a package" },
	{ "base: a\npackages: {apt: [\"a'; b\"]}", "F:2:18: 'a'; b' is not the name of a package" },
	{ "base: a\npackages: {apt: [\"a\\nb\"]}", "F:2:18: 'a" },
	{ "base: a\npackages: {apt: x}", "F:2:17: apt must be a list" },
	{ "base: a\nfiles: [{from: x}]", "F:2:9: a file needs from and to" },
	{ "base: a\nfiles: [{from: x, to: y, chmod: 1}]", "F:2:26: there is no 'chmod' here" },
	{ "base: a\nenv: {a-b: c}", "F:2:7: 'a-b' is not the name of a variable" },
	{ "base: a\nrun: x", "F:2:6: run must be a list" },
};

TEST(build_yaml)
{
	for (size_t i = 0; i < ARRAY_LEN(yaml_cases); i++)
		check_plan(build_plan_yaml, yaml_cases[i].text, yaml_cases[i].want);
}

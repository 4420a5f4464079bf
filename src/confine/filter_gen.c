/* filter_gen.c - at build time, turns filter_table.h into BPF: C on stdout.
 *
 * libseccomp knows the numbers of the calls.  The code is generated here for two reasons.
 * libseccomp's rules cannot express "one of these values in the lower 32 bits, else this errno".
 * And ranges of numbers make a filter less than half as long and so quicker to load, which speeds
 * up every cell's start.
 *
 * The shape: architecture, then a binary search over ranges of call numbers.  A call without cases
 * is decided by its number alone, which the kernel notices and keeps in a bitmap: such a call never
 * runs the filter. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "confine/filter_table.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define NUMBERS_MAX 1024        /* calls of one architecture */
#define NAME_MAX_LEN 64
#define X32_BIT 0x40000000u     /* __X32_SYSCALL_BIT, which only x86 headers have */
#define JUMP_MAX 255            /* a conditional jump has one byte */

static const struct arch {
	const char *name, *macro;
	uint32_t token;             /* libseccomp's and the kernel's */
	bool has_x32;
} arches[] = {
	{ "x86_64", "__x86_64__", SCMP_ARCH_X86_64, true },
	{ "aarch64", "__aarch64__", SCMP_ARCH_AARCH64, false },
};

struct answer {                 /* the verdict for one call */
	uint32_t verdict;
	const struct filter_case *cases;
	/* In the variant with notifications: the verdict for a call that is allowed, likewise, and whether
	 * one that is refused is notified. */
	uint32_t allowed;
	const struct filter_case *allowed_cases;
	bool tells;
};
struct range {                  /* from START to the next range's START */
	uint32_t start;
	struct answer answer;
};
struct ranges {
	struct range at[2 * NUMBERS_MAX];
	size_t count;
};
struct code {
	struct sock_filter at[BPF_MAXINSNS];
	size_t count;
};

static void __attribute__((noreturn, format(printf, 1, 2)))
fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("filter_gen: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

/* ---- names ----------------------------------------------------------------------- */

/* -1 if the architecture has no such call; a name that nobody knows is a typo. */
static int
number_of(const struct arch *arch, const char *name)
{
	int known = seccomp_syscall_resolve_name_arch(arch->token, name);

	for (size_t i = 0; i < COUNT(filter_numbers); i++) {
		if (strcmp(filter_numbers[i].name, name) != 0)
			continue;
		if (known >= 0 && known != filter_numbers[i].nr)
			fail("%s is %d on %s, not %d", name, known, arch->name,
			     filter_numbers[i].nr);
		return filter_numbers[i].nr;
	}
	if (known == __NR_SCMP_ERROR)
		fail("no system call is called '%s'", name);
	return known < 0 ? -1 : known;
}

/* The next of NAMES, or false at the end. */
static bool
next_name(const char **names, char name[NAME_MAX_LEN])
{
	size_t len = strcspn(*names, " ");

	if (len == 0)
		return false;
	if (len >= NAME_MAX_LEN)
		fail("'%s' is no name", *names);
	memcpy(name, *names, len);
	name[len] = '\0';
	*names += len + ((*names)[len] == ' ');
	return true;
}

/* ---- rows to ranges ----------------------------------------------------------------- */

static void
fill_from_table(const struct arch *arch, const struct filter_row *rows, size_t count,
                enum filter_group open, struct answer answers[NUMBERS_MAX])
{
	bool seen[NUMBERS_MAX] = { false };

	for (size_t i = 0; i < count; i++) {
		const char *names = rows[i].names;
		char name[NAME_MAX_LEN];

		if ((rows[i].verdict != 0) == (rows[i].cases != NULL))
			fail("'%s' needs a verdict or cases, not both", names);
		while (next_name(&names, name)) {
			int nr = number_of(arch, name);

			if (nr < 0)
				continue;
			if (nr >= NUMBERS_MAX || seen[nr])
				fail("'%s' is named twice in one table, or too high", name);
			seen[nr] = true;
			if (open != GROUP_NONE && rows[i].group == open)
				answers[nr] = (struct answer){ .verdict = ALLOW, .allowed = ALLOW };
			else
				answers[nr] = (struct answer){ rows[i].verdict, rows[i].cases, .allowed = ALLOW };
		}
	}
}

static void
add_notifications(const struct arch *arch, struct answer answers[NUMBERS_MAX])
{
	const char *quiet = filter_quiet;
	char name[NAME_MAX_LEN];
	int nr;

	for (size_t i = 0; i < NUMBERS_MAX; i++)
		answers[i].tells = true;
	for (size_t i = 0; i < COUNT(filter_notified); i++)
		for (const char *names = filter_notified[i].names; next_name(&names, name);) {
			nr = number_of(arch, name);
			if (nr < 0)
				continue;
			answers[nr].allowed = filter_notified[i].verdict;
			answers[nr].allowed_cases = filter_notified[i].cases;
		}
	while (next_name(&quiet, name))
		if ((nr = number_of(arch, name)) >= 0)
			answers[nr].tells = false;
}

static void
ranges_add(struct ranges *r, uint32_t start, struct answer answer)
{
	const struct answer *last = r->count > 0 ? &r->at[r->count - 1].answer : NULL;

	if (last != NULL && last->verdict == answer.verdict && last->cases == answer.cases &&
	    last->allowed == answer.allowed && last->allowed_cases == answer.allowed_cases &&
	    last->tells == answer.tells)
		return;
	r->at[r->count++] = (struct range){ start, answer };
}

static void
ranges_make(const struct arch *arch, const struct filter_profile_spec *profile,
            enum filter_group open, bool notifies, struct ranges *ret_ranges)
{
	const struct answer otherwise = { .verdict = profile->otherwise, .allowed = ALLOW };
	const struct answer unknown = { .verdict = profile->otherwise, .allowed = ALLOW, .tells = notifies };
	struct answer answers[NUMBERS_MAX];

	for (size_t i = 0; i < NUMBERS_MAX; i++)
		answers[i] = otherwise;
	for (size_t t = FILTER_TABLES_MAX; t-- > 0;)
		fill_from_table(arch, profile->tables[t].rows, profile->tables[t].count, open,
		                answers);
	if (notifies)
		add_notifications(arch, answers);

	ret_ranges->count = 0;
	for (uint32_t nr = 0; nr < NUMBERS_MAX; nr++)
		ranges_add(ret_ranges, nr, answers[nr]);
	ranges_add(ret_ranges, NUMBERS_MAX, unknown);
	if (arch->has_x32) {
		/* A foreign architecture that shares this token.  -1 is not one of its calls, but a
		 * tracer's way to skip one. */
		uint32_t verdict = open == GROUP_ARCH ? ALLOW : KILL;

		ranges_add(ret_ranges, X32_BIT, (struct answer){ .verdict = verdict, .allowed = ALLOW });
		ranges_add(ret_ranges, UINT32_MAX, otherwise);
	}
}

/* ---- ranges to code -------------------------------------------------------------------
 *
 * Code is emitted from its end to its beginning.  All jumps go forward, so each target is already
 * there, and many jumps share one return.  That saves about a third of the code, and about a quarter
 * of the time that the kernel takes to load it. */

/* Where a jump may lead: to an instruction, or to a return of VERDICT. */
struct target {
	size_t at;                  /* as emit() returned it; AT_RETURN: a return */
	uint32_t verdict;
};
#define AT_RETURN SIZE_MAX

static size_t
emit(struct code *c, struct sock_filter insn)
{
	if (c->count == BPF_MAXINSNS)
		fail("a filter is over %d instructions", BPF_MAXINSNS);
	c->at[c->count] = insn;
	return c->count++;
}

/* The jump from the next instruction but N to AT. */
static size_t
distance(const struct code *c, size_t at, size_t n)
{
	return c->count + n - at - 1;
}

/* An instruction for the target that the next N instructions can reach. */
static size_t
emit_near(struct code *c, struct target target, size_t n)
{
	for (size_t i = c->count; target.at == AT_RETURN && i-- > 0 && distance(c, i, n) <= JUMP_MAX;)
		if (c->at[i].code == (BPF_RET | BPF_K) && c->at[i].k == target.verdict)
			return i;
	if (target.at == AT_RETURN)
		return emit(c, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, target.verdict));
	if (distance(c, target.at, n) <= JUMP_MAX)
		return target.at;
	return emit(c, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)distance(c, target.at, 0)));
}

static void
emit_jump(struct code *c, uint16_t how, uint32_t k, size_t jt, size_t jf)
{
	if (distance(c, jt, 0) > JUMP_MAX || distance(c, jf, 0) > JUMP_MAX)
		fail("a jump does not fit its byte");
	emit(c, (struct sock_filter)BPF_JUMP(BPF_JMP | how | BPF_K, k, (unsigned char)distance(c, jt, 0),
	                                     (unsigned char)distance(c, jf, 0)));
}

static size_t
emit_test(struct code *c, const struct filter_test *t, struct target holds, struct target fails)
{
	/* The second may emit one more instruction. */
	size_t jt = emit_near(c, holds, t->count + 1), jf = emit_near(c, fails, t->count);

	for (size_t i = t->count; i-- > 0; jf = c->count - 1)
		emit_jump(c, BPF_JEQ, t->values[i], jt, jf);
	if (t->mask != UINT32_MAX)
		emit(c, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, t->mask));
	return emit(c, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		(uint32_t)(offsetof(struct seccomp_data, args) + 8 * (size_t)(t->arg & 7) + (t->arg & 8 ? 4 : 0))));
}

/* Where a call goes that is allowed, and whether one that is refused is notified. */
struct outcome {
	struct target allowed;
	bool tells;
};

static struct target
target_of(uint32_t verdict, const struct outcome *outcome)
{
	const bool refuses = (verdict & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO &&
	                     (verdict & SECCOMP_RET_DATA) != 0;

	return verdict == ALLOW ? outcome->allowed :
	       (struct target){ AT_RETURN, refuses && outcome->tells ? NOTIFY : verdict };
}

static struct target
emit_cases(struct code *c, const struct filter_case *cases, const struct outcome *outcome)
{
	struct target hit = target_of(cases->verdict, outcome), miss;
	size_t count = 0;

	while (count < FILTER_TESTS_MAX && cases->tests[count].count > 0)
		count++;
	if (count == 0)
		return hit;
	miss = emit_cases(c, cases + 1, outcome);
	while (count-- > 0)
		hit = (struct target){ .at = emit_test(c, &cases->tests[count], hit, miss) };
	return hit;
}

static struct target
emit_answer(struct code *c, const struct answer *a)
{
	struct outcome outcome = { .allowed = { AT_RETURN, ALLOW }, .tells = a->tells };

	if (a->allowed_cases != NULL && (a->cases != NULL || a->verdict == ALLOW))
		outcome.allowed = emit_cases(c, a->allowed_cases, &outcome);
	else if (a->allowed_cases == NULL)
		outcome.allowed.verdict = a->allowed;
	return a->cases != NULL ? emit_cases(c, a->cases, &outcome) : target_of(a->verdict, &outcome);
}

/* Ranges FIRST to LAST, both included. */
static struct target
emit_search(struct code *c, const struct ranges *r, size_t first, size_t last)
{
	size_t middle = first + (last - first + 1) / 2, jt, jf;
	struct target lower, upper;

	if (first == last)
		return emit_answer(c, &r->at[first].answer);
	upper = emit_search(c, r, middle, last);
	lower = emit_search(c, r, first, middle - 1);
	jt = emit_near(c, upper, 2);
	jf = emit_near(c, lower, 1);
	emit_jump(c, BPF_JGE, r->at[middle].start, jt, jf);
	return (struct target){ .at = c->count - 1 };
}

static void
code_make(const struct arch *arch, const struct filter_profile_spec *profile,
          enum filter_group open, bool notifies, struct code *ret_code)
{
	static struct ranges ranges;
	struct code *c = ret_code;
	size_t jt, jf;

	ranges_make(arch, profile, open, notifies, &ranges);
	c->count = 0;
	(void)emit_search(c, &ranges, 0, ranges.count - 1);
	jt = emit(c, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
	jf = emit_near(c, (struct target){ AT_RETURN, open == GROUP_ARCH ? ALLOW : KILL }, 1);
	emit_jump(c, BPF_JEQ, arch->token, jt, jf);
	emit(c, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
	for (size_t i = 0; i < c->count / 2; i++) {
		struct sock_filter other = c->at[i];

		c->at[i] = c->at[c->count - 1 - i];
		c->at[c->count - 1 - i] = other;
	}
}

/* ---- printing ---------------------------------------------------------------------------- */

static void
print_code(const char *name, const struct code *c)
{
	printf("static const struct sock_filter %s[%zu] = {", name, c->count);
	for (size_t i = 0; i < c->count; i++)
		printf("%s{ 0x%02x, %u, %u, 0x%08x },", i % 3 == 0 ? "\n\t" : " ", c->at[i].code,
		       c->at[i].jt, c->at[i].jf, c->at[i].k);
	printf("\n};\n");
}

static void
print_arch(const struct arch *arch)
{
	static struct code code;
	char name[NAME_MAX_LEN];

	printf("#if defined(%s) || defined(FILTER_EVERY_ARCH)\n", arch->macro);
	for (size_t p = 0; p < FILTER_PROFILES; p++) {
		code_make(arch, &filter_profiles[p], GROUP_NONE, false, &code);
		snprintf(name, sizeof(name), "filter_%s_%s", arch->name, filter_profiles[p].name);
		print_code(name, &code);
	}
	for (size_t p = 0; p <= FILTER_LAST_AGENT; p++) {
		code_make(arch, &filter_profiles[p], GROUP_NONE, true, &code);
		snprintf(name, sizeof(name), "filter_%s_%s_notifying", arch->name, filter_profiles[p].name);
		print_code(name, &code);
	}
	printf("static const struct filter_code filter_%s[] = {\n", arch->name);
	for (size_t p = 0; p < FILTER_PROFILES; p++)
		printf("\tFILTER_CODE(filter_%s_%s),\n", arch->name, filter_profiles[p].name);
	printf("};\nstatic const struct filter_code filter_%s_notifying[] = {\n", arch->name);
	for (size_t p = 0; p <= FILTER_LAST_AGENT; p++)
		printf("\tFILTER_CODE(filter_%s_%s_notifying),\n", arch->name, filter_profiles[p].name);
	printf("};\n#endif\n");
}

#ifdef CLOISTER_MUTANT
static void
print_mutants(const struct arch *arch)
{
	static const enum filter_profile agents[] = { FILTER_DEFAULT, FILTER_NESTED,
		FILTER_NESTED_APART };
	static struct code code;
	char name[NAME_MAX_LEN];

	printf("#if defined(%s) || defined(FILTER_EVERY_ARCH)\n", arch->macro);
	for (size_t i = 0; i < COUNT(agents); i++)
		for (enum filter_group g = 1; g < GROUPS; g++) {
			code_make(arch, &filter_profiles[agents[i]], g, false, &code);
			snprintf(name, sizeof(name), "filter_%s_mutant_%zu_%u", arch->name, i, g);
			print_code(name, &code);
			code_make(arch, &filter_profiles[agents[i]], g, true, &code);
			snprintf(name, sizeof(name), "filter_%s_mutant_%zu_%u_notifying", arch->name, i, g);
			print_code(name, &code);
		}
	printf("static const struct filter_mutant filter_%s_mutants[] = {\n", arch->name);
	for (size_t i = 0; i < COUNT(agents); i++)
		for (enum filter_group g = 1; g < GROUPS; g++)
			printf("\t{ \"%s\", %d, FILTER_CODE(filter_%s_mutant_%zu_%u), "
			       "FILTER_CODE(filter_%s_mutant_%zu_%u_notifying) },\n",
			       filter_groups[g], agents[i], arch->name, i, g, arch->name, i, g);
	printf("};\n#endif\n");
}
#endif

/* Every call that a table names, for tests that judge both architectures on one. */
static void
print_numbers(void)
{
	printf("#ifdef FILTER_EVERY_ARCH\n"
	       "static const struct { const char *name; int nr[%zu]; } filter_calls[] = {\n",
	       COUNT(arches));
	for (size_t p = 0; p < FILTER_PROFILES; p++)
		for (size_t t = 0; t < FILTER_TABLES_MAX; t++)
			for (size_t i = 0; i < filter_profiles[p].tables[t].count; i++) {
				const char *names = filter_profiles[p].tables[t].rows[i].names;
				char name[NAME_MAX_LEN];

				while (next_name(&names, name)) {
					printf("\t{ \"%s\", {", name);
					for (size_t a = 0; a < COUNT(arches); a++)
						printf(" %d,", number_of(&arches[a], name));
					printf(" } },\n");
				}
			}
	printf("};\n#endif\n");
}

int
main(void)
{
	printf("/* Made by filter_gen.c from filter_table.h. */\n"
	       "#include <linux/filter.h>\n\n"
	       "struct filter_code { const struct sock_filter *at; unsigned short count; };\n"
	       "#define FILTER_CODE(a) { a, sizeof(a) / sizeof((a)[0]) }\n");
	for (size_t a = 0; a < COUNT(arches); a++)
		print_arch(&arches[a]);
#ifdef CLOISTER_MUTANT
	printf("struct filter_mutant { const char *control; int profile; "
	       "struct filter_code code, notifying; };\n");
	for (size_t a = 0; a < COUNT(arches); a++)
		print_mutants(&arches[a]);
#endif
	print_numbers();
	if (fflush(stdout) != 0 || ferror(stdout))
		fail("cannot write");
	return 0;
}

/* report.c - prints findings: for people, and as JSON, SARIF and annotations of GitHub. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "base/version.h"
#include "proc/lock/lock_proc.h"

static const char *
level_of(const struct check_finding *at)
{
	return check_levels[check_rules[at->rule].level];
}

static void
print_subject(const struct check_finding *at)
{
	printf("%s%s%s", at->server, *at->tool != '\0' ? "." : "", at->tool);
}

/* The worst first. */
void
report_text(const struct check_findings *f)
{
	const size_t errors = check_count(f, CHECK_ERROR), warnings = check_count(f, CHECK_WARNING);

	for (int level = CHECK_ERROR; level >= CHECK_NOTE; level--)
		for (size_t i = 0; i < f->n; i++) {
			const struct check_finding *at = &f->list[i];

			if ((int)check_rules[at->rule].level != level)
				continue;
			printf("%s: ", level_of(at));
			print_subject(at);
			fputs(": ", stdout);
			text_print_safe(stdout, at->text, strlen(at->text), false);
			printf(" [%s]\n", check_rules[at->rule].name);
		}
	if (f->more)
		puts("error: there are more findings than can be shown");
	printf("%zu error%s, %zu warning%s\n", errors, errors == 1 ? "" : "s", warnings, warnings == 1 ? "" : "s");
}

void
report_json(const struct keeper *k, const struct check_findings *f)
{
	struct json w = { .out = stdout };

	json_open(&w, NULL, '{');
	json_str(&w, "lock", k->lock_path);
	json_u64(&w, "errors", check_count(f, CHECK_ERROR));
	json_u64(&w, "warnings", check_count(f, CHECK_WARNING));
	json_bool(&w, "cut", f->more);
	json_open(&w, "findings", '[');
	for (size_t i = 0; i < f->n; i++) {
		const struct check_finding *at = &f->list[i];

		json_open(&w, NULL, '{');
		json_str(&w, "rule", check_rules[at->rule].name);
		json_str(&w, "level", level_of(at));
		json_str(&w, "server", *at->server != '\0' ? at->server : NULL);
		json_str(&w, "tool", *at->tool != '\0' ? at->tool : NULL);
		json_str(&w, "text", at->text);
		json_u64(&w, "line", lock_line(&k->lock, at->server, at->tool));
		json_close(&w, '}');
	}
	json_close(&w, ']');
	json_close(&w, '}');
	putchar('\n');
}

/* ---- SARIF 2.1.0 ---- */

/* Relative to where the command runs: that is the repository, in CI. */
static const char *
shown_path(const struct keeper *k)
{
	static char here[PATH_MAX];
	const size_t len = getcwd(here, sizeof(here)) != NULL ? strlen(here) : 0;

	return len > 1 && strncmp(k->lock_path, here, len) == 0 && k->lock_path[len] == '/' ? k->lock_path + len + 1 :
	       k->lock_path;
}

static void
put_rules(struct json *w)
{
	json_open(w, "rules", '[');
	for (size_t i = 0; i < CHECK_RULES; i++) {
		json_open(w, NULL, '{');
		json_str(w, "id", check_rules[i].name);
		json_open(w, "shortDescription", '{');
		json_str(w, "text", check_rules[i].help);
		json_close(w, '}');
		json_open(w, "defaultConfiguration", '{');
		json_str(w, "level", check_levels[check_rules[i].level]);
		json_close(w, '}');
		json_close(w, '}');
	}
	json_close(w, ']');
}

static void
put_result(struct json *w, const struct keeper *k, const struct check_finding *at)
{
	char name[POLICY_TOOLS_NAME_MAX + 4];
	char text[CHECK_TEXT_MAX * 2 + sizeof(name)];

	snprintf(name, sizeof(name), "%s%s%s", at->server, *at->tool != '\0' ? "." : "", at->tool);
	snprintf(text, sizeof(text), "%s: %s", name, at->text);
	json_open(w, NULL, '{');
	json_str(w, "ruleId", check_rules[at->rule].name);
	json_str(w, "level", level_of(at));
	json_open(w, "message", '{');
	json_str(w, "text", text);
	json_close(w, '}');
	json_open(w, "locations", '[');
	json_open(w, NULL, '{');
	json_open(w, "physicalLocation", '{');
	json_open(w, "artifactLocation", '{');
	json_str(w, "uri", shown_path(k));
	json_close(w, '}');
	json_open(w, "region", '{');
	json_u64(w, "startLine", lock_line(&k->lock, at->server, at->tool));
	json_close(w, '}');
	json_close(w, '}');
	json_open(w, "logicalLocations", '[');
	json_open(w, NULL, '{');
	json_str(w, "fullyQualifiedName", name);
	json_close(w, '}');
	json_close(w, ']');
	json_close(w, '}');
	json_close(w, ']');
	json_close(w, '}');
}

void
report_sarif(const struct keeper *k, const struct check_findings *f)
{
	struct json w = { .out = stdout };

	json_open(&w, NULL, '{');
	json_str(&w, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
	json_str(&w, "version", "2.1.0");
	json_open(&w, "runs", '[');
	json_open(&w, NULL, '{');
	json_open(&w, "tool", '{');
	json_open(&w, "driver", '{');
	json_str(&w, "name", "cloister tools check");
	json_str(&w, "semanticVersion", CLOISTER_VERSION);
	put_rules(&w);
	json_close(&w, '}');
	json_close(&w, '}');
	json_open(&w, "results", '[');
	for (size_t i = 0; i < f->n; i++)
		put_result(&w, k, &f->list[i]);
	json_close(&w, ']');
	json_close(&w, '}');
	json_close(&w, ']');
	json_close(&w, '}');
	putchar('\n');
}

/* ---- GitHub: lines that its runner reads ---- */

/* Without these, a finding could be another command for the runner. */
static void
put_escaped(const char *text, bool is_property)
{
	for (; *text != '\0'; text++)
		if (*text == '%' || *text == '\r' || *text == '\n' || (is_property && (*text == ',' || *text == ':')))
			printf("%%%02X", (unsigned char)*text);
		else
			text_print_safe(stdout, text, 1, false);
}

void
report_github(const struct keeper *k, const struct check_findings *f)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct check_finding *at = &f->list[i];
		const unsigned level = check_rules[at->rule].level;

		printf("::%s file=", level == CHECK_NOTE ? "notice" : check_levels[level]);
		put_escaped(shown_path(k), true);
		printf(",line=%zu,title=", lock_line(&k->lock, at->server, at->tool));
		put_escaped(check_rules[at->rule].name, true);
		fputs("::", stdout);
		print_subject(at);
		fputs(": ", stdout);
		put_escaped(at->text, false);
		putchar('\n');
	}
	if (f->more)
		puts("::error::there are more findings than can be shown");
}

/* vault_show.c - prints secrets; never a value. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/num.h"
#include "base/text.h"
#include "proc/vault/vault_proc.h"

static const char *
from_of(const struct secret *s)
{
	return *s->from != '\0' ? s->from : "vault";
}

static void
format_time(uint64_t at, char text[32])
{
	time_t t = (time_t)at;
	struct tm tm;

	strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
}

static const char *
format_age(uint64_t then, uint64_t now, char text[NUM_TEXT_MAX])
{
	return num_format_age(text, now > then ? (now - then) * 1000 : 0);
}

static void
json_list(struct json *out, const char *key, const struct policy_list *list)
{
	json_open(out, key, '[');
	for (size_t i = 0; i < list->n; i++)
		json_str(out, NULL, list->at[i]);
	json_close(out, ']');
}

static void
json_captures(struct json *out, const struct secret *s)
{
	json_open(out, "captures", '[');
	for (size_t i = 0; i < s->n_captures; i++) {
		json_open(out, NULL, '{');
		json_str(out, "kind", s->captures[i].kind);
		json_str(out, "at", secret_scope_text(s->captures[i].renews));
		json_str(out, "for", secret_scope_text(s->captures[i].gives));
		json_close(out, '}');
	}
	json_close(out, ']');
}

static void
json_entry(struct json *out, const struct vault_entry *entry, uint64_t now)
{
	const struct secret *s = entry->secret;
	char places[512], time[32];

	secret_places_text(s, places, sizeof(places));
	json_open(out, NULL, '{');
	json_str(out, "name", s->name);
	json_str(out, "scheme", s->scheme->name);
	json_str(out, "service", *s->like != '\0' ? s->like : NULL);
	json_str(out, "scope", secret_scope_text(s));
	json_str(out, "in", places);
	json_list(out, "shape", &s->shapes[SECRET_SECRET]);
	json_str(out, "env", *s->env != '\0' ? s->env : NULL);
	json_list(out, "files", &s->files);
	json_str(out, "id", *s->id != '\0' ? s->id : NULL);
	json_str(out, "from", from_of(s));
	if (*s->expires_member != '\0')
		json_str(out, "expires", s->expires_member);
	else if (s->expires > 0)
		json_u64(out, "expires", s->expires);
	format_time(entry->added, time);
	json_str(out, "added", time);
	format_time(entry->changed, time);
	json_str(out, "changed", time);
	json_u64(out, "age", now > entry->changed ? now - entry->changed : 0);
	json_str(out, "fingerprint", *entry->print != '\0' ? entry->print : NULL);
	json_open(out, "with", '{');
	for (size_t i = 0; i < s->with.n; i++)
		json_str(out, s->with.at[i], s->with_values.at[i]);
	json_close(out, '}');
	json_captures(out, s);
	json_close(out, '}');
}

static void
print_row(const char *name, const char *text)
{
	if (*text == '\0')
		return;
	printf("%-12s ", name);
	text_print_safe(stdout, text, strlen(text), false);
	printf("\n");
}

void
show_entry(const struct vault_entry *entry, bool json, uint64_t now)
{
	const struct secret *s = entry->secret;
	struct json out = { .out = stdout };
	char places[512], time[32], age[NUM_TEXT_MAX], row[128];

	if (json) {
		json_entry(&out, entry, now);
		printf("\n");
		return;
	}
	secret_places_text(s, places, sizeof(places));
	print_row("name", s->name);
	print_row("scheme", s->scheme->name);
	print_row("service", s->like);
	print_row("scope", secret_scope_text(s));
	print_row("in", places);
	for (size_t i = 0; i < s->shapes[SECRET_SECRET].n; i++)
		print_row(i == 0 ? "shape" : "", s->shapes[SECRET_SECRET].at[i]);
	if (s->shapes[SECRET_SECRET].n == 0)
		print_row("shape", "as its value looks");
	for (size_t i = 0; i < s->with.n; i++) {
		printf("%-12s %s: ", i == 0 ? "with" : "", s->with.at[i]);
		text_print_safe(stdout, s->with_values.at[i], strlen(s->with_values.at[i]), false);
		printf("\n");
	}
	print_row("id", s->id);
	for (size_t i = 0; i < s->n_captures; i++) {
		print_row(i == 0 ? "captures" : "", s->captures[i].kind);
		print_row("  at", secret_scope_text(s->captures[i].renews));
		print_row("  for", secret_scope_text(s->captures[i].gives));
	}
	print_row("env", s->env);
	for (size_t i = 0; i < s->files.n; i++)
		print_row(i == 0 ? "files" : "", s->files.at[i]);
	print_row("from", from_of(s));
	print_row("expires", *s->expires_member != '\0' || s->expires == 0 ? s->expires_member :
	          num_format_duration(age, (uint64_t)s->expires * 1000));
	format_time(entry->added, time);
	print_row("added", time);
	format_time(entry->changed, time);
	snprintf(row, sizeof(row), "%s (%s ago)", time, format_age(entry->changed, now, age));
	print_row("changed", row);
	print_row("fingerprint", entry->print);
}

#define COLUMNS 80
#define NAME_MOST 32

struct widths {
	size_t name, scheme, scope;
};

/* As wide as needed; a long name takes from the scope, but not all of it. */
static struct widths
find_widths(const struct vault *v)
{
	const size_t others = 2 + 2 + strlen("vault") + 2 + 5 + 2;
	struct widths w = { .name = 4, .scheme = 6 };

	for (size_t i = 0; i < vault_n(v); i++) {
		size_t name = strlen(vault_at(v, i)->secret->name);
		size_t scheme = strlen(vault_at(v, i)->secret->scheme->name);

		w.name = name > w.name ? name : w.name;
		w.scheme = scheme > w.scheme ? scheme : w.scheme;
	}
	w.name = w.name < NAME_MOST ? w.name : NAME_MOST;
	w.scope = COLUMNS - others - w.name - w.scheme;
	return w;
}

/* Prints as much of TEXT as fits in WIDTH; a truncated text ends in "...". */
static void
print_cut(const char *text, size_t width)
{
	size_t len = strlen(text);

	text_print_safe(stdout, text, len <= width ? len : width - 3, false);
	if (len > width)
		fputs("...", stdout);
}

static void
print_entry(const struct vault_entry *entry, const struct widths *w, uint64_t now)
{
	const struct secret *s = entry->secret;
	char age[NUM_TEXT_MAX];
	size_t len = strlen(s->name);

	print_cut(s->name, w->name);
	printf("%*s  %-*s  %-5.*s  %5s  ", (int)(len < w->name ? w->name - len : 0), "", (int)w->scheme,
	       s->scheme->name, (int)strcspn(from_of(s), ":"), from_of(s),
	       format_age(entry->changed, now, age));
	print_cut(secret_scope_text(s), w->scope);
	printf("\n");
}

void
show_list(const struct vault *v, bool json, uint64_t now)
{
	struct json out = { .out = stdout };
	struct widths w = find_widths(v);

	if (json)
		json_open(&out, NULL, '[');
	else if (vault_n(v) > 0)
		printf("%-*s  %-*s  %-5s  %5s  %s\n", (int)w.name, "NAME", (int)w.scheme, "SCHEME", "FROM",
		       "AGE", "SCOPE");
	for (size_t i = 0; i < vault_n(v); i++) {
		if (json)
			json_entry(&out, vault_at(v, i), now);
		else
			print_entry(vault_at(v, i), &w, now);
	}
	if (json) {
		json_close(&out, ']');
		printf("\n");
	}
}

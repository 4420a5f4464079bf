/* dispatch_print.c - prints events for people and for programs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "canon/canon.h"
#include "cell/cell_refusals.h"
#include "proc/dispatch/dispatch_proc.h"

#define LINE_MAX_BYTES (8u << 20)
#define JSON_MAX (64u << 20)
#define SHORT_HASH (7 + 12)             /* "sha256:" and some digits: enough to distinguish them */

static const char *
text(const json_t *o, const char *name)
{
	const char *value = json_string_value(json_object_get(o, name));

	return value != NULL ? value : "";
}

static void
print_named(FILE *out, const char *what, const json_t *named)
{
	fprintf(out, "  %-11s", what);
	if (text(named, "name")[0] != '\0')
		fprintf(out, "%s ", text(named, "name"));
	fprintf(out, "%.*s\n", SHORT_HASH, text(named, "hash"));
}

static void
print_words(FILE *out, const char *what, const json_t *list)
{
	json_t *word;
	size_t i;

	if (json_array_size(list) == 0)
		return;
	fprintf(out, "  %-11s", what);
	json_array_foreach(list, i, word) {
		fputs(i > 0 ? " " : "", out);
		text_print_safe(out, json_string_value(word), json_string_length(word), false);
	}
	fputc('\n', out);
}

/* Prints the rights that its ancestors leave it, rule by rule. */
static void
print_confined(FILE *out, const json_t *resolved)
{
	const json_t *confined = json_object_get(resolved, "confined");
	const json_t *left_out = json_object_get(confined, "left_out");
	json_t *rule, *pair;
	size_t i, k;

	if (!json_is_object(confined))
		return;
	fprintf(out, "  %-11sdispatch %s of %s\n", "within", text(confined, "parent"), text(confined, "agent"));
	json_array_foreach(json_object_get(confined, "rules"), i, rule) {
		fprintf(out, "    ");
		text_print_safe(out, text(rule, "text"), strlen(text(rule, "text")), false);
		fputc('\n', out);
		json_array_foreach(json_object_get(rule, "within"), k, pair) {
			const char *other = text(pair, "text");

			fprintf(out, "      %-5s  ", text(pair, "verdict"));
			text_print_safe(out, other, strlen(other), false);
			fputs(other[0] != '\0' ? "\n" : json_integer_value(json_object_get(pair, "layer")) > 0 ?
			      "requests that no rule allows there\n" : "by itself\n", out);
		}
	}
	if (json_is_true(json_object_get(confined, "more_rules")))
		fputs("    and more\n", out);
	print_words(out, "left out", json_object_get(left_out, "secrets"));
	print_words(out, "no server", json_object_get(left_out, "servers"));
	if (json_is_object(json_object_get(left_out, "workspace")))
		fprintf(out, "  %-11sthe workspace %s\n", "left out",
		        text(json_object_get(left_out, "workspace"), "path"));
	if (json_is_true(json_object_get(left_out, "policy")))
		fprintf(out, "  %-11sits policy: that dispatch has no network\n", "left out");
}

/* The root, unless it is the host's, and the programs that it starts by their names. */
static void
print_root(FILE *out, const json_t *resolved)
{
	const json_t *root = json_object_get(resolved, "root"), *capability = json_object_get(root, "capability");
	json_t *program;
	size_t i;

	if (json_is_string(root) && strcmp(json_string_value(root), "host") != 0)
		fprintf(out, "  %-11s%s\n", "root", json_string_value(root));
	if (json_is_object(capability))
		print_named(out, "root", capability);
	if (json_is_object(json_object_get(resolved, "image")))
		fprintf(out, "  %-11s%s %.*s\n", "image", text(json_object_get(resolved, "image"), "name"), SHORT_HASH,
		        text(json_object_get(resolved, "image"), "digest"));
	json_array_foreach(json_object_get(resolved, "programs"), i, program)
		fprintf(out, "  %-11s%s %.*s\n", "program", text(program, "file"), SHORT_HASH, text(program, "hash"));
}

/* Grants of this dispatch only. */
static void
print_granted(FILE *out, const json_t *granted)
{
	print_words(out, "granted", json_object_get(granted, "capabilities"));
	print_words(out, "granted", json_object_get(granted, "secrets"));
}

/* 1200000ms becomes 20m, if that is exact. */
static const char *
nicer_time(const char *given, char text[NUM_TEXT_MAX])
{
	uint64_t ms, again;

	if (num_parse_duration(given, &ms, NULL) < 0)
		return given;
	num_format_duration(text, ms);
	return num_parse_duration(text, &again, NULL) == 0 && again == ms ? text : given;
}

void
proc_print_resolved(FILE *out, const json_t *resolved)
{
	const json_t *policy = json_object_get(resolved, "policy"), *mcp = json_object_get(resolved, "mcp");
	json_t *limits = json_object_get(resolved, "limits"), *named;
	char time[NUM_TEXT_MAX];
	const char *name;
	size_t i;

	print_named(out, "agent", json_object_get(resolved, "agent"));
	json_array_foreach(json_object_get(resolved, "capabilities"), i, named)
		print_named(out, "capability", named);
	json_array_foreach(json_object_get(resolved, "envs"), i, named)
		print_named(out, "env", named);
	if (json_is_object(json_object_get(policy, "from")))
		print_named(out, "policy", json_object_get(policy, "from"));
	if (json_is_object(policy))
		print_named(out, "in force", policy);
	else
		fprintf(out, "  %-11s%s\n", "policy", "none: no network");
	print_root(out, resolved);
	if (text(resolved, "boundary")[0] != '\0')
		fprintf(out, "  %-11s%s\n", "boundary", text(resolved, "boundary"));
	if (text(resolved, "runtime")[0] != '\0')
		fprintf(out, "  %-11s%s\n", "runtime", text(resolved, "runtime"));
	if (text(resolved, "record")[0] != '\0')
		fprintf(out, "  %-11s%s\n", "record", text(resolved, "record"));
	if (text(resolved, "images")[0] != '\0')
		fprintf(out, "  %-11s%s\n", "images", text(resolved, "images"));
	print_words(out, "secrets", json_object_get(resolved, "secrets"));
	print_granted(out, json_object_get(resolved, "granted"));
	print_words(out, "command", json_object_get(resolved, "command"));
	if (json_object_size(limits) > 0) {
		fprintf(out, "  %-11s", "limits");
		i = 0;
		json_object_foreach(limits, name, named)
			fprintf(out, "%s%s %s", i++ > 0 ? ", " : "", name,
			        strcmp(name, "time") == 0 ? nicer_time(json_string_value(named), time) :
			                                    json_string_value(named));
		fputc('\n', out);
	}
	if (mcp != NULL)
		fprintf(out, "  %-11s%s%s\n", "delegates", text(mcp, "url")[0] != '\0' ? "through " : "to nobody: ",
		        text(mcp, text(mcp, "url")[0] != '\0' ? "url" : "reason"));
	fprintf(out, "  %-11s%.*s\n", "build", SHORT_HASH, text(resolved, "build"));
	print_confined(out, resolved);
}

int
proc_print_json(json_t *value, struct err *err)
{
	OWN(freep) char *line = NULL;
	size_t len;
	int r = value == NULL ? err_set(err, ENOMEM, "out of memory") :
	        canon_dump(value, JSON_MAX, &line, &len, err);

	json_decref(value);
	if (r == 0)
		puts(line);
	return r;
}

/* ---- output ---- */

/* An agent's output must not control the operator's terminal. */
static void
write_out(FILE *out, const char *data, size_t len)
{
	if (isatty(fileno(out)))
		text_print_safe(out, data, len, true);
	else
		(void)fwrite(data, 1, len, out);
	fflush(out);
}

static int
digit(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c == '\0' ? NULL : strchr(digits, c);

	return at == NULL ? 0 : (int)(at - digits);
}

static void
write_base64(FILE *out, const char *in)
{
	OWN(freep) char *data = malloc(strlen(in) + 1);
	size_t n = 0;

	for (; data != NULL && strlen(in) >= 4; in += 4) {
		unsigned v = (unsigned)digit(in[0]) << 18 | (unsigned)digit(in[1]) << 12 |
		             (unsigned)digit(in[2]) << 6 | (unsigned)digit(in[3]);

		data[n++] = (char)(v >> 16);
		if (in[2] != '=')
			data[n++] = (char)(v >> 8);
		if (in[3] != '=')
			data[n++] = (char)v;
	}
	if (data != NULL)
		write_out(out, data, n);
}

static void
print_output(const json_t *event)
{
	FILE *out = strcmp(text(event, "stream"), "stderr") == 0 ? stderr : stdout;
	const json_t *value = json_object_get(event, "text");

	if (json_is_string(value))
		write_out(out, json_string_value(value), json_string_length(value));
	else
		write_base64(out, text(event, "base64"));
}

/* ---- events ---- */

static void
print_end(const json_t *event)
{
	const json_t *code = json_object_get(event, "exit_code");
	const json_t *files = json_object_get(json_object_get(event, "result"), "files");
	long long n = json_integer_value(json_object_get(files, "count"));
	char size[NUM_TEXT_MAX];

	fprintf(stderr, "cloister: dispatch %s ", text(event, "dispatch"));
	if (json_is_integer(code))
		fprintf(stderr, "finished with exit status %lld", (long long)json_integer_value(code));
	else
		fputs(strcmp(text(event, "state"), "timed_out") == 0 ? "timed out" : text(event, "state"),
		      stderr);
	if (text(event, "reason")[0] != '\0') {
		fputs(": ", stderr);
		text_print_safe(stderr, text(event, "reason"), strlen(text(event, "reason")), false);
	}
	if (n > 0)
		fprintf(stderr, "; %lld file%s of /out (%s): `cloister dispatches files %s`", n,
		        n == 1 ? "" : "s", num_format_size(size, (uint64_t)json_integer_value(
		                                           json_object_get(files, "size"))),
		        text(event, "dispatch"));
	fputc('\n', stderr);
}

static void
print_failed(const json_t *event)
{
	const json_t *code = json_object_get(event, "exit_code");
	const char *reason = text(event, "reason");
	char time[NUM_TEXT_MAX];

	fprintf(stderr, "cloister: attempt %lld failed%s",
	        (long long)json_integer_value(json_object_get(event, "attempt")),
	        reason[0] != '\0' ? ": " : "");
	text_print_safe(stderr, reason, strlen(reason), false);
	if (reason[0] == '\0' && json_is_integer(code))
		fprintf(stderr, " with exit status %lld", (long long)json_integer_value(code));
	fprintf(stderr, "; again in %s\n", num_format_duration(time, (uint64_t)json_integer_value(
	                                                json_object_get(event, "again_ms"))));
}

static void
print_wait(const json_t *event)
{
	const char *reason = text(event, "reason");
	char time[NUM_TEXT_MAX];

	fputs("cloister: its results wait for ", stderr);
	text_print_safe(stderr, text(event, "place"), strlen(text(event, "place")), false);
	fprintf(stderr, " for up to %s%s", num_format_duration(time,
	        (uint64_t)json_integer_value(json_object_get(event, "wait_ms"))), reason[0] != '\0' ? ": " : "");
	text_print_safe(stderr, reason, strlen(reason), false);
	fputc('\n', stderr);
}

static void
print_asked(const json_t *event)
{
	const char *id = text(event, "approval");

	fputs("cloister: a person has to approve ", stderr);
	text_print_safe(stderr, text(event, "method"), strlen(text(event, "method")), false);
	fputc(' ', stderr);
	text_print_safe(stderr, text(event, "host"), strlen(text(event, "host")), false);
	fprintf(stderr, ": `cloister approvals`, then `cloister approve %s` or `cloister refuse %s "
	        "--reason TEXT`\n", id, id);
}

/* As `cloister run` does at its end. */
static void
print_refused(const json_t *event)
{
	struct cell_refusals told = { .total = (uint64_t)json_integer_value(json_object_get(event, "times")) };
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(event, "refusals"), i, one) {
		struct cell_refusal *r = &told.kinds[i];

		if (i == CELL_REFUSALS_MAX)
			break;
		snprintf(r->what, sizeof(r->what), "%s", text(one, "what"));
		snprintf(r->why, sizeof(r->why), "%s", text(one, "why"));
		r->times = (uint64_t)json_integer_value(json_object_get(one, "times"));
		told.n++;
	}
	cell_refusals_print(stderr, &told, text(event, "cell"));
}

static void
print_for_people(const json_t *event)
{
	const char *type = text(event, "event");

	if (strcmp(type, "agent.output") == 0) {
		print_output(event);
	} else if (strcmp(type, "dispatch.resolved") == 0) {
		fprintf(stderr, "cloister: dispatch %s\n", text(event, "dispatch"));
		proc_print_resolved(stderr, event);
	} else if (strcmp(type, "setup.ran") == 0 &&
	           json_integer_value(json_object_get(event, "status")) != 0) {
		fprintf(stderr, "cloister: setup %s failed with %lld\n", text(event, "path"),
		        (long long)json_integer_value(json_object_get(event, "status")));
	} else if (strcmp(type, "approval.asked") == 0) {
		print_asked(event);
	} else if (strcmp(type, "attempt.failed") == 0) {
		print_failed(event);
	} else if (strcmp(type, "results.wait") == 0) {
		print_wait(event);
	} else if (strcmp(type, "dispatch.finished") == 0) {
		print_end(event);
	}
}

/* Prints one event: unchanged, or for people. */
static void
proc_print_event(const char *line, size_t len, bool json)
{
	OWN(json_decrefp) json_t *event = NULL;

	if (json) {
		(void)fwrite(line, 1, len, stdout);
		fputc('\n', stdout);
		fflush(stdout);
		return;
	}
	if (canon_read(line, len, &event, NULL) == 0)
		print_for_people(event);
}

/* ---- following ---- */

void
proc_follower_free(struct follower *f)
{
	close_fd(&f->fd);
	free(f->text);
	json_decref(f->refused);
}

/* Refusals are printed after all output of the agent. */
static void
show(struct follower *f, json_t *event)
{
	const char *type = text(event, "event");

	if (strcmp(type, "cell.refused") == 0) {
		json_decref(f->refused);
		f->refused = json_incref(event);
		return;
	}
	if (f->refused != NULL && strcmp(type, "agent.output") != 0) {
		print_refused(f->refused);
		json_decref(f->refused);
		f->refused = NULL;
	}
	print_for_people(event);
}

static void
take_line(struct follower *f, const char *line, size_t len)
{
	OWN(json_decrefp) json_t *event = NULL;

	if (canon_read(line, len, &event, NULL) < 0)
		return;
	if (strcmp(text(event, "event"), "dispatch.finished") == 0) {
		enum dispatch_state state = DISPATCH_FAILED;

		(void)dispatch_state_parse(text(event, "state"), &state);
		f->over = true;
		f->status = proc_status(state, (int)json_integer_value(json_object_get(event, "exit_code")));
	} else if (strcmp(text(event, "event"), "agent.output") == 0) {
		unsigned stream = strcmp(text(event, "stream"), "stderr") == 0;

		f->shown[stream] = (uint64_t)json_integer_value(json_object_get(event, "offset")) +
		                   (uint64_t)json_integer_value(json_object_get(event, "size"));
		f->cut[stream] = json_is_true(json_object_get(event, "cut"));
	} else if (strcmp(text(event, "event"), "cell.boot") == 0) {
		f->cut[0] = f->cut[1] = false;
	}
	if (f->quiet)
		return;
	if (f->json)
		proc_print_event(line, len, true);
	else
		show(f, event);
}

int
proc_follow(struct follower *f, struct err *err)
{
	char *end;
	ssize_t n;

	for (;;) {
		if (f->cap - f->len < 65536) {
			char *more = f->cap > LINE_MAX_BYTES ? NULL : realloc(f->text, f->cap * 2 + 131072);

			if (more == NULL)
				return err_set(err, ENOMEM, "an event is too large");
			f->text = more;
			f->cap = f->cap * 2 + 131072;
		}
		n = read(f->fd, f->text + f->len, f->cap - f->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? err_errno(err, "cannot read the events") : 0;
		f->len += (size_t)n;
		while ((end = memchr(f->text, '\n', f->len)) != NULL) {
			take_line(f, f->text, (size_t)(end - f->text));
			f->len -= (size_t)(end - f->text) + 1;
			memmove(f->text, end + 1, f->len);
		}
	}
}

int
proc_copy_out(int fd, FILE *out, struct err *err)
{
	char data[65536];
	ssize_t n;

	while ((n = read(fd, data, sizeof(data))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "cannot read it");
		write_out(out, data, (size_t)n);
	}
	return 0;
}

/* commands.c - the verbs of `cloister volume`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/operator.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/num.h"
#include "base/own.h"
#include "base/since.h"
#include "proc/volume/volume_proc.h"

struct shown {
	struct volume volume;
	uint64_t bytes, entries;
	bool is_written, is_used, is_over;
	bool is_damaged;
};

static int
note(const char *type, const char *name, const char *detail, const char *value, struct err *err)
{
	struct audit_member members[] = {
		{ .name = "volume", .text = name }, { .name = detail != NULL ? detail : "detail", .text = value },
	};

	return operator_note(type, members, detail != NULL ? 2 : 1, err);
}

int
volume_do_settle(struct volumes *v, const char *name, struct err *err)
{
	enum volume_settled settled;
	int r = volume_settle(v, name, &settled, err);
	OWN(freep) struct volume *volume = r == 0 && settled == VOLUME_CHANGED ? calloc(1, sizeof(*volume)) : NULL;

	if (r == 0 && settled == VOLUME_REFUSED) {
		fprintf(stderr, "cloister: the last cell's changes of the volume '%s' are dropped: it would have too many files and "
		        "folders for its size, or folders that are nested too deep\n", name);
		return note("volume.refused", name, "why", "entries", err);
	}
	if (volume == NULL || volume_load(v, name, volume, NULL) < 0)
		return r;
	return note("volume.changed", name, "tree", volume->tree, err);
}

/* Trees that lost their last name; a cell may use them still. */
static int
sweep(struct volumes *v, struct err *err)
{
	struct volume_swept swept;

	return volume_sweep(v, &swept, err);
}

static int
look(struct volumes *v, const char *name, struct shown *ret_shown, struct err *err)
{
	struct shown *s = ret_shown;
	int r = volume_load(v, name, &s->volume, err);

	if (r == 0 && volume_is_unsettled(v, &s->volume)) {
		r = volume_do_settle(v, name, err);
		r = r == 0 ? sweep(v, err) : r;
		r = r == 0 ? volume_load(v, name, &s->volume, err) : r;
	}
	r = r == 0 ? volume_measure(v, s->volume.tree, &s->bytes, &s->entries, err) : r;
	if (r < 0)
		return r;
	s->is_written = volume_is_written(v, &s->volume);
	s->is_used = volume_is_used(v, &s->volume);
	s->is_over = volume_is_over(v, &s->volume, since_now_ms());
	return 0;
}

/* ---- output ---- */

static void
put_time(struct json *w, const char *key, uint64_t ms)
{
	char text[SINCE_TEXT_MAX];

	since_format(ms, text);
	json_str(w, key, text);
}

static void
put_members(struct json *w, const struct shown *s)
{
	const struct volume *volume = &s->volume;

	json_str(w, "name", volume->name);
	json_u64(w, "size", volume->size);
	json_u64(w, "bytes", s->bytes);
	json_u64(w, "entries", s->entries);
	put_time(w, "created", volume->made_ms);
	put_time(w, "used", volume->used_ms);
	if (volume->ttl_ms == 0) {
		json_none(w, "ttl_ms");
		json_none(w, "expires");
	} else {
		json_u64(w, "ttl_ms", volume->ttl_ms);
		put_time(w, "expires", volume->used_ms + volume->ttl_ms);
	}
	json_bool(w, "expired", s->is_over);
	json_bool(w, "writing", s->is_written);
	json_bool(w, "in_use", s->is_used);
	json_str(w, "tree", volume->tree);
	json_open(w, "snapshots", '[');
	for (size_t i = 0; i < volume->n_snapshots; i++) {
		json_open(w, NULL, '{');
		json_str(w, "label", volume->snapshots[i].label);
		put_time(w, "created", volume->snapshots[i].made_ms);
		json_str(w, "tree", volume->snapshots[i].tree);
		json_close(w, '}');
	}
	json_close(w, ']');
}

static void
print_json(const struct shown *s)
{
	struct json w = { .out = stdout };

	json_open(&w, NULL, '{');
	put_members(&w, s);
	json_close(&w, '}');
	putchar('\n');
}

static const char *
state_of(const struct shown *s)
{
	return s->is_damaged ? "damaged" : s->is_written ? "writing" : s->is_used ? "reading" : s->is_over ? "expired" : "-";
}

static void
format_left(const struct shown *s, char ret_text[NUM_TEXT_MAX])
{
	const uint64_t now = since_now_ms(), end = s->volume.used_ms + s->volume.ttl_ms;

	if (s->volume.ttl_ms == 0)
		snprintf(ret_text, NUM_TEXT_MAX, "-");
	else
		num_format_duration(ret_text, end > now ? end - now : 0);
}

static void
print_row(const struct shown *s)
{
	char used[NUM_TEXT_MAX], size[NUM_TEXT_MAX], left[NUM_TEXT_MAX], age[NUM_TEXT_MAX];
	const uint64_t now = since_now_ms();

	format_left(s, left);
	num_format_age(age, now > s->volume.used_ms ? now - s->volume.used_ms : 0);
	printf("%-20s  %8s  %8s  %8llu  %9zu  %8s  %8s  %s\n", s->volume.name, num_format_size(used, s->bytes),
	       num_format_size(size, s->volume.size), (unsigned long long)s->entries, s->volume.n_snapshots, age, left, state_of(s));
}

/* With --json, the volume as it is now. */
static int
finish(struct volumes *v, const struct args *args, const char *name, struct err *err)
{
	OWN(freep) struct shown *s = calloc(1, sizeof(*s));
	int r = s == NULL ? err_set(err, ENOMEM, "out of memory") : 0;

	if (r < 0 || args_get(args, "json") == NULL)
		return r;
	r = look(v, name, s, err);
	if (r == 0)
		print_json(s);
	return r;
}

/* ---- verbs ---- */

int
cmd_create(struct volumes *v, const struct args *args, struct err *err)
{
	const char *size_text = args_get(args, "size"), *ttl_text = args_get(args, "ttl");
	char name[VOLUME_NAME_MAX + 1], label[VOLUME_NAME_MAX + 1], size_shown[NUM_TEXT_MAX];
	uint64_t size = VOLUME_SIZE_DEFAULT, ttl = 0;
	int r = volume_parse(args->words[1], name, label, err);

	if (r == 0 && label[0] != '\0')
		r = err_set(err, EINVAL, "'%s' is the name of a snapshot: a new volume has none", args->words[1]);
	if (r == 0 && size_text != NULL)
		r = num_parse_size(size_text, &size, err);
	if (r == 0 && ttl_text != NULL)
		r = num_parse_duration(ttl_text, &ttl, err);
	if (r == 0 && ttl_text != NULL && ttl == 0)
		r = err_set(err, EINVAL, "--ttl '%s' must be greater than 0", ttl_text);
	if (r == 0 && (size < VOLUME_SIZE_LEAST || size > VOLUME_SIZE_MAX))
		r = err_set(err, ERANGE, "--size '%s' must be 64K to 16T", size_text);
	r = r == 0 ? volume_create(v, name, size, ttl, NULL, err) : r;
	r = r == 0 ? note("volume.created", name, "size", num_format_size(size_shown, size), err) : r;
	return r < 0 ? r : finish(v, args, name, err);
}

int
cmd_list(struct volumes *v, const struct args *args, struct err *err)
{
	OWN(freep) struct shown *s = calloc(1, sizeof(*s));
	OWN(strv_freep) char **names = NULL;
	const bool json = args_get(args, "json") != NULL;
	struct json w = { .out = stdout };
	int r = s == NULL ? err_set(err, ENOMEM, "out of memory") : volume_list(v, &names, err);

	if (r < 0)
		return r;
	if (json)
		json_open(&w, NULL, '[');
	else if (names[0] != NULL)
		printf("%-20s  %8s  %8s  %8s  %9s  %8s  %8s  %s\n", "VOLUME", "BYTES", "SIZE", "ENTRIES", "SNAPSHOTS", "USED",
		       "LEFT", "STATE");
	for (char **name = names; *name != NULL; name++) {
		struct err why = {0};

		*s = (struct shown){0};
		/* One that cannot be read does not hide the others. */
		if (look(v, *name, s, &why) < 0) {
			fprintf(stderr, "cloister: %s\n", why.text);
			snprintf(s->volume.name, sizeof(s->volume.name), "%s", *name);
			s->is_damaged = true;
		}
		if (json && !s->is_damaged) {
			json_open(&w, NULL, '{');
			put_members(&w, s);
			json_close(&w, '}');
		} else if (!json) {
			print_row(s);
		}
	}
	if (json) {
		json_close(&w, ']');
		putchar('\n');
	} else if (names[0] == NULL) {
		fputs("there are no volumes: `cloister volume create NAME` makes one\n", stderr);
	}
	return 0;
}

static void
print_volume(const struct shown *s)
{
	char used[NUM_TEXT_MAX], size[NUM_TEXT_MAX], left[NUM_TEXT_MAX], time[SINCE_TEXT_MAX];

	format_left(s, left);
	printf("volume:    %s\n", s->volume.name);
	printf("size:      %s of %s, %llu entries\n", num_format_size(used, s->bytes), num_format_size(size, s->volume.size),
	       (unsigned long long)s->entries);
	since_format(s->volume.made_ms, time);
	printf("created:   %s\n", time);
	since_format(s->volume.used_ms, time);
	printf("last used: %s\n", time);
	printf("time left: %s\n", left);
	printf("state:     %s\n", state_of(s));
	for (size_t i = 0; i < s->volume.n_snapshots; i++) {
		since_format(s->volume.snapshots[i].made_ms, time);
		printf("snapshot:  %s@%s  %s\n", s->volume.name, s->volume.snapshots[i].label, time);
	}
}

int
cmd_show(struct volumes *v, const struct args *args, struct err *err)
{
	OWN(freep) struct shown *s = calloc(1, sizeof(*s));
	char name[VOLUME_NAME_MAX + 1], label[VOLUME_NAME_MAX + 1];
	int r = s == NULL ? err_set(err, ENOMEM, "out of memory") : volume_parse(args->words[1], name, label, err);

	if (r == 0 && label[0] != '\0')
		r = err_set(err, EINVAL, "'%s' is the name of a snapshot: `cloister volume show %s` lists those", args->words[1], name);
	r = r == 0 ? look(v, name, s, err) : r;
	if (r == 0 && args_get(args, "json") != NULL)
		print_json(s);
	else if (r == 0)
		print_volume(s);
	return r;
}

/* NAME[@LABEL], whose changes are settled. */
static int
take_word(struct volumes *v, const char *word, char ret_name[VOLUME_NAME_MAX + 1], char ret_label[VOLUME_NAME_MAX + 1],
          struct err *err)
{
	OWN(freep) struct volume *volume = calloc(1, sizeof(*volume));
	int r = volume == NULL ? err_set(err, ENOMEM, "out of memory") : volume_parse(word, ret_name, ret_label, err);

	r = r == 0 ? volume_load(v, ret_name, volume, err) : r;
	return r == 0 && volume_is_unsettled(v, volume) ? volume_do_settle(v, ret_name, err) : r;
}

int
cmd_clone(struct volumes *v, const struct args *args, struct err *err)
{
	char name[VOLUME_NAME_MAX + 1], label[VOLUME_NAME_MAX + 1], new[VOLUME_NAME_MAX + 1], none[VOLUME_NAME_MAX + 1];
	int r = volume_parse(args->words[2], new, none, err);

	if (r == 0 && none[0] != '\0')
		r = err_set(err, EINVAL, "'%s' is the name of a snapshot: a new volume has none", args->words[2]);
	r = r == 0 ? take_word(v, args->words[1], name, label, err) : r;
	r = r == 0 ? volume_clone(v, name, label, new, err) : r;
	r = r == 0 ? note("volume.cloned", new, "of", args->words[1], err) : r;
	return r < 0 ? r : finish(v, args, new, err);
}

int
cmd_snapshot(struct volumes *v, const struct args *args, struct err *err)
{
	char name[VOLUME_NAME_MAX + 1], label[VOLUME_NAME_MAX + 1], made[VOLUME_NAME_MAX + 1];
	int r = take_word(v, args->words[1], name, label, err);

	r = r == 0 ? volume_snapshot(v, name, label, made, err) : r;
	r = r == 0 ? note("volume.snapshot", name, "label", made, err) : r;
	if (r == 0 && args_get(args, "json") == NULL)
		printf("%s@%s\n", name, made);
	return r < 0 ? r : finish(v, args, name, err);
}

int
cmd_restore(struct volumes *v, const struct args *args, struct err *err)
{
	char name[VOLUME_NAME_MAX + 1], label[VOLUME_NAME_MAX + 1];
	int r = take_word(v, args->words[1], name, label, err);

	if (r == 0 && label[0] == '\0')
		r = err_set(err, EINVAL, "say which snapshot: `cloister volume restore %s@LABEL` (see `cloister volume show %s`)", name,
		            name);
	r = r == 0 ? volume_restore(v, name, label, err) : r;
	r = r == 0 ? note("volume.restored", name, "label", label, err) : r;
	r = r == 0 ? sweep(v, err) : r;
	return r < 0 ? r : finish(v, args, name, err);
}

int
cmd_remove(struct volumes *v, const struct args *args, struct err *err)
{
	char name[VOLUME_NAME_MAX + 1], label[VOLUME_NAME_MAX + 1];
	int r = 0;

	for (size_t i = 1; r == 0 && i < args->n_words; i++) {
		r = volume_parse(args->words[i], name, label, err);
		if (r == 0)
			r = label[0] != '\0' ? volume_remove_snapshot(v, name, label, err) : volume_remove(v, name, false, err);
		if (r == 0)
			r = note("volume.removed", name, label[0] != '\0' ? "label" : NULL, label, err);
	}
	return r < 0 ? r : sweep(v, err);
}

static void
print_pruned(char *const *names, const struct volume_swept *swept)
{
	struct json w = { .out = stdout };

	json_open(&w, NULL, '{');
	json_strv(&w, "removed", (const char *const *)names);
	json_u64(&w, "trees", swept->trees);
	json_u64(&w, "bytes", swept->bytes);
	json_close(&w, '}');
	putchar('\n');
}

int
cmd_prune(struct volumes *v, const struct args *args, struct err *err)
{
	OWN(strv_freep) char **names = NULL;
	struct volume_swept swept = {0};
	char bytes[NUM_TEXT_MAX];
	size_t n = 0;
	int r = volume_list(v, &names, err);

	/* The list becomes that of the removed ones. */
	for (size_t i = 0; r == 0 && names[i] != NULL; i++) {
		char *name = names[i];
		struct err why = {0};

		r = volume_do_settle(v, name, &why);
		r = r == 0 ? volume_remove(v, name, true, &why) : r;
		r = r == 0 ? note("volume.removed", name, "why", "ttl", &why) : r;
		names[i] = NULL;
		if (r == 0)
			names[n++] = name;
		else
			free(name);
		r = r == 0 || r == -EAGAIN || r == -ENOENT || r == -EBADMSG ? 0 : err_set(err, why.code, "%s", why.text);
	}
	r = r == 0 ? volume_sweep(v, &swept, err) : r;
	if (r == 0 && args_get(args, "json") != NULL)
		print_pruned(names, &swept);
	else if (r == 0)
		printf("removed %zu volume%s and %s\n", n, n == 1 ? "" : "s", num_format_size(bytes, swept.bytes));
	return r;
}

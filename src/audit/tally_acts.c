/* tally_acts.c - sums up what a cell used, and the acts inside it: see tally.h. */
#include <stdio.h>
#include <string.h>

#include "audit/fields.h"
#include "audit/tally.h"
#include "base/own.h"
#include "base/since.h"
#include "base/utf8.h"

#define TEXT_MAX 4096                   /* of a member that is kept in part */

const char *
audit_measure_name(enum audit_measure measure)
{
	static const char *const names[] = {
		[AUDIT_CPU_MS] = "cpu_ms", [AUDIT_READ] = "read", [AUDIT_WRITTEN] = "written",
		[AUDIT_MEMORY] = "memory", [AUDIT_PROCESSES] = "processes", [AUDIT_DISK] = "disk",
		[AUDIT_PEAK] = "peak", [AUDIT_PRESSURE_CPU] = "pressure_cpu",
		[AUDIT_PRESSURE_IO] = "pressure_io", [AUDIT_PRESSURE_MEMORY] = "pressure_memory",
	};

	return names[measure];
}

void
audit_use_join(struct audit_use *to, const struct audit_use *more)
{
	to->samples += more->samples;
	for (int i = 0; i < AUDIT_SUMS; i++)
		to->at[i] += more->at[i];
	for (int i = AUDIT_SUMS; i < AUDIT_USES; i++)
		if (more->at[i] > to->at[i])
			to->at[i] = more->at[i];
}

static uint64_t
time_of(struct http_text time)
{
	char text[AUDIT_TIME_LEN + 1];
	uint64_t ms = 0;

	if (time.len != AUDIT_TIME_LEN)
		return 0;
	memcpy(text, time.at, AUDIT_TIME_LEN);
	text[AUDIT_TIME_LEN] = '\0';
	return since_parse(text, 0, &ms, NULL) == 0 ? ms : 0;
}

/* ---- resources ---- */

/* A sum never shrinks: a smaller one, and an unknown one, is the last. */
static void
take_sample(struct audit_tally *t, struct http_text event, uint64_t time_ms, struct audit_use *use)
{
	struct audit_use more = { .samples = 1 };
	struct audit_sample s = { .time_ms = time_ms };

	for (int i = 0; i < AUDIT_MEASURES; i++)
		if (audit_field_number(event, audit_measure_name(i), &s.at[i]))
			s.known |= 1u << i;
	for (int i = 0; i < AUDIT_SUMS; i++) {
		if (s.at[i] < t->sample.at[i])
			s.at[i] = t->sample.at[i];
		more.at[i] = s.at[i] - t->sample.at[i];
	}
	s.known |= t->sample.known & ((1u << AUDIT_SUMS) - 1);
	for (int i = AUDIT_SUMS; i < AUDIT_USES; i++)
		more.at[i] = s.at[i];
	if (t->sample.time_ms != 0 && time_ms > t->sample.time_ms)
		s.cpu_permille = more.at[AUDIT_CPU_MS] * 1000 / (time_ms - t->sample.time_ms);
	if (use != NULL)
		audit_use_join(use, &more);
	t->sample = s;
}

/* The end has the sums of the whole life; its `processes` is the most at once, and nothing is in use. */
static void
take_end(struct audit_tally *t, struct http_text event, uint64_t time_ms, struct audit_use *use)
{
	struct audit_use more = {0};

	take_sample(t, event, time_ms, &more);
	more.samples = 0;
	for (int i = AUDIT_SUMS; i < AUDIT_USES; i++) {
		more.at[i] = t->sample.at[i] = 0;
		t->sample.known &= ~(1u << i);
	}
	t->sample.cpu_permille = 0;
	if (use != NULL)
		audit_use_join(use, &more);
}

/* As much of the member as fits, in whole characters. */
static void
keep_text(struct http_text event, const char *name, char ret_text[CELL_REFUSAL_TEXT])
{
	char text[TEXT_MAX];
	size_t at = 0, n;
	uint32_t code;

	ret_text[0] = '\0';
	if (!audit_field_text(event, name, text, sizeof(text)))
		return;
	while ((n = utf8_next(text + at, strlen(text + at), &code)) > 0 && at + n < CELL_REFUSAL_TEXT)
		at += n;
	snprintf(ret_text, CELL_REFUSAL_TEXT, "%.*s", (int)at, text);
}

void
audit_tally_act(struct audit_tally *t, struct http_text type, struct http_text event, struct http_text time,
                uint64_t count, struct audit_use *use)
{
	const struct {
		const char *type;
		uint64_t *sum;
	} counts[] = {
		{ "refused", &t->acts.refused }, { "danger", &t->acts.dangerous }, { "lost", &t->acts.lost },
		{ "watch", &t->acts.watches },
	};
	struct json_walk_item item;

	for (size_t i = 0; i < ARRAY_LEN(counts); i++)
		if (http_text_is(type, counts[i].type))
			*counts[i].sum += count;
	if (http_text_is(type, "exec"))
		t->acts.programs += !audit_field(event, "error", JSON_WALK_STRING, &item);
	else if (http_text_is(type, "resources"))
		take_sample(t, event, time_of(time), use);
	else if (http_text_is(type, "cell.end"))
		take_end(t, event, time_of(time), use);
	if (http_text_is(type, "watch")) {
		snprintf(t->watch.time, sizeof(t->watch.time), "%.*s", (int)time.len, time.at);
		keep_text(event, "of", t->watch.what);
		keep_text(event, "rule", t->watch.why);
	}
}

/* ---- over time ---- */

/* The sums of a long slot are spread evenly over those of the window, what cannot be divided first. */
static void
spread_sums(const struct audit_use *use, uint64_t parts, uint64_t at, struct audit_use *to)
{
	for (int i = 0; i < AUDIT_SUMS; i++)
		to->at[i] += use->at[i] / parts + (at < use->at[i] % parts);
}

static void
add_sums(const struct audit_tally *t, uint64_t since_s, uint64_t step_s, struct audit_use *uses, size_t n)
{
	uint64_t parts = t->step_s > step_s ? t->step_s / step_s : 1;

	for (size_t i = 0; i < t->n_slots; i++)
		for (uint64_t k = 0; k < parts; k++) {
			uint64_t at = t->since_s + i * t->step_s + k * step_s;

			if (at >= since_s && (at - since_s) / step_s < n)
				spread_sums(&t->uses[i], parts, k, &uses[(at - since_s) / step_s]);
		}
}

void
audit_tally_add_uses(const struct audit_tally *t, uint64_t since_s, uint64_t step_s, uint64_t until_s,
                     struct audit_use *uses, size_t n)
{
	struct audit_use last = {0};
	size_t next = 0;

	if (t->n_slots == 0 || t->sample.time_ms == 0)
		return;
	add_sums(t, since_s, step_s, uses, n);
	for (size_t w = 0; w < n && since_s + w * step_s <= until_s; w++) {
		uint64_t end = since_s + (w + 1) * step_s;
		struct audit_use most = {0};

		for (; next < t->n_slots && t->since_s + next * t->step_s < end; next++) {
			if (t->uses[next].samples == 0)
				continue;
			last = t->uses[next];
			/* What was before the window is only carried into it. */
			if (t->since_s + (next + 1) * t->step_s > since_s + w * step_s)
				audit_use_join(&most, &last);
		}
		if (most.samples == 0)
			most = last;
		if (most.samples == 0)
			continue;
		uses[w].samples++;
		for (int i = AUDIT_SUMS; i < AUDIT_USES; i++)
			uses[w].at[i] += most.at[i];
	}
}

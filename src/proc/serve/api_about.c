/* api_about.c - the service's own data: version, health, metrics. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/version.h"
#include "cell/cell_dirs.h"
#include "dispatch/dispatch.h"
#include "fleet/fleet_rows.h"
#include "registry/registry.h"
#include "proc/serve/api.h"
#include "proc/serve/metrics.h"
#include "registry/registry.h"
#include "store/s3_place.h"
#include "store/store_url.h"

int
api_version(struct api_call *c)
{
	c->answer = json_pack("{s:s, s:s, s:[s]}", "version", CLOISTER_VERSION, "build", c->api->build,
	                      "api", "v1");
	return 0;
}

static json_t *
place_of(const char *url)
{
	OWN(freep) char *shown = url == NULL || *url == '\0' ? NULL : store_url_shown(url);

	json_t *text = shown == NULL ? NULL : json_string(shown);

	return text != NULL ? text : json_null();
}

int
api_store(struct api_call *c)
{
	c->answer = json_pack("{s:o, s:o}", "registry", place_of(registry_store()), "blobs", place_of(getenv(S3_VARIABLE)));
	return 0;
}

int
api_healthz(struct api_call *c)
{
	OWN(closep) int runtime = cell_runtime_open(&c->err);

	if (runtime < 0)
		return api_fail_as(c, 503, "unavailable");
	c->answer = json_pack("{s:s}", "status", c->api->stopping ? "stopping" : "ok");
	return 0;
}

/* ---- metrics ---- */

static void
put_metric(FILE *out, const char *name, const char *type, const char *help, uint64_t value)
{
	fprintf(out, "# HELP cloister_%s %s\n# TYPE cloister_%s %s\ncloister_%s %llu\n", name, help, name,
	        type, name, (unsigned long long)value);
}

static void
put_answers(FILE *out, const struct serve_stats *stats)
{
	fputs("# HELP cloister_http_answers_total Answers by the first digit of their status.\n"
	      "# TYPE cloister_http_answers_total counter\n", out);
	for (int i = 2; i < 6; i++)
		fprintf(out, "cloister_http_answers_total{status=\"%dxx\"} %llu\n", i,
		        (unsigned long long)stats->statuses[i]);
}

static void
put_cells(FILE *out)
{
	OWN(closep) int runtime = cell_runtime_open(NULL);
	OWN(freep) struct cell_entry *entries = NULL;
	size_t n = 0;

	if (runtime >= 0 && cell_list(runtime, true, &entries, &n, NULL) == 0)
		put_metric(out, "cells_running", "gauge", "Cells that run.", n);
}

static void
put_dispatches(FILE *out, struct registry *r)
{
	uint64_t counts[DISPATCH_STATES];

	if (r == NULL || dispatch_count(r, counts, NULL) < 0)
		return;
	fputs("# HELP cloister_dispatches Dispatches by their state.\n# TYPE cloister_dispatches gauge\n", out);
	for (int i = 0; i < DISPATCH_STATES; i++)
		fprintf(out, "cloister_dispatches{state=\"%s\"} %llu\n", dispatch_state_name(i),
		        (unsigned long long)counts[i]);
}

/* Prometheus wants the lines of a name together. */
enum { POOL_WAITING, POOL_TAKEN, POOL_OLDEST, POOL_NUMBERS };
#define POOL_LINES_MAX (1 << 20)

static void
put_pool(void *arg, const char *pool, uint64_t waiting, uint64_t taken, uint64_t oldest_ms)
{
	struct buf *lines = arg;
	uint64_t now = (uint64_t)time(NULL) * 1000, age = oldest_ms == 0 || now < oldest_ms ? 0 : (now - oldest_ms) / 1000;
	const uint64_t numbers[POOL_NUMBERS] = { waiting, taken, age };
	static const char *const names[POOL_NUMBERS] = { "waiting", "taken", "oldest_seconds" };
	char line[256];

	/* A name of a pool needs no quoting. */
	for (int i = 0; i < POOL_NUMBERS; i++) {
		snprintf(line, sizeof(line), "cloister_pool_%s{pool=\"%s\"} %llu\n", names[i], pool,
		         (unsigned long long)numbers[i]);
		buf_put_text(&lines[i], line);
	}
}

static void
put_pools(FILE *out, struct registry *r)
{
	static const char *const heads[POOL_NUMBERS] = {
		"# HELP cloister_pool_waiting Dispatches that wait for a worker.\n# TYPE cloister_pool_waiting gauge\n",
		"# HELP cloister_pool_taken Dispatches that workers have.\n# TYPE cloister_pool_taken gauge\n",
		"# HELP cloister_pool_oldest_seconds How long the first has waited.\n# TYPE cloister_pool_oldest_seconds gauge\n",
	};
	struct buf lines[POOL_NUMBERS] = { BUF(POOL_LINES_MAX), BUF(POOL_LINES_MAX), BUF(POOL_LINES_MAX) };
	bool good = r != NULL && dispatch_count_pools(r, put_pool, lines, NULL) == 0;

	for (int i = 0; i < POOL_NUMBERS; i++) {
		if (good && !buf_failed(&lines[i])) {
			fputs(heads[i], out);
			fwrite(lines[i].data, 1, lines[i].len, out);
		}
		buf_free(&lines[i]);
	}
}

static void
put_reserved(void *arg, const char *pool, uint64_t slots)
{
	char line[256];

	snprintf(line, sizeof(line), "cloister_pool_reserved{pool=\"%s\"} %llu\n", pool, (unsigned long long)slots);
	buf_put_text(arg, line);
}

static void
put_reserves(FILE *out, struct registry *r)
{
	OWN(buf_free) struct buf lines = BUF(POOL_LINES_MAX);

	if (r == NULL || dispatch_each_reserved(r, put_reserved, &lines, NULL) < 0 || buf_failed(&lines) || lines.len == 0)
		return;
	fputs("# HELP cloister_pool_reserved Slots that are to be free beside those in use.\n# TYPE cloister_pool_reserved gauge\n", out);
	fwrite(lines.data, 1, lines.len, out);
}

enum { TARGET_WORKERS, TARGET_WANTED, TARGET_FAILING, TARGET_NUMBERS };

static void
put_target(void *arg, const char *target, const struct fleet_row *row)
{
	struct buf *lines = arg;
	const unsigned numbers[TARGET_NUMBERS] = { row->workers, row->wanted, *row->error != '\0' };
	static const char *const names[TARGET_NUMBERS] = { "workers", "workers_wanted", "failing" };
	char line[256];

	for (int i = 0; i < TARGET_NUMBERS; i++) {
		snprintf(line, sizeof(line), "cloister_target_%s{target=\"%s\"} %u\n", names[i], target, numbers[i]);
		buf_put_text(&lines[i], line);
	}
}

static void
put_targets(FILE *out, struct registry *r)
{
	static const char *const heads[TARGET_NUMBERS] = {
		"# HELP cloister_target_workers Workers that the engine of a target has.\n# TYPE cloister_target_workers gauge\n",
		"# HELP cloister_target_workers_wanted Workers that the queue needs.\n# TYPE cloister_target_workers_wanted gauge\n",
		"# HELP cloister_target_failing Whether its engine or its workers fail.\n# TYPE cloister_target_failing gauge\n",
	};
	struct buf lines[TARGET_NUMBERS] = { BUF(POOL_LINES_MAX), BUF(POOL_LINES_MAX), BUF(POOL_LINES_MAX) };
	bool good = r != NULL && fleet_rows_each(registry_db(r), put_target, lines, NULL) == 0;

	for (int i = 0; i < TARGET_NUMBERS; i++) {
		if (good && !buf_failed(&lines[i]) && lines[i].len > 0) {
			fputs(heads[i], out);
			fwrite(lines[i].data, 1, lines[i].len, out);
		}
		buf_free(&lines[i]);
	}
}

int
api_metrics(struct api_call *c)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (out == NULL)
		return api_answer_text(c, NULL, 0, NULL);
	fprintf(out, "# HELP cloister_build_info The version of cloister.\n"
	        "# TYPE cloister_build_info gauge\n"
	        "cloister_build_info{version=\"%s\",build=\"%s\"} 1\n", CLOISTER_VERSION, c->api->build);
	put_metric(out, "start_time_seconds", "gauge", "When the service was started.",
	           c->api->started_ms / 1000);
	put_metric(out, "http_connections", "gauge", "Connections that are open.", c->stats.conns);
	put_metric(out, "http_connections_total", "counter", "Connections so far.", c->stats.accepted);
	put_metric(out, "http_streams", "gauge", "Event streams that are open.", c->stats.streams);
	put_metric(out, "http_requests_total", "counter", "Requests so far.", c->stats.requests);
	put_metric(out, "http_refused_total", "counter",
	           "Requests that were malformed or not authorized.", c->stats.refused);
	put_answers(out, &c->stats);
	put_cells(out);
	put_dispatches(out, api_registry(c));
	put_pools(out, api_registry(c));
	put_reserves(out, api_registry(c));
	put_targets(out, api_registry(c));
	metrics_put(c->api->metrics, out);
	c->code = NULL;
	fclose(out);
	return api_answer_text(c, text, size, "text/plain; version=0.0.4; charset=utf-8");
}

/* fuzz_fleet.c - answers of a hostile engine: whatever they are, a question to it ends with a bounded result.
 *
 * The first byte says which engine and which question.  The answers follow: a byte for the status, two for the length, and
 * the body.  After the last one the engine is silent. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "fleet/fleet.h"
#include "fleet/fleet_http.h"
#include "fuzz.h"

#define ASKED_MAX 4096                  /* no question asks for ever */
#define TAG "0123456789abcdef"
#define TARGET(engine, own) "{\"name\":\"t\",\"engine\":\"" engine "\",\"pool\":\"p\",\"idle\":\"30s\"," \
	"\"workers\":{\"min\":0,\"max\":8},\"slots\":2,\"once\":false,\"image\":\"i:1\",\"service\":\"s:7\",\"cpus\":\"1\"," \
	"\"memory\":\"1G\",\"env\":{\"A\":\"b\"},\"secrets\":{\"S\":\"of-engine\"},\"" engine "\":" own "}"

enum { CHECK, START, COUNT, LOOK, STOP, QUESTIONS };

static const char *const targets[] = {
	TARGET("docker", "{\"host\":\"unix:///e\",\"network\":\"n\"}"),
	TARGET("swarm", "{\"host\":\"unix:///e\",\"networks\":[\"n\"]}"),
	TARGET("kubernetes", "{\"namespace\":\"ns\",\"serviceAccount\":\"sa\"}"),
	TARGET("ecs", "{\"cluster\":\"c\",\"region\":\"eu-west-1\",\"subnets\":[\"subnet-1\"],\"launchType\":\"FARGATE\"}"),
};
/* Workers of theirs. */
static const char *const ids[] = {
	"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", "0123456789abcdefghijklmno", "cloister-t-1",
	"arn:aws:ecs:eu-west-1:123456789012:task/c/0123456789abcdef0123456789abcdef",
};
static const char config[] = "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, "
	"user: u}}], clusters: [{name: c, cluster: {server: 'https://k.example'}}], users: [{name: u, user: {token: t}}]}\n";

static const uint8_t *left;
static size_t n_left, asked;

/* ---- instead of fleet_http.c ---- */

struct fleet_http {
	int unused;
};

int
fleet_http_new(struct fleet_http **ret_http, struct err *err)
{
	(void)err;
	*ret_http = NULL;
	return 0;
}

void
fleet_http_free(struct fleet_http *http)
{
	(void)http;
}

int
fleet_http_to(struct fleet_http *http, const struct fleet_server *server, struct err *err)
{
	(void)http;
	(void)server;
	(void)err;
	return 0;
}

bool
fleet_http_is_tls(const struct fleet_http *http)
{
	(void)http;
	return true;
}

const char *
fleet_http_where(const struct fleet_http *http)
{
	(void)http;
	return "e.example:443";
}

void
fleet_reply_free(struct fleet_reply *reply)
{
	buf_free(&reply->body);
}

int
fleet_http_ask(struct fleet_http *http, const struct fleet_request *request, struct fleet_reply *ret_reply, struct err *err)
{
	static const long statuses[] = { 200, 201, 204, 301, 400, 401, 403, 404, 409, 429, 500, 503, 0, 999 };
	size_t len;

	(void)http;
	assert(++asked < ASKED_MAX);
	assert(request->path == NULL || strpbrk(request->path, " \r\n") == NULL);
	if (n_left < 3)
		return err_set(err, ETIMEDOUT, "silent");
	len = (size_t)left[1] << 8 | left[2];
	len = len < n_left - 3 ? len : n_left - 3;
	*ret_reply = (struct fleet_reply){ .status = statuses[left[0] % ARRAY_LEN(statuses)] };
	buf_init(&ret_reply->body, FLEET_BODY_MAX + 1);
	buf_put(&ret_reply->body, left + 3, len);
	buf_put(&ret_reply->body, "", 1);
	ret_reply->body.len--;
	left += 3 + len;
	n_left -= 3 + len;
	return 0;
}

int
fleet_http_ask_json(struct fleet_http *http, const char *method, const char *path, json_t *body, long *ret_status,
                    json_t **ret_json, struct err *err)
{
	OWN(fleet_reply_free) struct fleet_reply reply = {0};
	int r = fleet_http_ask(http, &(struct fleet_request){ .method = method, .path = path }, &reply, err);

	(void)body;
	*ret_json = NULL;
	if (r < 0)
		return r;
	*ret_status = reply.status;
	*ret_json = json_loadb((char *)reply.body.data, reply.body.len, JSON_REJECT_DUPLICATES, NULL);
	return 0;
}

char *
fleet_http_escape(const char *text)
{
	char *copy = strdup(text);

	for (char *at = copy; at != NULL && *at != '\0'; at++)
		if (*at <= ' ' || *at == '/' || *at == '?' || *at == 127)
			*at = '_';
	return copy;
}

/* ---- */

static char path[] = "/tmp/fuzz-fleet-XXXXXX";

static void
remove_config(void)
{
	unlink(path);
}

/* What engines read before they ask. */
static void
prepare(void)
{
	int fd = mkstemp(path);

	assert(fd >= 0 && write_all(fd, config, sizeof(config) - 1, NULL) == 0);
	close(fd);
	atexit(remove_config);
	assert(setenv("KUBECONFIG", path, 1) == 0 && setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1) == 0 &&
	       setenv("AWS_SECRET_ACCESS_KEY", "secret", 1) == 0 && setenv("AWS_EC2_METADATA_DISABLED", "true", 1) == 0);
}

static void
check_line(const char *text, size_t max)
{
	assert(strlen(text) < max && strpbrk(text, "\r\n\033") == NULL);
}

static void
ask(const struct fleet *engine, struct fleet_place *place, const char *worker, int question)
{
	static struct fleet_findings findings;
	struct fleet_job job = { .token = "t", .name = "cloister-t-1" };
	struct fleet_count count = {0};
	struct fleet_outcome outcome = {0};
	struct err err = {0};
	char id[FLEET_ID_MAX] = "";

	findings.n = 0;
	switch (question) {
	case CHECK:
		(void)engine->check(place, &findings, &err);
		assert(findings.n <= FLEET_FINDINGS_MAX);
		for (size_t i = 0; i < findings.n; i++)
			check_line(findings.at[i].text, FLEET_WHY_MAX);
		break;
	case START:
		if (engine->start(place, &job, id, &err) == 0) {
			assert(id[0] != '\0');
			check_line(id, FLEET_ID_MAX);
		}
		break;
	case COUNT:
		if (engine->count(place, &count, &err) == 0)
			check_line(count.why, FLEET_WHY_MAX);
		break;
	case LOOK:
		if (engine->look(place, worker, &outcome, &err) == 0)
			check_line(outcome.text, FLEET_WHY_MAX);
		break;
	default:
		(void)engine->stop(place, worker, &err);
	}
	check_line(err.text, sizeof(err.text));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool prepared;
	OWN(fleet_plan_free) struct fleet_plan plan = {0};
	struct fleet_place place = { .plan = &plan };
	const struct fleet *engine;
	const char *target, *worker;

	if (!prepared)
		prepare();
	prepared = true;
	if (size == 0)
		return 0;
	target = targets[data[0] % ARRAY_LEN(targets)];
	worker = ids[data[0] % ARRAY_LEN(targets)];
	left = data + 1;
	n_left = size - 1;
	asked = 0;
	assert(fleet_plan_read(target, strlen(target), TAG, &plan, NULL) == 0);
	engine = fleet_engine(plan.engine);
	assert(engine != NULL && engine->open(&place, NULL) == 0);
	ask(engine, &place, worker, data[0] / 4 % QUESTIONS);
	/* A count lists what the next question is about. */
	if (n_left > 0)
		ask(engine, &place, worker, data[0] / 32 % QUESTIONS);
	engine->close(&place);
	return 0;
}

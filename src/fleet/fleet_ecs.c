/* fleet_ecs.c - the engine `ecs`: Amazon's Elastic Container Service, on Fargate or machines of EC2.  A worker is a task.
 *
 * Tasks are found by `startedBy`.  ECS forgets a task soon after its end, so those that were alive at the last count are
 * remembered here, and asked for once they are not. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "canon/hash.h"
#include "fleet/fleet.h"
#include "fleet/fleet_http.h"
#include "policy/policy_boundary.h"
#include "sign/sigv4.h"
#include "store/aws_keys.h"
#include "trust/trust.h"

#define SERVICE "AmazonEC2ContainerServiceV20141113"
#define TASKS_MAX 1000
#define PAGE 100                        /* tasks of one question */
#define PAGES_MAX 20
#define ARN_MAX 512
#define REGION_MAX 32
#define CONTAINER "worker"
#define CPU_UNITS 1024
#define MEMORY_MIB 2048
#define STOP_S 120                      /* ECS allows no more */
#define LINES_MAX 8

struct ecs {
	struct aws_keys keys;
	char *folder;                   /* of a key that others renew */
	char region[REGION_MAX + 1], host[HTTP_HOST_MAX + 1], started_by[64];
	char definition[ARN_MAX];       /* of the tasks; "": not known yet */
	char alive[TASKS_MAX][ARN_MAX]; /* at the last count */
	size_t n_alive;
};

static const char *
variable(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && *value != '\0' ? value : NULL;
}

static const char *
text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text != NULL ? text : "";
}

/* ---- before the lockdown ---- */

static int
choose_server(struct fleet_place *p, struct ecs *e, struct err *err)
{
	const char *region = fleet_own_text(p->plan, "region"), *url = variable("AWS_ENDPOINT_URL_ECS");
	const char *bundle = variable("AWS_CA_BUNDLE"), *at;
	OWN(freep) char *own = NULL, *ca = NULL;
	int r = 0;

	region = region != NULL ? region : variable("AWS_REGION");
	region = region != NULL ? region : variable("AWS_DEFAULT_REGION");
	if (region == NULL || strlen(region) > REGION_MAX ||
	    strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(region))
		return err_set(err, EINVAL, "which region? Give the target's `ecs` a `region`, or set AWS_REGION");
	snprintf(e->region, sizeof(e->region), "%s", region);
	if (url == NULL)
		url = own = str_format("https://ecs.%s.amazonaws.com%s", region, strncmp(region, "cn-", 3) == 0 ? ".cn" : "");
	if (url == NULL || (at = strstr(url, "://")) == NULL || strlen(at + 3) >= sizeof(e->host))
		return err_set(err, EINVAL, "AWS_ENDPOINT_URL_ECS is no address");
	snprintf(e->host, sizeof(e->host), "%.*s", (int)strcspn(at + 3, "/:"), at + 3);
	if (bundle != NULL)
		r = trust_read(TRUST_AUTHORITY, bundle, FLEET_FILE_MAX, &ca, NULL, err);
	return r < 0 ? r : fleet_http_to(p->http, &(struct fleet_server){ .url = url, .ca = ca }, err);
}

static void
ecs_close(struct fleet_place *p)
{
	struct ecs *e = p->own;

	aws_keys_wipe(&e->keys);
	free(e->folder);
	free(e);
	p->own = NULL;
}

static int
ecs_open(struct fleet_place *p, struct err *err)
{
	struct ecs *e = calloc(1, sizeof(*e));
	const char *definition = fleet_own_text(p->plan, "taskDefinition");
	int r;

	if (e == NULL)
		return err_set(err, ENOMEM, "out of memory");
	p->own = e;
	e->keys.to = "ECS";
	snprintf(e->started_by, sizeof(e->started_by), "cloister-%s", p->plan->tag);
	snprintf(e->definition, sizeof(e->definition), "%.500s", definition != NULL ? definition : "");
	r = choose_server(p, e, err);
	r = r == 0 ? aws_keys_find(&e->keys, err) : r;
	if (r < 0) {
		ecs_close(p);
		return r;
	}
	e->folder = aws_keys_folder(&e->keys);
	p->readable[0] = e->folder;
	return 0;
}

/* ---- questions ---- */

/* An aws_asker. */
static int
ask_plain(void *arg, const char *method, const char *url, const char *const *fields, struct buf *body, long *ret_status,
          struct err *err)
{
	struct fleet_place *p = arg;
	OWN(fleet_reply_free) struct fleet_reply reply = {0};
	int r = fleet_http_ask(p->http, &(struct fleet_request){ .method = method, .url = url, .fields = fields, .ms = 3000 }, &reply,
	                       err);

	if (r < 0)
		return r;
	buf_put(body, reply.body.data, reply.body.len);
	explicit_bzero(reply.body.data, reply.body.len);
	*ret_status = reply.status;
	return buf_failed(body) ? err_set(err, EFBIG, "its answer is too long") : 0;
}

static struct http_text
text(const char *at)
{
	return (struct http_text){ at, strlen(at) };
}

static void
put_field(struct http_head *head, const char *name, const char *value)
{
	head->fields[head->n_fields++] = (struct http_field){ text(name), text(value) };
}

/* Signs the request with BODY: lines for it, which the caller wipes and frees. */
static int
sign(const struct fleet_place *p, const char *target, const char *body, char *lines[LINES_MAX], struct err *err)
{
	const struct ecs *e = p->own;
	const struct sign_key key = { text(e->keys.id), text(e->keys.secret), text(e->keys.token) };
	struct http_head head = { .method = text("POST"), .host = text(e->host), .path = text("/") };
	const char *where = fleet_http_where(p->http), *colon = strrchr(where, ':');
	char when[32], hex[HASH_HEX + 1];
	unsigned char hash[HASH_LEN];
	time_t now = time(NULL);
	struct tm tm;

	head.port = (uint16_t)(colon != NULL ? strtoul(colon + 1, NULL, 10) : 443);
	head.scheme = fleet_http_is_tls(p->http) ? HTTP_TLS : HTTP_PLAIN;
	strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
	hash_of(body, strlen(body), hash);
	codec_hex(hash, sizeof(hash), hex);
	put_field(&head, "content-type", "application/x-amz-json-1.1");
	put_field(&head, "x-amz-content-sha256", hex);
	put_field(&head, "x-amz-date", when);
	if (e->keys.token[0] != '\0')
		put_field(&head, "x-amz-security-token", e->keys.token);
	put_field(&head, "x-amz-target", target);
	return sigv4_sign_lines(&key, e->region, "ecs", &head, lines, err);
}

static int
send_once(struct fleet_place *p, const char *target, const char *body, struct fleet_reply *ret_reply, struct err *err)
{
	char *lines[LINES_MAX + 1] = { NULL };
	const char *fields[LINES_MAX + 1] = { NULL };
	int r = sign(p, target, body, lines, err);

	/* The first is the content type, which fleet_http.c itself sends. */
	for (size_t i = 0; i + 1 < LINES_MAX; i++)
		fields[i] = lines[i + 1];
	if (r == 0)
		r = fleet_http_ask(p->http, &(struct fleet_request){ .method = "POST", .path = "/", .body = body, .len = strlen(body),
		                   .type = "application/x-amz-json-1.1", .fields = fields }, ret_reply, err);
	sigv4_lines_free(lines, LINES_MAX);
	return r;
}

/* The last part of "com.amazonaws.ecs#ClusterNotFoundException". */
static const char *
error_of(const json_t *answer)
{
	const char *type = text_of(answer, "__type"), *hash = strrchr(type, '#');

	return hash != NULL ? hash + 1 : type;
}

static int
explain(const struct fleet_place *p, const char *action, long status, const json_t *answer, struct err *err)
{
	const struct ecs *e = p->own;
	const char *type = error_of(answer), *said = text_of(answer, "message");
	char why[FLEET_WHY_MAX], what[64];

	fleet_say(what, sizeof(what), type);
	fleet_say(why, sizeof(why), *said != '\0' ? said : text_of(answer, "Message"));
	if (strcmp(type, "AccessDeniedException") == 0)
		return err_set(err, EACCES, "the key '%.64s' may not ecs:%s: %.300s", e->keys.id, action, why);
	if (strcmp(type, "UnrecognizedClientException") == 0 || strcmp(type, "InvalidSignatureException") == 0 ||
	    strcmp(type, "ExpiredTokenException") == 0)
		return err_set(err, EACCES, "ECS in %s does not take the key '%.64s': %.300s", e->region, e->keys.id, why);
	return err_set(err, strstr(type, "NotFound") != NULL ? ENOENT : EIO, "ECS in %s answers %s with %ld%s%s%s%.250s", e->region,
	               action, status, *what != '\0' ? " " : "", what, *why != '\0' ? ": " : "", why);
}

/* Borrows BODY.  The caller owns *ret_answer. */
static int
ask(struct fleet_place *p, const char *action, json_t *body, json_t **ret_answer, struct err *err)
{
	struct ecs *e = p->own;
	const struct aws_asker asker = { ask_plain, p };
	OWN(freep) char *content = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
	OWN(freep) char *target = str_format(SERVICE ".%s", action);
	int r = content == NULL || target == NULL ? err_set(err, ENOMEM, "out of memory") : 0;

	for (unsigned tries = 0; r == 0 && tries < 2; tries++) {
		OWN(fleet_reply_free) struct fleet_reply reply = {0};
		OWN(json_decrefp) json_t *answer = NULL;

		r = aws_keys_renew(&e->keys, &asker, tries > 0, err);
		r = r == 0 ? send_once(p, target, content, &reply, err) : r;
		if (r < 0)
			break;
		answer = json_loadb((char *)reply.body.data, reply.body.len, 0, NULL);
		if (reply.status == 200 && answer != NULL) {
			*ret_answer = TAKE(answer);
			break;
		}
		/* A key that somebody renews may be there again. */
		if (tries > 0 || strcmp(error_of(answer), "ExpiredTokenException") != 0 || e->keys.from == AWS_KEYS_VARIABLES)
			r = explain(p, action, reply.status, answer, err);
	}
	if (content != NULL)
		explicit_bzero(content, strlen(content));
	return r;
}

/* ---- what a task is ---- */

static json_t *
make_definition(const struct fleet_place *p, const char *family)
{
	const struct ecs *e = p->own;
	const struct fleet_plan *plan = p->plan;
	const char *task_role = fleet_own_text(plan, "taskRole"), *role = fleet_own_text(plan, "executionRole");
	const char *group = fleet_own_text(plan, "logGroup"), *type = fleet_own_text(plan, "launchType"), *name;
	char cpu[24], memory[24];
	json_t *secrets = json_array(), *container, *body, *value;

	json_object_foreach((json_t *)(uintptr_t)plan->secrets, name, value)
		(void)json_array_append_new(secrets, json_pack("{s:s, s:s}", "name", name, "valueFrom", json_string_value(value)));
	container = json_pack("{s:s, s:s, s:b, s:o, s:i}", "name", CONTAINER, "image", plan->image, "essential", 1, "secrets",
	                      secrets, "stopTimeout", STOP_S);
	if (container != NULL && group != NULL)
		(void)json_object_set_new(container, "logConfiguration", json_pack("{s:s, s:{s:s, s:s, s:s}}", "logDriver", "awslogs",
		                          "options", "awslogs-group", group, "awslogs-region", e->region, "awslogs-stream-prefix",
		                          "cloister"));
	snprintf(cpu, sizeof(cpu), "%" PRIu64, plan->cpus != 0 ? plan->cpus * CPU_UNITS / 1000 : CPU_UNITS);
	snprintf(memory, sizeof(memory), "%" PRIu64, plan->memory != 0 ? plan->memory >> 20 : MEMORY_MIB);
	body = json_pack("{s:s, s:[s], s:s, s:s, s:s, s:[o]}", "family", family, "requiresCompatibilities",
	                 type != NULL ? type : "FARGATE", "networkMode", "awsvpc", "cpu", cpu, "memory", memory,
	                 "containerDefinitions", container);
	if (body != NULL && task_role != NULL)
		(void)json_object_set_new(body, "taskRoleArn", json_string(task_role));
	if (body != NULL && role != NULL)
		(void)json_object_set_new(body, "executionRoleArn", json_string(role));
	return body;
}

/* Whether TOLD has what ASKED has. */
static bool
has_all(const json_t *told, json_t *asked, const char *but)
{
	const char *name;
	json_t *value;

	json_object_foreach(asked, name, value)
		if (strcmp(name, but) != 0 && !json_equal(json_object_get(told, name), value))
			return false;
	return true;
}

/* Whoever may register definitions can add a revision to the family, with another image: it must be the one that BODY asks
 * for, with one container that starts what its image says. */
static bool
is_asked_for(const json_t *told, const json_t *body)
{
	static const char *const others[] = { "entryPoint", "command", "environmentFiles", "mountPoints", "volumesFrom", "links" };
	const json_t *containers = json_object_get(told, "containerDefinitions"), *container = json_array_get(containers, 0);
	json_t *ours = json_array_get(json_object_get(body, "containerDefinitions"), 0);

	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (json_array_size(json_object_get(container, others[i])) > 0 && json_object_get(ours, others[i]) == NULL)
			return false;
	return json_array_size(containers) == 1 && json_array_size(json_object_get(told, "volumes")) == 0 &&
	       has_all(container, ours, "") && has_all(told, (json_t *)(uintptr_t)body, "containerDefinitions") &&
	       (json_object_get(body, "taskRoleArn") != NULL || *text_of(told, "taskRoleArn") == '\0') &&
	       (json_object_get(body, "executionRoleArn") != NULL || *text_of(told, "executionRoleArn") == '\0');
}

/* Runs are of this revision, whatever is registered later. */
static int
take_definition(struct ecs *e, const json_t *answer, struct err *err)
{
	const char *arn = text_of(json_object_get(answer, "taskDefinition"), "taskDefinitionArn");

	if (*arn == '\0' || strlen(arn) >= sizeof(e->definition))
		return err_set(err, EPROTO, "ECS in %s names no task definition", e->region);
	snprintf(e->definition, sizeof(e->definition), "%s", arn);
	return 0;
}

/* One definition for each content: its family's name has the content's hash. */
static int
find_definition(struct fleet_place *p, struct err *err)
{
	struct ecs *e = p->own;
	OWN(json_decrefp) json_t *body = NULL, *question = NULL, *answer = NULL;
	OWN(freep) char *content = NULL;
	char hex[HASH_HEX + 1], family[128];
	unsigned char hash[HASH_LEN];
	struct err why = {0};
	int r;

	if (e->definition[0] != '\0')
		return 0;
	body = make_definition(p, "");
	content = body != NULL ? json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	if (content == NULL)
		return err_set(err, ENOMEM, "out of memory");
	hash_of(content, strlen(content), hash);
	codec_hex(hash, sizeof(hash), hex);
	snprintf(family, sizeof(family), "cloister-%.40s-%.12s", p->plan->name, hex);
	for (char *at = family; *at != '\0'; at++)
		*at = *at == '.' ? '-' : *at;
	question = json_pack("{s:s}", "taskDefinition", family);
	(void)json_object_set_new(body, "family", json_string(family));
	r = ask(p, "DescribeTaskDefinition", question, &answer, &why);
	if (r < 0 || !is_asked_for(json_object_get(answer, "taskDefinition"), body)) {
		/* There is none: ECS has the same error for one that is malformed. */
		json_decref(TAKE(answer));
		r = ask(p, "RegisterTaskDefinition", body, &answer, err);
	}
	return r == 0 ? take_definition(e, answer, err) : r;
}

/* ---- start ---- */

static json_t *
make_overrides(const struct fleet_place *p, const struct fleet_job *job)
{
	const char *container = fleet_own_text(p->plan, "container"), *name;
	OWN(json_decrefp) json_t *env = fleet_job_env(p->plan, job);
	json_t *list = json_array(), *value;

	json_object_foreach(env, name, value)
		(void)json_array_append_new(list, json_pack("{s:s, s:O}", "name", name, "value", value));
	return json_pack("{s:[{s:s, s:o, s:o}]}", "containerOverrides", "name", container != NULL ? container : CONTAINER, "command",
	                 fleet_job_word_list(p->plan, job), "environment", list);
}

static json_t *
make_run(const struct fleet_place *p, const struct fleet_job *job)
{
	const struct ecs *e = p->own;
	const struct fleet_plan *plan = p->plan;
	const char *cluster = fleet_own_text(plan, "cluster"), *type = fleet_own_text(plan, "launchType");
	const char *version = fleet_own_text(plan, "platformVersion");
	json_t *subnets = json_object_get(plan->own, "subnets"), *groups = json_object_get(plan->own, "securityGroups"), *body;
	char by[80];

	/* Probes are not counted. */
	snprintf(by, sizeof(by), "%s%s", job->tries ? "probe-" : "", e->started_by);
	body = json_pack("{s:s, s:i, s:s, s:s, s:o}", "taskDefinition", e->definition, "count", 1, "startedBy", by, "launchType",
	                 type != NULL ? type : "FARGATE", "overrides", make_overrides(p, job));
	if (body != NULL && cluster != NULL)
		(void)json_object_set_new(body, "cluster", json_string(cluster));
	if (body != NULL && version != NULL)
		(void)json_object_set_new(body, "platformVersion", json_string(version));
	if (body != NULL && subnets != NULL)
		(void)json_object_set_new(body, "networkConfiguration", json_pack("{s:{s:O, s:O*, s:s}}", "awsvpcConfiguration",
		                          "subnets", subnets, "securityGroups", groups, "assignPublicIp",
		                          fleet_own_truth(plan, "assignPublicIp") ? "ENABLED" : "DISABLED"));
	return body;
}

static int
ecs_start(struct fleet_place *p, const struct fleet_job *job, char ret_id[FLEET_ID_MAX], struct err *err)
{
	struct ecs *e = p->own;
	OWN(json_decrefp) json_t *body = NULL, *answer = NULL;
	const json_t *failure;
	const char *arn;
	char why[FLEET_WHY_MAX];
	int r = find_definition(p, err);

	if (r < 0)
		return r;
	body = make_run(p, job);
	r = ask(p, "RunTask", body, &answer, err);
	if (r < 0)
		return r;
	failure = json_array_get(json_object_get(answer, "failures"), 0);
	arn = text_of(json_array_get(json_object_get(answer, "tasks"), 0), "taskArn");
	if (failure != NULL) {
		fleet_say(why, sizeof(why), text_of(failure, "reason"));
		return err_set(err, EAGAIN, "ECS in %s starts no task: %.300s", e->region, why);
	}
	if (*arn == '\0' || strlen(arn) >= ARN_MAX)
		return err_set(err, EPROTO, "ECS in %s names no task", e->region);
	snprintf(ret_id, FLEET_ID_MAX, "%s", arn);
	if (!job->tries && e->n_alive < TASKS_MAX)
		snprintf(e->alive[e->n_alive++], ARN_MAX, "%s", arn);
	return 0;
}

static int
ecs_stop(struct fleet_place *p, const char *id, struct err *err)
{
	const char *cluster = fleet_own_text(p->plan, "cluster");
	OWN(json_decrefp) json_t *answer = NULL, *body = json_pack("{s:s*, s:s, s:s}", "cluster", cluster, "task", id, "reason",
	                                                           "cloister has ended it");

	return ask(p, "StopTask", body, &answer, err);
}

/* ---- look ---- */

static void
judge(const json_t *task, struct fleet_outcome *o)
{
	const json_t *container = json_array_get(json_object_get(task, "containers"), 0);
	const json_t *code = json_object_get(container, "exitCode");
	const char *reason = text_of(container, "reason");

	o->ended = strcmp(text_of(task, "lastStatus"), "STOPPED") == 0;
	o->status = json_is_integer(code) ? (int)json_integer_value(code) : -1;
	fleet_say(o->text, sizeof(o->text), *reason != '\0' ? reason : text_of(task, "stoppedReason"));
}

static int
describe(struct fleet_place *p, json_t *arns, json_t **ret_answer, struct err *err)
{
	OWN(json_decrefp) json_t *body = json_pack("{s:s*, s:O}", "cluster", fleet_own_text(p->plan, "cluster"), "tasks", arns);

	return ask(p, "DescribeTasks", body, ret_answer, err);
}

static int
ecs_look(struct fleet_place *p, const char *id, struct fleet_outcome *ret_outcome, struct err *err)
{
	OWN(json_decrefp) json_t *arns = json_pack("[s]", id), *answer = NULL;
	int r = describe(p, arns, &answer, err);
	const json_t *task = json_array_get(json_object_get(answer, "tasks"), 0);

	if (r == 0 && task == NULL)
		return err_set(err, ENOENT, "there is no task '%.200s' any more", id);
	if (r == 0)
		judge(task, ret_outcome);
	return r;
}

/* Those that should run: an object with their ARNs as its keys. */
static int
list_alive(struct fleet_place *p, json_t *ret_arns, struct err *err)
{
	const struct ecs *e = p->own;
	OWN(freep) char *next = NULL;
	int r = 0;

	for (unsigned page = 0; r == 0 && page < PAGES_MAX; page++) {
		OWN(json_decrefp) json_t *answer = NULL, *body = json_pack("{s:s*, s:s, s:s*}", "cluster",
			fleet_own_text(p->plan, "cluster"), "startedBy", e->started_by, "nextToken", next);
		json_t *arn;
		size_t i;

		r = ask(p, "ListTasks", body, &answer, err);
		json_array_foreach(json_object_get(answer, "taskArns"), i, arn)
			if (json_is_string(arn) && json_string_length(arn) < ARN_MAX)
				(void)json_object_set_new(ret_arns, json_string_value(arn), json_true());
		free(next);
		next = *text_of(answer, "nextToken") != '\0' ? strdup(text_of(answer, "nextToken")) : NULL;
		if (next == NULL)
			break;
	}
	return r;
}

/* What became of those that were alive and are not any more. */
static int
ask_for_lost(struct fleet_place *p, json_t *lost, struct fleet_count *count, struct err *err)
{
	OWN(json_decrefp) json_t *answer = NULL;
	json_t *task;
	size_t i;
	int r = json_array_size(lost) == 0 ? 0 : describe(p, lost, &answer, err);

	json_array_foreach(json_object_get(answer, "tasks"), i, task) {
		struct fleet_outcome o = { .status = -1 };

		judge(task, &o);
		if (!o.ended || o.status == 0)
			continue;
		count->failed++;
		if (o.status < 0)
			snprintf(count->why, sizeof(count->why), "%s", *o.text != '\0' ? o.text : "a task ended, and ECS does not say why");
		else
			snprintf(count->why, sizeof(count->why), "a worker ended with status %d%s%.400s", o.status, *o.text != '\0' ? ": " : "",
			         o.text);
	}
	return r;
}

static int
ecs_count(struct fleet_place *p, struct fleet_count *ret_count, struct err *err)
{
	struct ecs *e = p->own;
	OWN(json_decrefp) json_t *arns = json_object(), *lost = json_array();
	const char *arn;
	json_t *value;
	int r = list_alive(p, arns, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < e->n_alive && json_array_size(lost) < PAGE; i++)
		if (json_object_get(arns, e->alive[i]) == NULL)
			(void)json_array_append_new(lost, json_string(e->alive[i]));
	r = ask_for_lost(p, lost, ret_count, err);
	if (r < 0)
		return r;
	e->n_alive = 0;
	json_object_foreach(arns, arn, value)
		if (e->n_alive < TASKS_MAX)
			snprintf(e->alive[e->n_alive++], ARN_MAX, "%s", arn);
	ret_count->alive = (unsigned)json_object_size(arns);
	return 0;
}

/* ---- check ---- */

static int
ecs_check(struct fleet_place *p, struct fleet_findings *f, struct err *err)
{
	const struct ecs *e = p->own;
	const char *cluster = fleet_own_text(p->plan, "cluster"), *type = fleet_own_text(p->plan, "launchType");
	const char *name = cluster != NULL ? cluster : "default", *definition = fleet_own_text(p->plan, "taskDefinition");
	OWN(json_decrefp) json_t *question = json_pack("{s:[s]}", "clusters", name), *answer = NULL, *second = NULL, *told = NULL;
	int r = ask(p, "DescribeClusters", question, &answer, err);

	if (r < 0)
		return r;
	if (strcmp(text_of(json_array_get(json_object_get(answer, "clusters"), 0), "status"), "ACTIVE") != 0)
		return err_set(err, ENOENT, "ECS in %s has no active cluster '%.100s'", e->region, name);
	fleet_find(f, FLEET_GOOD, "ECS in %s answers, and has the cluster '%.100s'", e->region, name);
	if (definition != NULL) {
		second = json_pack("{s:s}", "taskDefinition", definition);
		r = ask(p, "DescribeTaskDefinition", second, &told, err);
		if (r < 0)
			fleet_find(f, FLEET_MISSING, "%s", err->text);
		else
			fleet_find(f, FLEET_GOOD, "it has the task definition '%.100s'", definition);
	}
	if ((type == NULL || strcmp(type, "FARGATE") == 0) && json_object_get(p->plan->own, "subnets") == NULL)
		fleet_find(f, FLEET_MISSING, "tasks on Fargate need `subnets`");
	if (type == NULL || strcmp(type, "FARGATE") == 0)
		fleet_find(f, FLEET_NOTE, "Fargate allows no namespaces: cells there have the boundary '%s'%s", p->plan->boundary,
		           strcmp(p->plan->boundary, BOUNDARY_PROCESS) == 0 ? ", which is weaker than all others: the task is the wall" : "");
	return 0;
}

const struct fleet fleet_ecs = {
	.name = "ecs",
	.open = ecs_open,
	.close = ecs_close,
	.check = ecs_check,
	.start = ecs_start,
	.count = ecs_count,
	.look = ecs_look,
	.stop = ecs_stop,
};

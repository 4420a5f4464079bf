/* export_ocsf.c - writes a record as an event of OCSF (https://schema.ocsf.io). */
#include <arpa/inet.h>
#include <string.h>

#include "audit/export.h"
#include "base/own.h"
#include "base/version.h"

enum { BASE = 0, FILE_ACTIVITY = 1001, PROCESS_ACTIVITY = 1007, DETECTION_FINDING = 2004, NETWORK_ACTIVITY = 4001,
       HTTP_ACTIVITY = 4002, DNS_ACTIVITY = 4003, APPLICATION_LIFECYCLE = 6002 };
enum { OTHER = 99 };                    /* of every list of ids */
enum { INFORMATIONAL = 1, LOW, MEDIUM, HIGH };
enum { SUCCESS = 1, FAILURE };
enum { ALLOWED = 1, DENIED };
enum { DISPOSITION_ALLOWED = 1, BLOCKED = 2, DETECTED = 15, LOGGED = 17 };
enum { SHA256 = 3 };
enum { INBOUND = 1, OUTBOUND };

static const char *
text(const struct audit_exported *e, const char *key)
{
	return audit_exported_text(e, key);
}

static bool
is(const struct audit_exported *e, const char *type)
{
	return strcmp(e->type, type) == 0;
}

/* ---- objects ---- */

static const char *
name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static void
put_file(struct json *w, const char *key, const char *path, int type_id, const char *sha256)
{
	json_open(w, key, '{');
	json_str(w, "name", path[0] != '\0' ? name_of(path) : "?");
	json_str(w, "path", path);
	json_u64(w, "type_id", (uint64_t)type_id);
	if (sha256[0] != '\0') {
		json_open(w, "hashes", '[');
		json_open(w, NULL, '{');
		json_u64(w, "algorithm_id", SHA256);
		json_str(w, "algorithm", "SHA-256");
		json_str(w, "value", sha256);
		json_close(w, '}');
		json_close(w, ']');
	}
	json_close(w, '}');
}

/* A process of which only the number, and perhaps the program, is known. */
static void
put_process(struct json *w, const char *key, uint64_t pid, const char *program)
{
	json_open(w, key, '{');
	json_u64(w, "pid", pid);
	if (program[0] != '\0') {
		json_str(w, "name", name_of(program));
		put_file(w, "file", program, 1, "");
	}
	json_close(w, '}');
}

static void
put_command(struct json *w, const struct audit_exported *e)
{
	const json_t *argv = json_object_get(e->event, "argv");
	char line[4096] = "";
	size_t len = 0;

	for (size_t i = 0; i < json_array_size(argv) && len < sizeof(line) - 1; i++) {
		const char *word = json_string_value(json_array_get(argv, i));

		len += (size_t)snprintf(line + len, sizeof(line) - len, "%s%s", i > 0 ? " " : "", word != NULL ? word : "");
	}
	if (len > 0)
		json_str(w, "cmd_line", line);
}

static void
put_actor(struct json *w, uint64_t pid, const char *program)
{
	json_open(w, "actor", '{');
	if (pid > 0)
		put_process(w, "process", pid, program);
	else
		json_str(w, "app_name", "cloister");
	json_close(w, '}');
}

static void
put_device(struct json *w, const struct audit_export *x, const struct audit_exported *e)
{
	json_open(w, "device", '{');
	json_str(w, "hostname", x->host);
	json_u64(w, "type_id", 0);
	if (e->cell[0] != '\0') {
		json_open(w, "container", '{');
		json_str(w, "uid", e->cell);
		json_str(w, "runtime", "cloister");
		json_close(w, '}');
	}
	json_close(w, '}');
}

static void
put_endpoint(struct json *w, const char *key, const char *host, uint64_t port)
{
	unsigned char address[16];

	json_open(w, key, '{');
	json_str(w, inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1 ? "ip" : "hostname",
	         host[0] != '\0' ? host : "?");
	if (port > 0)
		json_u64(w, "port", port);
	json_close(w, '}');
}

static void
put_source(struct json *w, const struct audit_exported *e, uint64_t port)
{
	json_open(w, "src_endpoint", '{');
	json_str(w, "uid", e->cell);
	if (port > 0)
		json_u64(w, "port", port);
	json_close(w, '}');
}

static void
put_connection(struct json *w, int direction)
{
	json_open(w, "connection_info", '{');
	json_u64(w, "direction_id", (uint64_t)direction);
	json_str(w, "protocol_name", "tcp");
	json_close(w, '}');
}

static void
put_traffic(struct json *w, const struct audit_exported *e)
{
	uint64_t sent = audit_exported_number(e, "sent"), received = audit_exported_number(e, "received");

	if (!audit_exported_has(e, "received"))
		return;
	json_open(w, "traffic", '{');
	json_u64(w, "bytes", sent + received);
	json_u64(w, "bytes_in", received);
	json_u64(w, "bytes_out", sent);
	json_close(w, '}');
}

/* ---- the head, which every event has ---- */

struct class {
	int uid, activity, severity, status;
	int action, disposition;        /* 0: not a control's */
};

static void
put_metadata(struct json *w, const struct audit_exported *e, const struct class *class)
{
	const char *const profiles[] = { "container", "host", class->action != 0 ? "security_control" : NULL, NULL };
	char uid[64];

	snprintf(uid, sizeof(uid), "%s/%llu", e->cell[0] != '\0' ? e->cell : "operator", (unsigned long long)e->n);
	json_open(w, "metadata", '{');
	json_str(w, "version", AUDIT_OCSF_VERSION);
	json_strv(w, "profiles", profiles);
	json_str(w, "uid", uid);
	json_u64(w, "sequence", e->n);
	json_str(w, "event_code", e->type);
	json_str(w, "log_name", "cloister");
	json_open(w, "product", '{');
	json_str(w, "name", "cloister");
	json_str(w, "vendor_name", "cloister");
	json_str(w, "version", CLOISTER_VERSION);
	json_close(w, '}');
	json_close(w, '}');
}

static void
put_head(struct json *w, const struct audit_export *x, const struct audit_exported *e, const struct class *class)
{
	json_u64(w, "activity_id", (uint64_t)class->activity);
	json_u64(w, "category_uid", (uint64_t)class->uid / 1000);
	json_u64(w, "class_uid", (uint64_t)class->uid);
	json_u64(w, "type_uid", (uint64_t)class->uid * 100 + (uint64_t)class->activity);
	json_u64(w, "severity_id", (uint64_t)class->severity);
	json_u64(w, "status_id", (uint64_t)class->status);
	json_u64(w, "time", e->time_ms);
	json_str(w, "message", e->message);
	put_metadata(w, e, class);
	put_device(w, x, e);
	if (audit_exported_number(e, "count") > 1)
		json_u64(w, "count", audit_exported_number(e, "count"));
	if (class->action != 0) {
		json_u64(w, "action_id", (uint64_t)class->action);
		json_u64(w, "disposition_id", (uint64_t)class->disposition);
	}
	if (text(e, "error")[0] != '\0')
		json_str(w, "status_code", text(e, "error"));
}

/* Members without an attribute of their own. */
static void
put_unmapped(struct json *w, const struct audit_exported *e, const char *const *mapped)
{
	const char *key;
	json_t *value;

	json_open(w, "unmapped", '{');
	json_object_foreach((json_t *)(uintptr_t)e->event, key, value) {
		size_t i = 0;
		OWN(freep) char *line = NULL;

		while (mapped[i] != NULL && strcmp(mapped[i], key) != 0)
			i++;
		if (mapped[i] == NULL)
			line = audit_exported_json(value);
		if (line != NULL)
			json_raw(w, key, "%s", line);
	}
	json_close(w, '}');
}

/* ---- classes ---- */

static void
put_exec(struct json *w, const struct audit_export *x, const struct audit_exported *e)
{
	static const char *const mapped[] = { "type", "pid", "parent", "path", "argv", "sha256", "error", "count", NULL };
	uint64_t parent = audit_exported_number(e, "parent");
	struct class class = { PROCESS_ACTIVITY, 1, text(e, "from")[0] != '\0' ? LOW : INFORMATIONAL,
	                       audit_exported_has(e, "error") ? FAILURE : SUCCESS, 0, 0 };

	put_head(w, x, e, &class);
	put_actor(w, parent, "");
	json_u64(w, "launch_type_id", 3);
	json_open(w, "process", '{');
	json_u64(w, "pid", e->pid);
	json_str(w, "name", name_of(text(e, "path")));
	put_command(w, e);
	put_file(w, "file", text(e, "path"), 1, text(e, "sha256"));
	if (parent > 0)
		put_process(w, "parent_process", parent, "");
	json_close(w, '}');
	put_unmapped(w, e, mapped);
}

static void
put_exit(struct json *w, const struct audit_export *x, const struct audit_exported *e)
{
	static const char *const mapped[] = { "type", "pid", "parent", "status", "ms", NULL };
	struct class class = { PROCESS_ACTIVITY, 2, INFORMATIONAL, SUCCESS, 0, 0 };

	put_head(w, x, e, &class);
	put_actor(w, e->pid, e->program);
	if (audit_exported_has(e, "status"))
		json_u64(w, "exit_code", audit_exported_number(e, "status"));
	if (audit_exported_has(e, "ms"))
		json_u64(w, "duration", audit_exported_number(e, "ms"));
	put_process(w, "process", e->pid, e->program);
	put_unmapped(w, e, mapped);
}

static void
put_file_activity(struct json *w, const struct audit_export *x, const struct audit_exported *e)
{
	static const struct { const char *act; int id; } acts[] = {
		{ "create", 1 }, { "link", 1 }, { "read", 2 }, { "write", 3 }, { "remove", 4 }, { "rename", 5 }, { "times", 6 },
		{ "mode", 7 }, { "owner", 7 },
	};
	static const char *const mapped[] = { "type", "pid", "path", "to", "error", "count", NULL };
	struct class class = { FILE_ACTIVITY, OTHER, INFORMATIONAL, audit_exported_has(e, "error") ? FAILURE : SUCCESS, 0, 0 };

	for (size_t i = 0; i < ARRAY_LEN(acts); i++)
		if (strcmp(acts[i].act, text(e, "act")) == 0)
			class.activity = acts[i].id;
	put_head(w, x, e, &class);
	put_actor(w, e->pid, e->program);
	put_file(w, "file", text(e, "path"), 0, "");
	if (text(e, "to")[0] != '\0')
		put_file(w, "file_result", text(e, "to"), 0, "");
	put_unmapped(w, e, mapped);
}

static void
put_net(struct json *w, const struct audit_export *x, const struct audit_exported *e)
{
	static const char *const mapped[] = { "type", "pid", "address", "port", "local", "error", "count", NULL };
	bool failed = audit_exported_has(e, "error"), inward = strcmp(text(e, "act"), "accept") == 0;
	struct class class = { NETWORK_ACTIVITY, OTHER, INFORMATIONAL, failed ? FAILURE : SUCCESS, 0, 0 };

	if (inward || strcmp(text(e, "act"), "connect") == 0)
		class.activity = failed ? 4 : 1;
	else if (strcmp(text(e, "act"), "listen") == 0)
		class.activity = 7;
	put_head(w, x, e, &class);
	put_actor(w, e->pid, e->program);
	put_source(w, e, audit_exported_number(e, "local"));
	put_endpoint(w, "dst_endpoint", text(e, "address"), audit_exported_number(e, "port"));
	put_connection(w, inward ? INBOUND : OUTBOUND);
	put_unmapped(w, e, mapped);
}

static void
put_rule(struct json *w, const struct audit_exported *e)
{
	if (text(e, "rule")[0] == '\0')
		return;
	json_open(w, "firewall_rule", '{');
	json_str(w, "uid", text(e, "rule"));
	json_str(w, "name", text(e, "rule_text")[0] != '\0' ? text(e, "rule_text") : text(e, "rule"));
	json_close(w, '}');
}

static struct class
class_of_request(const struct audit_exported *e, int uid, int activity)
{
	const bool denied = audit_exported_is_denied(e);
	const bool stolen = strcmp(text(e, "why"), "exfiltration") == 0 && !audit_exported_has(e, "misplaced");

	return (struct class){ uid, activity, stolen ? HIGH : denied ? LOW : INFORMATIONAL, denied ? FAILURE : SUCCESS,
	                       denied ? DENIED : ALLOWED, denied ? BLOCKED : DISPOSITION_ALLOWED };
}

/* What all kinds of requests have. */
static void
put_request(struct json *w, const struct audit_exported *e)
{
	if (text(e, "why")[0] != '\0')
		json_str(w, "status_detail", text(e, "why"));
	put_actor(w, e->pid, e->program);
	put_source(w, e, audit_exported_number(e, "from"));
	put_endpoint(w, "dst_endpoint", text(e, "host"), audit_exported_number(e, "port"));
	put_connection(w, OUTBOUND);
	put_traffic(w, e);
	put_rule(w, e);
	if (audit_exported_has(e, "ms"))
		json_u64(w, "duration", audit_exported_number(e, "ms"));
}

static void
put_http(struct json *w, const struct audit_export *x, const struct audit_exported *e)
{
	static const char *const methods[] = { "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT", "TRACE", "PATCH" };
	static const char *const mapped[] = { "type", "pid", "verdict", "why", "rule", "rule_text", "host", "port", "from", "method",
	                                      "scheme", "path", "status", "sent", "received", "ms", "count", "version", NULL };
	struct class class = class_of_request(e, HTTP_ACTIVITY, OTHER);
	char url[4096];

	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (strcmp(methods[i], text(e, "method")) == 0)
			class.activity = (int)i + 1;
	audit_exported_url(e, url, sizeof(url));
	put_head(w, x, e, &class);
	put_request(w, e);
	json_open(w, "http_request", '{');
	json_str(w, "http_method", text(e, "method"));
	if (text(e, "version")[0] != '\0')
		json_str(w, "version", text(e, "version"));
	json_open(w, "url", '{');
	json_str(w, "scheme", text(e, "scheme"));
	json_str(w, "hostname", text(e, "host"));
	json_str(w, "path", text(e, "path"));
	json_str(w, "url_string", url);
	if (audit_exported_number(e, "port") > 0)
		json_u64(w, "port", audit_exported_number(e, "port"));
	json_close(w, '}');
	json_close(w, '}');
	if (audit_exported_has(e, "status")) {
		json_open(w, "http_response", '{');
		json_u64(w, "code", audit_exported_number(e, "status"));
		json_close(w, '}');
	}
	put_unmapped(w, e, mapped);
}

/* TCP, and TLS that is passed through. */
static void
put_raw(struct json *w, const struct audit_export *x, const struct audit_exported *e)
{
	static const char *const mapped[] = { "type", "pid", "verdict", "why", "rule", "rule_text", "host", "port", "from", "sent",
	                                      "received", "ms", "count", NULL };
	struct class class = class_of_request(e, NETWORK_ACTIVITY, audit_exported_is_denied(e) ? 5 : 1);

	put_head(w, x, e, &class);
	put_request(w, e);
	put_unmapped(w, e, mapped);
}

static void
put_dns(struct json *w, const struct audit_export *x, const struct audit_exported *e)
{
	static const char *const mapped[] = { "type", "pid", "verdict", "why", "rule", "rule_text", "host", "port", "from", "count", NULL };
	struct class class = class_of_request(e, DNS_ACTIVITY, 1);

	put_head(w, x, e, &class);
	if (text(e, "why")[0] != '\0')
		json_str(w, "status_detail", text(e, "why"));
	put_source(w, e, audit_exported_number(e, "from"));
	json_open(w, "dst_endpoint", '{');
	json_str(w, "svc_name", "cloister");
	json_close(w, '}');
	json_open(w, "query", '{');
	json_str(w, "hostname", text(e, "host"));
	json_close(w, '}');
	json_u64(w, "query_time", e->time_ms);
	put_rule(w, e);
	put_unmapped(w, e, mapped);
}

static void
put_evidence(struct json *w, const struct audit_exported *e)
{
	json_open(w, "evidences", '[');
	json_open(w, NULL, '{');
	if (e->pid > 0)
		put_process(w, "process", e->pid, e->program);
	if (text(e, "call")[0] != '\0') {
		json_open(w, "api", '{');
		json_str(w, "operation", text(e, "call"));
		json_close(w, '}');
	}
	json_open(w, "data", '{');
	json_str(w, "args", text(e, "args"));
	json_close(w, '}');
	json_close(w, '}');
	json_close(w, ']');
}

/* Refused and dangerous calls, and rules over behaviour. */
static void
put_finding(struct json *w, const struct audit_export *x, const struct audit_exported *e)
{
	static const char *const mapped[] = { "type", "pid", "call", "args", "error", "count", NULL };
	bool refused = is(e, "refused"), watch = is(e, "watch");
	struct class class = { DETECTION_FINDING, 1, watch ? HIGH : MEDIUM, 1, refused ? DENIED : ALLOWED,
	                       refused ? BLOCKED : watch ? DETECTED : LOGGED };
	char uid[64];

	snprintf(uid, sizeof(uid), "%s/%llu", e->cell, (unsigned long long)e->n);
	put_head(w, x, e, &class);
	put_actor(w, e->pid, e->program);
	json_bool(w, "is_alert", watch);
	json_open(w, "finding_info", '{');
	json_str(w, "uid", uid);
	json_str(w, "title", e->message);
	json_u64(w, "created_time", e->time_ms);
	json_open(w, "analytic", '{');
	json_str(w, "name", watch && text(e, "rule")[0] != '\0' ? text(e, "rule") : e->type);
	json_u64(w, "type_id", 1);
	json_close(w, '}');
	json_close(w, '}');
	put_evidence(w, e);
	put_unmapped(w, e, mapped);
}

static void
put_life(struct json *w, const struct audit_export *x, const struct audit_exported *e)
{
	static const char *const mapped[] = { "type", NULL };
	struct class class = { APPLICATION_LIFECYCLE, is(e, "cell.boot") ? 3 : 4, INFORMATIONAL,
	                       audit_exported_number(e, "status") == 0 ? SUCCESS : FAILURE, 0, 0 };

	put_head(w, x, e, &class);
	json_open(w, "app", '{');
	json_str(w, "name", "cloister");
	json_str(w, "uid", e->cell);
	json_str(w, "vendor_name", "cloister");
	json_close(w, '}');
	put_unmapped(w, e, mapped);
}

static void
put_other(struct json *w, const struct audit_export *x, const struct audit_exported *e)
{
	static const char *const mapped[] = { "type", "error", "count", NULL };
	struct class class = { BASE, OTHER, is(e, "lost") ? MEDIUM : INFORMATIONAL, SUCCESS, 0, 0 };

	put_head(w, x, e, &class);
	put_unmapped(w, e, mapped);
}

void
audit_export_ocsf(struct audit_export *x, const struct audit_exported *e)
{
	static const struct {
		const char *type;
		void (*put)(struct json *w, const struct audit_export *x, const struct audit_exported *e);
	} classes[] = {
		{ "exec", put_exec }, { "exit", put_exit }, { "file", put_file_activity }, { "net", put_net }, { "http", put_http },
		{ "tcp", put_raw }, { "tls", put_raw }, { "dns", put_dns }, { "refused", put_finding }, { "danger", put_finding },
		{ "watch", put_finding }, { "cell.boot", put_life }, { "cell.end", put_life },
	};
	struct json w = { .out = x->out };
	size_t i = 0;

	while (i < ARRAY_LEN(classes) && !is(e, classes[i].type))
		i++;
	json_open(&w, NULL, '{');
	(i < ARRAY_LEN(classes) ? classes[i].put : put_other)(&w, x, e);
	json_close(&w, '}');
	fputc('\n', x->out);
}

/* notify_config.c - reads notify.yaml: the targets and their events.
 *
 * Programs are named only here: an agent may have written a policy. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "policy/policy_yaml.h"
#include "proc/notify/notify.h"
#include "trust/trust.h"

static const struct {
	const char *name;
	enum notify_event bit;
} events[] = {
	{ "ask", NOTIFY_ASK }, { "budget", NOTIFY_BUDGET }, { "tripwire", NOTIFY_TRIPWIRE },
	{ "consequence", NOTIFY_CONSEQUENCE }, { "watch", NOTIFY_WATCH },
};

unsigned
notify_event_bit(const char *event)
{
	for (size_t i = 0; i < ARRAY_LEN(events); i++)
		if (strcmp(events[i].name, event) == 0)
			return events[i].bit;
	return 0;
}

void
notify_config_free(struct notify_config *c)
{
	for (size_t i = 0; i < c->n; i++) {
		strv_freep(&c->targets[i].command);
		free(c->targets[i].webhook);
		explicit_bzero(c->targets[i].secret, sizeof(c->targets[i].secret));
	}
	c->n = 0;
}

/* ---- one target ---- */

static int
read_command(struct notify_target *t, const struct node *node, struct err *err)
{
	if (node->kind != NODE_LIST || node->n == 0 || node->n > NOTIFY_WORDS_MAX)
		return node_err(err, node, "a command is a list of words: [notify-send, cloister]");
	t->command = calloc(node->n + 1, sizeof(*t->command));
	for (size_t i = 0; t->command != NULL && i < node->n; i++) {
		if (node->items[i]->kind != NODE_SCALAR)
			return node_err(err, node->items[i], "a command is a list of words");
		t->command[i] = strdup(node->items[i]->text);
		if (t->command[i] == NULL)
			return err_set(err, ENOMEM, "out of memory");
	}
	return t->command != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

/* Without TLS, only this machine may get events: they are confidential. */
static bool
may_be_told(const char *url)
{
	static const char *const here[] = { "http://127.0.0.1", "http://localhost", "http://[::1]" };

	if (strncmp(url, "https://", 8) == 0)
		return url[8] != '\0';
	for (size_t i = 0; i < ARRAY_LEN(here); i++)
		if (strncmp(url, here[i], strlen(here[i])) == 0 &&
		    (url[strlen(here[i])] == '\0' || strchr(":/", url[strlen(here[i])]) != NULL))
			return true;
	return false;
}

static int
read_webhook(struct notify_target *t, const struct node *node, struct err *err)
{
	if (node->kind != NODE_SCALAR || !may_be_told(node->text))
		return node_err(err, node, "a webhook is an https:// address, or http:// of this machine");
	t->webhook = strdup(node->text);
	return t->webhook != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

static int
read_secret(struct notify_target *t, const struct node *node, struct err *err)
{
	if (node->kind != NODE_SCALAR || notify_read_secret(node->text, t->secret, &t->n_secret) < 0)
		return node_err(err, node, "a webhook's secret is whsec_ and 24 to 64 bytes in base64");
	return 0;
}

static int
read_secret_file(struct notify_target *t, const struct node *node, struct err *err)
{
	OWN(freep) char *text = NULL;
	int r;

	if (node->kind != NODE_SCALAR || node->text[0] != '/')
		return node_err(err, node, "secret_file must be an absolute path");
	r = trust_read(TRUST_NOTIFY_SECRET, node->text, 4096, &text, NULL, err);
	if (r < 0)
		return r;
	text[strcspn(text, " \t\r\n")] = '\0';
	r = notify_read_secret(text, t->secret, &t->n_secret);
	explicit_bzero(text, strlen(text));
	return r == 0 ? 0 : node_err(err, node, "'%.200s' does not hold whsec_ and 24 to 64 bytes in "
	                             "base64", node->text);
}

static int
read_on(struct notify_target *t, const struct node *node, struct err *err)
{
	size_t n = node->kind == NODE_LIST ? node->n : 1;

	t->on = 0;
	for (size_t i = 0; i < n; i++) {
		const struct node *item = node->kind == NODE_LIST ? node->items[i] : node;
		unsigned bit = item->kind == NODE_SCALAR ? notify_event_bit(item->text) : 0;

		if (bit == 0)
			return node_err(err, item, "'on' is a list of ask, budget, tripwire, watch and consequence");
		t->on |= bit;
	}
	return 0;
}

static const struct {
	const char *name;
	int (*read)(struct notify_target *t, const struct node *node, struct err *err);
} keys[] = {
	{ "command", read_command }, { "webhook", read_webhook }, { "secret", read_secret },
	{ "secret_file", read_secret_file }, { "on", read_on },
};

static int
read_key(struct notify_target *t, const struct node *key, const struct node *value, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (strcmp(keys[i].name, key->text) == 0)
			return keys[i].read(t, value, err);
	return node_err(err, key, "there is no key '%.64s' here: it takes command, or webhook with "
	                "secret or secret_file, and on", key->text);
}

static int
read_target(struct notify_config *c, const struct node *node, struct err *err)
{
	struct notify_target *t = &c->targets[c->n];
	int r = 0;

	if (node->kind != NODE_MAP)
		return node_err(err, node, "each entry is a map: `- command: [...]`");
	*t = (struct notify_target){ .on = NOTIFY_ALL };
	/* A partly read target is freed with the others. */
	c->n++;
	for (size_t i = 0; r == 0 && i < node->n; i++)
		r = read_key(t, node->items[i], node->values[i], err);
	if (r == 0 && (t->command == NULL) == (t->webhook == NULL))
		r = node_err(err, node, "each entry needs a command or a webhook");
	if (r == 0 && (t->webhook == NULL) != (t->n_secret == 0))
		r = node_err(err, node, t->webhook == NULL ? "only webhooks have a secret" :
		             "a webhook is signed: it needs a secret, or a secret_file");
	return r;
}

/* ---- the file ---- */

/* Anyone who can write the file can have programs run. */
static int
check_owner(int fd, const char *path, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno(err, "cannot look at '%s'", path);
	if (!S_ISREG(st.st_mode) || (st.st_mode & 022) != 0)
		return err_set(err, EPERM, "'%s' is writable by others: chmod go-w it", path);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return err_set(err, EPERM, "'%s' belongs to another user", path);
	return 0;
}

static int
read_all(const char *path, const char *text, size_t len, struct notify_config *c, struct err *err)
{
	OWN(node_freep) struct node *root = NULL;
	int r = node_parse(path, text, len, &root, err);

	if (r < 0)
		return r;
	if (root->kind == NODE_MAP && root->n == 0)
		return 0;
	if (root->kind != NODE_LIST || root->n > NOTIFY_TARGETS_MAX)
		return node_err(err, root, "the file is a list of at most %d entries", NOTIFY_TARGETS_MAX);
	for (size_t i = 0; r == 0 && i < root->n; i++)
		r = read_target(c, root->items[i], err);
	return r;
}

int
notify_config_load(const char *path, struct notify_config *ret_config, struct err *err)
{
	OWN(closep) int fd = trust_open(TRUST_NOTIFY_FILE, path, err);
	OWN(freep) char *text = NULL;
	size_t len = 0;
	int r;

	*ret_config = (struct notify_config){0};
	if (fd < 0)
		return fd;
	r = check_owner(fd, path, err);
	r = r == 0 ? read_open(fd, path, NOTIFY_FILE_MAX, &text, &len, err) : r;
	r = r == 0 ? read_all(path, text, len, ret_config, err) : r;
	if (r < 0)
		notify_config_free(ret_config);
	return r;
}

/* vault_ssh.c - SSH keys for a cell: the courier gets the private key and its hosts' keys; the cell
 * gets the public parts. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/text.h"
#include "cell/cell_net.h"
#include "proc/vault/vault_proc.h"
#include "sign/scheme_parts.h"
#include "ssh/ssh_hosts.h"
#include "ssh/ssh_key.h"
#include "ssh/ssh_private.h"
#include "trust/trust.h"
#include "vault/bound.h"
#include "vault/vault_request.h"

#define TARGETS_MAX 128                 /* hosts of one key, with their ports */
#define RANGE_MAX 16                    /* ports of a range that are looked up one by one */

bool
ssh_is_scheme(const struct secret *s)
{
	return strcmp(s->scheme->name, "ssh") == 0;
}

/* ---- the key ---- */

static int
pem_of(EVP_PKEY *key, struct guard *ret_pem, struct err *err)
{
	BIO *out = BIO_new(BIO_s_secmem());
	char *at = NULL;
	long len;
	int r = -EIO;

	if (out != NULL && PEM_write_bio_PKCS8PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1) {
		len = BIO_get_mem_data(out, &at);
		r = guard_copy(ret_pem, at, (size_t)len, err);
	} else {
		err_set(err, EIO, "cannot write the private key");
	}
	BIO_free(out);
	return r;
}

/* A signature shows whether the key is damaged. */
static int
try_key(const struct guard *pem, struct http_text blob, struct err *err)
{
	struct http_text type = {0}, rest = blob, text = scheme_text("cloister");
	OWN(buf_free) struct buf signature = BUF(SSH_BLOB_MAX);
	char name[SSH_PRINT_MAX];
	int r;

	(void)ssh_get_string(&rest, &type);
	snprintf(name, sizeof(name), "%.*s", (int)type.len, type.at);
	r = ssh_sign((struct http_text){ pem->at, pem->len },
	             strcmp(name, "ssh-rsa") == 0 ? "rsa-sha2-512" : name, text, &signature, err);
	if (r == 0 && !ssh_verify(blob, text, scheme_text_of(&signature)))
		r = err_set(err, EINVAL, "the private key is damaged: its signatures are not valid");
	return r;
}

static int
read_key(const struct secret_values *values, struct guard *ret_pem, struct buf *ret_blob,
         struct err *err)
{
	const struct guard *value = &values->field[SECRET_SECRET];
	OWN(ssh_pkey_freep) EVP_PKEY *key = NULL;
	int r = ssh_private_read((struct http_text){ value->at, value->len }, &key, err);

	r = r == 0 ? ssh_key_put(ret_blob, key, err) : r;
	r = r == 0 ? pem_of(key, ret_pem, err) : r;
	return r == 0 ? try_key(ret_pem, scheme_text_of(ret_blob), err) : r;
}

/* ---- hosts ---- */

struct target {
	char host[HTTP_HOST_MAX + 1];   /* as in policies: an IPv6 address in brackets */
	uint16_t port;
	bool said;                      /* from the definition, not from a file */
};

struct hosts {
	const struct secret *s;
	struct target at[TARGETS_MAX];
	size_t n;
	char *files[4];                 /* known_hosts, those that exist */
	struct buf keys;                /* "host port type base64" */
	struct buf shown;               /* the same for the cell's own known_hosts */
};

static void
hosts_free(struct hosts *h)
{
	for (size_t i = 0; i < ARRAY_LEN(h->files); i++)
		free(h->files[i]);
	buf_free(&h->keys);
	buf_free(&h->shown);
}

static void
add_target(struct hosts *h, const char *host, uint16_t port, bool said)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->at[i].port == port && strcmp(h->at[i].host, host) == 0)
			return;
	if (h->n == TARGETS_MAX)
		return;
	h->at[h->n].port = port;
	h->at[h->n].said = said;
	snprintf(h->at[h->n++].host, sizeof(h->at[0].host), "%s", host);
}

static void
add_ports(struct hosts *h, const struct policy_rule *rule, const char *host, uint16_t port)
{
	if (port != 0) {
		add_target(h, host, port, true);
		return;
	}
	for (size_t i = 0; i < rule->n_ports; i++)
		for (unsigned p = rule->ports[i].first; p <= rule->ports[i].last &&
		     p - rule->ports[i].first < RANGE_MAX; p++)
			add_target(h, host, (uint16_t)p, true);
}

/* Adds hosts that the definition names exactly. */
static void
add_said(struct hosts *h)
{
	const struct policy_rule *rule = policy_rule_at(h->s->scope, 0);

	for (size_t i = 0; i < rule->n_hosts; i++) {
		const struct policy_host *host = &rule->hosts[i];
		bool v4 = host->address[10] == 0xff && host->address[11] == 0xff;
		char text[INET6_ADDRSTRLEN], name[INET6_ADDRSTRLEN + 2];

		if (host->kind == POLICY_HOST_NAME) {
			add_ports(h, rule, host->name, host->port);
		} else if (host->kind == POLICY_HOST_NET && host->bits == 128) {
			inet_ntop(v4 ? AF_INET : AF_INET6, host->address + (v4 ? 12 : 0), text, sizeof(text));
			snprintf(name, sizeof(name), v4 ? "%s" : "[%s]", text);
			add_ports(h, rule, name, host->port);
		}
	}
}

/* Adds hosts that a file names and that match a pattern of the definition. */
static void
add_found(struct hosts *h, struct http_text file)
{
	struct ssh_hosts_line line;
	char host[SSH_HOST_MAX];
	uint16_t port;

	while (ssh_hosts_next(&file, &line)) {
		while (ssh_hosts_plain(&line.names, host, &port)) {
			struct policy_request req = { .protocol = POLICY_TCP, .host = host, .port = port };
			size_t len = strlen(host);

			for (size_t i = 0; i < len; i++)
				host[i] = (char)tolower((unsigned char)host[i]);
			if (len <= HTTP_HOST_MAX &&
			    strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == len &&
			    secret_in_scope(h->s, &req))
				add_target(h, host, port, false);
		}
	}
}

/* The name that ssh looks up: an IPv6 address without its brackets. */
static void
name_of(const struct target *t, uint16_t port, char ret_name[SSH_HOST_MAX])
{
	char host[HTTP_HOST_MAX + 1];

	snprintf(host, sizeof(host), "%s", t->host + (t->host[0] == '['));
	host[strcspn(host, "]")] = '\0';
	ssh_hosts_name(host, port, ret_name);
}

static bool
is_revoked(const struct hosts *h, const struct target *t, struct http_text blob)
{
	char name[SSH_HOST_MAX], plain[SSH_HOST_MAX];
	struct ssh_hosts_line line;
	bool found = false;

	name_of(t, t->port, name);
	name_of(t, SSH_PORT, plain);
	for (size_t i = 0; i < ARRAY_LEN(h->files) && h->files[i] != NULL; i++) {
		struct http_text file = scheme_text(h->files[i]);

		while (!found && ssh_hosts_next(&file, &line)) {
			OWN(buf_free) struct buf key = BUF(SSH_BLOB_MAX);

			found = line.revoked &&
			        (ssh_hosts_match(line.names, name) || ssh_hosts_match(line.names, plain)) &&
			        ssh_key_parse(line.key, &key) == 0 &&
			        scheme_same(scheme_text_of(&key), blob);
		}
	}
	return found;
}

/* True: it is a key. */
static bool
add_key(struct hosts *h, const struct target *t, struct http_text line)
{
	OWN(buf_free) struct buf blob = BUF(SSH_BLOB_MAX), one = BUF(SSH_HOSTS_LINE_MAX);
	char name[SSH_HOST_MAX];

	if (ssh_key_parse(line, &blob) < 0 || is_revoked(h, t, scheme_text_of(&blob)))
		return false;
	buf_put_text(&one, t->host);
	buf_put_text(&one, " ");
	buf_put_decimal(&one, t->port);
	buf_put_text(&one, " ");
	ssh_key_put_line(&one, scheme_text_of(&blob));
	buf_put_text(&one, "\n");
	if (h->keys.len > 0 && memmem(h->keys.data, h->keys.len, one.data, one.len) != NULL)
		return true;
	buf_put(&h->keys, one.data, one.len);
	name_of(t, t->port, name);
	buf_put_text(&h->shown, name);
	buf_put_text(&h->shown, " ");
	ssh_key_put_line(&h->shown, scheme_text_of(&blob));
	buf_put_text(&h->shown, "\n");
	return true;
}

static bool
find_keys(struct hosts *h, const struct target *t, uint16_t port)
{
	char name[SSH_HOST_MAX];
	struct ssh_hosts_line line;
	bool found = false;

	name_of(t, port, name);
	for (size_t i = 0; i < ARRAY_LEN(h->files) && h->files[i] != NULL; i++) {
		struct http_text file = scheme_text(h->files[i]);

		while (ssh_hosts_next(&file, &line))
			if (!line.revoked && ssh_hosts_match(line.names, name))
				found |= add_key(h, t, line.key);
	}
	return found;
}

/* Keys in the definition: one per line, or separated by commas. */
static int
add_given(struct hosts *h, const char *given, struct err *err)
{
	for (size_t n; *given != '\0'; given += n + (given[n] != '\0')) {
		struct http_text line = { given, n = strcspn(given, ",\n") };
		OWN(buf_free) struct buf blob = BUF(SSH_BLOB_MAX);

		if (strspn(given, " \t") >= n)
			continue;
		if (ssh_key_parse(line, &blob) < 0)
			return err_set(err, EINVAL, "`host-keys` of '%s' is not a list of keys such as "
			               "'ssh-ed25519 AAAA...'", h->s->name);
		for (size_t i = 0; i < h->n; i++)
			if (h->at[i].said)
				(void)add_key(h, &h->at[i], line);
	}
	return 0;
}

/* Reads the operator's files, and the machine's.  An unreadable file counts as empty; if no key is
 * left, that is reported. */
static int
read_files(struct hosts *h, struct err *err)
{
	static const char *const machine[] = { "/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2" };
	const char *home = getenv("HOME");
	size_t n = 0;
	int r;

	for (int i = 0; home != NULL && home[0] == '/' && i < 2; i++) {
		OWN(freep) char *path = str_format("%s/.ssh/known_hosts%s", home, i == 0 ? "" : "2");

		if (path == NULL || access(path, F_OK) < 0)
			continue;
		/* Anyone who can write it decides which server is trusted. */
		if ((r = trust_path(TRUST_KNOWN_HOSTS, path, err)) < 0)
			return r;
		n += trust_read(TRUST_KNOWN_HOSTS, path, SSH_HOSTS_FILE_MAX, &h->files[n], NULL, NULL) == 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(machine); i++)
		n += trust_read(TRUST_KNOWN_HOSTS, machine[i], SSH_HOSTS_FILE_MAX, &h->files[n], NULL, NULL) == 0;
	return 0;
}

static int
find_hosts(struct hosts *h, struct err *err)
{
	const char *given = secret_with(h->s, "host-keys");
	int r;

	r = read_files(h, err);
	if (r < 0)
		return r;
	add_said(h);
	for (size_t i = 0; i < ARRAY_LEN(h->files) && h->files[i] != NULL; i++)
		add_found(h, scheme_text(h->files[i]));
	for (size_t i = 0; i < h->n; i++)
		/* ssh uses the key of the default port if another port has none. */
		if (!find_keys(h, &h->at[i], h->at[i].port) && h->at[i].port != SSH_PORT)
			(void)find_keys(h, &h->at[i], SSH_PORT);
	r = given != NULL ? add_given(h, given, err) : 0;
	if (r < 0)
		return r;
	if (buf_failed(&h->keys) || buf_failed(&h->shown))
		return err_set(err, E2BIG, "the hosts of '%s' have too many keys", h->s->name);
	if (h->keys.len > 0)
		return 0;
	return err_set(err, ENOENT, "no host key is known for %s, so cloister cannot check that '%s' goes "
	               "there: `ssh-keyscan -p %u %s >>~/.ssh/known_hosts`, compare it with the key that "
	               "the host's owner published, and start again", h->n > 0 ? h->at[0].host : "any host",
	               h->s->name, h->n > 0 ? h->at[0].port : SSH_PORT, h->n > 0 ? h->at[0].host : "HOST");
}

/* ---- for a cell ---- */

int
ssh_check(const struct secret *s, const struct secret_values *values, struct err *err)
{
	static const char *const known[] = { "user", "host-keys", "sign", NULL };
	OWN(guard_free) struct guard pem = {0};
	OWN(buf_free) struct buf blob = BUF(SSH_BLOB_MAX);

	for (size_t i = 0; i < s->with.n; i++) {
		const char *nearest = text_nearest(s->with.at[i], known);

		if (strcmp(s->with.at[i], "user") == 0 || strcmp(s->with.at[i], "host-keys") == 0 ||
		    strcmp(s->with.at[i], "sign") == 0)
			continue;
		return err_set(err, EINVAL, "the scheme ssh has no option '%.32s'%s%s%s",
		               s->with.at[i], nearest != NULL ? ": did you mean '" : ": use user, "
		               "host-keys or sign", nearest != NULL ? nearest : "",
		               nearest != NULL ? "'?" : "");
	}
	return values == NULL ? 0 : read_key(values, &pem, &blob, err);
}

/* Public, so it needs no guarded memory; but the other fields are there. */
static int
keep(struct guard *field, const struct buf *b, struct err *err)
{
	return guard_copy(field, b->data, b->len, err);
}

int
ssh_bind(const struct secret *s, const struct secret_values *values, const char *variable,
         struct err *err)
{
	OWN(hosts_free) struct hosts h = { .s = s };
	OWN(secret_values_free) struct secret_values real = { .expires = values->expires };
	OWN(buf_free) struct buf blob = BUF(SSH_BLOB_MAX), line = BUF(2 * SSH_BLOB_MAX);
	int r = ssh_check(s, NULL, err);

	buf_init(&h.keys, SECRET_VALUE_MAX);
	buf_init(&h.shown, SECRET_VALUE_MAX);
	r = r == 0 ? read_key(values, &real.field[SECRET_SECRET], &blob, err) : r;
	r = r == 0 ? find_hosts(&h, err) : r;
	if (r < 0)
		return err_wrap(err, "the secret '%s'", s->name);
	ssh_key_put_line(&line, scheme_text_of(&blob));
	r = keep(&real.field[SECRET_ID], &line, err);
	r = r == 0 ? keep(&real.field[SECRET_TOKEN], &h.keys, err) : r;
	r = r == 0 ? bound_write(VAULT_BOUND_FD, s, &(struct placeholder){0}, &real, err) : r;
	r = r == 0 ? write_all(VAULT_HOSTS_FD, h.shown.data, h.shown.len, err) : r;
	buf_put_text(&line, " ");
	buf_put_text(&line, s->name);
	buf_put(&line, "", 1);
	r = r == 0 ? put_variable(variable, (char *)line.data, err) : r;
	return r == 0 ? put_variable("SSH_AUTH_SOCK", CELL_NET_SSH_AGENT, err) : r;
}

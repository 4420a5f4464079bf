/* vault_key.c - gets the vault's key. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "vault/vault_parts.h"

#define CONFIG_MAX (SOURCE_TEXT_MAX + 64)
#define COMMAND_KEY_MIN 16              /* bytes that a command must print */

static int
parse_key(const char *text, enum vault_key *ret_key, char *ret_command, struct err *err)
{
	struct source_words words;

	ret_command[0] = '\0';
	if (strcmp(text, "file") == 0 || strcmp(text, "passphrase") == 0) {
		*ret_key = text[0] == 'f' ? VAULT_KEY_FILE : VAULT_KEY_PASSPHRASE;
		return 0;
	}
	if (strncmp(text, "cmd:", 4) != 0 || strlen(text) > SOURCE_TEXT_MAX)
		return err_set(err, EINVAL, "the vault's key is one of: file, passphrase, "
		               "cmd:PROGRAM ARGS");
	*ret_key = VAULT_KEY_COMMAND;
	memcpy(ret_command, text + 4, strlen(text + 4) + 1);
	return source_split(ret_command, &words, err);
}

/* The kind of key that this vault uses, from its config. */
static int
vault_config(int folder, enum vault_key *ret_key, char ret_command[SOURCE_TEXT_MAX + 1],
             struct err *err)
{
	OWN(guard_free) struct guard text = {0};
	int r = vault_read_own(folder, VAULT_CONFIG, CONFIG_MAX, &text, err);

	if (r == -ENOENT)
		return parse_key("file", ret_key, ret_command, err);
	if (r < 0)
		return r;
	guard_chomp(&text);
	if (strncmp(text.at, "key: ", 5) != 0 || strchr(text.at, '\n') != NULL)
		return err_set(err, EINVAL, "'config' of the vault has one line: `key: file`, "
		               "`key: passphrase` or `key: cmd:PROGRAM ARGS`");
	return parse_key(text.at + 5, ret_key, ret_command, err);
}

int
vault_init(int folder, const char *key, struct err *err)
{
	char command[SOURCE_TEXT_MAX + 1], line[CONFIG_MAX];
	enum vault_key kind;
	int r = parse_key(key, &kind, command, err);

	if (r < 0)
		return r;
	if (faccessat(folder, VAULT_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(err, EEXIST, "there is a vault already; its key cannot be changed in place");
	snprintf(line, sizeof(line), "key: %s\n", key);
	return vault_write_own(folder, VAULT_CONFIG, line, strlen(line), err);
}

/* ---- the key file ---- */

/* In hex, so that it can be printed and kept in a safe. */
static int
make_key_file(int folder, struct err *err)
{
	OWN(guard_free) struct guard random = {0}, text = {0};
	int r = guard_alloc(&random, SEAL_KEY, err);

	r = r == 0 ? guard_alloc(&text, 2 * SEAL_KEY + 1, err) : r;
	r = r == 0 ? seal_random(random.at, SEAL_KEY, err) : r;
	if (r < 0)
		return r;
	codec_hex_digits(random.at, SEAL_KEY, text.at);
	text.at[2 * SEAL_KEY] = '\n';
	return vault_write_own(folder, VAULT_KEYFILE, text.at, 2 * SEAL_KEY + 1, err);
}

static int
read_key_file(int folder, bool new, struct guard *ret_key, struct err *err)
{
	OWN(guard_free) struct guard text = {0}, key = {0};
	int r = vault_read_own(folder, VAULT_KEYFILE, 4096, &text, err);

	if (r == -ENOENT && !new)
		return err_set(err, ENOENT, "the file 'key' beside the vault is gone: put it back, or "
		               "remove the vault and begin anew");
	if (r == -ENOENT) {
		r = make_key_file(folder, err);
		r = r == 0 ? vault_read_own(folder, VAULT_KEYFILE, 4096, &text, err) : r;
	}
	r = r == 0 ? guard_alloc(&key, SEAL_KEY, err) : r;
	if (r < 0)
		return r;
	guard_chomp(&text);
	if (text.len != 2 * SEAL_KEY || !codec_unhex(text.at, (unsigned char *)key.at, SEAL_KEY))
		return err_set(err, EBADMSG, "the file 'key' beside the vault is not %d hex digits",
		               2 * SEAL_KEY);
	key.len = SEAL_KEY;
	*ret_key = guard_take(&key);
	return 0;
}

/* ---- other keys ---- */

static int
run_command(const char *command, struct guard *ret_key, struct err *err)
{
	OWN(guard_free) struct guard key = {0};
	int r = guard_alloc(&key, SECRET_VALUE_MAX, err);

	r = r == 0 ? source_run(TRUST_KEY_COMMAND, command, SOURCE_TIMEOUT_MS, &key, err) : r;
	if (r < 0)
		return r == -ENOMEM ? r : err_wrap(err, "the vault's key");
	guard_chomp(&key);
	if (key.len < COMMAND_KEY_MIN)
		return err_set(err, EBADMSG, "the command that should give the vault's key gives under %d "
		               "bytes", COMMAND_KEY_MIN);
	*ret_key = guard_take(&key);
	return 0;
}

static int
stretch(const struct vault_header *h, bool new, vault_ask *ask, void *arg, struct guard *ret_key,
        struct err *err)
{
	OWN(guard_free) struct guard passphrase = {0};
	int r = ask != NULL ? ask(arg, new, &passphrase, err) :
	        err_set(err, ENOTTY, "there is nobody to ask for the vault's passphrase");

	return r == 0 ? seal_stretch(&passphrase, h->salt, h->cost, ret_key, err) : r;
}

static int
set_keys(struct vault *v, const struct guard *key, bool new, struct err *err)
{
	OWN(guard_free) struct guard check = {0};
	int r = seal_derive(key, v->header.salt, "check", &check, err);

	r = r == 0 ? seal_derive(key, v->header.salt, "index", &v->index, err) : r;
	r = r == 0 ? seal_derive(key, v->header.salt, "values", &v->values, err) : r;
	r = r == 0 ? seal_derive(key, v->header.salt, "print", &v->print, err) : r;
	if (r < 0)
		return r;
	if (new)
		memcpy(v->header.check, check.at, sizeof(v->header.check));
	if (CRYPTO_memcmp(v->header.check, check.at, sizeof(v->header.check)) != 0)
		return err_set(err, EACCES, v->header.key == VAULT_KEY_PASSPHRASE ?
		               "this is not the vault's passphrase" : "this is not the vault's key");
	return 0;
}

int
vault_unlock(struct vault *v, bool new, vault_ask *ask, void *arg, struct err *err)
{
	OWN(guard_free) struct guard key = {0};
	char command[SOURCE_TEXT_MAX + 1];
	enum vault_key kind;
	int r = vault_config(v->folder, &kind, command, err);

	if (r == 0 && new) {
		v->header = (struct vault_header){ .key = kind };
		v->header.cost = kind == VAULT_KEY_PASSPHRASE ? SEAL_COST : 0;
		r = seal_random(v->header.salt, SEAL_SALT, err);
	}
	if (r < 0)
		return r;
	/* If the vault and its config differ, someone has replaced one of them. */
	if (kind != v->header.key)
		return err_set(err, EINVAL, "the vault's key is another than its 'config' says");
	if (kind == VAULT_KEY_FILE)
		r = read_key_file(v->folder, new, &key, err);
	else if (kind == VAULT_KEY_COMMAND)
		r = run_command(command, &key, err);
	else
		r = stretch(&v->header, new, ask, arg, &key, err);
	return r == 0 ? set_keys(v, &key, new, err) : r;
}

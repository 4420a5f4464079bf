/* vault_vault.c - tests of vault/vault, vault/seal and the vault's file. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "test.h"
#include "vault/vault_parts.h"

#define CANARY "canary-8f2c51d07be3"

static int
folder(void)
{
	int fd;

	setenv("CLOISTER_DATA_DIR", test_dir(), 1);
	fd = vault_folder(true, NULL);
	CHECK(fd >= 0);
	return fd;
}

static struct secret *
define(const char *text)
{
	struct secret_short given;
	struct secret *s;
	struct err err = {0};

	CHECK_OK(secret_short_parse(text, &given, &err));
	CHECK_OK(secret_short_define(&given, &s, &err));
	return s;
}

static struct secret_values
values_of(const char *text)
{
	struct secret_values v = {0};

	CHECK_OK(guard_copy(&v.field[SECRET_SECRET], text, strlen(text), NULL));
	return v;
}

static struct vault *
opened(int dir, bool write)
{
	struct vault *v;
	struct err err = {0};

	if (vault_open(dir, write, NULL, NULL, &v, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	return v;
}

static void
add(int dir, const char *name, const char *value)
{
	OWN(vault_freep) struct vault *v = opened(dir, true);
	OWN(secret_values_free) struct secret_values values = values_of(value);
	struct err err = {0};

	CHECK_OK(vault_add(v, define(name), &values, 1000, &err));
	CHECK_OK(vault_save(v, &err));
}

static void
check_value(int dir, const char *name, const char *value)
{
	OWN(vault_freep) struct vault *v = opened(dir, false);
	OWN(secret_values_free) struct secret_values values = {0};
	struct err err = {0};

	CHECK_OK(vault_values(v, name, 1000, &values, &err));
	CHECK_STR(values.field[SECRET_SECRET].at, value);
}

TEST(vault_keeps_secrets)
{
	OWN(closep) int dir = folder();
	OWN(secret_values_free) struct secret_values other = values_of("other");
	struct vault *v;
	struct err err = {0};
	char print[VAULT_PRINT_MAX];

	v = opened(dir, false);
	CHECK_U64(vault_n(v), 0);
	vault_free(v);
	add(dir, "b@b.x", CANARY);
	add(dir, "a@a.x", "second");
	add(dir, "c@c.x", CANARY);
	check_value(dir, "a", "second");
	check_value(dir, "b", CANARY);
	v = opened(dir, true);
	CHECK_U64(vault_n(v), 3);
	CHECK_STR(vault_at(v, 0)->secret->name, "a");
	/* The same value has the same print, another has another. */
	CHECK_STR(vault_at(v, 1)->print, vault_at(v, 2)->print);
	CHECK(strcmp(vault_at(v, 0)->print, vault_at(v, 1)->print) != 0);
	CHECK_U64(strlen(vault_at(v, 0)->print), 16);
	snprintf(print, sizeof(print), "%s", vault_at(v, 1)->print);
	CHECK_OK(vault_rotate(v, "b", &other, 2000, &err));
	CHECK(strcmp(vault_find(v, "b", NULL)->print, print) != 0);
	CHECK_U64(vault_find(v, "b", NULL)->added, 1000);
	CHECK_U64(vault_find(v, "b", NULL)->changed, 2000);
	CHECK_OK(vault_remove(v, "a", &err));
	CHECK_ERR(vault_remove(v, "a", &err), ENOENT);
	CHECK_ERR(vault_rotate(v, "nosuch", &other, 1, &err), ENOENT);
	CHECK_OK(vault_save(v, &err));
	vault_free(v);
	check_value(dir, "b", "other");
	check_value(dir, "c", CANARY);
}

TEST(vault_refuses_twice)
{
	OWN(closep) int dir = folder();
	OWN(vault_freep) struct vault *v = NULL;
	OWN(secret_freep) struct secret *s = define("a@a.x");
	OWN(secret_values_free) struct secret_values values = values_of("x");
	struct err err = {0};

	add(dir, "a@a.x", "one");
	v = opened(dir, true);
	CHECK_ERR(vault_add(v, s, &values, 1, &err), EEXIST);
	CHECK(strstr(err.text, "rotate") != NULL);
}

static char *
read_vault(int dir, size_t *ret_len)
{
	char *text;

	CHECK_OK(read_file_at(dir, VAULT_FILE, VAULT_FILE_MAX, &text, ret_len, NULL));
	return text;
}

static void
write_vault(int dir, const char *data, size_t len)
{
	OWN(closep) int fd = openat(dir, VAULT_FILE, O_WRONLY | O_TRUNC);

	CHECK(fd >= 0);
	CHECK_OK(write_all(fd, data, len, NULL));
}

/* Every single bit counts, and so does every byte at the end. */
TEST(vault_is_sealed)
{
	OWN(closep) int dir = folder();
	OWN(freep) char *text = NULL;
	struct vault *v = NULL;
	struct err err = {0};
	size_t len;

	add(dir, "name-of-it@secret-host.example", CANARY);
	text = read_vault(dir, &len);
	CHECK(memmem(text, len, CANARY, strlen(CANARY)) == NULL);
	CHECK(memmem(text, len, "name-of-it", 10) == NULL);
	CHECK(memmem(text, len, "secret-host", 11) == NULL);
	for (size_t i = 0; i < len; i++) {
		text[i] ^= (char)(1 << i % 8);
		write_vault(dir, text, len);
		CHECK(vault_open(dir, false, NULL, NULL, &v, &err) < 0);
		CHECK(strstr(err.text, CANARY) == NULL);
		text[i] ^= (char)(1 << i % 8);
	}
	for (size_t n = 0; n < len; n += 1 + n / 8) {
		write_vault(dir, text, n);
		CHECK(vault_open(dir, false, NULL, NULL, &v, &err) < 0);
	}
	write_vault(dir, text, len);
	check_value(dir, "name-of-it", CANARY);
}

/* Sealed values cannot change places, though they are under one key. */
TEST(vault_binds_values_to_names)
{
	OWN(closep) int dir = folder();
	OWN(vault_freep) struct vault *v = NULL;
	OWN(secret_values_free) struct secret_values values = {0};
	struct err err = {0};
	unsigned char *swap;

	add(dir, "a@a.x", "of a");
	add(dir, "b@b.x", "of b");
	v = opened(dir, true);
	swap = v->items[0].sealed[SECRET_SECRET];
	v->items[0].sealed[SECRET_SECRET] = v->items[1].sealed[SECRET_SECRET];
	v->items[1].sealed[SECRET_SECRET] = swap;
	CHECK_ERR(vault_values(v, "a", 1, &values, &err), EBADMSG);
	v->items[0].sealed[SECRET_ID] = v->items[1].sealed[SECRET_SECRET];
	v->items[0].n_sealed[SECRET_ID] = v->items[1].n_sealed[SECRET_SECRET];
	v->items[1].sealed[SECRET_SECRET] = NULL;
	v->items[1].n_sealed[SECRET_SECRET] = 0;
	CHECK_ERR(vault_values(v, "a", 1, &values, &err), EBADMSG);
}

TEST(vault_is_strict_about_modes)
{
	OWN(closep) int dir = folder();
	struct vault *v = NULL;
	struct err err = {0};
	struct stat st;

	add(dir, "a@a.x", "x");
	CHECK(fstatat(dir, VAULT_FILE, &st, 0) == 0 && (st.st_mode & 07777) == 0600);
	CHECK(fstatat(dir, VAULT_KEYFILE, &st, 0) == 0 && (st.st_mode & 07777) == 0600);
	CHECK(fstat(dir, &st) == 0 && (st.st_mode & 07777) == 0700);
	CHECK(fchmodat(dir, VAULT_FILE, 0640, 0) == 0);
	CHECK_ERR(vault_open(dir, false, NULL, NULL, &v, &err), EPERM);
	CHECK(fchmodat(dir, VAULT_FILE, 0600, 0) == 0 && fchmodat(dir, VAULT_KEYFILE, 0604, 0) == 0);
	CHECK_ERR(vault_open(dir, false, NULL, NULL, &v, &err), EPERM);
	CHECK(fchmodat(dir, VAULT_KEYFILE, 0600, 0) == 0);
	CHECK(renameat(dir, VAULT_FILE, dir, "elsewhere") == 0 && symlinkat("elsewhere", dir, VAULT_FILE)
	      == 0);
	CHECK(vault_open(dir, false, NULL, NULL, &v, &err) < 0);
	CHECK(unlinkat(dir, VAULT_FILE, 0) == 0 && renameat(dir, "elsewhere", dir, VAULT_FILE) == 0);
	check_value(dir, "a", "x");
	CHECK(fchmod(dir, 0750) == 0);
	CHECK_ERR(vault_folder(false, &err), EPERM);
	CHECK(fchmod(dir, 0700) == 0);
}

TEST(vault_misses_its_key)
{
	OWN(closep) int dir = folder();
	struct vault *v = NULL;
	struct err err = {0};

	add(dir, "a@a.x", "x");
	CHECK(renameat(dir, VAULT_KEYFILE, dir, "saved") == 0);
	/* Neither to read nor to write is another one made. */
	CHECK_ERR(vault_open(dir, false, NULL, NULL, &v, &err), ENOENT);
	CHECK_ERR(vault_open(dir, true, NULL, NULL, &v, &err), ENOENT);
	CHECK(strstr(err.text, "put it back") != NULL);
	CHECK_OK(create_file_at(dir, VAULT_KEYFILE, 0600, "00112233445566778899aabbccddeeff"
	                        "00112233445566778899aabbccddeeff\n", &err));
	CHECK_ERR(vault_open(dir, false, NULL, NULL, &v, &err), EACCES);
	CHECK_OK(create_file_at(dir, VAULT_KEYFILE, 0600, "short\n", &err));
	CHECK_ERR(vault_open(dir, false, NULL, NULL, &v, &err), EBADMSG);
	CHECK(renameat(dir, "saved", dir, VAULT_KEYFILE) == 0);
	check_value(dir, "a", "x");
}

static int
answer(void *arg, bool new, struct guard *ret_passphrase, struct err *err)
{
	(void)new;
	return guard_copy(ret_passphrase, arg, strlen(arg), err);
}

TEST(vault_takes_a_passphrase)
{
	OWN(closep) int dir = folder();
	OWN(secret_values_free) struct secret_values values = values_of(CANARY), got = {0};
	struct vault *v = NULL;
	struct err err = {0};
	struct stat st;

	CHECK_ERR(vault_init(dir, "nonsense", &err), EINVAL);
	CHECK_OK(vault_init(dir, "passphrase", &err));
	CHECK_ERR(vault_open(dir, true, NULL, NULL, &v, &err), ENOTTY);
	CHECK_OK(vault_open(dir, true, answer, (char[]){ "open sesame" }, &v, &err));
	CHECK_OK(vault_add(v, define("a@a.x"), &values, 1, &err));
	CHECK_OK(vault_save(v, &err));
	vault_free(v);
	CHECK(fstatat(dir, VAULT_KEYFILE, &st, 0) < 0);
	CHECK_ERR(vault_open(dir, false, answer, (char[]){ "open sesamf" }, &v, &err), EACCES);
	CHECK(strstr(err.text, "passphrase") != NULL && strstr(err.text, "sesam") == NULL);
	CHECK_OK(vault_open(dir, false, answer, (char[]){ "open sesame" }, &v, &err));
	CHECK_OK(vault_values(v, "a", 1, &got, &err));
	CHECK_STR(got.field[SECRET_SECRET].at, CANARY);
	vault_free(v);
	CHECK_ERR(vault_init(dir, "file", &err), EEXIST);
	/* Its config cannot make another key of it. */
	CHECK_OK(create_file_at(dir, VAULT_CONFIG, 0600, "key: cmd:echo 0123456789abcdef\n", &err));
	CHECK_ERR(vault_open(dir, false, NULL, NULL, &v, &err), EINVAL);
}

TEST(vault_takes_a_command)
{
	OWN(closep) int dir = folder();
	struct vault *v = NULL;
	struct err err = {0};

	CHECK_OK(vault_init(dir, "cmd:echo 'a key of many bytes'", &err));
	add(dir, "a@a.x", "x");
	check_value(dir, "a", "x");
	CHECK_OK(create_file_at(dir, VAULT_CONFIG, 0600, "key: cmd:echo 'another key of bytes'\n", &err));
	CHECK_ERR(vault_open(dir, false, NULL, NULL, &v, &err), EACCES);
	CHECK_OK(create_file_at(dir, VAULT_CONFIG, 0600, "key: cmd:echo short\n", &err));
	CHECK_ERR(vault_open(dir, false, NULL, NULL, &v, &err), EBADMSG);
	CHECK_OK(create_file_at(dir, VAULT_CONFIG, 0600, "key: cmd:false\n", &err));
	CHECK_ERR(vault_open(dir, false, NULL, NULL, &v, &err), ECHILD);
	CHECK_OK(create_file_at(dir, VAULT_CONFIG, 0600, "nonsense\n", &err));
	CHECK_ERR(vault_open(dir, false, NULL, NULL, &v, &err), EINVAL);
}

TEST(vault_fetches_from_elsewhere)
{
	OWN(closep) int dir = folder();
	OWN(vault_freep) struct vault *v = opened(dir, true);
	OWN(secret_list_free) struct secret_list list = {0};
	OWN(secret_values_free) struct secret_values got = {0};
	static const char text[] = "{version: 1, secrets: {a: {hosts: a.x, from: 'cmd:echo fetched', "
	                           "expires: 1h}}}";
	struct err err = {0};

	CHECK_OK(secret_load_text("s", text, sizeof(text) - 1, &list, &err));
	CHECK_OK(vault_add(v, TAKE(list.at[0]), NULL, 1, &err));
	CHECK_OK(vault_values(v, "a", 1000, &got, &err));
	CHECK_STR(got.field[SECRET_SECRET].at, "fetched");
	CHECK_U64(got.expires, 4600);
	CHECK_ERR(vault_rotate(v, "a", &got, 1, &err), EINVAL);
	CHECK_STR(vault_find(v, "a", NULL)->print, "");
}

/* Killed at any moment, the file is the old one or the new one. */
TEST(vault_is_never_half_written)
{
	OWN(closep) int dir = folder();
	int status, killed = 0;
	char byte;

	add(dir, "a@a.x", "x");
	for (int round = 0; round < 12; round++) {
		int ends[2];
		pid_t pid;

		CHECK(pipe2(ends, O_CLOEXEC) == 0);
		pid = fork();
		if (pid == 0) {
			for (int i = 0;; i++) {
				char name[32];

				snprintf(name, sizeof(name), "n%d-%d@a.x", round, i);
				add(dir, name, CANARY);
				if (i == round % 4 && write(ends[1], "x", 1) != 1)
					_exit(1);
			}
		}
		CHECK(read(ends[0], &byte, 1) == 1);
		kill(pid, SIGKILL);
		CHECK(waitpid(pid, &status, 0) == pid);
		killed += WIFSIGNALED(status);
		close(ends[0]);
		close(ends[1]);
		check_value(dir, "a", "x");
	}
	CHECK(killed == 12);
}

/* Of writers at once, none loses what another wrote. */
TEST(vault_locks_out_other_writers)
{
	OWN(closep) int dir = folder();
	OWN(vault_freep) struct vault *v = NULL;
	int status;

	for (int w = 0; w < 4; w++) {
		if (fork() == 0) {
			for (int i = 0; i < 8; i++) {
				char name[32];

				snprintf(name, sizeof(name), "w%d-%d@a.x", w, i);
				add(dir, name, "x");
			}
			_exit(0);
		}
	}
	for (int w = 0; w < 4; w++)
		CHECK(wait(&status) > 0 && status == 0);
	v = opened(dir, false);
	CHECK_U64(vault_n(v), 32);
}

TEST(vault_header_is_checked)
{
	struct vault_header h = { .key = VAULT_KEY_PASSPHRASE, .cost = SEAL_COST }, got;
	unsigned char bytes[VAULT_HEADER];

	vault_header_put(&h, bytes);
	CHECK_OK(vault_header_get(bytes, sizeof(bytes), &got, NULL));
	CHECK_ERR(vault_header_get(bytes, sizeof(bytes) - 1, &got, NULL), EBADMSG);
	h.cost = 63;
	vault_header_put(&h, bytes);
	CHECK_ERR(vault_header_get(bytes, sizeof(bytes), &got, NULL), EBADMSG);
	h.cost = SEAL_COST;
	h.key = VAULT_KEY_FILE;
	vault_header_put(&h, bytes);
	CHECK_ERR(vault_header_get(bytes, sizeof(bytes), &got, NULL), EBADMSG);
}

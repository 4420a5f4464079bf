/* secret_cell.c - `cloister secret list --cell CELL`: the secrets of a running cell, never their values. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/own.h"
#include "base/text.h"
#include "cell/cell_secrets.h"
#include "cli/cli.h"
#include "cli/secret.h"

static void
print_json(const struct cell_secret *secrets, size_t n)
{
	struct json out = { .out = stdout };

	json_open(&out, NULL, '[');
	for (size_t i = 0; i < n; i++) {
		json_open(&out, NULL, '{');
		json_str(&out, "name", secrets[i].name);
		json_str(&out, "scheme", secrets[i].scheme);
		json_open(&out, "hosts", '[');
		for (char **host = secrets[i].hosts; *host != NULL; host++)
			json_str(&out, NULL, *host);
		json_close(&out, ']');
		json_u64(&out, "used", secrets[i].used);
		json_bool(&out, "revoked", secrets[i].revoked);
		json_close(&out, '}');
	}
	json_close(&out, ']');
	putchar('\n');
}

static void
print_table(const struct cell_secret *secrets, size_t n)
{
	size_t width = strlen("NAME");

	for (size_t i = 0; i < n; i++)
		width = strlen(secrets[i].name) > width ? strlen(secrets[i].name) : width;
	printf("%-*s  %-10s  %-8s  %-8s  %s\n", (int)width, "NAME", "SCHEME", "USED", "STATE", "HOSTS");
	for (size_t i = 0; i < n; i++) {
		printf("%-*s  %-10s  %-8" PRIu64 "  %-8s  ", (int)width, secrets[i].name, secrets[i].scheme,
		       secrets[i].used, secrets[i].revoked ? "revoked" : "in use");
		for (char **host = secrets[i].hosts; *host != NULL; host++) {
			printf("%s", host > secrets[i].hosts ? ", " : "");
			text_print_safe(stdout, *host, strlen(*host), false);
		}
		putchar('\n');
	}
}

int
secret_cli_list_cell(const char *word, bool json)
{
	struct cell_secret *secrets = NULL;
	struct cell_entry entry;
	struct err err = {0};
	OWN(closep) int fd = cli_connect(word, &entry, &err);
	size_t n = 0;

	if (fd < 0 || cell_list_secrets(fd, &secrets, &n, &err) < 0)
		return cli_fail(&err);
	if (json)
		print_json(secrets, n);
	else if (n > 0)
		print_table(secrets, n);
	else if (isatty(STDOUT_FILENO))
		printf("cell %s has no secrets\n", entry.id);
	cell_secrets_free(secrets, n);
	return 0;
}

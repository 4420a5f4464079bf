/* serve_options.c - see serve_options.h. */
#include "proc/serve/serve_options.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"

#define CONCURRENCY_MAX 1024

static const struct {
	const char *name;
	size_t at;
} texts[] = {
	{ "socket", offsetof(struct serve_options, socket) },
	{ "agents-socket", offsetof(struct serve_options, agents_socket) },
	{ "listen", offsetof(struct serve_options, listen) },
	{ "token-file", offsetof(struct serve_options, token_file) },
	{ "agent-token-file", offsetof(struct serve_options, agent_token_file) },
	{ "tls-cert", offsetof(struct serve_options, tls_cert) },
	{ "tls-key", offsetof(struct serve_options, tls_key) },
};

static int
take(const char *word, struct serve_options *o, struct err *err)
{
	const char *value = strchr(word, '=');
	size_t len = value == NULL ? strlen(word) : (size_t)(value++ - word);
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		if (value != NULL && strlen(texts[i].name) == len && memcmp(texts[i].name, word, len) == 0) {
			memcpy((char *)o + texts[i].at, &value, sizeof(value));
			return 0;
		}
	}
	if (strcmp(word, "no-tls") == 0) {
		o->no_tls = true;
	} else if (strcmp(word, "routes") == 0) {
		o->routes = true;
	} else if (value != NULL && strncmp(word, "concurrency=", len + 1) == 0) {
		r = num_parse_count(value, 1, CONCURRENCY_MAX, &o->concurrency, err);
		return r < 0 ? err_wrap(err, "--concurrency '%s'", value) : 0;
	} else if (value != NULL && strncmp(word, "idle-exit=", len + 1) == 0) {
		r = num_parse_duration(value, &o->idle_exit_ms, err);
		return r < 0 ? err_wrap(err, "--idle-exit '%s'", value) : 0;
	} else {
		return err_set(err, EINVAL, "cloister-serve is started by cloister only");
	}
	return 0;
}

int
serve_options_read(int argc, char **argv, struct serve_options *ret_options, struct err *err)
{
	struct serve_options o = {0};
	int r = 0;

	for (int i = 1; r == 0 && i < argc; i++)
		r = take(argv[i], &o, err);
	if (r < 0)
		return r;
	if (o.listen == NULL && (o.tls_cert != NULL || o.token_file != NULL || o.no_tls ||
	                         o.agent_token_file != NULL))
		return err_set(err, EINVAL, "tokens and TLS belong to TCP: say --listen 127.0.0.1:PORT too");
	if ((o.tls_cert == NULL) != (o.tls_key == NULL))
		return err_set(err, EINVAL, "--tls-cert and --tls-key belong together");
	if (o.no_tls && o.tls_cert != NULL)
		return err_set(err, EINVAL, "--no-tls and --tls-cert contradict each other");
	*ret_options = o;
	return 0;
}

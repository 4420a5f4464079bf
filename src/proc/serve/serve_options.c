/* serve_options.c - see serve_options.h. */
#include "proc/serve/serve_options.h"

#include <errno.h>

#include "base/args.h"
#include "base/err.h"
#include "base/num.h"
#include "cell/cell_warm.h"
#include "dispatch/dispatch.h"
#include "registry/registry.h"

#define CONCURRENCY_MAX 1024

static int
read_numbers(const struct args *args, struct serve_options *o, struct err *err)
{
	const char *n = args_get(args, "concurrency"), *idle = args_get(args, "idle-exit");
	const char *retain = args_get(args, "retain"), *warm = args_get(args, "warm");

	if (n != NULL && num_parse_count(n, 1, CONCURRENCY_MAX, &o->concurrency, err) < 0)
		return err_wrap(err, "--concurrency '%s'", n);
	if (idle != NULL && num_parse_duration(idle, &o->idle_exit_ms, err) < 0)
		return err_wrap(err, "--idle-exit '%s'", idle);
	if (warm != NULL && num_parse_count(warm, 0, CELL_WARM_MAX, &o->warm, err) < 0)
		return err_wrap(err, "--warm '%s'", warm);
	if (o->warm == 0 && (o->warm_memory != NULL || o->warm_cpus != NULL))
		return err_set(err, EINVAL, "--warm-memory and --warm-cpus need machines: add --warm N");
	o->retain_ms = DISPATCH_KEPT_MS;
	if (retain != NULL && num_parse_duration(retain, &o->retain_ms, err) < 0)
		return err_wrap(err, "--retain '%s'", retain);
	return 0;
}

int
serve_options_read(int argc, char **argv, struct serve_options *ret_options, struct err *err)
{
	struct serve_options o = {0};
	struct args args;
	int r;

	if (!args_parse(argc, argv, &args))
		return err_set(err, EINVAL, "cloister-serve is started by cloister only");
	if (args.n_words > 0)
		return err_set(err, EINVAL, "'serve' takes no argument: remove '%s'", args.words[0]);
	o = (struct serve_options){
		.socket = args_get(&args, "socket"), .agents_socket = args_get(&args, "agents-socket"),
		.listen = args_get(&args, "listen"), .mcp = args_get(&args, "mcp"),
		.e2b = args_get(&args, "e2b"),
		.token_file = args_get(&args, "token-file"),
		.agent_token_file = args_get(&args, "agent-token-file"),
		.tls_cert = args_get(&args, "tls-cert"), .tls_key = args_get(&args, "tls-key"),
		.warm_memory = args_get(&args, "warm-memory"), .warm_cpus = args_get(&args, "warm-cpus"),
		.blobs = args_get(&args, "blobs"), .workers = args_get(&args, "workers"),
		.no_tls = args_get(&args, "no-tls") != NULL, .routes = args_get(&args, "routes") != NULL,
	};
	r = read_numbers(&args, &o, err);
	r = r == 0 ? registry_use_store(args_get(&args, "store"), err) : r;
	if (r < 0)
		return r;
	if (o.listen == NULL && o.e2b == NULL && (o.tls_cert != NULL || o.token_file != NULL || o.no_tls ||
	                         o.agent_token_file != NULL))
		return err_set(err, EINVAL, "tokens and TLS need TCP: add --listen 127.0.0.1:PORT");
	if ((o.tls_cert == NULL) != (o.tls_key == NULL))
		return err_set(err, EINVAL, "--tls-cert and --tls-key need each other: give both");
	if (o.no_tls && o.tls_cert != NULL)
		return err_set(err, EINVAL, "--no-tls and --tls-cert contradict each other: remove one");
	if (o.mcp != NULL && o.agents_socket != NULL)
		return err_set(err, EINVAL, "--mcp and --agents-socket contradict each other: the agents' "
		               "socket has to be where cloister-mcp looks for it");
	if (o.mcp != NULL && o.idle_exit_ms > 0)
		return err_set(err, EINVAL, "--mcp and --idle-exit contradict each other: no agent in a cell "
		               "could have the service started again");
	*ret_options = o;
	return 0;
}

/* serve.c - `cloister serve`: becomes cloister-serve, which answers for all of this user's cells. */
#include "cli/cli.h"

const struct cli_option cli_serve_options[] = {
	{ "socket", 's', "PATH", "the operator's socket (serve.sock in the runtime folder)", 0 },
	{ "agents-socket", 0, "PATH", "the agents' socket (agents.sock in the runtime folder)", 0 },
	{ "listen", 'l', "127.0.0.1:PORT", "also listen on TCP, on this machine only", 0 },
	{ "token-file", 0, "FILE", "TCP: the operator's token; created if it does not exist", 0 },
	{ "agent-token-file", 0, "FILE", "TCP: another token, with an agent's rights", 0 },
	{ "tls-cert", 0, "FILE", "TCP: the certificate, PEM; created if not given", 0 },
	{ "tls-key", 0, "FILE", "TCP: the certificate's key", 0 },
	{ "no-tls", 0, NULL, "TCP: do not encrypt", 0 },
	{ "mcp", 0, "127.0.0.1:PORT", "start an MCP server that lets agents in cells dispatch others", 0 },
	{ "e2b", 0, "127.0.0.1:PORT", "also serve E2B's API, for its SDKs; see docs/e2b.md", 0 },
	{ "store", 0, "URL", "keep the registry in a Postgres, postgres://USER@HOST/DATABASE", 0 },
	{ "workers", 0, "ADDRESS:PORT", "let workers on other machines connect here; needs --store", 0 },
	{ "concurrency", 'c', "N", "how many dispatches run at a time", 0 },
	{ "retain", 0, "TIME", "remove dispatches that ended longer ago (30d); 0: never", 0 },
	{ "warm", 0, "N", "keep N virtual machines ready for dispatches (64 at most)", 0 },
	{ "warm-memory", 0, "SIZE", "their memory (4G): they fit dispatches with that limit", 0 },
	{ "warm-cpus", 0, "N", "their processors (all, 4 at most): likewise", 0 },
	{ "blobs", 0, "s3://BUCKET/PREFIX", "keep contents of files in S3 (CLOISTER_BLOBS)", 0 },
	{ "idle-exit", 0, "TIME", "exit after this time without requests and dispatches", 0 },
	{ "routes", 0, NULL, "only print the possible requests, and who may make them", 0 },
	{0}
};

int
cmd_serve(int argc, char **argv)
{
	return cli_hand_over("cloister-serve", cli_serve_options, argc, argv);
}

/* policy_preset.c - the policies that come with cloister. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "policy/policy_load.h"

/* Allows only reading from a host or list of hosts. */
#define READ(hosts) "  - allow: " hosts "\n    methods: [GET, HEAD]\n"
/* An agent's prompt to its model may contain anything that the agent has seen. */
#define MODEL "    placeholders: pass\n"
#define BEGIN "version: 1\negress:\n"

/* git itself writes samples into its folder of hooks, so the hooks are named. */
#define HOOKS "[.git/hooks/applypatch-msg, .git/hooks/commit-msg, .git/hooks/fsmonitor-watchman,\n" \
	"      .git/hooks/post-applypatch, .git/hooks/post-checkout, .git/hooks/post-commit,\n" \
	"      .git/hooks/post-merge, .git/hooks/post-rewrite, .git/hooks/pre-applypatch,\n" \
	"      .git/hooks/pre-auto-gc, .git/hooks/pre-commit, .git/hooks/pre-merge-commit,\n" \
	"      .git/hooks/pre-push, .git/hooks/pre-rebase, .git/hooks/prepare-commit-msg,\n" \
	"      .git/hooks/reference-transaction, .git/hooks/update]"
#define WATCH "version: 1\nwatch:\n" \
	"  - write: [~/.ssh, ~/.gnupg, ~/.aws, ~/.kube, ~/.netrc]\n" \
	"    then: freeze\n" \
	"  - write: " HOOKS "\n" \
	"    then: freeze\n" \
	"  - write: [.github/workflows, .gitlab-ci.yml, .circleci, Jenkinsfile, .husky]\n" \
	"    then: notify\n" \
	"  - write: [~/.bashrc, ~/.bash_profile, ~/.bash_login, ~/.profile, ~/.zshrc, ~/.zshenv, ~/.zprofile,\n" \
	"      ~/.config/fish, ~/.config/autostart, ~/.config/systemd, /etc/profile.d, /etc/cron.d]\n" \
	"    then: notify\n" \
	"  - refused: [ptrace, process_vm_readv, process_vm_writev, bpf, mount, setns, init_module, finit_module,\n" \
	"      kexec_load, perf_event_open, keyctl]\n" \
	"    then: notify\n" \
	"  - connect: [169.254.0.0/16, /run/docker.sock, /var/run/docker.sock]\n" \
	"    then: notify\n" \
	"  - exec: memory\n" \
	"    then: ask\n"

const struct policy_preset policy_presets[] = {
	{ "read-only", "reading anything on the internet, writing nothing",
	  BEGIN
	  "  # What is read can also carry something out, in its path and query.\n"
	  "  - allow: '*'\n"
	  "    methods: [GET, HEAD, OPTIONS]\n" },

	{ "read-only-tools", "MCP tools that the lock of `tools` has as read-only",
	  BEGIN
	  "  - allow: tool:**\n"
	  "    annotations: {read_only: true}\n" },

	/* ---- packages: read only ---- */
	{ "npm", "packages of npm, yarn and pnpm",
	  BEGIN
	  READ("[registry.npmjs.org, registry.yarnpkg.com]")
	  "  - allow: registry.npmjs.org\n"
	  "    methods: [POST]\n"
	  "    paths: [/-/npm/v1/security/**]\n" },
	{ "pypi", "packages of pip, uv and poetry",
	  BEGIN READ("[pypi.org, files.pythonhosted.org]") },
	{ "conda", "packages of conda",
	  BEGIN READ("[conda.anaconda.org, repo.anaconda.com]") },
	{ "crates", "packages of cargo, and toolchains of rustup",
	  BEGIN READ("[index.crates.io, static.crates.io, crates.io, static.rust-lang.org]") },
	{ "go", "modules and toolchains of go",
	  BEGIN READ("[proxy.golang.org, sum.golang.org, go.dev, dl.google.com]") },
	{ "maven", "packages of maven and gradle",
	  BEGIN READ("[repo.maven.apache.org, repo1.maven.org, plugins.gradle.org,\n"
	             "      services.gradle.org, downloads.gradle.org]") },
	{ "rubygems", "packages of gem and bundler",
	  BEGIN READ("[rubygems.org, index.rubygems.org]") },
	{ "nuget", "packages of dotnet",
	  BEGIN READ("[api.nuget.org, globalcdn.nuget.org]") },
	{ "packagist", "packages of composer",
	  BEGIN READ("[packagist.org, repo.packagist.org]") },
	{ "hex", "packages of mix and rebar3",
	  BEGIN READ("[hex.pm, repo.hex.pm, builds.hex.pm]") },
	{ "debian", "packages of Debian",
	  BEGIN READ("[deb.debian.org, security.debian.org, ftp.debian.org, '*.ftp.debian.org']") },
	{ "ubuntu", "packages of Ubuntu",
	  BEGIN READ("[archive.ubuntu.com, '*.archive.ubuntu.com', security.ubuntu.com,\n"
	             "      ports.ubuntu.com]") },
	{ "alpine", "packages of Alpine", BEGIN READ("dl-cdn.alpinelinux.org") },
	/* Only the registries' own stores: anyone may own files in a shared store. */
	{ "docker", "images of Docker Hub, GitHub, Quay and Microsoft",
	  BEGIN
	  READ("[registry-1.docker.io, auth.docker.io, production.cloudflare.docker.com,\n"
	       "      docker-images-prod.6aa30f8b08e16409b46e0173d6de2f56.r2.cloudflarestorage.com]")
	  READ("[ghcr.io, pkg-containers.githubusercontent.com]")
	  READ("[quay.io, '*.quay.io']")
	  READ("[mcr.microsoft.com, '*.data.mcr.microsoft.com']") },

	/* ---- code hosts ---- */
	{ "github", "reading from GitHub: git, files, releases, API queries",
	  BEGIN
	  "  - allow: github.com\n"
	  "    git: fetch\n"
	  READ("[github.com, api.github.com, codeload.github.com, '*.githubusercontent.com']")
	  "  - allow: api.github.com\n"
	  "    methods: [POST]\n"
	  "    paths: [/graphql]\n"
	  "    body: {graphql: {operations: [query]}}\n" },
	{ "gitlab", "reading from gitlab.com: git, files, API queries",
	  BEGIN
	  "  - allow: gitlab.com\n"
	  "    git: fetch\n"
	  READ("gitlab.com")
	  "  - allow: gitlab.com\n"
	  "    methods: [POST]\n"
	  "    paths: [/api/graphql]\n"
	  "    body: {graphql: {operations: [query]}}\n" },
	{ "huggingface", "reading models and data sets",
	  BEGIN READ("[huggingface.co, '**.huggingface.co', '**.hf.co']") },

	/* ---- models ---- */
	{ "anthropic", "Anthropic's API",
	  BEGIN
	  "  - allow: api.anthropic.com\n"
	  "    methods: [GET, HEAD, POST]\n"
	  "    body: {max: 32M}\n" MODEL },
	{ "openai", "OpenAI's API, and that of codex",
	  BEGIN
	  "  - allow: api.openai.com\n"
	  "    methods: [GET, POST]\n"
	  "    paths: [/v1/**]\n"
	  "    websocket: true\n"
	  "    body: {max: 64M}\n" MODEL
	  "  - allow: chatgpt.com\n"
	  "    methods: [GET, POST]\n"
	  "    paths: [/backend-api/codex/**]\n"
	  "    websocket: true\n"
	  "    body: {max: 64M}\n" MODEL },
	{ "google", "Google's Gemini and Vertex APIs",
	  BEGIN
	  "  - allow: generativelanguage.googleapis.com\n"
	  "    methods: [GET, POST]\n"
	  "    websocket: true\n"
	  "    body: {max: 32M}\n" MODEL
	  "  - allow: aiplatform.googleapis.com\n"
	  "    methods: [GET, POST]\n"
	  "    body: {max: 32M}\n" MODEL },
	{ "mistral", "Mistral's API",
	  BEGIN
	  "  - allow: [api.mistral.ai, codestral.mistral.ai]\n"
	  "    methods: [GET, POST]\n"
	  "    paths: [/v1/**]\n"
	  "    body: {max: 32M}\n" MODEL },
	{ "openrouter", "OpenRouter's API",
	  BEGIN
	  "  - allow: openrouter.ai\n"
	  "    methods: [GET, POST]\n"
	  "    paths: [/api/v1/**]\n"
	  "    body: {max: 32M}\n" MODEL },
	{ "deepseek", "DeepSeek's API",
	  BEGIN
	  "  - allow: api.deepseek.com\n"
	  "    methods: [GET, POST]\n"
	  "    body: {max: 32M}\n" MODEL },
	{ "groq", "Groq's API",
	  BEGIN
	  "  - allow: api.groq.com\n"
	  "    methods: [GET, POST]\n"
	  "    paths: [/openai/v1/**]\n"
	  "    body: {max: 32M}\n" MODEL },
	{ "xai", "xAI's API",
	  BEGIN
	  "  - allow: api.x.ai\n"
	  "    methods: [GET, POST]\n"
	  "    paths: [/v1/**]\n"
	  "    body: {max: 32M}\n" MODEL },
	{ "cohere", "Cohere's API",
	  BEGIN
	  "  - allow: [api.cohere.com, api.cohere.ai]\n"
	  "    methods: [GET, POST]\n"
	  "    body: {max: 32M}\n" MODEL },
	{ "ollama", "models that run on this machine",
	  BEGIN
	  "  - allow: host.cloister.internal:11434\n"
	  "    methods: [GET, HEAD, POST]\n"
	  "    paths: [/api/**, /v1/**]\n"
	  "    body: {max: 64M}\n" MODEL },

	/* ---- what agents do: rules of `watch` alone ---- */
	{ "coding", "watching a coding agent: keys, git hooks, start-up files, CI, programs in memory",
	  WATCH
	  "  - exec: downloaded\n"
	  "    then: notify\n" },
	{ "coding-strict", "the same, and a person is asked before a program goes on that the agent could write",
	  WATCH
	  "  - exec: downloaded\n"
	  "    then: ask\n" },
	{0}
};

const struct policy_preset *
policy_find_preset(const char *name)
{
	for (const struct policy_preset *p = policy_presets; p->name != NULL; p++)
		if (strcmp(p->name, name) == 0)
			return p;
	return NULL;
}

const char *
policy_nearest_preset(const char *name)
{
	const char *names[sizeof(policy_presets) / sizeof(policy_presets[0])];
	size_t n = 0;

	for (; policy_presets[n].name != NULL; n++)
		names[n] = policy_presets[n].name;
	names[n] = NULL;
	return text_nearest(name, names);
}

int
policy_no_preset(const struct node *node, const char *name, struct err *err)
{
	const char *nearest = policy_nearest_preset(name);
	char all[512] = "";
	size_t len = 0;

	if (nearest != NULL)
		return node_err(err, node, "there is no preset '%.64s': did you mean '%s'? (a file's "
		                "name ends in .yaml)", name, nearest);
	for (size_t n = 0; policy_presets[n].name != NULL && len < sizeof(all); n++)
		len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s", n > 0 ? ", " : "",
		                        policy_presets[n].name);
	return node_err(err, node, "there is no preset '%.64s': there are %s (a file's name ends in "
	                ".yaml)", name, all);
}

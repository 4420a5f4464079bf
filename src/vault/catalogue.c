/* catalogue.c - the table of services.
 *
 * Scopes are as narrow as the service's own clients permit: the hosts that its documentation names
 * for its API, and the headers in which its clients send the credential.  If a service does not
 * document the shape, it is guessed from the value. */
#include "vault/catalogue.h"

#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "credential/forms.h"

#define BEARER "in: ['header:authorization']"
#define TOKEN_OR_BASIC "in: ['header:authorization', basic-user, basic-password]"
#define SIGV4 "scheme: sigv4, members: {id: /AccessKeyId, secret: /SecretAccessKey, " \
	"token: /SessionToken}"

#define AWS_SHAPES "shape: {id: ['AKIA{b16}', 'ASIA{b16}'], secret: '{x40}'}"
#define GITHUB "api.github.com, github.com, uploads.github.com, codeload.github.com, " \
	"raw.githubusercontent.com, ghcr.io, '*.pkg.github.com'"

const struct catalogue_entry catalogue[] = {
	/* ---- models ---- */
	{ "anthropic", "Anthropic API key", "ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN "
	  "CLAUDE_CODE_OAUTH_TOKEN",
	  "{shape: ['sk-ant-{a3-8}-{u80+}AA', " FORM(ANTHROPIC) "], hosts: [api.anthropic.com], "
	  "env: ANTHROPIC_API_KEY, in: ['header:x-api-key', 'header:authorization']}" },
	{ "claude-login", "login of Claude Code", "CLAUDE_LOGIN",
	  "{shape: ['sk-ant-oat01-{u80+}AA', " FORM(ANTHROPIC) "], hosts: [api.anthropic.com], "
	  "members: {secret: /claudeAiOauth/accessToken}, files: [claude-login], env: CLAUDE_LOGIN, "
	  BEARER "}" },
	{ "codex-login", "login of Codex with ChatGPT", "CODEX_LOGIN",
	  "{hosts: [chatgpt.com], paths: [/backend-api/**], members: {secret: /tokens/access_token, id: /tokens/account_id}, "
	  "files: [codex-login], env: CODEX_LOGIN, " BEARER "}" },
	{ "gemini-login", "login of Gemini CLI with Google", "GEMINI_LOGIN",
	  "{hosts: [cloudcode-pa.googleapis.com, oauth2.googleapis.com, www.googleapis.com], members: {secret: /access_token}, "
	  "files: [gemini-login], env: GEMINI_LOGIN, " BEARER "}" },
	{ "openai", "OpenAI API key", "OPENAI_API_KEY",
	  "{shape: ['sk-proj-{u40+}T3BlbkFJ{u40+}', 'sk-svcacct-{u40+}T3BlbkFJ{u40+}', "
	  "'sk-admin-{u40+}T3BlbkFJ{u40+}', 'sk-{w20}T3BlbkFJ{w20}'], hosts: [api.openai.com], "
	  "env: OPENAI_API_KEY, in: ['header:authorization', 'header:sec-websocket-protocol']}" },
	{ "gemini", "Google Gemini API key", "GEMINI_API_KEY",
	  "{shape: " FORM(GOOGLE) ", hosts: [generativelanguage.googleapis.com], env: GEMINI_API_KEY, "
	  "in: ['header:x-goog-api-key', 'header:authorization', 'query:key']}" },
	{ "mistral", "Mistral API key", "MISTRAL_API_KEY",
	  "{hosts: [api.mistral.ai, codestral.mistral.ai], env: MISTRAL_API_KEY, " BEARER "}" },
	{ "groq", "Groq API key", "GROQ_API_KEY",
	  "{shape: " FORM(GROQ) ", hosts: [api.groq.com], env: GROQ_API_KEY, " BEARER "}" },
	{ "openrouter", "OpenRouter API key", "OPENROUTER_API_KEY",
	  "{shape: " FORM(OPENROUTER) ", hosts: [openrouter.ai], env: OPENROUTER_API_KEY, " BEARER "}" },
	{ "xai", "xAI API key", "XAI_API_KEY",
	  "{shape: " FORM(XAI) ", hosts: [api.x.ai], env: XAI_API_KEY, " BEARER "}" },
	{ "perplexity", "Perplexity API key", "PERPLEXITY_API_KEY PPLX_API_KEY",
	  "{shape: " FORM(PERPLEXITY) ", hosts: [api.perplexity.ai], env: PERPLEXITY_API_KEY, " BEARER "}" },
	{ "deepseek", "DeepSeek API key", "DEEPSEEK_API_KEY",
	  "{shape: " FORM(PLAIN_SK) ", hosts: [api.deepseek.com], env: DEEPSEEK_API_KEY, "
	  "in: ['header:authorization', 'header:x-api-key']}" },
	{ "cohere", "Cohere API key", "COHERE_API_KEY CO_API_KEY",
	  "{hosts: [api.cohere.com, api.cohere.ai], env: CO_API_KEY, " BEARER "}" },
	{ "together", "Together API key", "TOGETHER_API_KEY",
	  "{hosts: [api.together.xyz, api.together.ai], env: TOGETHER_API_KEY, " BEARER "}" },
	{ "fireworks", "Fireworks API key", "FIREWORKS_API_KEY",
	  "{hosts: [api.fireworks.ai], env: FIREWORKS_API_KEY, " BEARER "}" },
	{ "replicate", "Replicate token", "REPLICATE_API_TOKEN",
	  "{shape: " FORM(REPLICATE) ", hosts: [api.replicate.com], env: REPLICATE_API_TOKEN, " BEARER "}" },
	{ "cerebras", "Cerebras API key", "CEREBRAS_API_KEY",
	  "{shape: " FORM(CEREBRAS) ", hosts: [api.cerebras.ai], env: CEREBRAS_API_KEY, " BEARER "}" },
	{ "nvidia", "NVIDIA API key", "NVIDIA_API_KEY",
	  "{shape: " FORM(NVIDIA) ", hosts: [integrate.api.nvidia.com, ai.api.nvidia.com], "
	  "env: NVIDIA_API_KEY, " BEARER "}" },
	{ "elevenlabs", "ElevenLabs API key", "ELEVENLABS_API_KEY",
	  "{shape: " FORM(ELEVENLABS) ", hosts: [api.elevenlabs.io, '*.elevenlabs.io'], "
	  "env: ELEVENLABS_API_KEY, in: ['header:xi-api-key']}" },
	{ "huggingface", "Hugging Face token", "HF_TOKEN HUGGING_FACE_HUB_TOKEN "
	  "HUGGINGFACEHUB_API_TOKEN",
	  "{shape: " FORM(HUGGINGFACE) ", hosts: [huggingface.co, router.huggingface.co, "
	  "api-inference.huggingface.co], env: HF_TOKEN, " TOKEN_OR_BASIC "}" },
	{ "azure-openai", "Azure OpenAI key", "AZURE_OPENAI_API_KEY",
	  "{hosts: ['*.openai.azure.com', '*.cognitiveservices.azure.com'], "
	  "env: AZURE_OPENAI_API_KEY, in: ['header:api-key']}" },

	/* ---- search and web access for agents ---- */
	{ "tavily", "Tavily API key", "TAVILY_API_KEY",
	  "{shape: " FORM(TAVILY) ", hosts: [api.tavily.com], env: TAVILY_API_KEY, "
	  "in: ['header:authorization', body]}" },
	{ "brave", "Brave Search API key", "BRAVE_API_KEY",
	  "{hosts: [api.search.brave.com], env: BRAVE_API_KEY, in: ['header:x-subscription-token']}" },
	{ "exa", "Exa API key", "EXA_API_KEY",
	  "{hosts: [api.exa.ai], env: EXA_API_KEY, in: ['header:x-api-key', 'header:authorization']}" },
	{ "firecrawl", "Firecrawl API key", "FIRECRAWL_API_KEY",
	  "{shape: " FORM(FIRECRAWL) ", hosts: [api.firecrawl.dev], env: FIRECRAWL_API_KEY, " BEARER "}" },

	/* ---- code ---- */
	{ "github", "GitHub token (classic, fine-grained, OAuth, app)", "GITHUB_TOKEN GH_TOKEN "
	  "GITHUB_PERSONAL_ACCESS_TOKEN",
	  "{shape: [" FORM(GITHUB_CLASSIC) ", " FORM(GITHUB_FINE) ", " FORM(GITHUB_OAUTH) ", "
	  "" FORM(GITHUB_APP) ", " FORM(GITHUB_USER) ", '{h40}'], "
	  "hosts: [" GITHUB "], env: GITHUB_TOKEN, " TOKEN_OR_BASIC ", captures: {kind: registry, "
	  "at: {hosts: [ghcr.io], paths: [/token]}, for: {hosts: [ghcr.io], " BEARER "}}}" },
	{ "github-app", "GitHub App private key", "GITHUB_APP_PRIVATE_KEY",
	  "{scheme: jwt, shape: pem, hosts: [api.github.com], paths: [/app, /app/**], "
	  "env: GITHUB_APP_PRIVATE_KEY, with: {algorithm: RS256}, captures: {kind: github-app, "
	  "for: {hosts: [" GITHUB "], shape: [" FORM(GITHUB_APP) ", 'ghs_{u36+}'], " TOKEN_OR_BASIC
	  "}}}" },
	{ "github-oauth", "GitHub OAuth client secret", "GITHUB_CLIENT_SECRET",
	  "{shape: '{h40}', hosts: [github.com], paths: [/login/**], env: GITHUB_CLIENT_SECRET, "
	  "in: [body, basic-password], captures: {kind: oauth2, at: {paths: "
	  "[/login/oauth/access_token]}, for: {hosts: [" GITHUB "], " TOKEN_OR_BASIC "}}}" },
	{ "gitlab", "GitLab token", "GITLAB_TOKEN GITLAB_PRIVATE_TOKEN",
	  "{shape: ['glpat-{u20}', " FORM(GITLAB) "], hosts: [gitlab.com, registry.gitlab.com], "
	  "env: GITLAB_TOKEN, in: ['header:private-token', 'header:authorization', basic-user, "
	  "basic-password], captures: {kind: registry, at: {hosts: [gitlab.com], paths: [/jwt/auth]}, "
	  "for: {hosts: [registry.gitlab.com], " BEARER "}}}" },
	{ "gitlab-oauth", "GitLab OAuth client secret", "GITLAB_CLIENT_SECRET",
	  "{hosts: [gitlab.com], paths: [/oauth/**], env: GITLAB_CLIENT_SECRET, "
	  "in: [body, basic-password], captures: {kind: oauth2, at: {paths: [/oauth/token]}, "
	  "for: {hosts: [gitlab.com, registry.gitlab.com], " TOKEN_OR_BASIC "}}}" },
	{ "bitbucket", "Bitbucket app password or token", "BITBUCKET_TOKEN BITBUCKET_APP_PASSWORD",
	  "{hosts: [api.bitbucket.org, bitbucket.org], env: BITBUCKET_TOKEN, " TOKEN_OR_BASIC "}" },
	{ "linear", "Linear API key", "LINEAR_API_KEY",
	  "{shape: " FORM(LINEAR) ", hosts: [api.linear.app], env: LINEAR_API_KEY, " BEARER "}" },
	{ "sentry", "Sentry token", "SENTRY_AUTH_TOKEN",
	  "{hosts: [sentry.io, '*.sentry.io'], env: SENTRY_AUTH_TOKEN, " BEARER "}" },
	{ "vercel", "Vercel token", "VERCEL_TOKEN",
	  "{hosts: [api.vercel.com, vercel.com], env: VERCEL_TOKEN, " BEARER "}" },
	{ "netlify", "Netlify token", "NETLIFY_AUTH_TOKEN",
	  "{hosts: [api.netlify.com], env: NETLIFY_AUTH_TOKEN, " BEARER "}" },

	/* ---- code, over SSH: with the hosts' keys as their owners publish them ---- */
	{ "github-ssh", "GitHub key for git over SSH", "GITHUB_SSH_KEY",
	  "{scheme: ssh, hosts: ['github.com:22', 'ssh.github.com:443'], env: GITHUB_SSH_KEY, "
	  "with: {user: git, host-keys: '"
	  "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl, "
	  "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7"
	  "opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg='}}" },
	{ "gitlab-ssh", "GitLab.com key for git over SSH", "GITLAB_SSH_KEY",
	  "{scheme: ssh, hosts: ['gitlab.com:22', 'altssh.gitlab.com:443'], env: GITLAB_SSH_KEY, "
	  "with: {user: git, host-keys: "
	  "'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAfuCHKVTjquxvt6CM6tdG4SLp1Btn/nOeHHE5UOzRdf'}}" },
	{ "bitbucket-ssh", "Bitbucket key for git over SSH", "BITBUCKET_SSH_KEY",
	  "{scheme: ssh, hosts: ['bitbucket.org:22', 'altssh.bitbucket.org:443'], env: BITBUCKET_SSH_KEY, "
	  "with: {user: git, host-keys: "
	  "'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIazEu89wgQZ4bqs3d63QSMzYVa0MuJ2e2gKTKqu+UUO'}}" },

	/* ---- packages ---- */
	{ "npm", "npm token", "NPM_TOKEN NODE_AUTH_TOKEN",
	  "{shape: " FORM(NPM) ", hosts: [registry.npmjs.org], env: NPM_TOKEN, "
	  "in: ['header:authorization', basic-password]}" },
	{ "pypi", "PyPI token", "PYPI_TOKEN TWINE_PASSWORD UV_PUBLISH_TOKEN",
	  "{shape: " FORM(PYPI) ", hosts: [upload.pypi.org], env: TWINE_PASSWORD, "
	  "in: [basic-password]}" },
	{ "testpypi", "TestPyPI token", "TEST_PYPI_TOKEN",
	  "{shape: " FORM(PYPI_TEST) ", hosts: [test.pypi.org], env: TWINE_PASSWORD, "
	  "in: [basic-password]}" },
	{ "crates", "crates.io token", "CARGO_REGISTRY_TOKEN",
	  "{shape: " FORM(CRATES) ", hosts: [crates.io], env: CARGO_REGISTRY_TOKEN, " BEARER "}" },
	{ "rubygems", "RubyGems key", "GEM_HOST_API_KEY RUBYGEMS_API_KEY",
	  "{shape: " FORM(RUBYGEMS) ", hosts: [rubygems.org], env: GEM_HOST_API_KEY, " BEARER "}" },
	{ "docker", "Docker Hub token", "DOCKER_TOKEN DOCKER_PASSWORD DOCKERHUB_TOKEN",
	  "{scheme: basic, shape: [" FORM(DOCKER) ", " FORM(DOCKER_ORG) "], "
	  "hosts: [auth.docker.io, registry-1.docker.io, index.docker.io, hub.docker.com], "
	  "env: DOCKER_PASSWORD, in: [basic-password, body], captures: ["
	  "{kind: registry, at: {hosts: [auth.docker.io]}, for: {hosts: [registry-1.docker.io, "
	  "index.docker.io], " BEARER "}}, {kind: registry, at: {hosts: [hub.docker.com], paths: "
	  "[/v2/users/login, /v2/users/2fa-login, /v2/auth/token]}, for: {hosts: [hub.docker.com], "
	  BEARER "}}]}" },
	{ "ghcr", "GitHub container registry", "GHCR_TOKEN",
	  "{scheme: basic, shape: [" FORM(GITHUB_CLASSIC) ", " FORM(GITHUB_APP) "], hosts: [ghcr.io], "
	  "env: GHCR_TOKEN, in: ['header:authorization', basic-password], captures: registry}" },
	{ "quay", "Quay.io robot token", "QUAY_TOKEN QUAY_PASSWORD",
	  "{scheme: basic, hosts: [quay.io], env: QUAY_PASSWORD, in: [basic-password], "
	  "captures: registry}" },

	/* ---- clouds ---- */
	{ "aws", "AWS access key", "AWS_ACCESS_KEY AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID",
	  "{" SIGV4 ", " AWS_SHAPES ", "
	  "hosts: ['**.amazonaws.com', '**.api.aws'], env: AWS_SECRET_ACCESS_KEY, "
	  "captures: [{kind: sts, for: {" AWS_SHAPES "}}, {kind: s3-session, for: {" AWS_SHAPES "}}, "
	  "{kind: ecr, for: {hosts: ['**.amazonaws.com', public.ecr.aws], in: [basic-password]}}]}" },
	{ "r2", "Cloudflare R2 key", "R2_SECRET_ACCESS_KEY",
	  "{" SIGV4 ", shape: {id: '{h32}', secret: '{h64}'}, hosts: ['**.r2.cloudflarestorage.com'], "
	  "env: AWS_SECRET_ACCESS_KEY, with: {service: s3}}" },
	{ "spaces", "DigitalOcean Spaces key", "SPACES_SECRET_ACCESS_KEY",
	  "{" SIGV4 ", hosts: ['**.digitaloceanspaces.com'], env: SPACES_SECRET_ACCESS_KEY, "
	  "with: {service: s3}}" },
	{ "google-service-account", "Google service account", "GOOGLE_APPLICATION_CREDENTIALS "
	  "GOOGLE_SERVICE_ACCOUNT",
	  "{scheme: jwt, shape: pem, members: {id: /client_email, secret: /private_key}, "
	  "hosts: [oauth2.googleapis.com, storage.googleapis.com, '*.storage.googleapis.com'], "
	  "env: GOOGLE_APPLICATION_CREDENTIALS, files: google-service-account, "
	  "with: {algorithm: RS256, audience: 'https://oauth2.googleapis.com/token'}, "
	  "captures: {kind: oauth2, at: {hosts: [oauth2.googleapis.com], paths: [/token]}, "
	  "for: {hosts: ['*.googleapis.com'], " BEARER "}}}" },
	{ "google-oauth", "Google OAuth refresh token", "GOOGLE_REFRESH_TOKEN",
	  "{hosts: [oauth2.googleapis.com], paths: [/token], env: GOOGLE_REFRESH_TOKEN, in: [body], "
	  "captures: {kind: oauth2, for: {hosts: ['*.googleapis.com'], " BEARER "}}}" },
	{ "google", "Google API key", "GOOGLE_API_KEY",
	  "{shape: " FORM(GOOGLE) ", hosts: ['*.googleapis.com'], env: GOOGLE_API_KEY, "
	  "in: ['header:x-goog-api-key', 'query:key']}" },
	{ "azure-storage", "Azure storage account key", "AZURE_STORAGE_KEY",
	  "{scheme: azure-sharedkey, shape: base64, hosts: ['*.blob.core.windows.net', "
	  "'*.queue.core.windows.net', '*.table.core.windows.net', '*.file.core.windows.net', "
	  "'*.dfs.core.windows.net'], env: AZURE_STORAGE_KEY}" },
	{ "azure", "Azure client secret", "AZURE_CLIENT_SECRET",
	  "{hosts: [login.microsoftonline.com], env: AZURE_CLIENT_SECRET, in: [body, "
	  "basic-password], captures: {kind: oauth2, at: {paths: ['/**/token']}, "
	  "for: {hosts: [graph.microsoft.com, management.azure.com, "
	  "'*.vault.azure.net', '**.core.windows.net', '*.azurecr.io', dev.azure.com, "
	  "'*.database.windows.net', '*.openai.azure.com'], " BEARER "}}}" },
	{ "cloudflare", "Cloudflare API token", "CLOUDFLARE_API_TOKEN CF_API_TOKEN",
	  "{hosts: [api.cloudflare.com], env: CLOUDFLARE_API_TOKEN, " BEARER "}" },
	{ "cloudflare-key", "Cloudflare global API key", "CLOUDFLARE_API_KEY CF_API_KEY",
	  "{hosts: [api.cloudflare.com], env: CLOUDFLARE_API_KEY, in: ['header:x-auth-key']}" },
	{ "digitalocean", "DigitalOcean token", "DIGITALOCEAN_TOKEN DIGITALOCEAN_ACCESS_TOKEN",
	  "{shape: [" FORM(DIGITALOCEAN) ", " FORM(DIGITALOCEAN_OAUTH) "], hosts: [api.digitalocean.com], "
	  "env: DIGITALOCEAN_TOKEN, " TOKEN_OR_BASIC "}" },
	{ "hetzner", "Hetzner Cloud token", "HCLOUD_TOKEN",
	  "{shape: '{w64}', hosts: [api.hetzner.cloud], env: HCLOUD_TOKEN, " BEARER "}" },
	{ "linode", "Linode token", "LINODE_TOKEN LINODE_CLI_TOKEN",
	  "{hosts: [api.linode.com], env: LINODE_TOKEN, " BEARER "}" },
	{ "fly", "Fly.io token", "FLY_API_TOKEN FLY_ACCESS_TOKEN",
	  "{hosts: [api.fly.io, api.machines.dev, registry.fly.io], env: FLY_API_TOKEN, "
	  TOKEN_OR_BASIC "}" },
	{ "heroku", "Heroku API key", "HEROKU_API_KEY",
	  "{hosts: [api.heroku.com, git.heroku.com], env: HEROKU_API_KEY, " TOKEN_OR_BASIC "}" },
	{ "supabase", "Supabase access token", "SUPABASE_ACCESS_TOKEN",
	  "{shape: " FORM(SUPABASE) ", hosts: [api.supabase.com], env: SUPABASE_ACCESS_TOKEN, " BEARER "}" },

	/* ---- databases: each user has hosts of their own ---- */
	{ "postgres", "Postgres password", "PGPASSWORD POSTGRES_PASSWORD POSTGRESQL_PASSWORD",
	  "{scheme: postgres, ports: [5432], env: PGPASSWORD}" },
	{ "redis", "Redis password", "REDIS_PASSWORD REDISCLI_AUTH",
	  "{scheme: redis, ports: [6379], env: REDISCLI_AUTH}" },

	/* ---- messaging ---- */
	{ "slack", "Slack bot or user token", "SLACK_BOT_TOKEN SLACK_TOKEN SLACK_USER_TOKEN",
	  "{shape: ['xoxb-{d9-14}-{d9-14}-{w24}', 'xoxp-{d9-14}-{d9-14}-{d9-14}-{h32}'], "
	  "hosts: [slack.com, www.slack.com, files.slack.com], env: SLACK_BOT_TOKEN, "
	  "in: ['header:authorization', body]}" },
	{ "slack-oauth", "Slack OAuth client secret", "SLACK_CLIENT_SECRET",
	  "{shape: '{h32}', hosts: [slack.com], paths: [/api/oauth.v2.access, "
	  "/api/oauth.v2.exchange, /api/openid.connect.token], env: SLACK_CLIENT_SECRET, "
	  "in: [body, basic-password], captures: {kind: oauth2, at: {paths: [/api/oauth.v2.access, "
	  "/api/oauth.v2.exchange, /api/openid.connect.token]}, for: {hosts: [slack.com, "
	  "www.slack.com, files.slack.com], in: ['header:authorization', body]}}}" },
	{ "slack-app", "Slack app-level token", "SLACK_APP_TOKEN",
	  "{shape: " FORM(SLACK_APP) ", hosts: [slack.com], env: SLACK_APP_TOKEN, "
	  "in: ['header:authorization', body]}" },
	{ "discord", "Discord bot token", "DISCORD_TOKEN DISCORD_BOT_TOKEN",
	  "{hosts: [discord.com, gateway.discord.gg], env: DISCORD_TOKEN, "
	  "in: ['header:authorization', websocket]}" },
	{ "telegram", "Telegram bot token", "TELEGRAM_BOT_TOKEN TELEGRAM_TOKEN",
	  "{shape: '{d8-10}:AA{u33}', hosts: [api.telegram.org], env: TELEGRAM_BOT_TOKEN, "
	  "in: [path]}" },
	{ "twilio", "Twilio auth token", "TWILIO_AUTH_TOKEN",
	  "{scheme: basic, shape: '{h32}', hosts: [api.twilio.com, '*.twilio.com'], "
	  "env: TWILIO_AUTH_TOKEN, in: [basic-password]}" },
	{ "sendgrid", "SendGrid API key", "SENDGRID_API_KEY",
	  "{shape: " FORM(SENDGRID) ", hosts: [api.sendgrid.com, api.eu.sendgrid.com], "
	  "env: SENDGRID_API_KEY, " BEARER "}" },
	{ "mailgun", "Mailgun API key", "MAILGUN_API_KEY",
	  "{scheme: basic, hosts: [api.mailgun.net, api.eu.mailgun.net], env: MAILGUN_API_KEY, "
	  "in: [basic-password]}" },
	{ "resend", "Resend API key", "RESEND_API_KEY",
	  "{hosts: [api.resend.com], env: RESEND_API_KEY, " BEARER "}" },
	{ "notion", "Notion token", "NOTION_TOKEN NOTION_API_KEY",
	  "{shape: [" FORM(NOTION) ", " FORM(NOTION_OLD) "], hosts: [api.notion.com], env: NOTION_TOKEN, "
	  BEARER "}" },
	{ "airtable", "Airtable token", "AIRTABLE_API_KEY",
	  "{shape: 'pat{w14}.{h64}', hosts: [api.airtable.com, content.airtable.com], "
	  "env: AIRTABLE_API_KEY, " BEARER "}" },
	{ "atlassian", "Atlassian API token", "ATLASSIAN_API_TOKEN JIRA_API_TOKEN CONFLUENCE_API_TOKEN",
	  "{hosts: ['*.atlassian.net', api.atlassian.com], env: JIRA_API_TOKEN, "
	  "in: [basic-password, 'header:authorization']}" },

	/* ---- payments ---- */
	{ "stripe", "Stripe secret key", "STRIPE_API_KEY STRIPE_SECRET_KEY",
	  "{shape: [" FORM(STRIPE) ", 'sk_test_{w24+}', " FORM(STRIPE_RESTRICTED) ", 'rk_test_{w24+}'], "
	  "hosts: [api.stripe.com, files.stripe.com], env: STRIPE_API_KEY, "
	  "in: ['header:authorization', basic-user]}" },

	/* ---- monitoring ---- */
	{ "datadog", "Datadog API key", "DD_API_KEY DATADOG_API_KEY",
	  "{shape: '{h32}', hosts: ['**.datadoghq.com', '**.datadoghq.eu', '**.ddog-gov.com'], "
	  "env: DD_API_KEY, in: ['header:dd-api-key']}" },
	{ "datadog-app", "Datadog application key", "DD_APP_KEY DATADOG_APP_KEY",
	  "{hosts: ['**.datadoghq.com', '**.datadoghq.eu', '**.ddog-gov.com'], env: DD_APP_KEY, "
	  "in: ['header:dd-application-key']}" },
	{ "newrelic", "New Relic API key", "NEW_RELIC_API_KEY",
	  "{hosts: [api.newrelic.com, api.eu.newrelic.com], env: NEW_RELIC_API_KEY, "
	  "in: ['header:api-key', 'header:x-api-key']}" },
	{ "honeycomb", "Honeycomb API key", "HONEYCOMB_API_KEY",
	  "{hosts: [api.honeycomb.io, api.eu1.honeycomb.io], env: HONEYCOMB_API_KEY, "
	  "in: ['header:x-honeycomb-team']}" },
	{0}
};

static int
has_word(const char *words, const char *word)
{
	size_t len = strlen(word), n;

	for (; *words != '\0'; words += n + (words[n] == ' ')) {
		n = strcspn(words, " ");
		if (n == len && strncasecmp(words, word, n) == 0)
			return 1;
	}
	return 0;
}

const struct catalogue_entry *
catalogue_find(const char *word)
{
	for (const struct catalogue_entry *e = catalogue; e->name != NULL; e++)
		if (strcasecmp(e->name, word) == 0 || has_word(e->variables, word))
			return e;
	return NULL;
}

const char *
catalogue_nearest(const char *word)
{
	const char *names[sizeof(catalogue) / sizeof(catalogue[0])];
	size_t n = 0;

	for (; catalogue[n].name != NULL; n++)
		names[n] = catalogue[n].name;
	names[n] = NULL;
	return text_nearest(word, names);
}

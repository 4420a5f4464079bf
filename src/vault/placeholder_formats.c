/* placeholder_formats.c - the names of the files in which tools look for credentials. */
#include <string.h>

#include "vault/placeholder.h"

const struct placeholder_file placeholder_files[PLACEHOLDER_FORMATS] = {
	[PLACEHOLDER_AWS] = { "aws-credentials", ".aws/credentials", "AWS_SHARED_CREDENTIALS_FILE" },
	[PLACEHOLDER_NETRC] = { "netrc", ".netrc", NULL },
	[PLACEHOLDER_NPMRC] = { "npmrc", ".npmrc", "NPM_CONFIG_USERCONFIG" },
	[PLACEHOLDER_PYPIRC] = { "pypirc", ".pypirc", NULL },
	[PLACEHOLDER_GH] = { "gh-hosts", ".config/gh/hosts.yml", NULL },
	[PLACEHOLDER_GOOGLE] = { "google-service-account",
		".config/gcloud/application_default_credentials.json", "GOOGLE_APPLICATION_CREDENTIALS" },
	[PLACEHOLDER_DOCKER] = { "docker-config", ".docker/config.json", NULL },
	[PLACEHOLDER_CLAUDE] = { "claude-login", ".claude/.credentials.json", NULL },
	[PLACEHOLDER_CODEX] = { "codex-login", ".codex/auth.json", NULL },
	[PLACEHOLDER_GEMINI] = { "gemini-login", ".gemini/oauth_creds.json", NULL },
};

const struct placeholder_file *
placeholder_file_find(const char *name)
{
	for (size_t i = 0; i < PLACEHOLDER_FORMATS; i++)
		if (strcmp(placeholder_files[i].name, name) == 0)
			return &placeholder_files[i];
	return NULL;
}

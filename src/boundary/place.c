/* place.c - see place.h. */
#include "boundary/place.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/own.h"

#define DEVCONTAINER "`\"runArgs\": [\"--security-opt=seccomp=unconfined\", \"--security-opt=systempaths=unconfined\", " \
	"\"--security-opt=apparmor=unconfined\"]` in devcontainer.json, then rebuild the container; or the feature in " \
	"contrib/devcontainer"
#define SYSCTL "`sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` before it"

enum { CODESPACES, DEVCONTAINERS, GITHUB_CONTAINER, GITHUB, GITLAB_CONTAINER, GITLAB, WSL, CONTAINER };

static const struct place places[] = {
	[CODESPACES] = { "a codespace of GitHub", DEVCONTAINER, true },
	[DEVCONTAINERS] = { "a devcontainer", DEVCONTAINER, true },
	[GITHUB_CONTAINER] = { "a container of a GitHub Actions job", "`options: --security-opt seccomp=unconfined "
		"--security-opt systempaths=unconfined --security-opt apparmor=unconfined` under the job's `container`", true },
	[GITHUB] = { "a GitHub Actions runner", SYSCTL "; or the action in contrib/github", false },
	[GITLAB_CONTAINER] = { "a container of a GitLab job", "`security_opt = [\"seccomp=unconfined\", "
		"\"systempaths=unconfined\", \"apparmor=unconfined\"]` under `[runners.docker]` in the runner's config.toml", true },
	[GITLAB] = { "a GitLab runner", SYSCTL, false },
	[WSL] = { "WSL 2", "`systemd=true` under `[boot]` in /etc/wsl.conf, then `wsl --shutdown` in Windows", false },
	[CONTAINER] = { "a container", "start this container with `--security-opt seccomp=unconfined --security-opt "
		"unmask=ALL` (Podman) or `--security-opt seccomp=unconfined --security-opt systempaths=unconfined` (Docker)", true },
};

static bool
is_set(const char *variable)
{
	const char *value = getenv(variable);

	return value != NULL && value[0] != '\0' && strcmp(value, "false") != 0;
}

void
place_look(struct place_signs *ret_signs)
{
	struct utsname kernel = {0};

	(void)uname(&kernel);
	*ret_signs = (struct place_signs){
		.container = access("/run/.containerenv", F_OK) == 0 || access("/.dockerenv", F_OK) == 0 ||
		             getenv("container") != NULL,
		.codespaces = is_set("CODESPACES"),
		.devcontainer = is_set("REMOTE_CONTAINERS") || is_set("DEVCONTAINER"),
		.github = is_set("GITHUB_ACTIONS"),
		.gitlab = is_set("GITLAB_CI"),
		.wsl = strcasestr(kernel.release, "microsoft") != NULL,
	};
}

const struct place *
place_recognise(const struct place_signs *s)
{
	if (s->codespaces)
		return &places[CODESPACES];
	if (s->devcontainer)
		return &places[DEVCONTAINERS];
	if (s->github)
		return &places[s->container ? GITHUB_CONTAINER : GITHUB];
	if (s->gitlab)
		return &places[s->container ? GITLAB_CONTAINER : GITLAB];
	return s->container ? &places[CONTAINER] : s->wsl ? &places[WSL] : NULL;
}

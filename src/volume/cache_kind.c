/* cache_kind.c - the kinds of packages, and the settings by which their programs use a cache. */
#include <string.h>

#include "base/io.h"
#include "volume/cache.h"

/* In the user namespace of a cell apt cannot become its own user, and the settings of an image may remove archives after
 * each installation. */
static char *
apt_settings(const char *path)
{
	return str_format("Dir::Cache \"%s\";\n"
	                  "Dir::Cache::archives \"archives/\";\n"
	                  "Dir::Cache::pkgcache \"\";\n"
	                  "Dir::Cache::srcpkgcache \"\";\n"
	                  "Dir::State::lists \"%s/lists/\";\n"
	                  "APT::Keep-Downloaded-Packages \"true\";\n"
	                  "Binary::apt::APT::Keep-Downloaded-Packages \"true\";\n"
	                  "APT::Sandbox::User \"root\";\n", path, path);
}

const struct cache_kind cache_kinds[] = {
	{ .name = "npm", .variables = {
		{ "npm_config_cache", "", true, CACHE_ALWAYS },
		{ "npm_config_update_notifier", "false", false, CACHE_ALWAYS },
		{ "npm_config_prefer_offline", "true", false, CACHE_ALWAYS },
		{ "npm_config_offline", "true", false, CACHE_OFFLINE },
	} },
	{ .name = "pip", .variables = {
		{ "PIP_CACHE_DIR", "/http", true, CACHE_ALWAYS },
		{ "PIP_FIND_LINKS", "/wheels", true, CACHE_ALWAYS },
		{ "PIP_DEST", "/wheels", true, CACHE_FILLING },
		{ "PIP_WHEEL_DIR", "/wheels", true, CACHE_FILLING },
		{ "PIP_NO_INDEX", "1", false, CACHE_OFFLINE },
	}, .folders = { "wheels", "http" } },
	{ .name = "cargo", .variables = {
		{ "CARGO_HOME", "", true, CACHE_ALWAYS },
		{ "CARGO_NET_OFFLINE", "true", false, CACHE_OFFLINE },
	} },
	{ .name = "apt", .variables = {
		{ "APT_CONFIG", ".conf", true, CACHE_ALWAYS },
	}, .folders = { "archives", "archives/partial", "lists", "lists/partial" }, .settings = apt_settings },
	{0}
};

const struct cache_kind *
cache_kind_find(const char *name)
{
	for (const struct cache_kind *kind = cache_kinds; kind->name != NULL; kind++)
		if (strcmp(kind->name, name) == 0)
			return kind;
	return NULL;
}

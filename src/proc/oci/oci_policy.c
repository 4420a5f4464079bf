/* oci_policy.c - which policy a container has, and which secrets.
 *
 * Annotations choose.  With Podman, an image can have annotations too, so they may be a stranger's.  They choose
 * only among the policies in one folder of the operator's, and among secrets that the runtime's own options
 * name. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "boundary/namespace/ns_plan.h"
#include "policy/policy.h"
#include "proc/oci/oci.h"
#include "trust/trust.h"

#define POLICY "io.cloister.policy"
#define SECRETS "io.cloister.secrets"
#define FOLDER "cloister/policies"

static char *
default_folder(void)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (ns_has_range())
		return strdup("/etc/" FOLDER);
	return config != NULL && config[0] == '/' ? str_format("%s/" FOLDER, config) :
	       home != NULL ? str_format("%s/.config/" FOLDER, home) : NULL;
}

/* Nobody but the operator may decide what is in there. */
static int
check_owner(const char *path, struct err *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return err_errno(err, "cannot open '%s'", path);
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & 022) != 0)
		return err_set(err, EPERM, "'%s' can be changed by others: chown it, and chmod go-w it", path);
	return 0;
}

/* A name, with or without ".yaml", or a path in FOLDER; the caller owns the result. */
static char *
find_file(const char *folder, const char *name)
{
	OWN(freep) char *first = name[0] == '/' ? strdup(name) : str_format("%s/%s", folder, name);
	OWN(freep) char *second = str_format("%s.yaml", first != NULL ? first : "");
	char *path = first == NULL || second == NULL ? NULL : realpath(first, NULL);

	return path != NULL || second == NULL ? path : realpath(second, NULL);
}

static int
set_policy(const char *given, const char *name, json_t *doc, struct err *err)
{
	OWN(freep) char *folder = realpath(given, NULL), *path = NULL, *text = NULL;
	size_t len;
	int r;

	if (folder == NULL)
		return err_errno(err, "cannot open the folder of policies '%s'", given);
	path = find_file(folder, name);
	if (path == NULL || !tree_is_beneath(path, folder) || strcmp(path, folder) == 0)
		return err_set(err, EPERM, "there is no policy '%.200s' in '%s'", name, folder);
	r = check_owner(folder, err);
	r = r == 0 ? check_owner(path, err) : r;
	r = r == 0 ? trust_read(TRUST_POLICY, path, POLICY_FILE_MAX, &text, &len, err) : r;
	if (r < 0)
		return r;
	if (json_object_set_new(doc, "policy", json_pack("{s:s,s:s%}", "name", path, "text", text, len)) < 0)
		return err_set(err, EILSEQ, "'%s' is not UTF-8", path);
	return 0;
}

static bool
may_have(const struct oci *oci, const char *secret, size_t len)
{
	for (size_t i = 0; i < oci->n_secrets; i++)
		if (strlen(oci->secrets[i]) == len && strncmp(oci->secrets[i], secret, len) == 0)
			return true;
	return false;
}

static int
set_secrets(const struct oci *oci, const char *names, json_t *doc, struct err *err)
{
	json_t *list = json_array();

	if (json_object_set_new(doc, "secrets", list) < 0)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t len; *names != '\0'; names += len + (names[len] == ',')) {
		len = strcspn(names, ",");
		if (len == 0)
			continue;
		if (!may_have(oci, names, len))
			return err_set(err, EPERM, "the annotation " SECRETS " names '%.*s': a container gets only secrets that "
			               "the runtime's own options name (--secret)", (int)(len < 80 ? len : 80), names);
		if (json_array_append_new(list, json_stringn(names, len)) < 0)
			return err_set(err, EILSEQ, "the annotation " SECRETS " is not UTF-8");
	}
	return 0;
}

int
oci_take_policy(const struct oci *oci, const json_t *annotations, json_t *doc, struct err *err)
{
	const char *asked = oci_text(annotations, POLICY), *secrets = oci_text(annotations, SECRETS);
	const char *name = oci->policy != NULL ? oci->policy : asked;
	OWN(freep) char *folder = oci->policies != NULL ? strdup(oci->policies) : default_folder();
	int r = 0;

	if (oci->policy != NULL && asked != NULL && strcmp(oci->policy, asked) != 0)
		return err_set(err, EPERM, "the annotation " POLICY " is '%.80s', but this runtime has the policy '%s' for "
		               "every container", asked, oci->policy);
	if (name != NULL)
		r = folder == NULL ? err_set(err, ENOENT, "there is no folder of policies: name one with --policies") :
		    set_policy(folder, name, doc, err);
	if (r == 0 && secrets != NULL)
		r = name == NULL ? err_set(err, EINVAL, "the annotation " SECRETS " needs a policy: " POLICY) :
		    set_secrets(oci, secrets, doc, err);
	return r;
}

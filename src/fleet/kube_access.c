/* kube_access.c - see kube_access.h. */
#include "fleet/kube_access.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "policy/policy_yaml.h"
#include "trust/trust.h"

#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"
#define PATH_ITSELF_MAX 256             /* of the server's address */

void
kube_access_free(struct kube_access *a)
{
	wipe_text(&a->key);
	wipe_text(&a->token);
	free(a->server);
	free(a->prefix);
	free(a->ca);
	free(a->cert);
	free(a->token_file);
	free(a->token_folder);
	free(a->namespace);
	free(a->from);
	*a = (struct kube_access){0};
}

static const char *
variable(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && *value != '\0' ? value : NULL;
}

static int
keep(char **to, const char *text, struct err *err)
{
	free(*to);
	*to = strdup(text);
	return *to != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

/* ---- the server, and files ---- */

/* The path of an address goes in front of all others. */
static int
take_server(struct kube_access *a, const char *url, struct err *err)
{
	const char *host = strstr(url, "://"), *path = host != NULL ? strchr(host + 3, '/') : NULL;
	size_t len;

	if (host == NULL || strncmp(url, "https://", 8) != 0)
		return err_set(err, EPERM, "%s: the API server '%.200s' has no TLS: use https://HOST:PORT", a->from, url);
	path = path != NULL ? path : url + strlen(url);
	len = strlen(path);
	while (len > 0 && path[len - 1] == '/')
		len--;
	if (len > PATH_ITSELF_MAX || strcspn(path, "?# \t\r\n") < len)
		return err_set(err, EINVAL, "%s: '%.200s' is no address of an API server", a->from, url);
	a->server = strndup(url, (size_t)(path - url));
	a->prefix = strndup(path, len);
	return a->server != NULL && a->prefix != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

/* A file that is renewed is found by its folder, whose links lead to the newest one. */
static int
watch_token(struct kube_access *a, const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	OWN(freep) char *folder = NULL, *text = NULL;
	int r;

	if (*path != '/' || slash[1] == '\0')
		return err_set(err, EINVAL, "%s: '%.200s' is no file with a token", a->from, path);
	r = trust_read(TRUST_SECRET_FILE, path, KUBE_TOKEN_MAX, &text, NULL, err);
	if (r < 0)
		return r;
	explicit_bzero(text, strlen(text));
	folder = strndup(path, (size_t)(slash - path));
	a->token_folder = folder != NULL ? realpath(*folder != '\0' ? folder : "/", NULL) : NULL;
	if (a->token_folder == NULL)
		return err_errno(err, "cannot find the folder of '%s'", path);
	a->token_file = str_format("%s%s", a->token_folder, slash);
	return a->token_file != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

/* ---- a kubeconfig ---- */

struct reading {
	const char *path;
	struct kube_access *access;
	struct err *err;
};

/* The text of a member; NULL if it is missing or empty. */
static const char *
text_of(const struct node *map, const char *name)
{
	const struct node *node = map != NULL && map->kind == NODE_MAP ? node_get(map, name) : NULL;

	return node != NULL && node->kind == NODE_SCALAR && !node_is_null(node) && *node->text != '\0' ? node->text : NULL;
}

/* The member KIND of the entry NAME in the list LIST. */
static int
find_entry(struct reading *f, const struct node *root, const char *list, const char *kind, const char *name,
           const struct node **ret_map)
{
	const struct node *all = root->kind == NODE_MAP ? node_get(root, list) : NULL;

	for (size_t i = 0; all != NULL && all->kind == NODE_LIST && i < all->n; i++) {
		const char *its = text_of(all->items[i], "name");
		const struct node *map = its != NULL && strcmp(its, name) == 0 ? node_get(all->items[i], kind) : NULL;

		if (map != NULL && map->kind == NODE_MAP) {
			*ret_map = map;
			return 0;
		}
	}
	return err_set(f->err, ENOENT, "'%s' has no %s '%.100s'", f->path, kind, name);
}

/* The member NAME, which is a file, or NAME-data with its content. */
static int
take_pem(struct reading *f, const struct node *map, const char *name, enum trust_use use, char **ret_text)
{
	OWN(freep) char *data_name = str_format("%s-data", name), *path = NULL;
	const char *data = data_name != NULL ? text_of(map, data_name) : NULL, *file = text_of(map, name);
	size_t len = 0;
	char *text;

	if (data_name == NULL)
		return err_set(f->err, ENOMEM, "out of memory");
	if (data == NULL && file == NULL)
		return 0;
	if (data == NULL) {
		const char *slash = strrchr(f->path, '/');

		path = *file == '/' ? strdup(file) : str_format("%.*s%s", slash != NULL ? (int)(slash + 1 - f->path) : 0, f->path, file);
		if (path == NULL)
			return err_set(f->err, ENOMEM, "out of memory");
		return trust_read(use, path, KUBE_CONFIG_MAX, ret_text, NULL, f->err);
	}
	text = malloc(CODEC_BYTES_LEN(strlen(data)) + 1);
	if (text == NULL)
		return err_set(f->err, ENOMEM, "out of memory");
	*ret_text = text;
	if (codec_unbase64(CODEC_BASE64, data, strlen(data), (unsigned char *)text, CODEC_BYTES_LEN(strlen(data)), &len) < 0)
		return err_set(f->err, EINVAL, "'%s': '%s' is not base64", f->path, data_name);
	text[len] = '\0';
	return strlen(text) == len ? 0 : err_set(f->err, EINVAL, "'%s': '%s' is no PEM", f->path, data_name);
}

static int
take_cluster(struct reading *f, const struct node *cluster)
{
	static const char *const refused[] = { "insecure-skip-tls-verify", "tls-server-name", "proxy-url" };
	const char *server = text_of(cluster, "server"), *text;

	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		if ((text = text_of(cluster, refused[i])) != NULL && strcmp(text, "false") != 0)
			return err_set(f->err, ENOTSUP, "'%s': cloister does not support '%s': remove it%s", f->path, refused[i],
			               i == 0 ? ", and give the cluster a certificate-authority-data" : i == 2 ? ", and set HTTPS_PROXY" : "");
	if (server == NULL)
		return err_set(f->err, EINVAL, "'%s': the cluster has no `server`", f->path);
	if (take_server(f->access, server, f->err) < 0)
		return -f->err->code;
	return take_pem(f, cluster, "certificate-authority", TRUST_AUTHORITY, &f->access->ca);
}

/* Programs that log in, with all that they need, have no place in a process that is locked down. */
static int
take_user(struct reading *f, const struct node *user, const char *name)
{
	static const char *const refused[] = { "exec", "auth-provider", "username", "password", "as", "as-uid" };
	struct kube_access *a = f->access;
	const char *token = text_of(user, "token"), *file = text_of(user, "tokenFile");
	int r;

	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		const struct node *node = node_get(user, refused[i]);

		if (node != NULL && !node_is_null(node))
			return err_set(f->err, ENOTSUP, "'%s': the user '%.100s' logs in by '%s', which cloister does not support: give it the "
			               "token or the certificate of a service account", f->path, name, refused[i]);
	}
	r = take_pem(f, user, "client-certificate", TRUST_SECRET_FILE, &a->cert);
	r = r == 0 ? take_pem(f, user, "client-key", TRUST_SECRET_FILE, &a->key) : r;
	if (r == 0 && (a->cert == NULL) != (a->key == NULL))
		return err_set(f->err, EINVAL, "'%s': the user '%.100s' has no %s", f->path, name,
		               a->key == NULL ? "client-key" : "client-certificate");
	/* As kubectl does: the file counts if there are both. */
	if (r == 0 && file != NULL)
		return watch_token(a, file, f->err);
	if (r == 0 && token != NULL)
		return keep(&a->token, token, f->err);
	return r < 0 || a->cert != NULL ? r :
	       err_set(f->err, EACCES, "'%s': the user '%.100s' has no token and no certificate", f->path, name);
}

static int
take_context(struct reading *f, const struct node *root, const char *name)
{
	const struct node *context = NULL, *cluster = NULL, *user = NULL;
	const char *cluster_name, *user_name, *namespace;
	int r = find_entry(f, root, "contexts", "context", name, &context);

	if (r < 0)
		return r;
	cluster_name = text_of(context, "cluster");
	user_name = text_of(context, "user");
	namespace = text_of(context, "namespace");
	if (cluster_name == NULL || user_name == NULL)
		return err_set(f->err, EINVAL, "'%s': the context '%.100s' has no cluster or no user", f->path, name);
	r = find_entry(f, root, "clusters", "cluster", cluster_name, &cluster);
	r = r == 0 ? find_entry(f, root, "users", "user", user_name, &user) : r;
	r = r == 0 ? take_cluster(f, cluster) : r;
	r = r == 0 ? take_user(f, user, user_name) : r;
	return r == 0 && namespace != NULL ? keep(&f->access->namespace, namespace, f->err) : r;
}

int
kube_access_read(const char *path, const char *text, size_t len, const char *context, struct kube_access *ret_access,
                 struct err *err)
{
	OWN(kube_access_free) struct kube_access a = { .from = strdup(path) };
	struct reading f = { .path = path, .access = &a, .err = err };
	OWN(node_freep) struct node *root = NULL;
	int r = a.from == NULL ? err_set(err, ENOMEM, "out of memory") : node_parse(path, text, len, &root, err);

	if (r == 0 && context == NULL && (context = text_of(root, "current-context")) == NULL)
		r = err_set(err, ENOENT, "'%s' has no current context: name one in the target's `kubernetes: {context: NAME}`", path);
	r = r == 0 ? take_context(&f, root, context) : r;
	if (r < 0)
		return r;
	*ret_access = a;
	a = (struct kube_access){0};
	return 0;
}

static int
read_config(const char *path, const char *context, struct kube_access *ret_access, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len = 0;
	int r = trust_read(TRUST_SECRET_FILE, path, KUBE_CONFIG_MAX, &text, &len, err);

	r = r == 0 ? kube_access_read(path, text, len, context, ret_access, err) : r;
	if (text != NULL)
		explicit_bzero(text, len);
	return r;
}

/* ---- a pod's service account ---- */

static int
read_account(struct kube_access *ret_access, struct err *err)
{
	OWN(kube_access_free) struct kube_access a = { .from = strdup("this pod's service account") };
	const char *host = variable("KUBERNETES_SERVICE_HOST"), *port = variable("KUBERNETES_SERVICE_PORT");
	OWN(freep) char *url = str_format(strchr(host, ':') != NULL ? "https://[%s]:%s" : "https://%s:%s", host,
	                                  port != NULL ? port : "443");
	int r = a.from == NULL || url == NULL ? err_set(err, ENOMEM, "out of memory") : take_server(&a, url, err);

	r = r == 0 ? trust_read(TRUST_AUTHORITY, ACCOUNT "/ca.crt", KUBE_CONFIG_MAX, &a.ca, NULL, err) : r;
	r = r == 0 ? watch_token(&a, ACCOUNT "/token", err) : r;
	if (r < 0)
		return err_wrap(err, "%s", a.from != NULL ? a.from : "");
	(void)read_file_at(AT_FDCWD, ACCOUNT "/namespace", KUBE_NAME_MAX + 1, &a.namespace, NULL, NULL);
	if (a.namespace != NULL)
		a.namespace[strcspn(a.namespace, "\n")] = '\0';
	*ret_access = a;
	a = (struct kube_access){0};
	return 0;
}

int
kube_access_find(const char *context, struct kube_access *ret_access, struct err *err)
{
	const char *named = variable("KUBECONFIG"), *home = variable("HOME");
	OWN(freep) char *own = NULL;

	if (named != NULL && strchr(named, ':') != NULL)
		return err_set(err, ENOTSUP, "KUBECONFIG names several files: `kubectl config view --raw --minify` makes one of them");
	if (named != NULL)
		return read_config(named, context, ret_access, err);
	own = home != NULL ? str_format("%s/.kube/config", home) : NULL;
	if (own != NULL && access(own, F_OK) == 0)
		return read_config(own, context, ret_access, err);
	if (variable("KUBERNETES_SERVICE_HOST") == NULL || access(ACCOUNT "/token", F_OK) < 0)
		return err_set(err, ENOENT, "there is no kubeconfig for the engine `kubernetes`: set KUBECONFIG, or run the service in a pod "
		               "with a service account");
	if (context != NULL)
		return err_set(err, EINVAL, "a pod's service account has no context '%.100s': remove it from the target", context);
	return read_account(ret_access, err);
}

/* ---- the token ---- */

int
kube_access_line(const struct kube_access *a, char **ret_line, struct err *err)
{
	OWN(freep) char *text = NULL;
	const char *token = a->token;
	size_t len = 0;
	int r = 0;

	*ret_line = NULL;
	if (a->token_file != NULL) {
		r = read_file_at(AT_FDCWD, a->token_file, KUBE_TOKEN_MAX, &text, &len, err);
		token = text;
	}
	if (r < 0 || token == NULL)
		return r;
	/* It goes into a header field. */
	for (len = 0; token[len] > ' ' && token[len] < 0x7f; len++)
		;
	if (len == 0 || strspn(token + len, "\r\n") != strlen(token + len))
		r = err_set(err, EINVAL, "%s: the token is none", a->from);
	else if ((*ret_line = str_format("Authorization: Bearer %.*s", (int)len, token)) == NULL)
		r = err_set(err, ENOMEM, "out of memory");
	if (text != NULL)
		explicit_bzero(text, strlen(text));
	return r;
}

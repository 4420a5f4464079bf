/* kube_access.h - where the API server of a Kubernetes is, and who we are there: from a kubeconfig, or from the files of a
 * pod's service account.
 *
 * Read before the lockdown; only the file of a token that others renew is read again. */
#ifndef CLOISTER_KUBE_ACCESS_H
#define CLOISTER_KUBE_ACCESS_H
#include <stddef.h>

#include "base/own.h"

struct err;

#define KUBE_NAME_MAX 63                /* of a namespace, as of any label of a domain name */
#define KUBE_TOKEN_MAX (16u << 10)
#define KUBE_CONFIG_MAX (1u << 20)

/* Texts are the struct's own. */
struct kube_access {
	char *server;                   /* "https://HOST:PORT", without a path */
	char *prefix;                   /* of all paths: "" or "/k8s/clusters/x" */
	char *ca, *cert, *key;          /* PEM; NULL: the machine's authorities; no certificate */
	char *token;                    /* NULL: none, or in a file */
	char *token_file, *token_folder;        /* that others renew, without links; NULL: none */
	char *namespace;                /* of the context or the pod; NULL: none is named */
	char *from;                     /* the kubeconfig, or "this pod's service account", for messages */
};
/* In the order of kubectl: the file that KUBECONFIG names, ~/.kube/config, this pod's service account.  CONTEXT: of the
 * kubeconfig; NULL: its current one.  The caller frees *ret_access. */
int kube_access_find(const char *context, struct kube_access *ret_access, struct err *err);
/* The same from the TEXT of a kubeconfig: PATH is its name in messages, and what its paths are relative to. */
int kube_access_read(const char *path, const char *text, size_t len, const char *context, struct kube_access *ret_access,
                     struct err *err);
/* The header line with the token, as it is now: NULL in *RET_LINE if there is none.  The caller wipes and frees it. */
int kube_access_line(const struct kube_access *access, char **ret_line, struct err *err);
void kube_access_free(struct kube_access *access);      /* for OWN() too */
#endif

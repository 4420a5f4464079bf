/* engine.h - asks a container engine, Docker's or Podman's, over its socket: the Engine API, in HTTP/1.1.
 *
 * Each call opens a connection of its own and blocks, for ENGINE_MS at most.  The engine is the operator's, and is
 * trusted with the container.  Its answers are bounded all the same. */
#ifndef CLOISTER_ENGINE_H
#define CLOISTER_ENGINE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

#define ENGINE_MS 60000
#define ENGINE_PULL_MS (30 * 60 * 1000)
#define ENGINE_ANSWER_MAX (8u << 20)    /* bytes */
#define ENGINE_PATH_MAX 107             /* bytes of a socket's path */
#define ENGINE_REF_MAX 512              /* bytes of an image's name */
#define ENGINE_ID_LEN 71                /* "sha256:" and 64 digits */

struct engine_answer {
	unsigned status;                /* of HTTP */
	char *text;                     /* the body, with a NUL behind it; the caller frees it */
	size_t len;
};
void engine_answer_free(struct engine_answer *a);       /* for OWN() too */

struct engine_request {
	const char *method, *path;      /* with its query; escaped */
	const char *json;               /* the body, or NULL */
	const char *login;              /* for a registry, as the API takes it; or NULL */
	int file;                       /* the body is this file, a tar archive; unless it is 0 */
	uint64_t ms;                    /* 0: ENGINE_MS */
};

/* The answer, whatever its status.  A connection that fails is an error. */
int engine_ask(const char *socket, const struct engine_request *q, struct engine_answer *ret_answer, struct err *err);
/* An error that quotes the engine's reason.  An answer in parts has status 200, and its reason behind ENGINE_ERROR. */
#define ENGINE_ERROR "\"error\":\""
int engine_refused(const char *what, const struct engine_answer *a, struct err *err);

/* Finds the engine's socket: DOCKER_HOST, Docker's, then Podman's; this user's own first.  The caller owns
 * *ret_socket.  -ENOENT: there is none. */
int engine_find(char **ret_socket, struct err *err);
/* Refuses an engine that runs as another user: its containers cannot be entered. */
int engine_check_owner(const char *socket, struct err *err);

struct engine_about {
	char name[32], version[64];     /* "Docker", "Podman" */
	bool rootless;
};
bool engine_is_podman(const char *socket);
int engine_describe(const char *socket, struct engine_about *ret_about, struct err *err);

/* ---- containers, by name ---- */

/* DESCRIPTION is the JSON that the API takes. */
#define ENGINE_CONTAINER_LEN 64
int engine_create(const char *socket, const char *name, const char *description,
                  char ret_id[ENGINE_CONTAINER_LEN + 1], struct err *err);
/* Whether the container, which need not run yet, is made from the image IMAGE ("sha256:..."): -ESTALE. */
int engine_check_image(const char *socket, const char *name, const char *image, struct err *err);
int engine_start(const char *socket, const char *name, struct err *err);
/* Whether there is such a container: 1, 0, or a negative errno. */
int engine_has(const char *socket, const char *name, struct err *err);
/* Its id, and its first process as the engine knows it.  Whether it runs: 1, 0, or a negative errno. */
int engine_find_process(const char *socket, const char *name, char ret_id[ENGINE_CONTAINER_LEN + 1], pid_t *ret_pid,
                        struct err *err);
/* Kills the container, and removes it and its volumes.  Returns once it is gone; it may have been gone before. */
int engine_remove(const char *socket, const char *name, struct err *err);
/* A label, and the value that it must have. */
struct engine_label {
	const char *key, *value;
};
/* Calls EACH for every container with the label KEY that has the label WITH too, and its creation time. */
int engine_list(const char *socket, const char *key, const struct engine_label *with,
                void (*each)(void *arg, const char *value, int64_t created_s), void *arg, struct err *err);

/* ---- images ---- */

struct engine_image {
	char id[ENGINE_ID_LEN + 1];     /* "sha256:...", of its configuration */
	char digest[ENGINE_ID_LEN + 1]; /* of the manifest in its registry; "" if it came from none */
	char *name;                     /* as the operator wrote it */
	char layer[ENGINE_ID_LEN + 1];  /* the digest of its only layer, unpacked; "" if it has several */
	char *config;                   /* JSON: Entrypoint, Cmd, Env, WorkingDir, User */
	/* The folders of its layers on this machine, the lowest first, as overlayfs shows them; NULL if the engine keeps
	 * them in another way. */
	char **layers;
};
#define ENGINE_LAYERS_MAX 128
void engine_image_free(struct engine_image *image);     /* for OWN() too */
/* Finds the image REF.  -ENOENT. */
int engine_find_image(const char *socket, const char *ref, struct engine_image *ret_image, struct err *err);
/* Has the engine fetch it.  LOGIN is the value of X-Registry-Auth, or NULL. */
int engine_pull(const char *socket, const char *ref, const char *login, struct err *err);
/* Makes an image NAME ("REPOSITORY:TAG") of one layer, the tar archive FILE. */
int engine_import(const char *socket, const char *name, int file, struct err *err);
#endif

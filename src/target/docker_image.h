/* docker_image.h - an image of the container engine, which fetches it if it is missing. */
#ifndef CLOISTER_DOCKER_IMAGE_H
#define CLOISTER_DOCKER_IMAGE_H
#include "boundary/docker/engine.h"

/* Finds the image REF of the engine at SOCKET.  If the engine has none, it pulls it, with the operator's login for the
 * registry. */
int docker_image_get(const char *socket, const char *ref, struct engine_image *ret_image, struct err *err);
#endif

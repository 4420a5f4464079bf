/* ns_image.h - what the two kinds of roots that are made of an image share. */
#ifndef CLOISTER_NS_IMAGE_H
#define CLOISTER_NS_IMAGE_H

struct err;
struct ns_plan;

#define NS_BESIDE(name) "../" name      /* beside the folder for cloister's own files, the working folder */

/* ns_image.c: mounts the layers of the plan's image as one overlay.  OPTIONS follow the list of layers.  Then makes
 * *root that overlay, with the cell's own /dev and /sys, and the working folder. */
int ns_mount_layers(const struct ns_plan *plan, const char *options, struct err *err);
int ns_enter_image(int *root, struct err *err);
#endif

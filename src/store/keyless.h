/* keyless.h - the environment of programs that have no use for the store and its keys. */
#ifndef CLOISTER_KEYLESS_H
#define CLOISTER_KEYLESS_H
struct err;

/* This process's environment without CLOISTER_STORE and the password for it, and without the key to the S3 of
 * CLOISTER_BLOBS.  What belongs to neither of the two is kept.  NULL: it can be had as it is.  The caller frees the
 * array, whose strings are borrowed. */
int keyless_env(char ***ret_env, struct err *err);
#endif

/* store_url.h - addresses of stores, as they may be shown.
 *
 * Pure.  A password that was not escaped may have any character in it, so what is shown never has a part that could be of
 * one.  What libpq says of a malformed address is not shown either: it quotes the address. */
#ifndef CLOISTER_STORE_URL_H
#define CLOISTER_STORE_URL_H
#include <stdbool.h>

struct err;

/* SCHEME://HOST/PATH of URL, without user, password and options.  The caller frees it; NULL: there is no memory. */
char *store_url_shown(const char *url);
/* Whether it contains a password, in any form that libpq takes. */
bool store_url_has_password(const char *url);
/* -EINVAL for an address in which libpq would take a part of a password for something else, and quote it. */
int store_url_check(const char *url, struct err *err);
/* Whether nothing in it can be a password, so that what libpq says of it may be shown. */
bool store_url_is_plain(const char *url);
#endif

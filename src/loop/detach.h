/* detach.h - finds the keys by which a person leaves the terminal of a cell, in what is typed.
 *
 * A terminal sends a key with Ctrl as one byte.  A program may have asked it for a longer form: "ESC [ CODE ; 5 u"
 * (kitty's keyboard protocol) or "ESC [ 27 ; 5 ; CODE ~" (xterm's modifyOtherKeys).  All three are found. */
#ifndef CLOISTER_DETACH_H
#define CLOISTER_DETACH_H
#include <stdbool.h>
#include <stddef.h>

struct err;

#define DETACH_KEYS_MAX 8
#define DETACH_KEY_MAX 12               /* bytes of one key */
#define DETACH_HELD_MAX (DETACH_KEYS_MAX * DETACH_KEY_MAX)
#define DETACH_DEFAULT "ctrl-p,ctrl-q"

struct detach {
	unsigned char keys[DETACH_KEYS_MAX];
	size_t n;                       /* 0: no keys leave */
	unsigned char held[DETACH_HELD_MAX];    /* the first keys, until it is known what follows */
	size_t n_held;
	/* Called once all keys were typed; what is typed behind them is dropped. */
	void (*leave)(void *arg);
	void *arg;
};

/* Reads keys as "ctrl-p,ctrl-q" or "ctrl-a,d"; "none" are none.  Sets only .keys and .n. */
int detach_parse(const char *text, struct detach *ret_detach, struct err *err);
/* Writes what is not part of the keys to OUT, which has room for LEN and DETACH_HELD_MAX bytes, and returns its
 * length.  OUT may overlap IN if it begins at least DETACH_HELD_MAX bytes before it. */
size_t detach_filter(struct detach *d, const unsigned char *in, size_t len, unsigned char *out);
#endif

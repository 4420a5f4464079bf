/* clipboard.h - keeps an agent's output from setting the operator's clipboard.
 *
 * Terminals let programs set the clipboard by an escape sequence (OSC 52; kitty has 5522 too).  What
 * an agent put there is pasted later, perhaps into a shell.  The filter takes these sequences out of
 * a stream and leaves everything else as it is, but for zeros that a number begins with. */
#ifndef CLOISTER_CLIPBOARD_H
#define CLOISTER_CLIPBOARD_H
#include <stddef.h>

/* At most so many bytes of a sequence are held until it is known which one it is. */
#define CLIPBOARD_HELD_MAX 8

struct clipboard {                      /* all zero at the beginning of a stream */
	enum { CLIPBOARD_TEXT, CLIPBOARD_ESCAPE, CLIPBOARD_C1, CLIPBOARD_NUMBER, CLIPBOARD_DROP,
	       CLIPBOARD_DROP_ESCAPE, CLIPBOARD_DROP_C1 } state;
	unsigned number;
	unsigned digits;                /* that it has, zeros in front not counted */
	int is_c1;                      /* the sequence began with one character, not two */
};

/* Writes what may pass of the LEN bytes at IN to OUT, which has room for CLIPBOARD_HELD_MAX more; OUT
 * may lie at least as far before IN.  Returns how much that is. */
size_t clipboard_filter(struct clipboard *c, const unsigned char *in, size_t len, unsigned char *out);
#endif

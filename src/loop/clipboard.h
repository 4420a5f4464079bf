/* clipboard.h - keeps an agent's output from setting the operator's clipboard.
 *
 * Terminals let programs set the clipboard by an escape sequence (OSC 52; kitty has 5522 too).  The
 * operator may later paste the agent's text, perhaps into a shell.  The filter removes these
 * sequences from a stream.  Everything else passes unchanged, with two exceptions: leading zeros of
 * a number, and device control strings with an escape in them. screen and tmux pass the content of
 * such strings on, so two of them could form one sequence. */
#ifndef CLOISTER_CLIPBOARD_H
#define CLOISTER_CLIPBOARD_H
#include <stddef.h>

/* At most this many bytes of a sequence are held until it is identified. */
#define CLIPBOARD_HELD_MAX 8

struct clipboard {                      /* all zero at the beginning of a stream */
	enum { CLIPBOARD_TEXT, CLIPBOARD_ESCAPE, CLIPBOARD_C1, CLIPBOARD_NUMBER, CLIPBOARD_DROP,
	       CLIPBOARD_DROP_ESCAPE, CLIPBOARD_DROP_C1, CLIPBOARD_STRING, CLIPBOARD_STRING_ESCAPE,
	       CLIPBOARD_STRING_C1 } state;
	int is_string;                  /* a device control string whose rest is dropped */
	unsigned number;
	unsigned digits;                /* of the number, without leading zeros */
	int is_c1;                      /* the sequence began with one character, not two */
};

/* Write the permitted part of the LEN bytes at IN to OUT and return its length.  OUT has room for
 * LEN and CLIPBOARD_HELD_MAX bytes.  It may overlap IN if it begins at least CLIPBOARD_HELD_MAX
 * bytes before it. */
size_t clipboard_filter(struct clipboard *c, const unsigned char *in, size_t len, unsigned char *out);
#endif

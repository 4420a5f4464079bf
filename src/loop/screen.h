/* screen.h - follows the modes that a program sets in its terminal, so that a person can leave the terminal, and
 * another one can join it.
 *
 * Private modes (the second screen, the mouse, pasting in brackets, the cursor), kitty's keyboard protocol and
 * xterm's modifyOtherKeys are followed.  Everything else is the program's to draw again. */
#ifndef CLOISTER_SCREEN_H
#define CLOISTER_SCREEN_H
#include <stddef.h>

#define SCREEN_PARAMS_MAX 32            /* bytes of a control sequence; a longer one is ignored */
#define SCREEN_KEYBOARDS_MAX 8          /* of kitty's, one upon the other */

struct screen {                         /* all zero at the beginning of a stream */
	enum { SCREEN_TEXT, SCREEN_ESCAPE, SCREEN_SEQUENCE, SCREEN_STRING, SCREEN_STRING_ESCAPE } state;
	char params[SCREEN_PARAMS_MAX + 1];
	size_t n_params;
	unsigned modes;                 /* bits, by the table in screen.c */
	unsigned keyboards[SCREEN_KEYBOARDS_MAX];
	size_t n_keyboards;
	unsigned other_keys;
	unsigned char lead, more;       /* of a character of UTF-8: its first byte, and how many are to come */
};

/* Follows LEN bytes of output. */
void screen_watch(struct screen *s, const unsigned char *data, size_t len);

#define SCREEN_MODES_MAX 512
/* Write the sequences that set another terminal as this one is, and that set it as it was; return their length. */
size_t screen_restore(const struct screen *s, char ret_text[SCREEN_MODES_MAX]);
size_t screen_reset(const struct screen *s, char ret_text[SCREEN_MODES_MAX]);

/* Writes the part of LEN bytes of old output to OUT that only draws, and returns its length, at most LEN.  Questions
 * to the terminal are left out, because the program would get the answers a second time.  So are modes. */
size_t screen_redraw(const unsigned char *data, size_t len, unsigned char *out);
#endif

/* injection.h - finds text in results of tools that looks like instructions to the model.
 *
 * A help, not a wall: it knows some phrases, and everyone can write others.  Pure; allocates nothing. */
#ifndef CLOISTER_INJECTION_H
#define CLOISTER_INJECTION_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INJECTION_KINDS_MAX 16
#define INJECTION_WORD_MAX 16           /* bytes of a word that are compared */

/* The kinds, which records name. */
extern const char *const injection_kinds[];
extern const size_t injection_n_kinds;

/* A scan of a stream, at first all zero.  JSON or plain text, which may be cut anywhere. */
struct injection {
	uint32_t found;                 /* bit K: injection_kinds[K] */
	/* how far each pattern is, and for how many more words it waits */
	struct { unsigned char at, left; } patterns[INJECTION_KINDS_MAX];
	char word[INJECTION_WORD_MAX + 1];
	unsigned char n_word;
	unsigned char escape;           /* bytes of a JSON escape that are still to come; 255: its first */
	unsigned char tail[16];         /* the last bytes, in lower case */
	uint32_t code;                  /* of "\uXXXX" */
};
void injection_feed(struct injection *in, const void *data, size_t len);
#endif

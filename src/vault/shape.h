/* shape.h - what a credential looks like, told in one line of text.
 *
 * Characters stand for themselves, items in braces for characters of a class:
 *   {w36}      36 of class w          {w20-40}   20 to 40        {w20+}   20 or more
 *   {crc62}    six digits of base 62 that check the 30 characters before them
 * Classes are those of the scanner of secrets (inspect/secrets_parts.h), and one more:
 *   w letters and digits     u also - and _         x base64: also + and /
 *   h hex in lower case      H hex in either        d digits
 *   a lower case and digits  A upper case and digits
 *   b base32: upper case and 2 to 7
 * Or one word: "jwt", "pem" (a private key), "base64" (of bytes), "certificate". */
#ifndef CLOISTER_SHAPE_H
#define CLOISTER_SHAPE_H
#include <stdbool.h>
#include <stddef.h>

struct err;

#define SHAPE_ITEMS_MAX 32
#define SHAPE_TEXT_MAX 4096             /* of what a shape with items stands for */

enum shape_kind { SHAPE_ITEMS, SHAPE_JWT, SHAPE_PEM, SHAPE_BASE64, SHAPE_CERTIFICATE };

struct shape_item {
	char class;                     /* 0: stands for itself; 'c': the checksum */
	const char *at;                 /* class 0: the characters, in the shape's text */
	size_t min, max;                /* how many; class 0: of AT */
};

struct shape {
	enum shape_kind kind;
	size_t n;
	struct shape_item items[SHAPE_ITEMS_MAX];
};

/* Read TEXT, which must outlive the shape. */
int shape_parse(const char *text, struct shape *ret_shape, struct err *err);

/* Whether VALUE has SHAPE, of kind SHAPE_ITEMS, its checksum included; *ret_exact is then
 * SHAPE with its counts set to those of VALUE. */
bool shape_fit(const struct shape *shape, const char *value, size_t len,
               struct shape *ret_exact);

/* The shape of a value that nothing is known about.  Its literals point into VALUE, and
 * are no more than a prefix that names the service, separators and padding. */
void shape_guess(const char *value, size_t len, struct shape *ret_shape);

/* How many characters in front stand for themselves. */
size_t shape_prefix(const struct shape *shape);

/* The characters of a class, or NULL if there is no such class. */
const char *shape_alphabet(char class);
#endif

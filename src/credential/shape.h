/* shape.h - describes the form of a credential in one line of text: the vault mints placeholders by
 * shapes, and the secrets scanner finds keys by them.
 *
 * Characters are literals; items in braces stand for characters of a class:
 *   {w36}      36 of class w          {w20-40}   20 to 40        {w20+}   20 or more
 *   {crc62}    six digits of base 62 that check the 30 characters before them
 * The classes are:
 *   w letters and digits     u also - and _         x base64: also + and /
 *   h hex in lower case      H hex in either        d digits
 *   a lower case and digits  A upper case and digits
 *   b base32: upper case and 2 to 7
 * A shape may also be one word: "jwt", "pem" (a private key), "base64" (of bytes), "certificate". */
#ifndef CLOISTER_SHAPE_H
#define CLOISTER_SHAPE_H
#include <stdbool.h>
#include <stddef.h>

struct err;

#define SHAPE_ITEMS_MAX 32
#define SHAPE_TEXT_MAX 4096             /* length of a text that has a shape with items */

enum shape_kind { SHAPE_ITEMS, SHAPE_JWT, SHAPE_PEM, SHAPE_BASE64, SHAPE_CERTIFICATE };

struct shape_item {
	char class;                     /* 0: a literal; 'c': the checksum */
	const char *at;                 /* class 0: the characters, in the shape's text */
	size_t min, max;                /* number of characters; class 0: length of AT */
};

struct shape {
	enum shape_kind kind;
	size_t n;
	struct shape_item items[SHAPE_ITEMS_MAX];
};

/* Parse TEXT, which must outlive the shape. */
int shape_parse(const char *text, struct shape *ret_shape, struct err *err);

/* Whether VALUE has SHAPE, of kind SHAPE_ITEMS, including its checksum.  If so, *ret_exact is SHAPE
 * with the counts of VALUE. */
bool shape_fit(const struct shape *shape, const char *value, size_t len,
               struct shape *ret_exact);

/* Guess the shape of an unknown value.  Its literals point into VALUE.  They are only a prefix that
 * names the service, separators and padding. */
void shape_guess(const char *value, size_t len, struct shape *ret_shape);

/* Parse the item, or the literal before the next one, that TEXT begins with.  Returns the text behind
 * it, or NULL if it is malformed. */
const char *shape_next_item(const char *text, struct shape_item *ret_item);

/* The characters of a class; NULL: there is no such class. */
const char *shape_alphabet(char class);
bool shape_class_has(char class, unsigned char c);

#define SHAPE_CHECKED 30                /* characters that {crc62} covers */
#endif

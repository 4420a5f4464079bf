/* canon_number.c - writes numbers as ECMAScript does. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "canon/canon.h"

#define DIGITS_MAX 17                   /* enough to distinguish any two doubles */

/* Increase the last digit by one: "1.99e+05" becomes "2.00e+05". */
static void
step_up(char *text)
{
	char *e = strchr(text, 'e');
	int exponent = (int)strtol(e + 1, NULL, 10);

	for (char *c = e - 1; c >= text; c--) {
		if (*c == '.')
			continue;
		if (*c != '9') {
			++*c;
			return;
		}
		*c = '0';
	}
	text[0] = '1';
	snprintf(e, CANON_NUMBER_MAX - (size_t)(e - text), "e%+03d", exponent + 1);
}

/* The fewest digits that parse to NUMBER again, and of those the nearest. */
static void
shortest(double number, char text[CANON_NUMBER_MAX])
{
	for (int digits = 1; digits <= DIGITS_MAX; digits++) {
		snprintf(text, CANON_NUMBER_MAX, "%.*e", digits - 1, number);
		if (strtod(text, NULL) == number)
			return;
		/* At a power of two the neighbour above is twice as far as the one below, so the
		 * farther of two texts can be the one that parses to NUMBER. */
		step_up(text);
		if (strtod(text, NULL) == number)
			return;
	}
	snprintf(text, CANON_NUMBER_MAX, "%.*e", DIGITS_MAX - 1, number);
}

/* DIGITS without the point and trailing zeros; returns their number. */
static int
take_digits(const char *text, char digits[DIGITS_MAX + 1])
{
	int n = 0;

	for (; *text != 'e'; text++)
		if (*text != '.')
			digits[n++] = *text;
	while (n > 1 && digits[n - 1] == '0')
		n--;
	digits[n] = '\0';
	return n;
}

/* ECMA-262, Number::toString: the value is 0.DIGITS times ten to the POINT. */
static void
place_point(char *out, size_t size, const char *digits, int n, int point)
{
	if (n <= point && point <= 21)
		snprintf(out, size, "%s%.*s", digits, point - n, "000000000000000000000");
	else if (0 < point && point <= 21)
		snprintf(out, size, "%.*s.%s", point, digits, digits + point);
	else if (-6 < point && point <= 0)
		snprintf(out, size, "0.%.*s%s", -point, "00000", digits);
	else
		snprintf(out, size, "%c%s%se%+d", digits[0], n > 1 ? "." : "", digits + 1, point - 1);
}

void
canon_number(double number, char ret_text[CANON_NUMBER_MAX])
{
	char text[CANON_NUMBER_MAX], digits[DIGITS_MAX + 1];
	int n;

	assert(isfinite(number));
	if (number == 0) {
		memcpy(ret_text, "0", 2);
		return;
	}
	shortest(fabs(number), text);
	n = take_digits(text, digits);
	ret_text[0] = '-';
	place_point(ret_text + (number < 0), CANON_NUMBER_MAX - 1, digits, n,
	            (int)strtol(strchr(text, 'e') + 1, NULL, 10) + 1);
}

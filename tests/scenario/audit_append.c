/* audit_append.c - adds to the operator's timeline until it is killed, and says what it added. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/err.h"
#include "base/own.h"

int
main(int argc, char **argv)
{
	struct operator op;
	struct err err = {0};
	/* Some are longer than a page, so that a kill can come in the middle of a write. */
	static char filler[12000];
	char who[64];

	memset(filler, 'x', sizeof(filler) - 1);
	if (argc != 2 || operator_open(&op, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	for (unsigned i = 0;; i++) {
		struct audit_member members[] = {
			{ .name = "who", .text = who },
			{ .name = "filler", .text = i % 3 == 0 ? filler : "" },
		};

		snprintf(who, sizeof(who), "%s.%u", argv[1], i);
		if (operator_append_members(&op, i % 5 == 4 ? OPERATOR_NOW : OPERATOR_LATER, "test", members,
		                            ARRAY_LEN(members), &err) < 0) {
			fprintf(stderr, "%s\n", err.text);
			return 1;
		}
		printf("%s\n", who);
		fflush(stdout);
	}
}

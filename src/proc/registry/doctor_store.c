/* doctor_store.c - for `cloister doctor`, which parses it: what a registry in Postgres lacks, a line for each finding. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "proc/registry/registry_proc.h"
#include "registry/registry_look.h"

/* The server's words may have any character. */
static void
print_field(const char *text, char end)
{
	for (; *text != '\0'; text++)
		putchar((unsigned char)*text < ' ' ? ' ' : *text);
	putchar(end);
}

int
doctor_store(struct err *err)
{
	static const char *const states[] = { [REGISTRY_LOOK_OK] = "ok", [REGISTRY_LOOK_LIMITED] = "limited",
		[REGISTRY_LOOK_MISSING] = "missing" };
	struct registry_look at[REGISTRY_LOOK_MAX];
	const char *store = registry_store();
	size_t n = 0;
	int r = store == NULL ? 0 : registry_look(store, at, &n, err);

	for (size_t i = 0; i < n; i++) {
		print_field(states[at[i].state], '\t');
		print_field(at[i].name, '\t');
		print_field(at[i].found, '\t');
		print_field(at[i].todo, '\n');
	}
	return r;
}

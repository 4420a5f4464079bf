/* calls_gen.c - writes gen/witness_calls.h: the names of system calls by number, for each architecture.
 *
 * Runs at build time: only the names are linked in. */
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>

#define NUMBERS_MAX 1024                /* calls of one architecture */

static const struct {
	const char *name, *macro;
	uint32_t token;
} arches[] = {
	{ "x86_64", "__x86_64__", SCMP_ARCH_X86_64 },
	{ "aarch64", "__aarch64__", SCMP_ARCH_AARCH64 },
};

int
main(void)
{
	printf("/* Made by calls_gen.c from the names that libseccomp knows. */\n");
	for (size_t a = 0; a < sizeof(arches) / sizeof(arches[0]); a++) {
		printf("#if defined(%s) || defined(WITNESS_EVERY_ARCH)\n"
		       "static const char *const witness_calls_%s[] = {\n", arches[a].macro, arches[a].name);
		for (int nr = 0; nr < NUMBERS_MAX; nr++) {
			char *name = seccomp_syscall_resolve_num_arch(arches[a].token, nr);

			if (name != NULL)
				printf("\t[%d] = \"%s\",\n", nr, name);
			free(name);
		}
		printf("};\n#endif\n");
	}
	return fflush(stdout) != 0 || ferror(stdout);
}

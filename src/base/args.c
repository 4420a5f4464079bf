/* args.c - see args.h. */
#include "base/args.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool
args_parse(int argc, char **argv, struct args *ret_args)
{
	struct args a = {0};
	int i = 2;

	if (argc < 3)
		return false;
	a.command = argv[1];
	a.options = argv + i;
	while (i < argc && strncmp(argv[i], "--", 2) == 0 && argv[i][2] != '\0')
		i++;
	a.n_options = (size_t)i - 2;
	if (i == argc || strcmp(argv[i], "--") != 0)
		return false;
	a.words = argv + i + 1;
	a.n_words = (size_t)(argc - i - 1);
	*ret_args = a;
	return true;
}

const char *
args_next(const struct args *a, const char *name, size_t *at)
{
	size_t len = strlen(name);

	while (*at < a->n_options) {
		const char *option = a->options[(*at)++] + 2;

		if (strncmp(option, name, len) == 0 && option[len] == '=')
			return option + len + 1;
		if (strcmp(option, name) == 0)
			return "";
	}
	return NULL;
}

const char *
args_get(const struct args *a, const char *name)
{
	const char *value, *last = NULL;
	size_t at = 0;

	while ((value = args_next(a, name, &at)) != NULL)
		last = value;
	return last;
}

int
args_check(const struct args *a, const char *what, const char *options, struct err *err)
{
	for (size_t i = 0; i < a->n_options; i++) {
		const char *option = a->options[i] + 2;
		int len = (int)strcspn(option, "=");
		char name[64];

		if (snprintf(name, sizeof(name), " %.*s ", len, option) >= (int)sizeof(name) || strstr(options, name) == NULL)
			return err_set(err, EINVAL, "`cloister %s` has no option --%.*s", what, len < 64 ? len : 64, option);
	}
	return 0;
}

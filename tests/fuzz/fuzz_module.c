/* fuzz_module.c - a kernel module's description of itself, and the names of module files.
 *
 * The same bytes are a module, a list of dependencies, and a modules.builtin. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "vm/module.h"

static void
check_name(const char *name)
{
	size_t len = strlen(name);

	assert(len > 0 && len < MODULE_NAME_MAX);
	assert(strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == len);
}

static void
check_depends(const char *depends)
{
	char name[MODULE_NAME_MAX];
	const char *before = depends;

	while (module_next(&depends, name) > 0) {
		check_name(name);
		assert(depends > before && depends <= before + strlen(before));
		before = depends;
	}
}

static void
check_module(const char *data, size_t size)
{
	struct module_info info;

	if (module_parse(data, size, &info, NULL) < 0)
		return;
	for (size_t i = 0; i < 3; i++) {
		const char *s = i == 0 ? info.name : i == 1 ? info.depends : info.vermagic;

		assert(s > data && s < data + size && memchr(s, '\0', (size_t)(data + size - s)) != NULL);
	}
	check_depends(info.depends);
	module_is_for(info.vermagic, "6.1.0");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(freep) char *text = malloc(size + 1);
	char name[MODULE_NAME_MAX];
	const char *suffix;

	if (text == NULL)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	check_module((const char *)data, size);
	check_depends(text);
	if (module_file_name(text, size, name, &suffix)) {
		check_name(name);
		assert(suffix > text && suffix <= text + size);
	}
	module_is_builtin(text, "virtio");
	return 0;
}

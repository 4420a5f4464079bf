/* module.c - see module.h. */
#include "vm/module.h"

#include <elf.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers are copied as they are");

/* A part of the file. */
struct part {
	const char *data;
	size_t len;
};

static bool
get_part(struct part file, uint64_t at, uint64_t len, struct part *ret_part)
{
	if (at > file.len || len > file.len - at)
		return false;
	*ret_part = (struct part){ file.data + at, (size_t)len };
	return true;
}

static bool
is_module(const Elf64_Ehdr *h)
{
	return memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 && h->e_ident[EI_CLASS] == ELFCLASS64 &&
	       h->e_ident[EI_DATA] == ELFDATA2LSB && h->e_type == ET_REL &&
	       (h->e_machine == EM_X86_64 || h->e_machine == EM_AARCH64) &&
	       h->e_shentsize == sizeof(Elf64_Shdr);
}

/* False also if the section has no contents. */
static bool
get_section(struct part file, const Elf64_Ehdr *h, unsigned i, uint32_t *ret_name, struct part *ret_part)
{
	struct part header;
	Elf64_Shdr s;

	if (i >= h->e_shnum || h->e_shoff > file.len ||
	    !get_part(file, h->e_shoff + i * sizeof(s), sizeof(s), &header))
		return false;
	memcpy(&s, header.data, sizeof(s));
	*ret_name = s.sh_name;
	return s.sh_type != SHT_NOBITS && get_part(file, s.sh_offset, s.sh_size, ret_part);
}

static bool
find_modinfo(struct part file, struct part *ret_part)
{
	static const char wanted[] = ".modinfo";
	struct part head, names, part, name;
	uint32_t at;
	Elf64_Ehdr h;

	if (!get_part(file, 0, sizeof(h), &head))
		return false;
	memcpy(&h, head.data, sizeof(h));
	if (!is_module(&h) || !get_section(file, &h, h.e_shstrndx, &at, &names))
		return false;
	for (unsigned i = 1; i < h.e_shnum; i++)
		if (get_section(file, &h, i, &at, &part) && get_part(names, at, sizeof(wanted), &name) &&
		    memcmp(name.data, wanted, sizeof(wanted)) == 0) {
			*ret_part = part;
			return true;
		}
	return false;
}

int
module_parse(const void *data, size_t len, struct module_info *ret_info, struct err *err)
{
	struct module_info info = {0};
	const struct {
		const char *key;
		const char **value;
	} keys[] = { { "name=", &info.name }, { "depends=", &info.depends }, { "vermagic=", &info.vermagic } };
	const size_t n_keys = sizeof(keys) / sizeof(keys[0]);
	struct part part;

	if (!find_modinfo((struct part){ data, len }, &part))
		return err_set(err, EBADMSG, "this is no kernel module for amd64 or arm64");
	if (part.len == 0 || part.data[part.len - 1] != '\0')
		return err_set(err, EBADMSG, "the module's description of itself is cut off");
	for (const char *at = part.data, *end = at + part.len; at < end; at += strlen(at) + 1)
		for (size_t i = 0; i < n_keys; i++)
			if (*keys[i].value == NULL && strncmp(at, keys[i].key, strlen(keys[i].key)) == 0)
				*keys[i].value = at + strlen(keys[i].key);
	for (size_t i = 0; i < n_keys; i++)
		if (*keys[i].value == NULL)
			return err_set(err, EBADMSG, "the module has no '%s'", keys[i].key);
	*ret_info = info;
	return 0;
}

bool
module_is_for(const char *vermagic, const char *release)
{
	size_t len = strlen(release);

	return strncmp(vermagic, release, len) == 0 && (vermagic[len] == ' ' || vermagic[len] == '\0');
}

static bool
is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

bool
module_name(const char *name, size_t len, char ret_name[MODULE_NAME_MAX])
{
	if (len == 0 || len >= MODULE_NAME_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_name_char(name[i]))
			return false;
	for (size_t i = 0; i < len; i++)
		ret_name[i] = (char)(name[i] == '-' ? '_' : name[i]);
	ret_name[len] = '\0';
	return true;
}

int
module_next(const char **depends, char ret_name[MODULE_NAME_MAX])
{
	const char *at = *depends;
	size_t len = strcspn(at, ",");

	if (*at == '\0')
		return 0;
	if (!module_name(at, len, ret_name))
		return -EBADMSG;
	*depends = at + len + (at[len] == ',');
	return 1;
}

bool
module_file_name(const char *path, size_t len, char ret_name[MODULE_NAME_MAX], const char **ret_suffix)
{
	static const char *const suffixes[] = { "", ".xz", ".zst", ".gz" };
	static const char ko[] = ".ko";
	const char *slash = memrchr(path, '/', len), *base = slash == NULL ? path : slash + 1, *end = path + len;

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		size_t n = strlen(suffixes[i]), all = sizeof(ko) - 1 + n;

		if ((size_t)(end - base) <= all || memcmp(end - n, suffixes[i], n) != 0 ||
		    memcmp(end - all, ko, sizeof(ko) - 1) != 0)
			continue;
		*ret_suffix = end - n;
		return module_name(base, (size_t)(end - base) - all, ret_name);
	}
	return false;
}

bool
module_is_builtin(const char *builtin, const char *name)
{
	char found[MODULE_NAME_MAX];
	const char *suffix;
	size_t len;

	for (const char *line = builtin; *line != '\0'; line += len + (line[len] == '\n')) {
		len = strcspn(line, "\n");
		if (module_file_name(line, len, found, &suffix) && strcmp(found, name) == 0)
			return true;
	}
	return false;
}

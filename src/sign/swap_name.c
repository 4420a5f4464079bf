/* swap_name.c - searches the names of fields.  Names have no case, and HTTP/2 names are known only
 * in lower case, so case is ignored. */
#include "sign/swap_parts.h"

static unsigned char
fold(unsigned char c)
{
	if (c >= 'A' && c <= 'Z')
		return (unsigned char)(c | 0x20);
	/* Characters that a name cannot contain, or that servers do not distinguish there, become
	 * another one. */
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '-';
}

/* Whether NAME, from START on, is P.  UNDONE: without its escapes. */
static bool
is_at(const struct swap_set *set, const struct pattern *p, struct http_text name, size_t start, bool undone)
{
	struct http_text find = set->needles[p->needle].find;
	unsigned char bytes[4];
	size_t depth = 0, used, n;

	for (size_t pos = start; depth < p->len; pos += used) {
		if (pos == name.len)
			return false;
		bytes[0] = (unsigned char)name.at[pos];
		used = n = 1;
		if (undone)
			used = swap_unescape(set, (const unsigned char *)name.at + pos, name.len - pos, true, bytes,
			                     &n);
		for (size_t k = 0; k < n && depth < p->len; k++, depth++)
			if (fold(bytes[k]) != fold(swap_form_byte(p->form, p->phase, find, depth)))
				return false;
	}
	return true;
}

bool
swap_find_name(const struct swap_set *set, struct http_text name, size_t *ret_needle,
               enum swap_form *ret_form)
{
	for (uint32_t k = 0; name.len >= set->shortest && k < set->n_patterns; k++) {
		const struct pattern *p = &set->patterns[k];

		for (size_t i = 0; p->len <= name.len && i <= name.len - p->len; i++)
			if (is_at(set, p, name, i, false) || is_at(set, p, name, i, true)) {
				*ret_needle = p->needle;
				*ret_form = p->form;
				return true;
			}
	}
	return false;
}

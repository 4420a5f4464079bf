/* oci_layers.c - tests of proc/oci/oci_layers. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/oci/oci.h"
#include "test.h"

#define AT "36 35 0:50 / /m rw,relatime shared:1 - "
#define OVERLAY AT "overlay overlay rw,"

/* The folders are some that every machine has. */
static const struct {
	const char *mountinfo, *want;   /* separated by spaces; NULL: an error */
	bool metacopy;
} cases[] = {
	{ "", "/m", false },
	{ AT "ext4 /dev/sda rw\n", "/m", false },
	{ OVERLAY "lowerdir=/usr,upperdir=/tmp,workdir=/w\n", "/usr /tmp", false },
	{ OVERLAY "lowerdir=/usr:/etc:/proc,upperdir=/tmp,workdir=/w,metacopy=on\n", "/proc /etc /usr /tmp", true },
	{ OVERLAY "lowerdir=/usr:/etc\n", "/etc /usr", false },
	/* Another place, and one that is covered. */
	{ "36 35 0:50 / /other rw - overlay overlay rw,lowerdir=/usr\n", "/m", false },
	{ OVERLAY "lowerdir=/usr\n" OVERLAY "lowerdir=/etc\n", "/etc", false },
	/* A part of an overlay is a folder like any other. */
	{ "36 35 0:50 /a /m rw - overlay overlay rw,lowerdir=/usr\n", "/m", false },
	/* Paths that begin where the engine was when it mounted. */
	{ OVERLAY "lowerdir=share:include,upperdir=/usr/bin,workdir=/w\n", "/usr/include /usr/share /usr/bin", false },
	{ OVERLAY "lowerdir=nosuch,upperdir=/usr/bin\n", NULL, false },
	{ OVERLAY "lowerdir=/nosuch\n", NULL, false },
	{ OVERLAY "lowerdir=/usr,upperdir=/nosuch\n", NULL, false },
	{ OVERLAY "lowerdir=\n", NULL, false },
	{ OVERLAY "rw\n", NULL, false },
	{ OVERLAY "lowerdir=/a\\054b\n", NULL, false },
};

TEST(oci_layers)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(freep) char *text = strdup(cases[i].mountinfo);
		OWN(json_decrefp) json_t *layers = json_array();
		char all[256] = "";
		bool metacopy = false;
		struct err err = {0};
		int r = oci_parse_layers(text, "/m", layers, &metacopy, &err);

		CHECK((r == 0) == (cases[i].want != NULL) && (r == 0) == (err.text[0] == '\0'));
		if (r < 0)
			continue;
		for (size_t k = 0; k < json_array_size(layers); k++)
			snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", k > 0 ? " " : "",
			         json_string_value(json_array_get(layers, k)));
		CHECK_STR(all, cases[i].want);
		CHECK(metacopy == cases[i].metacopy);
	}
}

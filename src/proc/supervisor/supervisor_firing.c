/* supervisor_firing.c - parses a consequence from the courier, which reads the world's answers and
 * may be compromised: every field is checked against its limit. */
#include <errno.h>
#include <string.h>

#include "proc/supervisor/supervisor_fired.h"

int
fired_get_text(struct buf *b, const char **ret_text)
{
	return buf_get_str(b, ret_text) < 0 || strlen(*ret_text) > COURIER_FIRED_TEXT ? -EBADMSG : 0;
}

int
fired_get(struct buf *b, struct fired_message *f)
{
	if (buf_get_u64(b, &f->key) < 0 || f->key == 0 || buf_get_u32(b, &f->flags) < 0 ||
	    f->flags > COURIER_FIRED_FLAGS || fired_get_text(b, &f->place) < 0 ||
	    fired_get_text(b, &f->rule) < 0 || fired_get_text(b, &f->what) < 0 ||
	    fired_get_text(b, &f->why) < 0 || buf_get_u32(b, &f->n_revoked) < 0 ||
	    f->n_revoked > COURIER_FIRED_REVOKES)
		return -EBADMSG;
	for (uint32_t i = 0; i < f->n_revoked; i++)
		if (fired_get_text(b, &f->revoked[i]) < 0)
			return -EBADMSG;
	if (buf_get_u32(b, &f->len) < 0 || f->len > COURIER_FIRED_BYTES || buf_left(b) != f->len)
		return -EBADMSG;
	return 0;
}

/* secrets_parts.h - declarations shared by the files of the secrets scanner. */
#ifndef CLOISTER_SECRETS_PARTS_H
#define CLOISTER_SECRETS_PARTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes visible around a match.  Their end counts as the end of the body, so that a key at the
 * very end is found too. */
struct secrets_view {
	const unsigned char *at;
	size_t len;
};

/* A mark was found at MARK; the text after it begins at BODY.  END is the end of what the shape's
 * tail matches, or BODY without a tail. */
struct secrets_hit {
	const struct secrets_view *view;
	size_t mark, body, end;
};

enum secrets_shape_flags {
	SHAPE_EDGE = 1,         /* no letter or digit directly before the mark */
	SHAPE_SURE = 2,         /* it has a checksum: randomness and edges are not tested */
};

/* A kind of credential.
 *
 * TAIL is the shape of the text after the mark (credential/shape.h); NULL: only CHECK knows it.
 * The last item must not be followed by more of its class. */
struct secrets_shape {
	const char *name, *mark, *tail;
	unsigned flags;
	bool (*check)(const struct secrets_hit *hit);   /* or NULL */
};

extern const struct secrets_shape secrets_shapes[];
extern const size_t secrets_n_shapes;

#define SECRETS_MARK_MAX 32
#define SECRETS_SEEN_MAX 1024           /* bytes after a mark that are examined */

/* ---- secrets_match.c ---- */

bool secrets_match(const struct secrets_shape *shape, const struct secrets_view *view,
                   size_t mark);
/* Whether no character of a word precedes POS; an escape such as "\n" or "%3D" is not part of a
 * word. */
bool secrets_left_edge(const struct secrets_view *view, size_t pos);
/* Whether LEN characters look random, not typed, counted or made up. */
bool secrets_looks_random(const unsigned char *text, size_t len);
/* Take at most MAX characters of a class from *POS on, which is advanced; "\/" is "/". */
size_t secrets_take(const struct secrets_view *view, size_t *pos, char class,
                    unsigned char *out, size_t max);
/* Decode from POS on, across line ends and their escapes, at most SIZE bytes.  Stops at the first
 * byte that is not base64. */
size_t secrets_base64_decode(const struct secrets_view *view, size_t pos,
                             unsigned char *out, size_t size);
/* The length of a line end at POS, or of an escape for one. */
size_t secrets_line_end(const struct secrets_view *view, size_t pos);

/* ---- secrets_check.c ---- */

bool secrets_check_bech32(const struct secrets_hit *hit);
bool secrets_check_slack(const struct secrets_hit *hit);
bool secrets_check_openai(const struct secrets_hit *hit);
bool secrets_check_aws_id(const struct secrets_hit *hit);
bool secrets_check_aws_pair(const struct secrets_hit *hit);
bool secrets_check_aws_named(const struct secrets_hit *hit);
bool secrets_check_named(const struct secrets_hit *hit);
bool secrets_check_bearer(const struct secrets_hit *hit);
bool secrets_check_azure_key(const struct secrets_hit *hit);
bool secrets_check_azure_app(const struct secrets_hit *hit);
bool secrets_check_azure_84(const struct secrets_hit *hit);
bool secrets_check_telegram(const struct secrets_hit *hit);
bool secrets_check_terraform(const struct secrets_hit *hit);
bool secrets_check_mailgun(const struct secrets_hit *hit);

/* ---- secrets_keys.c ---- */

bool secrets_check_pem(const struct secrets_hit *hit);
bool secrets_check_putty(const struct secrets_hit *hit);
bool secrets_check_wireguard(const struct secrets_hit *hit);
bool secrets_check_jwk(const struct secrets_hit *hit);
bool secrets_check_jwt(const struct secrets_hit *hit);
bool secrets_check_docker(const struct secrets_hit *hit);
#endif

/* body_shape_json.c - see body_shape.h: describes JSON, and chooses the format. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "http/json_walk.h"
#include "inspect/body_shape_parts.h"

/* Decode RAW; RAW itself if it was cut in the middle. */
static struct http_text
decode(struct http_text raw, char text[SHAPE_LOOKED_AT])
{
	struct http_text first = { raw.at, shape_cut(raw, SHAPE_LOOKED_AT) };
	size_t len;

	if (json_walk_decode(first, text, SHAPE_LOOKED_AT, &len) < 0)
		return first;
	return (struct http_text){ text, len };
}

/* Write an item that is neither an object nor an array, nor the end of one. */
static void
put_value(const struct shape *s, char out[SHAPE_VALUE_TEXT], const struct json_walk_item *item, const char *name)
{
	char room[SHAPE_LOOKED_AT];
	struct http_text text;
	size_t n;

	if (item->kind == JSON_WALK_STRING) {
		text = decode(item->raw, room);
		shape_value(s, out, name, item->raw, text,
		            item->raw.len > SHAPE_LOOKED_AT ? item->raw.len : text.len);
		return;
	}
	n = item->raw.len < s->value ? item->raw.len : s->value;
	snprintf(out, SHAPE_VALUE_TEXT, "%.*s%s", (int)n, item->raw.at,
	         n < item->raw.len ? "..." : "");
}

static void
add_item(struct shape *s, const struct json_walk_item *item)
{
	char name[SHAPE_NAME_TEXT] = "", value[SHAPE_VALUE_TEXT], line[SHAPE_LINE_TEXT];
	char room[SHAPE_LOOKED_AT];

	if (!shape_has_room(s, item->kind != JSON_WALK_CLOSE))
		return;
	if (item->name.at != NULL)
		shape_name(name, item->name, decode(item->name, room));
	switch (item->kind) {
	case JSON_WALK_OBJECT:
	case JSON_WALK_ARRAY:
		snprintf(value, sizeof(value), "%c", item->kind == JSON_WALK_OBJECT ? '{' : '[');
		break;
	case JSON_WALK_CLOSE:
		snprintf(value, sizeof(value), "%c", item->raw.at[item->raw.len - 1]);
		break;
	default:
		put_value(s, value, item, name);
		break;
	}
	snprintf(line, sizeof(line), "%s%s%s", name, item->name.at != NULL ? ": " : "", value);
	shape_line(s, item->depth, line);
}

static void
shape_json(const char *data, size_t len, size_t value, char ret_shape[INSPECT_SHAPE_MAX])
{
	struct shape s = { .text = ret_shape, .value = value };
	struct json_walk_item item;
	struct json_walk w;
	int r;

	json_walk_begin(&w, (struct http_text){ data, len });
	while ((r = json_walk_next(&w, &item)) > 0)
		add_item(&s, &item);
	shape_end(&s, r == -E2BIG ? "it is too deep to be shown" : r < 0 ? "the rest is no JSON" : "");
}

static bool
is_form(struct http_text type)
{
	static const char form[] = "application/x-www-form-urlencoded";

	return type.len >= sizeof(form) - 1 && strncasecmp(type.at, form, sizeof(form) - 1) == 0;
}

static bool
begins_json(const char *data, size_t len)
{
	size_t i = 0;

	while (i < len && (data[i] == ' ' || data[i] == '\t' || data[i] == '\r' || data[i] == '\n'))
		i++;
	return i < len && (data[i] == '{' || data[i] == '[');
}

void
body_shape(struct http_text content_type, const char *data, size_t len,
           char ret_shape[INSPECT_SHAPE_MAX])
{
	ret_shape[0] = '\0';
	if (len == 0)
		return;
	if (is_form(content_type))
		body_shape_form((struct http_text){ data, len }, ret_shape);
	else if (http_type_is_json(content_type) && begins_json(data, len))
		shape_json(data, len, SHAPE_VALUE, ret_shape);
}

void
body_shape_result(const char *data, size_t len, char ret_shape[INSPECT_SHAPE_MAX])
{
	shape_json(data, len, SHAPE_VALUE_WIDE, ret_shape);
}

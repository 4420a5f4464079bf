/* message_fields.c - see message_fields.h. */
#include "sign/message_fields.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

struct reader {
	const char *at, *end;
	struct err *err;
};

static bool
at_end(const struct reader *r)
{
	return r->at == r->end;
}

static bool
take(struct reader *r, char c)
{
	if (at_end(r) || *r->at != c)
		return false;
	r->at++;
	return true;
}

static int
malformed(const struct reader *r, const char *what)
{
	return err_set(r->err, EBADMSG, "Signature-Input is not written as RFC 9421 has it: %s",
	               what);
}

static bool
is_key_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
	       c == '.' || c == '*';
}

static bool
take_key(struct reader *r, struct http_text *ret_key)
{
	const char *from = r->at;

	while (!at_end(r) && is_key_char(*r->at))
		r->at++;
	*ret_key = (struct http_text){ from, (size_t)(r->at - from) };
	return ret_key->len > 0 && ((*from >= 'a' && *from <= 'z') || *from == '*');
}

/* "text", with \" and \\ in it. */
static bool
take_string(struct reader *r, struct http_text *ret_text)
{
	const char *from = r->at + 1;

	if (!take(r, '"'))
		return false;
	while (!at_end(r) && *r->at != '"') {
		if (*r->at == '\\' && (++r->at == r->end || (*r->at != '"' && *r->at != '\\')))
			return false;
		if (*r->at < 0x20 || *r->at > 0x7e)
			return false;
		r->at++;
	}
	*ret_text = (struct http_text){ from, (size_t)(r->at - from) };
	return take(r, '"');
}

/* A number, a token, a boolean or a byte sequence: up to its delimiter. */
static bool
take_bare(struct reader *r)
{
	const char *from = r->at;

	while (!at_end(r) && strchr(" ;,()\"", *r->at) == NULL)
		r->at++;
	return r->at > from;
}

struct param {
	struct http_text key, string;   /* string: .at is NULL if it is another type */
	bool has_value;
};

static bool
take_param(struct reader *r, struct param *ret)
{
	*ret = (struct param){0};
	if (!take_key(r, &ret->key))
		return false;
	ret->has_value = take(r, '=');
	if (!ret->has_value)
		return true;
	if (!at_end(r) && *r->at == '"')
		return take_string(r, &ret->string);
	return take_bare(r);
}

static int
read_component_params(struct reader *r, struct message_component *c)
{
	bool wants_name = http_text_is(c->name, "@query-param");
	struct param param;

	while (take(r, ';')) {
		if (!take_param(r, &param))
			return malformed(r, "a component's parameter is broken");
		if (http_text_is(param.key, "name") && wants_name && param.string.at != NULL &&
		    c->query_param.at == NULL)
			c->query_param = param.string;
		else if (http_text_is(param.key, "bs") && !param.has_value && *c->name.at != '@' &&
		         !c->bytes)
			c->bytes = true;
		else
			return err_set(r->err, ENOTSUP, "the covered component \"%.*s\" has the parameter "
			               "'%.*s', which is not supported here", (int)c->name.len,
			               c->name.at, (int)param.key.len, param.key.at);
	}
	if (wants_name && c->query_param.at == NULL)
		return malformed(r, "@query-param has no name");
	return 0;
}

static int
read_component(struct reader *r, struct message_input *input)
{
	struct message_component *c = &input->components[input->n];
	const char *from = r->at;
	int result;

	if (input->n == MESSAGE_COMPONENTS_MAX)
		return err_set(r->err, E2BIG, "a signature covers over %d components",
		               MESSAGE_COMPONENTS_MAX);
	*c = (struct message_component){0};
	if (!take_string(r, &c->name) || c->name.len == 0)
		return malformed(r, "a component is no text in quotes");
	for (size_t i = 0; i < c->name.len; i++)
		if (c->name.at[i] == '\\' || (c->name.at[i] >= 'A' && c->name.at[i] <= 'Z'))
			return malformed(r, "a component's name is not in lower case");
	result = read_component_params(r, c);
	if (result < 0)
		return result;
	c->raw = (struct http_text){ from, (size_t)(r->at - from) };
	for (size_t i = 0; i < input->n; i++)
		if (scheme_same(input->components[i].raw, c->raw))
			return malformed(r, "a component is there twice");
	input->n++;
	return 0;
}

static int
read_list(struct reader *r, struct message_input *input)
{
	int result = 0;

	if (!take(r, '('))
		return malformed(r, "a label has no list of components");
	while (result == 0 && !take(r, ')')) {
		if (input->n > 0 && !take(r, ' '))
			return malformed(r, "components are parted by one blank");
		result = read_component(r, input);
	}
	return result;
}

static int
read_input_params(struct reader *r, struct message_input *input)
{
	struct param param;

	while (take(r, ';')) {
		if (!take_param(r, &param))
			return malformed(r, "a parameter is broken");
		if (http_text_is(param.key, "keyid") || http_text_is(param.key, "alg")) {
			struct http_text *to = *param.key.at == 'k' ? &input->keyid : &input->alg;

			if (param.string.at == NULL || to->at != NULL)
				return malformed(r, "keyid and alg are texts in quotes, once each");
			*to = param.string;
		}
	}
	return 0;
}

static int
read_input(struct reader *r, int field, struct message_inputs *inputs)
{
	struct message_input *input = &inputs->list[inputs->n];
	const char *from;
	int result;

	if (inputs->n == MESSAGE_LABELS_MAX)
		return err_set(r->err, E2BIG, "the request has over %d signatures",
		               MESSAGE_LABELS_MAX);
	input->n = 0;
	input->field = field;
	input->keyid = input->alg = (struct http_text){ NULL, 0 };
	if (!take_key(r, &input->label) || !take(r, '='))
		return malformed(r, "a label is missing");
	for (size_t i = 0; i < inputs->n; i++)
		if (scheme_same(inputs->list[i].label, input->label))
			return malformed(r, "a label is there twice");
	from = r->at;
	result = read_list(r, input);
	if (result == 0)
		result = read_input_params(r, input);
	input->raw = (struct http_text){ from, (size_t)(r->at - from) };
	inputs->n++;
	return result;
}

static void
skip_blanks(struct reader *r)
{
	while (!at_end(r) && (*r->at == ' ' || *r->at == '\t'))
		r->at++;
}

int
message_read_inputs(const struct http_head *head, struct message_inputs *ret_inputs,
                    struct err *err)
{
	int result = 0;

	ret_inputs->n = 0;
	for (size_t i = 0; i < head->n_fields; i++) {
		struct http_text value = head->fields[i].value;
		struct reader r = { value.at, value.at + value.len, err };

		if (!http_text_is(head->fields[i].name, "signature-input"))
			continue;
		do {
			skip_blanks(&r);
			result = read_input(&r, (int)i, ret_inputs);
			if (result < 0)
				return result;
			skip_blanks(&r);
		} while (take(&r, ','));
		if (!at_end(&r))
			return malformed(&r, "something follows a signature's parameters");
	}
	return ret_inputs->n > 0 ? 0
	                         : err_set(err, EINVAL, "there is no Signature-Input in the request");
}

/* label=:base64:, with parameters that are ignored. */
static bool
take_bytes(struct reader *r, struct http_text *ret_label, struct http_text *ret_base64)
{
	struct param param;
	const char *from;

	if (!take_key(r, ret_label) || !take(r, '=') || !take(r, ':'))
		return false;
	from = r->at;
	while (!at_end(r) && *r->at != ':')
		r->at++;
	*ret_base64 = (struct http_text){ from, (size_t)(r->at - from) };
	if (!take(r, ':'))
		return false;
	while (take(r, ';'))
		if (!take_param(r, &param))
			return false;
	return true;
}

/* How often LABEL is in DICTIONARY, or -1 if the dictionary is invalid. */
static int
find_bytes(struct http_text dictionary, struct http_text label, struct http_text *ret_base64)
{
	struct reader r = { dictionary.at, dictionary.at + dictionary.len, NULL };
	struct http_text name, base64;
	int found = 0;

	do {
		skip_blanks(&r);
		if (!take_bytes(&r, &name, &base64))
			return -1;
		if (scheme_same(name, label)) {
			*ret_base64 = base64;
			found++;
		}
		skip_blanks(&r);
	} while (take(&r, ','));
	return at_end(&r) ? found : -1;
}

int
message_find_signature(const struct http_head *head, struct http_text label, int *ret_field,
                       struct http_text *ret_base64, struct err *err)
{
	int found = 0;

	for (size_t i = 0; i < head->n_fields; i++) {
		int n;

		if (!http_text_is(head->fields[i].name, "signature"))
			continue;
		n = find_bytes(head->fields[i].value, label, ret_base64);
		if (n < 0)
			return err_set(err, EBADMSG, "the Signature field is not written as RFC 9421 has "
			               "it");
		if (n > 0)
			*ret_field = (int)i;
		found += n;
	}
	if (found != 1)
		return err_set(err, EBADMSG, "Signature has the label '%.*s' of Signature-Input %s",
		               (int)label.len, label.at, found == 0 ? "not" : "more than once");
	return 0;
}

bool
message_find_bytes(struct http_text dictionary, const char *name, struct http_text *ret_base64)
{
	return find_bytes(dictionary, scheme_text(name), ret_base64) == 1;
}

/* azure.c - Azure Storage's SharedKey and SharedKeyLite, for blobs, queues, files and
 * tables, from version 2009-09-19 on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "sign/azure_sas.h"
#include "sign/scheme_parts.h"
#include "sign/sign_schemes.h"

/* From this x-ms-version on, the length of an empty body is signed as an empty text. */
#define EMPTY_LENGTH_VERSION "2015-02-21"

struct azure_request {
	const struct http_head *head;
	struct http_text account;       /* as the client wrote it, in HEAD */
	struct http_text signature;
	bool lite, table;
	/* Variants between clients: the one that verifies is used. */
	bool zero_length;               /* "0" instead of nothing */
	bool net_order;                 /* headers in .NET's order instead of byte order */
};

static bool
azure_parse(const struct http_head *head, struct azure_request *ret)
{
	struct http_text text = http_head_get(head, "authorization");
	const char *colon;
	size_t skip;

	*ret = (struct azure_request){ .head = head };
	if (scheme_begins(text, "SharedKey "))
		skip = strlen("SharedKey ");
	else if (scheme_begins(text, "SharedKeyLite "))
		skip = strlen("SharedKeyLite "), ret->lite = true;
	else
		return false;
	text.at += skip;
	text.len -= skip;
	colon = memchr(text.at, ':', text.len);
	if (colon == NULL || colon == text.at)
		return false;
	ret->account = (struct http_text){ text.at, (size_t)(colon - text.at) };
	ret->signature = (struct http_text){ colon + 1, text.len - ret->account.len - 1 };
	return true;
}

static bool
azure_find(const struct http_head *head, struct http_text *ret_id)
{
	struct azure_request req;

	if (!azure_parse(head, &req))
		return azure_sas_find(head, ret_id);
	*ret_id = req.account;
	return true;
}

/* ACCOUNT.table.core.windows.net, and the same in other clouds. */
static bool
host_is_table(struct http_text host)
{
	const char *dot = memchr(host.at, '.', host.len);

	if (dot == NULL)
		return false;
	host.len -= (size_t)(dot - host.at);
	host.at = dot;
	return scheme_begins(host, ".table.");
}

/* The order of .NET's culture, used by the service and some clients: "-" counts only if names are
 * otherwise equal, and other marks come before digits. */
static int
net_weight(char c)
{
	static const char order[] = "!#$%&*.^_`|~+0123456789abcdefghijklmnopqrstuvwxyz";
	const char *at = strchr(order, c);

	return c == '\0' || at == NULL ? 0 : (int)(at - order) + 1;
}

static int
compare_net(struct http_text a, struct http_text b)
{
	size_t i = 0, j = 0, later;

	for (;; i++, j++) {
		while (i < a.len && net_weight(a.at[i]) == 0)
			i++;
		while (j < b.len && net_weight(b.at[j]) == 0)
			j++;
		if (i == a.len || j == b.len)
			break;
		if (net_weight(a.at[i]) != net_weight(b.at[j]))
			return net_weight(a.at[i]) - net_weight(b.at[j]);
	}
	if (i < a.len || j < b.len)
		return i < a.len ? 1 : -1;
	/* The name whose first differing "-" is later comes first. */
	later = a.len < b.len ? a.len : b.len;
	for (size_t k = 0; k < later; k++)
		if (a.at[k] != b.at[k])
			return a.at[k] == '-' ? 1 : -1;
	return a.len < b.len ? -1 : a.len > b.len;
}

static int
compare_fields(const void *a, const void *b, void *net)
{
	const struct http_field *x = *(const struct http_field *const *)a;
	const struct http_field *y = *(const struct http_field *const *)b;
	int r = *(bool *)net ? compare_net(x->name, y->name) : scheme_compare(x->name, y->name);

	/* Fields of one name keep the order in which they were sent. */
	return r != 0 ? r : x < y ? -1 : 1;
}

static void
put_value(struct buf *b, struct http_text value)
{
	for (size_t i = 0; i < value.len; i++)
		buf_put(b, value.at[i] == '\t' ? " " : &value.at[i], 1);
}

static void
put_ms_headers(struct buf *b, const struct azure_request *req)
{
	const struct http_field *fields[HTTP_FIELDS_MAX];
	bool net = req->net_order;
	size_t n = 0;

	for (size_t i = 0; i < req->head->n_fields; i++)
		if (scheme_begins(req->head->fields[i].name, "x-ms-"))
			fields[n++] = &req->head->fields[i];
	qsort_r(fields, n, sizeof(void *), compare_fields, &net);
	for (size_t i = 0; i < n; i++) {
		if (i > 0 && scheme_same(fields[i - 1]->name, fields[i]->name)) {
			b->len--;               /* the line continues */
			buf_put_text(b, ",");
		} else {
			scheme_put(b, fields[i]->name);
			buf_put_text(b, ":");
		}
		put_value(b, fields[i]->value);
		buf_put_text(b, "\n");
		if (buf_failed(b))
			return;
	}
}

struct query_item {
	struct http_text name, value;   /* decoded, the name in lower case */
};

static int
compare_items(const void *a, const void *b)
{
	const struct query_item *x = a, *y = b;
	int r = scheme_compare(x->name, y->name);

	return r != 0 ? r : scheme_compare(x->value, y->value);
}

/* Decode FROM to the end of TEXT, whose memory never moves: it is as large as the query. */
static struct http_text
decode_behind(struct buf *text, struct http_text from, bool lower)
{
	size_t at = text->len;

	scheme_put_decoded(text, from, false);
	for (size_t i = at; lower && i < text->len; i++)
		if (text->data[i] >= 'A' && text->data[i] <= 'Z')
			text->data[i] |= 0x20;
	return (struct http_text){ (const char *)text->data + at, text->len - at };
}

static int
put_query(struct buf *b, struct http_text query, struct err *err)
{
	struct query_item items[SCHEME_PARAMS_MAX];
	OWN(buf_free) struct buf text = BUF(query.len + 1);
	struct scheme_param param;
	size_t n = 0;

	if (buf_add(&text, query.len + 1) == NULL)
		return scheme_failed(err, "read a query");
	text.len = 0;
	while (scheme_param_next(&query, &param)) {
		if (n == SCHEME_PARAMS_MAX)
			return err_set(err, E2BIG, "the query has over %d parameters",
			               SCHEME_PARAMS_MAX);
		items[n].name = decode_behind(&text, param.name, true);
		items[n].value = decode_behind(&text, param.value, false);
		n++;
	}
	qsort(items, n, sizeof(items[0]), compare_items);
	for (size_t i = 0; i < n; i++) {
		if (i > 0 && scheme_same(items[i - 1].name, items[i].name)) {
			buf_put_text(b, ",");
		} else {
			buf_put_text(b, "\n");
			scheme_put(b, items[i].name);
			buf_put_text(b, ":");
		}
		scheme_put(b, items[i].value);
	}
	return 0;
}

static int
put_resource(struct buf *b, const struct azure_request *req, struct http_text account,
             struct err *err)
{
	struct http_text query = scheme_query_of(req->head);
	struct scheme_param comp;

	buf_put_text(b, "/");
	scheme_put(b, account);
	scheme_put(b, scheme_path_of(req->head));
	if (!req->lite && !req->table)
		return put_query(b, query, err);
	if (scheme_param_find(query, "comp", &comp)) {
		buf_put_text(b, "?comp=");
		scheme_put_decoded(b, comp.value, false);
	}
	return 0;
}

static void
put_line(struct buf *b, const struct http_head *head, const char *name)
{
	put_value(b, http_head_get(head, name));
	buf_put_text(b, "\n");
}

/* Tables sign the effective date.  The others leave the line empty if there is x-ms-date, which is
 * among their headers. */
static void
put_date(struct buf *b, const struct azure_request *req)
{
	struct http_text ms = http_head_get(req->head, "x-ms-date");

	if (ms.len == 0)
		put_line(b, req->head, "date");
	else if (req->table)
		put_line(b, req->head, "x-ms-date");
	else
		buf_put_text(b, "\n");
}

static void
put_full_lines(struct buf *b, const struct azure_request *req)
{
	static const char *const before[] = { "content-encoding", "content-language" };
	static const char *const after[] = { "if-modified-since", "if-match", "if-none-match",
	                                     "if-unmodified-since", "range" };
	const struct http_head *head = req->head;

	for (size_t i = 0; i < ARRAY_LEN(before); i++)
		put_line(b, head, before[i]);
	if (head->length != HTTP_LENGTH_UNKNOWN && (head->length > 0 || req->zero_length))
		buf_put_decimal(b, head->length);
	buf_put_text(b, "\n");
	put_line(b, head, "content-md5");
	put_line(b, head, "content-type");
	put_date(b, req);
	for (size_t i = 0; i < ARRAY_LEN(after); i++)
		put_line(b, head, after[i]);
}

/* The string to sign. */
static int
azure_base(struct buf *b, const struct azure_request *req, struct http_text account,
           struct err *err)
{
	int r;

	buf_reset(b);
	if (!(req->lite && req->table)) {
		scheme_put(b, req->head->method);
		buf_put_text(b, "\n");
	}
	if (!req->lite && !req->table) {
		put_full_lines(b, req);
	} else {
		if (!(req->lite && req->table)) {
			put_line(b, req->head, "content-md5");
			put_line(b, req->head, "content-type");
		}
		put_date(b, req);
	}
	if (!req->table)
		put_ms_headers(b, req);
	r = put_resource(b, req, account, err);
	if (r == 0 && buf_failed(b))
		r = err_set(err, EFBIG, "the request is too long to be signed");
	return r;
}

static int
azure_signature(const struct azure_request *req, struct http_text account,
                const struct scheme_secret *key, struct buf *base, struct buf *ret_text,
                struct err *err)
{
	unsigned char mac[SIGN_DIGEST_MAX];
	size_t len;
	int r = azure_base(base, req, account, err);

	if (r == 0)
		r = scheme_hmac(EVP_sha256(), key, scheme_text_of(base), mac, &len, err);
	if (r < 0)
		return r;
	buf_reset(ret_text);
	scheme_put_coded(ret_text, SIGN_BASE64, mac, len);
	return buf_failed(ret_text) ? scheme_failed(err, "write a signature") : 0;
}

static bool
may_have_zero(const struct azure_request *req)
{
	struct http_text version = http_head_get(req->head, "x-ms-version");

	return req->head->length == 0 &&
	       scheme_compare(version, scheme_text(EMPTY_LENGTH_VERSION)) < 0;
}

static int
azure_verify(struct azure_request *req, const struct scheme_secret *key, struct buf *base,
             struct err *err)
{
	bool old = may_have_zero(req);
	OWN(buf_free) struct buf text = BUF(256);
	int r;

	for (int try = 0; try < (old ? 4 : 2); try++) {
		req->net_order = (try & 1) != 0;
		req->zero_length = (try & 2) != 0;
		r = azure_signature(req, req->account, key, base, &text, err);
		if (r < 0)
			return r;
		if (scheme_same_secret(text.data, text.len, req->signature.at, req->signature.len))
			return 0;
	}
	return scheme_wrong(err, "SharedKey", "the method, the standard and x-ms- headers, the "
	                    "path and the query");
}

static int
azure_write(const struct azure_request *req, const struct sign_key *to, struct buf *base,
            struct sign_memory *m, struct http_text *ret_value, struct err *err)
{
	struct http_text account = to->id.len > 0 ? to->id : req->account;
	OWN(scheme_secret_wipe) struct scheme_secret key = {0};
	OWN(buf_free) struct buf text = BUF(256), value = BUF(HTTP_HEAD_MAX);
	int r;

	r = scheme_secret_read(to->secret, SIGN_BASE64, "the real", &key, err);
	if (r == 0)
		r = azure_signature(req, account, &key, base, &text, err);
	if (r < 0)
		return r;
	buf_put_text(&value, req->lite ? "SharedKeyLite " : "SharedKey ");
	scheme_put(&value, account);
	buf_put_text(&value, ":");
	scheme_put(&value, scheme_text_of(&text));
	if (buf_failed(&value))
		return scheme_failed(err, "write a signature");
	return scheme_keep(m, scheme_text_of(&value), ret_value, err);
}

static int
azure_sign(const void *with, const struct sign_key *from, const struct sign_key *to,
           const struct sign_was *was, struct http_head *head, const struct sign_body *body,
           struct sign_memory *m, enum sign_next *ret_next, struct sign_chunks **ret_chunks,
           struct err *err)
{
	const struct sign_azure_options *options = with;
	OWN(scheme_secret_wipe) struct scheme_secret key = {0};
	OWN(buf_free) struct buf base = {0};
	struct azure_request req;
	struct http_text value;
	int r;

	(void)body, (void)ret_chunks;
	*ret_next = SIGN_DONE;
	if (!azure_parse(was != NULL ? was->head : head, &req) &&
	    azure_sas_find(head, &value))
		return azure_sas_sign(from, to, was != NULL ? was->head : head, head, m, ret_next, err);
	if (!azure_parse(was != NULL ? was->head : head, &req))
		return err_set(err, EINVAL, "there is no SharedKey authorization in the request");
	if (from->id.len > 0 && !scheme_same(from->id, req.account))
		return err_set(err, EKEYREJECTED, "the request is signed for the account '%.*s', "
		               "which is not the placeholder's", (int)req.account.len, req.account.at);
	req.table = options != NULL ? options->table : host_is_table(head->host);
	buf_init(&base, SCHEME_BASE_MAX);
	r = scheme_secret_read(from->secret, SIGN_BASE64, "the placeholder's", &key, err);
	if (r == 0)
		r = azure_verify(&req, &key, &base, err);
	req.head = head;
	if (r == 0)
		r = azure_write(&req, to, &base, m, &value, err);
	if (r < 0)
		return r;
	head->fields[scheme_field_at(head, "authorization")].value = value;
	return 0;
}

const struct sign_scheme sign_azure = {
	.name = "azure-sharedkey", .find = azure_find, .sign = azure_sign,
};

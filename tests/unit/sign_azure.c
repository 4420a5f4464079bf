/* sign_azure.c - tests of sign/azure: requests of Microsoft's own clients, and of the
 * documentation. */
#include <errno.h>

#include "scheme_lab.h"

static const char key_text[] =
	"Y2xvaXN0ZXIgdW5pdCB0ZXN0IGtleSBvZiBhIHN0b3JhZ2UgYWNjb3VudCAwMTIzNDU2Nzg5YWJjZA==";
static const char key_bytes[] = "cloister unit test key of a storage account 0123456789abcd";
static const char other_text[] = "b3RoZXIga2V5";

static struct sign_key
account(const char *name, const char *secret)
{
	return sl_key(name, secret, "");
}

/* Sent by @azure/storage-blob 12 and @azure/data-tables 13. */
static const char *const client_requests[] = {
	"PUT https://myaccount.blob.core.windows.net/my-container/dir/na%C3%AFve%20file%2Bx~.txt\n"
	"content-type: application/octet-stream\n"
	"x-ms-version: 2026-04-06\n"
	"content-length: 11\n"
	"x-ms-meta-a_b: 1\n"
	"x-ms-meta-ab: two  words\n"
	"x-ms-meta-a1: x\n"
	"x-ms-meta-za: y\n"
	"x-ms-blob-content-type: text/plain\n"
	"x-ms-blob-content-language: en\n"
	"x-ms-blob-type: BlockBlob\n"
	"x-ms-client-request-id: 052a890a-3fd1-4909-b5ef-33dd67ab6046\n"
	"x-ms-date: Sun, 15 Nov 2026 10:36:38 GMT\n"
	"authorization: SharedKey myaccount:bs4fnygIc4PL8Uf1X2JCv8TvYe0FYUsBEWBAgUzxfoU=\n",

	"PUT https://myaccount.blob.core.windows.net/my-container?restype=container\n"
	"x-ms-version: 2026-04-06\n"
	"x-ms-client-request-id: 4531b1b0-06d8-4981-a41b-8c85af536ce5\n"
	"x-ms-date: Sun, 15 Nov 2026 10:36:38 GMT\n"
	"authorization: SharedKey myaccount:IejXntciKizNmNBnn++9QDwiTnBWTPIBwhiEelvU/wI=\n",

	"GET https://myaccount.blob.core.windows.net/my-container?comp=list&prefix=a%20b%26c%3Dd%2F%C3%A9&maxresults=7&restype=container\n"
	"x-ms-version: 2026-04-06\n"
	"x-ms-client-request-id: 53ffc624-1a99-4fb2-8f02-201965e73066\n"
	"x-ms-date: Sun, 15 Nov 2026 10:36:38 GMT\n"
	"authorization: SharedKey myaccount:Cpo6TpmBuHPlq+8XmGCPtquLJRnC1Yqh4f76VDKS96E=\n",

	"GET https://myaccount.blob.core.windows.net/my-container/x\n"
	"x-ms-version: 2026-04-06\n"
	"if-modified-since: Sun, 09 Sep 2001 01:46:40 GMT\n"
	"x-ms-range: bytes=5-14\n"
	"if-match: \"0x8D\"\n"
	"x-ms-client-request-id: 24ccedd7-26fa-461b-94ce-b6aae07550ce\n"
	"x-ms-date: Sun, 15 Nov 2026 10:36:38 GMT\n"
	"authorization: SharedKey myaccount:iJh+1W4+/43pQLnPyM3xZIUmL5MeT2CbrfQs87MP5MM=\n",

	"PUT https://myaccount.blob.core.windows.net/my-container/e\n"
	"content-type: application/octet-stream\n"
	"x-ms-version: 2026-04-06\n"
	"content-length: 0\n"
	"x-ms-blob-type: BlockBlob\n"
	"x-ms-client-request-id: 94027a9e-b19b-4b42-a3f7-9c1e12165878\n"
	"x-ms-date: Sun, 15 Nov 2026 10:36:38 GMT\n"
	"authorization: SharedKey myaccount:HXGhbhmIxWsGhq8SX3mFlftthpxhlOhvBdC8Zg4tEwE=\n",

	"POST https://myaccount.table.core.windows.net/mytable\n"
	"content-type: application/json;odata=nometadata\n"
	"x-ms-version: 2019-02-02\n"
	"x-ms-client-request-id: c00fe635-3c76-4daa-8d5f-bd1247f40365\n"
	"x-ms-date: Sun, 15 Nov 2026 10:36:38 GMT\n"
	"content-length: 39\n"
	"authorization: SharedKeyLite myaccount:KkvPLCWTjkPsqofYHbpzCdGDTbrNHdi5GnqrNHrZGxM=\n",

	"GET https://myaccount.table.core.windows.net/mytable?comp=acl\n"
	"x-ms-version: 2019-02-02\n"
	"x-ms-client-request-id: ea1d0914-9442-4a2a-9138-24a5dd6eaaac\n"
	"x-ms-date: Sun, 15 Nov 2026 10:36:38 GMT\n"
	"authorization: SharedKeyLite myaccount:+HrIqHJNlq30Pyttn+d7rGKEvZzP9L6dGwTHA17qPtU=\n",
};

TEST(azure_clients_verify)
{
	struct sign_key from = account("myaccount", key_text);
	struct sign_key to = account("myaccount", other_text);

	for (size_t i = 0; i < ARRAY_LEN(client_requests); i++)
		sl_check_there_and_back(client_requests[i], &sign_azure, NULL, &from, &to);
}

#define KEY_OF_SAS "Y2xvaXN0ZXIgdW5pdCB0ZXN0IGtleSBvZiBhIHN0b3JhZ2UgYWNjb3VudCAwMTIzNDU2Nzg5YWJjZA=="
#define BLOB_LINES                                                          \
	"x-ms-date: Fri, 26 Jun 2015 23:39:12 GMT\n"                            \
	"x-ms-version: 2015-02-21\n"

/* Requests, and the strings that the documentation says are signed for them. */
static const struct {
	const char *request, *scheme, *base;
	bool table;
} base_cases[] = {
	{ "GET https://myaccount.blob.core.windows.net/mycontainer"
	  "?restype=container&comp=metadata&timeout=20\n" BLOB_LINES, "SharedKey",
	  "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\n"
	  "x-ms-version:2015-02-21\n/myaccount/mycontainer\ncomp:metadata\n"
	  "restype:container\ntimeout:20", false },
	{ "GET https://myaccount.blob.core.windows.net/mycontainer"
	  "?restype=container&comp=list&include=snapshots&Include=metadata&include="
	  "uncommittedblobs\n" BLOB_LINES, "SharedKey",
	  "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\n"
	  "x-ms-version:2015-02-21\n/myaccount/mycontainer\ncomp:list\n"
	  "include:metadata,snapshots,uncommittedblobs\nrestype:container", false },
	{ "PUT https://myaccount.blob.core.windows.net/c/b\ncontent-type: text/plain\n"
	  "content-encoding: gzip\ncontent-language: en\ncontent-md5: bWQ1\nrange: bytes=0-1\n"
	  "if-match: m\nif-none-match: n\nif-modified-since: s\nif-unmodified-since: u\n"
	  "date: Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-b: 1\nx-ms-a:  2\n\nbody", "SharedKey",
	  "PUT\ngzip\nen\n4\nbWQ1\ntext/plain\nFri, 26 Jun 2015 23:39:12 GMT\ns\nm\nn\nu\n"
	  "bytes=0-1\nx-ms-a:2\nx-ms-b:1\n/myaccount/c/b", false },
	/* before 2015-02-21 an empty body had a length of "0" */
	{ "PUT https://myaccount.blob.core.windows.net/c\nx-ms-version: 2014-02-14\n", "SharedKey",
	  "PUT\n\n\n0\n\n\n\n\n\n\n\n\nx-ms-version:2014-02-14\n/myaccount/c", false },
	{ "PUT https://myaccount.blob.core.windows.net/c?comp=acl&x=1\n" BLOB_LINES
	  "content-md5: bWQ1\ncontent-type: a/b\n", "SharedKeyLite",
	  "PUT\nbWQ1\na/b\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n"
	  "/myaccount/c?comp=acl", false },
	{ "GET https://myaccount.table.core.windows.net/t(PartitionKey='p')?x=1\n" BLOB_LINES
	  "content-type: a/b\n", "SharedKey",
	  "GET\n\na/b\nFri, 26 Jun 2015 23:39:12 GMT\n/myaccount/t(PartitionKey='p')", true },
	/* an emulator has the account in the path, too */
	{ "GET http://127.0.0.1:10002/myaccount/t\n" BLOB_LINES, "SharedKeyLite",
	  "Fri, 26 Jun 2015 23:39:12 GMT\n/myaccount/myaccount/t", true },
};

static char *
with_authorization(const char *request, const char *scheme, const char *signature)
{
	const char *line = strchr(request, '\n') + 1;
	char *text = NULL;

	CHECK(asprintf(&text, "%.*sauthorization: %s myaccount:%s\n%s", (int)(line - request),
	               request, scheme, signature, line) > 0);
	return text;
}

TEST(azure_documented_strings)
{
	struct sign_key from = account("myaccount", key_text);
	struct sign_key to = account("myaccount", other_text);

	for (size_t i = 0; i < ARRAY_LEN(base_cases); i++) {
		struct sign_azure_options options = { base_cases[i].table };
		OWN(freep) char *text = with_authorization(base_cases[i].request,
			base_cases[i].scheme, sl_hmac(EVP_sha256(), SIGN_BASE64, key_bytes,
			                               base_cases[i].base));

		sl_check_there_and_back(text, &sign_azure, &options, &from, &to);
	}
}

TEST(azure_account_is_the_real_one)
{
	OWN(sl_request_freep) struct sl_request *r = sl_request(client_requests[1]);
	struct sign_key from = account("myaccount", key_text);
	struct sign_key to = account("theirs", other_text);
	struct http_text id;

	CHECK(sign_azure.find(&r->head, &id) && http_text_is(id, "myaccount"));
	CHECK_OK(sl_sign(r, &sign_azure, NULL, &from, &to));
	CHECK(strncmp(sl_field(r, "authorization"), "SharedKey theirs:", 17) == 0);
	CHECK(sign_azure.find(&r->head, &id) && http_text_is(id, "theirs"));
}

TEST(azure_refuses)
{
	static const struct {
		const char *id, *secret, *to, *why;
	} cases[] = {
		{ "myaccount", other_text, other_text, "is not the placeholder's for this request" },
		{ "other", key_text, other_text, "the account 'myaccount', which is not" },
		{ "myaccount", "no base64!", other_text, "the placeholder's secret is not base64" },
		{ "myaccount", key_text, "b3RoZXIga2V5=", "the real secret is not base64" },
		{ "myaccount", key_text, "", "the real secret is empty" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(sl_request_freep) struct sl_request *r = sl_request(client_requests[0]);
		OWN(freep) char *before = sl_show(r), *after = NULL;
		struct sign_key from = account(cases[i].id, cases[i].secret);
		struct sign_key to = account("myaccount", cases[i].to);

		CHECK(sl_sign(r, &sign_azure, NULL, &from, &to) < 0);
		if (strstr(r->error, cases[i].why) == NULL)
			test_fail(__FILE__, __LINE__, "case %zu: %s", i, r->error);
		after = sl_show(r);
		CHECK_STR(after, before);
	}
}

/* Whatever of the request is changed on the way, it does not verify. */
TEST(azure_every_part_counts)
{
	struct sign_key from = account("myaccount", key_text);
	struct sign_key to = account("myaccount", other_text);

	for (size_t i = 0; i < 14; i++) {
		OWN(sl_request_freep) struct sl_request *r = sl_request(client_requests[0]);

		if (i < r->head.n_fields && i != (size_t)scheme_field_at(&r->head, "authorization"))
			r->head.fields[i].value = scheme_text("changed");
		else if (i == r->head.n_fields)
			r->head.method = scheme_text("POST");
		else
			r->head.path = scheme_text("/my-container/dir/other");
		CHECK_ERR(sl_sign(r, &sign_azure, NULL, &from, &to), EKEYREJECTED);
	}
}

TEST(azure_finds_only_its_own)
{
	static const char *const others[] = {
		"Bearer x", "SharedKey", "SharedKey x", "SharedKey :x", "sharedkey a:b", "Basic YTpi",
	};
	struct http_text id;

	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		char text[128];
		OWN(sl_request_freep) struct sl_request *r = NULL;

		snprintf(text, sizeof(text), "GET https://a.example/\nauthorization: %s\n", others[i]);
		r = sl_request(text);
		CHECK(!sign_azure.find(&r->head, &id));
	}
}

/* Worked out from Azure's descriptions of each version and service. */
static const char *const sas_requests[] = {
	"GET https://myaccount.blob.core.windows.net/box/na%C3%AFve%20x?sv=2021-12-02&st="
	"2026-01-01T00%3A00%3A00Z&se=2026-01-02T00%3A00%3A00Z&sp=rcw&spr=https&sr=b&sig=M"
	"XsJHtbqoDhCDB5zwwlvT8HYcFFXPZiV%2BbfmFi0zR2c%3D\n\n",
	"GET https://myaccount.blob.core.windows.net/box/x?sv=2019-12-12&st=2026-01-01T00"
	"%3A00%3A00Z&se=2026-01-02T00%3A00%3A00Z&sp=rcw&spr=https&sr=c&sig=PS%2FJA3D%2FLI"
	"ZWKKsQ2F52e0BKNcx9tzkaYX6zcMxR%2Bcw%3D\n\n",
	"GET https://myaccount.blob.core.windows.net/box/x?sv=2015-04-05&st=2026-01-01T00"
	"%3A00%3A00Z&se=2026-01-02T00%3A00%3A00Z&sp=rcw&spr=https&sr=b&sig=2f6aTUeRZzXRNf"
	"y4xm%2F0BLcWK%2FtMFoXt%2FM0RE3ubhV8%3D\n\n",
	"GET https://127.0.0.1:10000/myaccount/box/a/b/c?sv=2021-12-02&st=2026-01-01T00%3"
	"A00%3A00Z&se=2026-01-02T00%3A00%3A00Z&sp=rcw&spr=https&sr=d&sdd=1&sig=%2Bkq1pNtr"
	"CSfTbd0SujsC8lSzWioZEB9E0ieMrwSVUbw%3D\n\n",
	"GET https://myaccount.queue.core.windows.net/q/messages?sv=2019-02-02&st=2026-01"
	"-01T00%3A00%3A00Z&se=2026-01-02T00%3A00%3A00Z&sp=rcw&spr=https&sig=z2hTacJC1YIA9"
	"%2FZpJ14o6JiLG7tCBztcRTd1txQWJ6E%3D\n\n",
	"GET https://myaccount.table.core.windows.net/MyTable()?sv=2019-02-02&st=2026-01-"
	"01T00%3A00%3A00Z&se=2026-01-02T00%3A00%3A00Z&sp=rcw&spr=https&tn=MyTable&sig=8Xg"
	"UPTm91enIVFTYTFbyJUtX839ABMRR63Zxoyf72eA%3D\n\n",
	"GET https://myaccount.file.core.windows.net/share/d/f?sv=2021-12-02&st=2026-01-0"
	"1T00%3A00%3A00Z&se=2026-01-02T00%3A00%3A00Z&sp=rcw&spr=https&sr=f&sig=9OIjymXsAV"
	"GN3yS%2B1pp53dX60Zhzju%2BYlE%2Bs%2Ft4RRWA%3D\n\n",
	"GET https://myaccount.blob.core.windows.net/?comp=list&sv=2019-12-12&ss=b&srt=sc"
	"o&sp=rl&st=2026-01-01T00%3A00%3A00Z&se=2026-01-02T00%3A00%3A00Z&spr=https&sig=m0"
	"Sud3LdiCW5tAZ7BI4MG7wgPrIghD5mrLRlVNtC31w%3D\n\n",
	"GET https://myaccount.blob.core.windows.net/?comp=list&sv=2021-12-02&ss=b&srt=sc"
	"o&sp=rl&st=2026-01-01T00%3A00%3A00Z&se=2026-01-02T00%3A00%3A00Z&spr=https&sig=Xx"
	"3rY2%2Bc%2BHxes2%2FjoK80k0F%2FCcCUevAqid0VjA%2B6fSQ%3D\n\n",
};

TEST(azure_sas)
{
	struct sign_key from = sl_key("myaccount", KEY_OF_SAS, "");
	struct sign_key to = sl_key("myaccount", "b3RoZXIga2V5IG9mIHRoZSBhY2NvdW50", "");

	for (size_t i = 0; i < ARRAY_LEN(sas_requests); i++) {
		OWN(sl_request_freep) struct sl_request *r = sl_request(sas_requests[i]);
		struct http_text id, path = r->head.path;

		CHECK(sign_azure.find(&r->head, &id) && http_text_is(id, "myaccount"));
		CHECK_OK(sl_sign(r, &sign_azure, NULL, &from, &to));
		/* Another signature, which may not come back, and nothing else. */
		CHECK(r->head.path.at != path.at && r->m.n_made == 2);
		CHECK(memmem(r->head.path.at, r->head.path.len, r->m.made[1].real.at,
		             r->m.made[1].real.len) != NULL);
		sl_check_there_and_back(sas_requests[i], &sign_azure, NULL, &from, &to);
	}
}

TEST(azure_sas_of_somebody_else)
{
	struct sign_key from = sl_key("myaccount", "YW5vdGhlciBwbGFjZWhvbGRlcg==", "");
	struct sign_key to = sl_key("myaccount", "b3RoZXIga2V5IG9mIHRoZSBhY2NvdW50", "");
	OWN(sl_request_freep) struct sl_request *r = sl_request(sas_requests[0]);
	struct http_text path = r->head.path, id;

	/* It is good or not as it is. */
	CHECK_OK(sl_sign(r, &sign_azure, NULL, &from, &to));
	CHECK(r->head.path.at == path.at);
	/* A user's delegation key signed it, or nobody. */
	sl_request_freep(&r);
	r = sl_request("GET https://myaccount.blob.core.windows.net/a?sv=2021-12-02&skoid=x&sig=y\n\n");
	CHECK(!sign_azure.find(&r->head, &id));
}

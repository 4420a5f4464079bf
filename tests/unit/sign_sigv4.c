/* SigV4 and its relatives, on the requests that their makers publish as examples.
 *
 * A published request is checked with the published key, signed with another one, and
 * signed back: what comes out must be what went in. */
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include "base/err.h"
#include "http/h1.h"
#include "sign/sign.h"
#include "sign/sign_chunks.h"
#include "sign/sign_schemes.h"
#include "sign/sigv4.h"
#include "test.h"

#define TEXT(literal) { literal, sizeof(literal) - 1 }
#define S3_SECRET "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

static const struct sign_key suite = { TEXT("AKIDEXAMPLE"),
	TEXT("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), {0} };
static const struct sign_key suite_token = { TEXT("AKIDEXAMPLE"),
	TEXT("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
	TEXT("6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267") };
static const struct sign_key s3 = { TEXT("AKIAIOSFODNN7EXAMPLE"), TEXT(S3_SECRET), {0} };
static const struct sign_key real = { TEXT("AKIAREALREALREAL"), TEXT("the-real-secret"), {0} };
static const struct sign_key real_token = { TEXT("ASIAREALREALREAL"), TEXT("the-real-secret"),
	TEXT("the/real+token==") };

/* A request that was read as the gate reads it.  LF stands for CR LF. */
struct request {
	struct h1_reader reader;
	struct http_head head;
	struct sign_memory memory[2];
	struct sign_chunks *chunks;
	enum sign_next next;
	struct err err;
};

static void
request_read(struct request *q, const char *text)
{
	char wire[8192];
	size_t n = 0, used;
	struct http_text piece;

	memset(q, 0, sizeof(*q));
	for (; *text != '\0'; text++) {
		if (*text == '\n')
			wire[n++] = '\r';
		wire[n++] = *text;
	}
	memcpy(wire + n, "\r\n", 2);
	h1_reader_init(&q->reader, H1_REQUESTS);
	CHECK(h1_read(&q->reader, wire, n + 2, &used, &piece, &q->err) == H1_HEAD);
	q->head = q->reader.head;
	q->head.scheme = HTTP_TLS;
	if (q->head.port == 0)
		q->head.port = 443;
	CHECK_OK(http_head_check(&q->head, NULL));
}

static void
request_free(struct request *q)
{
	sign_chunks_free(q->chunks);
	h1_reader_free(&q->reader);
}

static int
lab_sign(const char *scheme, struct request *q, const struct sign_key *from,
     const struct sign_key *to, const struct sign_body *body, int memory)
{
	const struct sign_scheme *s = sign_scheme_find(scheme);
	struct http_text id;
	int r;

	CHECK(s != NULL && s->find(&q->head, &id));
	q->err = (struct err){0};
	sign_chunks_free(q->chunks);
	q->chunks = NULL;
	r = s->sign(NULL, from, to, NULL, &q->head, body, &q->memory[memory], &q->next, &q->chunks,
	            &q->err);
	CHECK_OK(http_head_check(&q->head, NULL));
	return r;
}

static void
must_sign(const char *scheme, struct request *q, const struct sign_key *from,
          const struct sign_key *to, const struct sign_body *body, int memory)
{
	int r = lab_sign(scheme, q, from, to, body, memory);

	if (r < 0)
		test_fail(__FILE__, __LINE__, "%.*s %.*s: %s", (int)q->head.method.len,
		          q->head.method.at, (int)q->head.path.len, q->head.path.at, q->err.text);
}

static bool
same(struct http_text a, struct http_text b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static void
check_same_head(const struct http_head *a, const struct http_head *b)
{
	CHECK(a->n_fields == b->n_fields);
	for (size_t i = 0; i < a->n_fields; i++)
		CHECK(same(a->fields[i].name, b->fields[i].name) &&
		      same(a->fields[i].value, b->fields[i].value));
	CHECK(same(a->path, b->path));
}

static bool
has(struct http_text text, const char *word)
{
	return memmem(text.at, text.len, word, strlen(word)) != NULL;
}

/* ---- what is published -------------------------------------------------------------- */

#define SUITE_AUTH(fields, signature) \
	"Authorization:AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/" \
	"aws4_request, SignedHeaders=" fields ", Signature=" signature "\n" \
	"X-Amz-Date:20150830T123600Z\n"
#define SUITE_HOST "Host:example.amazonaws.com\n"
#define S3_AUTH(fields, signature) \
	"Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/" \
	"aws4_request,SignedHeaders=" fields ",Signature=" signature "\n" \
	"x-amz-date: 20130524T000000Z\n"
#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static const struct {
	const char *scheme;
	const struct sign_key *key;
	const char *request;
	const char *body;
} published[] = {
	/* AWS's test suite for signers */
	{ "sigv4", &suite, "GET / HTTP/1.1\n" SUITE_HOST SUITE_AUTH("host;x-amz-date",
	  "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"), NULL },
	{ "sigv4", &suite, "GET / HTTP/1.1\n" SUITE_HOST
	  "My-Header1:value2\nMy-Header1:value2\nMy-Header1:value1\n"
	  SUITE_AUTH("host;my-header1;x-amz-date",
	  "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"), NULL },
	{ "sigv4", &suite, "GET / HTTP/1.1\n" SUITE_HOST
	  "My-Header1: value1\nMy-Header2: \"a   b   c\"\n"
	  SUITE_AUTH("host;my-header1;my-header2;x-amz-date",
	  "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"), NULL },
	{ "sigv4", &suite, "GET //example// HTTP/1.1\n" SUITE_HOST SUITE_AUTH("host;x-amz-date",
	  "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84"), NULL },
	{ "sigv4", &suite, "GET /?Param-3=Value3&Param=Value2&%E1%88%B4=Value1 HTTP/1.1\n" SUITE_HOST
	  SUITE_AUTH("host;x-amz-date",
	  "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"), NULL },
	{ "sigv4", &suite, "GET /?Param2=value2&Param1=value1 HTTP/1.1\n" SUITE_HOST
	  SUITE_AUTH("host;x-amz-date",
	  "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"), NULL },
	{ "sigv4", &suite_token, "GET / HTTP/1.1\n" SUITE_HOST
	  SUITE_AUTH("host;x-amz-date;x-amz-security-token",
	  "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8")
	  "X-Amz-Security-Token:6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267\n",
	  NULL },
	{ "sigv4", &suite, "POST / HTTP/1.1\nContent-Type:application/x-www-form-urlencoded\n"
	  SUITE_HOST "Content-Length:13\nx-amz-content-sha256:"
	  "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e\n"
	  SUITE_AUTH("content-length;content-type;host;x-amz-content-sha256;x-amz-date",
	  "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b"), NULL },
	/* S3's documentation: single chunk, query parameters */
	{ "sigv4", &s3, "GET /test.txt HTTP/1.1\nHost: examplebucket.s3.amazonaws.com\n"
	  "Range: bytes=0-9\nx-amz-content-sha256: " EMPTY_HASH "\n"
	  S3_AUTH("host;range;x-amz-content-sha256;x-amz-date",
	  "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"), NULL },
	{ "sigv4", &s3, "PUT /test$file.text HTTP/1.1\nHost: examplebucket.s3.amazonaws.com\n"
	  "Date: Fri, 24 May 2013 00:00:00 GMT\nContent-Length: 21\n"
	  "x-amz-storage-class: REDUCED_REDUNDANCY\nx-amz-content-sha256: "
	  "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072\n"
	  S3_AUTH("date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
	  "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"), NULL },
	{ "sigv4", &s3, "GET /?lifecycle HTTP/1.1\nHost: examplebucket.s3.amazonaws.com\n"
	  "x-amz-content-sha256: " EMPTY_HASH "\n" S3_AUTH("host;x-amz-content-sha256;x-amz-date",
	  "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"), NULL },
	{ "sigv4", &s3, "GET /?max-keys=2&prefix=J HTTP/1.1\nHost: examplebucket.s3.amazonaws.com\n"
	  "x-amz-content-sha256: " EMPTY_HASH "\n" S3_AUTH("host;x-amz-content-sha256;x-amz-date",
	  "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"), NULL },
	{ "sigv4", &s3, "GET /test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="
	  "AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date="
	  "20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature="
	  "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404 HTTP/1.1\n"
	  "Host: examplebucket.s3.amazonaws.com\n", NULL },
	/* S3's documentation: chunks, with and without trailers */
	{ "sigv4", &s3, "PUT /examplebucket/chunkObject.txt HTTP/1.1\nHost: s3.amazonaws.com\n"
	  "x-amz-storage-class: REDUCED_REDUNDANCY\n"
	  "x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD\n"
	  "Content-Encoding: aws-chunked\nx-amz-decoded-content-length: 66560\n"
	  "Content-Length: 66824\n" S3_AUTH("content-encoding;content-length;host;"
	  "x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class",
	  "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"), NULL },
	{ "sigv4", &s3, "PUT /examplebucket/chunkObject.txt HTTP/1.1\nHost: s3.amazonaws.com\n"
	  "x-amz-storage-class: REDUCED_REDUNDANCY\n"
	  "x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER\n"
	  "Content-Encoding: aws-chunked\nx-amz-decoded-content-length: 66560\n"
	  "x-amz-trailer: x-amz-checksum-crc32c\nContent-Length: 66946\n"
	  S3_AUTH("content-encoding;host;x-amz-content-sha256;x-amz-date;"
	  "x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer",
	  "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"), NULL },
	/* Alibaba's, and Tencent's */
	{ "acs3", &(const struct sign_key){ TEXT("YourAccessKeyId"), TEXT("YourAccessKeySecret"), {0} },
	  "POST /?ImageId=win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd&RegionId=cn-shanghai "
	  "HTTP/1.1\nHost: ecs.cn-shanghai.aliyuncs.com\nContent-Length: 0\n"
	  "x-acs-action: RunInstances\nx-acs-content-sha256: " EMPTY_HASH "\n"
	  "x-acs-date: 2023-10-26T10:22:32Z\n"
	  "x-acs-signature-nonce: 3156853299f313e23d1673dc12e1703d\nx-acs-version: 2014-05-26\n"
	  "Authorization: ACS3-HMAC-SHA256 Credential=YourAccessKeyId,SignedHeaders=host;"
	  "x-acs-action;x-acs-content-sha256;x-acs-date;x-acs-signature-nonce;x-acs-version,"
	  "Signature=06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0\n", NULL },
	{ "tc3", &(const struct sign_key){ TEXT("AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE"),
	  TEXT("Gu5t9xGARNpq86cd98joQYCN3EXAMPLE"), {0} },
	  "POST / HTTP/1.1\nHost: cvm.tencentcloudapi.com\nX-TC-Action: DescribeInstances\n"
	  "Content-Type: application/json; charset=utf-8\nContent-Length: 88\n"
	  "X-TC-Timestamp: 1551113065\nX-TC-Version: 2017-03-12\n"
	  "Authorization: TC3-HMAC-SHA256 Credential=AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE/"
	  "2019-02-25/cvm/tc3_request, SignedHeaders=content-type;host, Signature="
	  "72e494ea809ad7a8c8f7a4507b9bddcbaa8e581f516e8da2f66e2c5a96525168\n",
	  "{\"Limit\": 1, \"Filters\": [{\"Values\": [\"\\u672a\\u547d\\u540d\"], "
	  "\"Name\": \"instance-name\"}]}" },
};

TEST(sigv4_published)
{
	for (size_t i = 0; i < ARRAY_LEN(published); i++) {
		const char *text = published[i].body;
		struct sign_body body = { text, text == NULL ? 0 : strlen(text) };
		struct request q;
		struct http_head before;

		request_read(&q, published[i].request);
		before = q.head;
		if (text != NULL) {
			must_sign(published[i].scheme, &q, published[i].key, &real, NULL, 0);
			CHECK(q.next == SIGN_WANTS_BODY);
			check_same_head(&q.head, &before);
		}
		must_sign(published[i].scheme, &q, published[i].key, &real, &body, 0);
		CHECK(q.next != SIGN_WANTS_BODY);
		CHECK(has(http_head_get(&q.head, "authorization"), "AKIAREALREALREAL") ||
		      has(q.head.path, "=AKIAREALREALREAL%2F"));
		must_sign(published[i].scheme, &q, &real, published[i].key, &body, 1);
		check_same_head(&q.head, &before);
		request_free(&q);
	}
}

/* A secret's scheme is the family's: the request says which member signed it. */
TEST(sigv4_is_a_family)
{
	for (size_t i = 0; i < ARRAY_LEN(published); i++) {
		const char *text = published[i].body;
		struct sign_body body = { text, text == NULL ? 0 : strlen(text) };
		struct http_head before;
		struct request q;

		request_read(&q, published[i].request);
		before = q.head;
		must_sign("sigv4", &q, published[i].key, &real, &body, 0);
		must_sign("sigv4", &q, &real, published[i].key, &body, 1);
		check_same_head(&q.head, &before);
		request_free(&q);
	}
}

/* ---- what must be refused --------------------------------------------------------------- */

#define GOOD_SIGNATURE "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
#define GOOD_FIELDS "host;range;x-amz-content-sha256;x-amz-date"
#define REQUEST(path, host, range, hash, auth) \
	"GET " path " HTTP/1.1\nHost: " host "\nRange: " range "\n" \
	"x-amz-content-sha256: " hash "\n" auth
#define HOST "examplebucket.s3.amazonaws.com"
#define RANGE "bytes=0-9"
#define AUTH S3_AUTH(GOOD_FIELDS, GOOD_SIGNATURE)
#define DATE "x-amz-date: 20130524T000000Z\n"
#define SCOPE "20130524/us-east-1/s3/aws4_request"
#define PARTS(credential, fields, signature) \
	"Authorization: AWS4-HMAC-SHA256 Credential=" credential ", SignedHeaders=" fields \
	", Signature=" signature "\n"

static const struct {
	const char *request;
	int code;
	const char *says;
} refused[] = {
	{ REQUEST("/test.txt", HOST, RANGE, EMPTY_HASH, AUTH), 0, NULL },
	{ REQUEST("/Test.txt", HOST, RANGE, EMPTY_HASH, AUTH), EACCES, "signature is wrong" },
	{ REQUEST("/test.txt?x", HOST, RANGE, EMPTY_HASH, AUTH), EACCES, "signature is wrong" },
	{ REQUEST("/test.txt", "b." HOST, RANGE, EMPTY_HASH, AUTH), EACCES, "signature is wrong" },
	{ REQUEST("/test.txt", HOST ":444", RANGE, EMPTY_HASH, AUTH), EACCES, "signature is wrong" },
	{ REQUEST("/test.txt", HOST, "bytes=0-8", EMPTY_HASH, AUTH), EACCES, "signature is wrong" },
	{ REQUEST("/test.txt", HOST, RANGE, "UNSIGNED-PAYLOAD", AUTH), EACCES, "signature is wrong" },
	{ REQUEST("/test.txt", HOST, RANGE, "STREAMING-AWS4-HMAC-SHA256-EVENTS", AUTH), ENOTSUP,
	  "in a way that is not known" },
	{ REQUEST("/test.txt", HOST, RANGE, EMPTY_HASH "\nx-amz-content-sha256: x", AUTH), EBADMSG,
	  "twice" },
	{ REQUEST("/test.txt", HOST, RANGE, EMPTY_HASH, AUTH "x-amz-security-token: t\n"), EACCES,
	  "session token" },
	{ REQUEST("/test.txt", HOST, RANGE, EMPTY_HASH, DATE
	  PARTS("AKIAIOSFODNN7EXAMPLF/" SCOPE, GOOD_FIELDS, GOOD_SIGNATURE)), EACCES, "another key" },
	{ REQUEST("/test.txt", HOST, RANGE, EMPTY_HASH, DATE
	  PARTS("AKIAIOSFODNN7EXAMPLE/" SCOPE, GOOD_FIELDS, "f0e8")), EACCES, "signature is wrong" },
	{ REQUEST("/test.txt", HOST, RANGE, EMPTY_HASH, DATE
	  PARTS("AKIAIOSFODNN7EXAMPLE/20130525/us-east-1/s3/aws4_request", GOOD_FIELDS,
	  GOOD_SIGNATURE)), EBADMSG, "another day" },
	{ REQUEST("/test.txt", HOST, RANGE, EMPTY_HASH, DATE
	  PARTS("AKIAIOSFODNN7EXAMPLE/20130524/us-east-2/s3/aws4_request", GOOD_FIELDS,
	  GOOD_SIGNATURE)), EACCES, "signature is wrong" },
	{ REQUEST("/test.txt", HOST, RANGE, EMPTY_HASH, DATE
	  PARTS("AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws5_request", GOOD_FIELDS,
	  GOOD_SIGNATURE)), EBADMSG, "aws4_request" },
	{ REQUEST("/test.txt", HOST, RANGE, EMPTY_HASH, DATE
	  PARTS("AKIAIOSFODNN7EXAMPLE/20130524/s3/aws4_request", GOOD_FIELDS, GOOD_SIGNATURE)),
	  EBADMSG, "scope of 4 parts" },
	{ REQUEST("/test.txt", HOST, RANGE, EMPTY_HASH, DATE
	  PARTS("AKIAIOSFODNN7EXAMPLE/20130524//s3/aws4_request", GOOD_FIELDS, GOOD_SIGNATURE)),
	  EBADMSG, "scope of 4 parts" },
	{ REQUEST("/test.txt", HOST, RANGE, EMPTY_HASH, DATE
	  PARTS("AKIAIOSFODNN7EXAMPLE/" SCOPE, "range;x-amz-date", GOOD_SIGNATURE)), EBADMSG,
	  "'host'" },
	{ REQUEST("/test.txt", HOST, RANGE, EMPTY_HASH, DATE
	  PARTS("AKIAIOSFODNN7EXAMPLE/" SCOPE, "connection;host", GOOD_SIGNATURE)), EBADMSG,
	  "'connection'" },
	{ REQUEST("/test.txt", HOST, RANGE, EMPTY_HASH, DATE
	  PARTS("AKIAIOSFODNN7EXAMPLE/" SCOPE, "host;;range", GOOD_SIGNATURE)), EBADMSG, "list of" },
	{ REQUEST("/test.txt", HOST, RANGE, EMPTY_HASH, DATE
	  PARTS("AKIAIOSFODNN7EXAMPLE/" SCOPE, GOOD_FIELDS, GOOD_SIGNATURE ", Signature=1")), EBADMSG,
	  "twice" },
	{ REQUEST("/test.txt", HOST, RANGE, EMPTY_HASH, DATE
	  PARTS("AKIAIOSFODNN7EXAMPLE/" SCOPE, GOOD_FIELDS, GOOD_SIGNATURE ", Token=1")), EBADMSG,
	  "does not know" },
	{ REQUEST("/test.txt", HOST, RANGE, EMPTY_HASH, "x-amz-date: yesterday\n"
	  PARTS("AKIAIOSFODNN7EXAMPLE/" SCOPE, GOOD_FIELDS, GOOD_SIGNATURE)), EBADMSG, "date" },
	{ REQUEST("/test.txt", HOST, RANGE, EMPTY_HASH,
	  PARTS("AKIAIOSFODNN7EXAMPLE/" SCOPE, GOOD_FIELDS, GOOD_SIGNATURE)), EBADMSG, "x-amz-date" },
	{ REQUEST("/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256", HOST, RANGE, EMPTY_HASH, AUTH),
	  EBADMSG, "signed twice" },
};

TEST(sigv4_refused)
{
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		struct http_head before;
		struct request q;
		int r;

		request_read(&q, refused[i].request);
		before = q.head;
		r = lab_sign("sigv4", &q, &s3, &real, NULL, 0);
		if (r != -refused[i].code || (r < 0 && strstr(q.err.text, refused[i].says) == NULL))
			test_fail(__FILE__, __LINE__, "case %zu is %d, \"%s\"", i, r, q.err.text);
		CHECK(strstr(q.err.text, "f0e8") == NULL && strstr(q.err.text, S3_SECRET) == NULL &&
		      strstr(q.err.text, "REAL") == NULL && strstr(q.err.text, "AKIA") == NULL);
		if (r < 0)
			check_same_head(&q.head, &before);
		request_free(&q);
	}
}

TEST(sigv4_presigned_refused)
{
#define PRESIGNED(id, more) \
	"GET /test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" id \
	"%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=" \
	"86400&X-Amz-SignedHeaders=host" more " HTTP/1.1\nHost: " HOST "\n"
#define SIGNED "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
	static const struct {
		const char *request;
		int code;
	} cases[] = {
		{ PRESIGNED("AKIAIOSFODNN7EXAMPLE", SIGNED), 0 },
		{ PRESIGNED("AKIAIOSFODNN7EXAMPLE", ""), EBADMSG },
		{ PRESIGNED("AKIAIOSFODNN7EXAMPLE", SIGNED SIGNED), EBADMSG },
		{ PRESIGNED("AKIAIOSFODNN7EXAMPLE", SIGNED "&X-Amz-Date=20130524T000000Z"), EBADMSG },
		{ PRESIGNED("AKIAIOSFODNN7EXAMPLE", SIGNED "&versionId=1"), EACCES },
		{ PRESIGNED("AKIAIOSFODNN7EXAMPLE", "&X-Amz-Security-Token=t" SIGNED), EACCES },
		{ PRESIGNED("AKIAIOSFODNN7EXAMPLF", SIGNED), EACCES },
		{ PRESIGNED("AKIAIOSFODNN7EXAMPLE", SIGNED) "Authorization: Basic eDp5\n", EBADMSG },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct http_head before;
		struct request q;

		request_read(&q, cases[i].request);
		before = q.head;
		CHECK_ERR(lab_sign("sigv4", &q, &s3, &real, NULL, 0), cases[i].code);
		if (cases[i].code != 0)
			check_same_head(&q.head, &before);
		request_free(&q);
	}
}

/* ---- session tokens ----------------------------------------------------------------------- */

TEST(sigv4_token_joins_and_leaves)
{
	struct http_head before;
	struct request q;

	request_read(&q, published[0].request);
	before = q.head;
	must_sign("sigv4", &q, &suite, &real_token, NULL, 0);
	CHECK(http_text_is(http_head_get(&q.head, "x-amz-security-token"), "the/real+token=="));
	CHECK(has(http_head_get(&q.head, "authorization"),
	          "SignedHeaders=host;x-amz-date;x-amz-security-token,"));
	must_sign("sigv4", &q, &real_token, &suite, NULL, 1);
	check_same_head(&q.head, &before);
	request_free(&q);

	request_read(&q, published[6].request);
	must_sign("sigv4", &q, &suite_token, &real, NULL, 0);
	CHECK(http_head_get(&q.head, "x-amz-security-token").len == 0);
	CHECK(has(http_head_get(&q.head, "authorization"), "SignedHeaders=host;x-amz-date,"));
	CHECK_ERR(lab_sign("sigv4", &q, &real_token, &suite, NULL, 1), EACCES);
	request_free(&q);

	/* A token of another length, and one of the same. */
	request_read(&q, published[6].request);
	CHECK_ERR(lab_sign("sigv4", &q, &(const struct sign_key){ suite.id, suite.secret, TEXT("t") },
	               &real, NULL, 0), EACCES);
	request_free(&q);
}

/* S3 Express has a field of its own. */
TEST(sigv4_token_of_s3_express)
{
	static const struct sign_key key = { TEXT("AKIDEXAMPLE"),
		TEXT("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), TEXT("short") };
	struct request q;

	request_read(&q, "GET /k HTTP/1.1\nHost:b.s3express.example\n"
	             "x-amz-content-sha256:UNSIGNED-PAYLOAD\nx-amz-s3session-token:short\n"
	             "Authorization:AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/"
	             "s3express/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date;"
	             "x-amz-s3session-token, Signature="
	             "7c8963889acf2eb12576720a474e264e4415093c002860d94585fa8ac8cc4117\n"
	             "X-Amz-Date:20150830T123600Z\n");
	must_sign("sigv4", &q, &key, &real_token, NULL, 0);
	CHECK(http_text_is(http_head_get(&q.head, "x-amz-s3session-token"), "the/real+token=="));
	CHECK(http_head_get(&q.head, "x-amz-security-token").len == 0);
	must_sign("sigv4", &q, &real_token, &key, NULL, 1);
	request_free(&q);
}

TEST(sigv4_token_in_url)
{
	struct request q;

	request_read(&q, published[12].request);
	must_sign("sigv4", &q, &s3, &real_token, NULL, 0);
	CHECK(has(q.head.path, "&X-Amz-Security-Token=the%2Freal%2Btoken%3D%3D&X-Amz-Signature="));
	must_sign("sigv4", &q, &real_token, &s3, NULL, 1);
	CHECK(has(q.head.path, "&X-Amz-SignedHeaders=host&X-Amz-Signature="
	          "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"));
	request_free(&q);
}

TEST(sigv4_find_names_the_key)
{
	const struct sign_scheme *s = sign_scheme_find("sigv4");
	struct http_text id;
	struct request q;

	request_read(&q, published[0].request);
	CHECK(s->find(&q.head, &id) && http_text_is(id, "AKIDEXAMPLE"));
	CHECK(!sign_scheme_find("sigv4a")->find(&q.head, &id));
	request_free(&q);
	request_read(&q, published[12].request);
	CHECK(s->find(&q.head, &id) && http_text_is(id, "AKIAIOSFODNN7EXAMPLE"));
	CHECK(!sign_scheme_find("goog4-hmac")->find(&q.head, &id));
	request_free(&q);
	CHECK(sign_scheme_find("sigv5") == NULL);
}

TEST(sigv4_family_knows_its_scope)
{
	static const struct {
		const char *service, *region;
		int code;
	} cases[] = {
		{ NULL, NULL, 0 },
		{ "service", "us-east-1", 0 },
		{ "serv*", "us-*", 0 },
		{ "s3", NULL, EPERM },
		{ NULL, "eu-west-1", EPERM },
		{ "service", "us-east", EPERM },
	};
	const struct sign_scheme *s = sign_scheme_find("sigv4");

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct sigv4_options options = { cases[i].service, cases[i].region };
		struct http_text id;
		struct request q;

		request_read(&q, published[0].request);
		CHECK(s->find(&q.head, &id) && http_text_is(id, "AKIDEXAMPLE"));
		q.err = (struct err){0};
		CHECK_ERR(s->sign(&options, &suite, &real, NULL, &q.head, NULL, &q.memory[0], &q.next,
		                  &q.chunks, &q.err), cases[i].code);
		request_free(&q);
	}
}

/* What is added must have room. */
TEST(sigv4_no_room)
{
	struct request q;

	request_read(&q, published[0].request);
	while (q.head.n_fields < HTTP_FIELDS_MAX)
		q.head.fields[q.head.n_fields++] = (struct http_field){ TEXT("x"), TEXT("y") };
	CHECK_ERR(lab_sign("sigv4", &q, &suite, &real_token, NULL, 0), EMSGSIZE);
	q.memory[1].used = sizeof(q.memory[1].at) - 20;
	CHECK_ERR(lab_sign("sigv4", &q, &suite, &real, NULL, 1), EMSGSIZE);
	request_free(&q);
}

/* Where clients differ, what verifies is how it is signed: the client knows its service.
 * Made with Python's hmac. */
static const struct {
	const char *scheme;
	const struct sign_key *key;
	const char *request;
} either[] = {
	/* "+" in a query is a plus, or a space */
	{ "sigv4", &s3, "GET /b/k?a=1+2 HTTP/1.1\nHost: h.example\n"
	  "x-amz-content-sha256: UNSIGNED-PAYLOAD\n" S3_AUTH("host;x-amz-content-sha256;x-amz-date",
	  "2b14b3c2e0287c72f3ca8a9c3db7198e3c47b1912dac07aa2c30f8c3a61c32e6") },
	{ "sigv4", &s3, "GET /b/k?a=1+2 HTTP/1.1\nHost: h.example\n"
	  "x-amz-content-sha256: UNSIGNED-PAYLOAD\n" S3_AUTH("host;x-amz-content-sha256;x-amz-date",
	  "5eb59975e9073dbcc289e655ca2a37cfac3041f1cd44fc676b461fa52183d85f") },
	/* a token that was put behind the signature */
	{ "sigv4", &suite_token, "GET /mqtt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="
	  "AKIDEXAMPLE%2F20150830%2Fus-east-1%2Fiotdevicegateway%2Faws4_request&X-Amz-Date="
	  "20150830T123600Z&X-Amz-SignedHeaders=host&X-Amz-Signature="
	  "fd94ea07c8612bc9c003d5aa2c21c0401cacf2c50479186f47518c7c6e1e3f81&X-Amz-Security-Token="
	  "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267 HTTP/1.1\n"
	  "Host: x.iot.us-east-1.amazonaws.com\n" },
	/* a value that is not put in lower case, and a word that is hashed like a body */
	{ "tc3", &(const struct sign_key){ TEXT("AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE"),
	  TEXT("Gu5t9xGARNpq86cd98joQYCN3EXAMPLE"), {0} },
	  "POST / HTTP/1.1\nHost: cvm.tencentcloudapi.com\nContent-Length: 3\n"
	  "Content-Type: multipart/form-data; boundary=AbC\nX-TC-Timestamp: 1551113065\n"
	  "X-TC-Content-SHA256: UNSIGNED-PAYLOAD\n"
	  "Authorization: TC3-HMAC-SHA256 Credential=AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE/"
	  "2019-02-25/cvm/tc3_request, SignedHeaders=content-type;host, Signature="
	  "98c1340850a206c58b036f77655f44edd8c043dacf9f38160d773ee6b0fd0198\n" },
	/* no difference, only no published example */
	{ "goog4-hmac", &s3, "GET /example-bucket/tabby.jpeg HTTP/1.1\nHost: storage.googleapis.com\n"
	  "x-goog-content-sha256: " EMPTY_HASH "\nx-goog-date: 20190301T190859Z\n"
	  "Authorization: GOOG4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20190301/us-central1/"
	  "storage/goog4_request, SignedHeaders=host;x-goog-content-sha256;x-goog-date, Signature="
	  "e99cdeb93f80c6ac20d7a82db799400889bf0ebb94cd465c720d043c5e07c7d4\n" },
};

TEST(sigv4_either_way)
{
	for (size_t i = 0; i < ARRAY_LEN(either); i++) {
		struct request q;

		request_read(&q, either[i].request);
		must_sign(either[i].scheme, &q, either[i].key, &real, NULL, 0);
		CHECK_ERR(lab_sign(either[i].scheme, &q, either[i].key, &real, NULL, 1), EACCES);
		must_sign(either[i].scheme, &q, &real, either[i].key, NULL, 1);
		request_free(&q);
	}
}

/* ---- SigV4A, RSA ------------------------------------------------------------------------- */

TEST(sigv4a_published_key)
{
	EVP_PKEY *pkey = sigv4a_key("AWS4-ECDSA-P256-SHA256", "AWS4A", &suite);
	unsigned char point[65];
	char hex[131];
	size_t len;

	CHECK(pkey != NULL);
	CHECK(EVP_PKEY_get_octet_string_param(pkey, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point),
	                                      &len) == 1 && len == sizeof(point));
	for (size_t i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", point[i]);
	CHECK_STR(hex, "04b6618f6a65740a99e650b33b6b4b5bd0d43b176d721a3edfea7e7d2d56d936b1"
	          "865ed22a7eadc9c5cb9d2cbaca1b3699139fedc5043dc6661864218330c8e518");
	EVP_PKEY_free(pkey);
}

TEST(sigv4a)
{
	/* The first one is signed by Python's cryptography with the published key, the second
	 * is of AWS's test suite. */
	static const char *const requests[] = {
		"GET / HTTP/1.1\n" SUITE_HOST "x-amz-content-sha256:" EMPTY_HASH "\n"
		"Authorization:AWS4-ECDSA-P256-SHA256 Credential=AKIDEXAMPLE/20150830/service/"
		"aws4_request, SignedHeaders=host;x-amz-date;x-amz-region-set, Signature="
		"3045022100a6b88bf071443a5f37807b9dcd4304984c04088d09d7ea61a41ccd380a3e9c"
		"3b022004835e3c2e9f8d2d0c380cc41ddd3b7972c93abbc7312c4f44a177c7de55ce4f\n"
		"X-Amz-Date:20150830T123600Z\nX-Amz-Region-Set:us-east-1\n",
		"GET /?X-Amz-Algorithm=AWS4-ECDSA-P256-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20150830"
		"%2Fservice%2Faws4_request&X-Amz-Date=20150830T123600Z&X-Amz-SignedHeaders=host&"
		"X-Amz-Expires=3600&X-Amz-Region-Set=us-east-1&X-Amz-Signature=3046022100c57d8a142ae3"
		"02eb396afb515da12ec3020a836331dfdbf6c8e4f14c0661c0a1022100e1da9728157dad97d80217afb0"
		"4aa9b99f61dcdef57a056a7f198fb1b728f7c3 HTTP/1.1\n" SUITE_HOST,
	};

	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		struct request q;

		request_read(&q, requests[i]);
		CHECK_ERR(lab_sign("sigv4a", &q, &(const struct sign_key){ suite.id, real.secret, {0} },
		               &real, NULL, 0), EACCES);
		must_sign("sigv4a", &q, &suite, &real_token, NULL, 0);
		must_sign("sigv4a", &q, &real_token, &suite, NULL, 1);
		q.memory[0].used = 0;
		must_sign("sigv4a", &q, &suite, &real, NULL, 0);
		request_free(&q);
	}
}

TEST(sigv4a_without_region_set)
{
	struct request q;

	request_read(&q, "GET / HTTP/1.1\n" SUITE_HOST
	             "Authorization:AWS4-ECDSA-P256-SHA256 Credential=AKIDEXAMPLE/20150830/service/"
	             "aws4_request, SignedHeaders=host;x-amz-date, Signature=30\n"
	             "X-Amz-Date:20150830T123600Z\n");
	CHECK_ERR(lab_sign("sigv4a", &q, &suite, &real, NULL, 0), EBADMSG);
	request_free(&q);
}

static struct sign_key
rsa_key(const char *id)
{
	EVP_PKEY *pkey = EVP_RSA_gen(2048);
	BIO *bio = BIO_new(BIO_s_mem());
	char *text;
	long len;
	struct sign_key key = { { id, strlen(id) }, {0}, {0} };

	CHECK(pkey != NULL && bio != NULL);
	CHECK(PEM_write_bio_PrivateKey(bio, pkey, NULL, NULL, 0, NULL, NULL) == 1);
	len = BIO_get_mem_data(bio, &text);
	key.secret = (struct http_text){ memcpy(malloc((size_t)len), text, (size_t)len), (size_t)len };
	BIO_free(bio);
	EVP_PKEY_free(pkey);
	return key;
}

/* There is no published key; OpenSSL makes the first signature, of a text that is written
 * down here. */
TEST(goog4_rsa)
{
	static const char text[] = "GOOG4-RSA-SHA256\n20191201T190859Z\n"
		"20191201/us-central1/storage/goog4_request\n"
		"300a180eec355a9e5c3098c1e026bb01562cd34f00a008f9e1200df36c09ff70";
	struct sign_key from = rsa_key("x@y.iam.gserviceaccount.com"), to = rsa_key("real@z");
	BIO *bio = BIO_new_mem_buf(from.secret.at, (int)from.secret.len);
	EVP_PKEY *pkey = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	unsigned char signature[256];
	char url[2048], hex[513];
	size_t len = sizeof(signature);
	struct request q;

	CHECK(EVP_DigestSignInit(md, NULL, EVP_sha256(), NULL, pkey) == 1);
	CHECK(EVP_DigestSign(md, signature, &len, (const unsigned char *)text, strlen(text)) == 1);
	for (size_t i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", signature[i]);
	snprintf(url, sizeof(url), "GET /example-bucket/cat-pics/tabby.jpeg?X-Goog-Algorithm="
	         "GOOG4-RSA-SHA256&X-Goog-Credential=x%%40y.iam.gserviceaccount.com%%2F20191201%%2F"
	         "us-central1%%2Fstorage%%2Fgoog4_request&X-Goog-Date=20191201T190859Z&X-Goog-Expires="
	         "900&X-Goog-SignedHeaders=host&X-Goog-Signature=%s HTTP/1.1\n"
	         "Host: storage.googleapis.com\n", hex);
	request_read(&q, url);
	must_sign("goog4-rsa", &q, &from, &to, NULL, 0);
	CHECK(has(q.head.path, "X-Goog-Credential=real%40z%2F20191201%2Fus-central1"));
	must_sign("goog4-rsa", &q, &to, &from, NULL, 1);
	CHECK(has(q.head.path, hex));
	CHECK_ERR(lab_sign("goog4-rsa", &q, &to, &from, NULL, 1), EACCES);
	CHECK_ERR(lab_sign("goog4-rsa", &q, &(const struct sign_key){ from.id, TEXT("no PEM"), {0} },
	               &to, NULL, 1), EINVAL);
	/* A service account's key that is for one audience only; the token endpoint gives more than a URL. */
	for (size_t i = 0; i < 2; i++) {
		const struct sign_jwt_options one = { .audience = i == 0 ? "https://pubsub.googleapis.com/" :
		                                      "https://oauth2.googleapis.com/token" };

		q.memory[0] = (struct sign_memory){0};
		CHECK(sign_jwt.sign(&one, &from, &to, NULL, &q.head, NULL, &q.memory[0], &q.next, &q.chunks,
		                    &q.err) == (i == 0 ? -EPERM : 0));
	}
	request_free(&q);
	EVP_MD_CTX_free(md);
	EVP_PKEY_free(pkey);
	BIO_free(bio);
	free((void *)(uintptr_t)from.secret.at);
	free((void *)(uintptr_t)to.secret.at);
}

/* ---- requests of our own ---- */

#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* From "Signature Calculations for the Authorization Header" of Amazon's S3 API reference. */
static const struct {
	const char *method, *path, *field, *value, *hash, *fields, *signature;
} fresh_cases[] = {
	{ "GET", "/test.txt", "range", "bytes=0-9", EMPTY_HASH, "host;range;x-amz-content-sha256;x-amz-date",
	  "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41" },
	{ "GET", "/?max-keys=2&prefix=J", NULL, NULL, EMPTY_HASH, "host;x-amz-content-sha256;x-amz-date",
	  "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7" },
	{ "GET", "/?lifecycle", NULL, NULL, EMPTY_HASH, "host;x-amz-content-sha256;x-amz-date",
	  "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543" },
};

static struct http_text
fresh_text(const char *text)
{
	return (struct http_text){ text, strlen(text) };
}

TEST(sigv4_sign_fresh)
{
	for (size_t i = 0; i < ARRAY_LEN(fresh_cases); i++) {
		char made[SIGV4_AUTHORIZATION_MAX], want[SIGV4_AUTHORIZATION_MAX];
		struct http_head head = {
			.method = fresh_text(fresh_cases[i].method), .host = TEXT("examplebucket.s3.amazonaws.com"),
			.path = fresh_text(fresh_cases[i].path), .port = 443, .scheme = HTTP_TLS, .n_fields = 2,
			.fields = { { TEXT("x-amz-date"), TEXT("20130524T000000Z") },
			            { TEXT("x-amz-content-sha256"), fresh_text(fresh_cases[i].hash) } },
		};

		if (fresh_cases[i].field != NULL)
			head.fields[head.n_fields++] = (struct http_field){ fresh_text(fresh_cases[i].field),
			                                                    fresh_text(fresh_cases[i].value) };
		CHECK_OK(sigv4_sign_fresh(&s3, "us-east-1", "s3", &head, made, NULL));
		snprintf(want, sizeof(want), "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
		         "aws4_request, SignedHeaders=%s, Signature=%s", fresh_cases[i].fields, fresh_cases[i].signature);
		CHECK_STR(made, want);
		head.n_fields = 0;
		CHECK_ERR(sigv4_sign_fresh(&s3, "us-east-1", "s3", &head, made, NULL), EINVAL);
	}
}

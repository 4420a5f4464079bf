/* sign_capture.c - tests of sign/capture: answers as the services document them. */
#include "sign/capture.h"

#include <errno.h>

#include "base/err.h"
#include "scheme_lab.h"

#define STS_XML(id, secret, token)                                          \
	"<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n" \
	"  <AssumeRoleResult>\n"                                                \
	"    <SourceIdentity>Alice</SourceIdentity>\n"                          \
	"    <AssumedRoleUser>\n"                                               \
	"      <Arn>arn:aws:sts::123456789012:assumed-role/demo/TestAR</Arn>\n" \
	"      <AssumedRoleId>ARO123EXAMPLE123:TestAR</AssumedRoleId>\n"        \
	"    </AssumedRoleUser>\n"                                              \
	"    <Credentials>\n"                                                   \
	"      <AccessKeyId>" id "</AccessKeyId>\n"                             \
	"      <SecretAccessKey>" secret "</SecretAccessKey>\n"                 \
	"      <SessionToken>" token "</SessionToken>\n"                        \
	"      <Expiration>2019-11-09T13:34:41Z</Expiration>\n"                 \
	"    </Credentials>\n"                                                  \
	"    <PackedPolicySize>6</PackedPolicySize>\n"                          \
	"  </AssumeRoleResult>\n"                                               \
	"  <ResponseMetadata><RequestId>c6104cbe</RequestId></ResponseMetadata>\n" \
	"</AssumeRoleResponse>\n"
#define S3_XML(id, secret, token)                                           \
	"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<CreateSessionResult><Credentials>" \
	"<SessionToken>" token "</SessionToken><SecretAccessKey>" secret "</SecretAccessKey>" \
	"<AccessKeyId>" id "</AccessKeyId><Expiration>2023-11-09T13:34:41.500Z</Expiration>" \
	"</Credentials></CreateSessionResult>"

/* "name/role=value@expires;" for each member, "|" after each set. */
static const struct {
	const char *kind, *type, *body, *found, *want;
} cases[] = {
	/* RFC 6749, 5.1 */
	{ "oauth2", "application/json;charset=UTF-8",
	  "{\n  \"access_token\":\"2YotnFZFEjr1zCsicMWpAA\",\n  \"token_type\":\"example\",\n"
	  "  \"expires_in\":3600,\n  \"refresh_token\":\"tGzv3JOkF0XG5Qx2TlKWIA\",\n"
	  "  \"example_parameter\":\"example_value\"\n}",
	  "access_token/0=2YotnFZFEjr1zCsicMWpAA+3600;refresh_token/1=tGzv3JOkF0XG5Qx2TlKWIA;|",
	  "{\n  \"access_token\":\"<0>\",\n  \"token_type\":\"example\",\n"
	  "  \"expires_in\":3600,\n  \"refresh_token\":\"<1>\",\n"
	  "  \"example_parameter\":\"example_value\"\n}" },
	/* a name with escapes is that name */
	{ "oauth2", "application/json", "{\"access\\u005ftoken\":\"a\",\"expires_in\":1e1}",
	  "access_token/0=a+10;|", "{\"access\\u005ftoken\":\"<0>\",\"expires_in\":1e1}" },
	/* text where numbers should be, nested as Slack does it, and null */
	{ "oauth2", "application/json",
	  "{\"ok\":true,\"access_token\":\"xoxb-17653672481\",\"refresh_token\":null,\"authed_user\":"
	  "{\"id\":\"U1\",\"access_token\":\"xoxp-1234\",\"expires_in\":\"43200\"},\"n\":[1.5,{}]}",
	  "access_token/0=xoxb-17653672481;|access_token/0=xoxp-1234+43200;|",
	  "{\"ok\":true,\"access_token\":\"<0>\",\"refresh_token\":null,\"authed_user\":"
	  "{\"id\":\"U1\",\"access_token\":\"<1>\",\"expires_in\":\"43200\"},\"n\":[1.5,{}]}" },
	{ "oauth2", "application/json", "{\"access_token\":\"a\\u00e9/\\\"b\",\"id_token\":\"x\","
	  "\"expires_in\":1}", "access_token/0=a\xc3\xa9/\"b+1;id_token/2=x+1;|",
	  "{\"access_token\":\"<0>\",\"id_token\":\"<1>\",\"expires_in\":1}" },
	{ "oauth2", "application/json", "{\"error\":\"invalid_grant\"}", "", NULL },
	{ "oauth2", "application/json", "[]", "", NULL },
	{ "oauth2", "", "", "", NULL },
	/* GitHub's answer, unless asked for JSON */
	{ "oauth2", "application/x-www-form-urlencoded; charset=utf-8",
	  "access_token=gho_16C7e42F292c6912E7&scope=repo%2Cgist&token_type=bearer&expires_in=28800&"
	  "refresh_token=ghr_%31&refresh_token_expires_in=15811200",
	  "access_token/0=gho_16C7e42F292c6912E7+28800;refresh_token/1=ghr_1+15811200;|",
	  "access_token=%3C0%3E&scope=repo%2Cgist&token_type=bearer&expires_in=28800&"
	  "refresh_token=%3C1%3E&refresh_token_expires_in=15811200" },
	{ "github-app", "application/json; charset=utf-8",
	  "{\"token\":\"ghs_16C7e42F292c6912E7710c838347Ae178B4a\",\"expires_at\":"
	  "\"2016-07-11T22:14:10Z\",\"permissions\":{\"issues\":\"write\"}}",
	  "token/0=ghs_16C7e42F292c6912E7710c838347Ae178B4a@1468275250;|",
	  "{\"token\":\"<0>\",\"expires_at\":\"2016-07-11T22:14:10Z\",\"permissions\":"
	  "{\"issues\":\"write\"}}" },
	/* the same token twice */
	{ "registry", "application/json",
	  "{\"token\":\"eyJhbGciOi\",\"access_token\":\"eyJhbGciOi\",\"expires_in\":300}",
	  "token/0=eyJhbGciOi+300;access_token/0=eyJhbGciOi+300;|",
	  "{\"token\":\"<0>\",\"access_token\":\"<1>\",\"expires_in\":300}" },
	{ "sts", "text/xml", STS_XML("ASIAIOSFODNN7EXAMPLE",
	                             "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY", "AQoDYXdz&amp;&lt;"),
	  "AccessKeyId/3=ASIAIOSFODNN7EXAMPLE@1573306481;SecretAccessKey/4="
	  "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY@1573306481;SessionToken/5=AQoDYXdz&<"
	  "@1573306481;|", STS_XML("&lt;0&gt;", "&lt;1&gt;", "&lt;2&gt;") },
	{ "s3-session", "application/xml", S3_XML("ASIA", "secret", "token"),
	  "SessionToken/5=token@1699536881;SecretAccessKey/4=secret@1699536881;AccessKeyId/3=ASIA"
	  "@1699536881;|", S3_XML("&lt;2&gt;", "&lt;1&gt;", "&lt;0&gt;") },
	{ "sts", "application/json",
	  "{\"AssumeRoleResponse\":{\"AssumeRoleResult\":{\"Credentials\":{\"AccessKeyId\":\"ASIA\","
	  "\"Expiration\":1.573306481E9,\"SecretAccessKey\":\"secret\",\"SessionToken\":\"t\"}}}}",
	  "AccessKeyId/3=ASIA@1573306481;SecretAccessKey/4=secret@1573306481;SessionToken/5=t"
	  "@1573306481;|",
	  "{\"AssumeRoleResponse\":{\"AssumeRoleResult\":{\"Credentials\":{\"AccessKeyId\":\"<0>\","
	  "\"Expiration\":1.573306481E9,\"SecretAccessKey\":\"<1>\",\"SessionToken\":\"<2>\"}}}}" },
	{ "sts", "application/json",
	  "{\"roleCredentials\":{\"accessKeyId\":\"A\",\"secretAccessKey\":\"s\",\"sessionToken\":\"t\","
	  "\"expiration\":1573306481000}}",
	  "accessKeyId/3=A@1573306481;secretAccessKey/4=s@1573306481;sessionToken/5=t@1573306481;|",
	  "{\"roleCredentials\":{\"accessKeyId\":\"<0>\",\"secretAccessKey\":\"<1>\",\"sessionToken\":"
	  "\"<2>\",\"expiration\":1573306481000}}" },
	/* "AWS:one" and "AWS:two:2"; the user stays */
	{ "ecr", "application/x-amz-json-1.1",
	  "{\"authorizationData\":[{\"authorizationToken\":\"QVdTOm9uZQ==\",\"expiresAt\":"
	  "1.573306481E9,\"proxyEndpoint\":\"https://1.dkr.ecr.x\"},"
	  "{\"authorizationToken\":\"QVdTOnR3bzoy\"}]}",
	  "authorizationToken/0=one@1573306481;|authorizationToken/0=two:2;|",
	  "{\"authorizationData\":[{\"authorizationToken\":\"QVdTOjwwPg==\",\"expiresAt\":"
	  "1.573306481E9,\"proxyEndpoint\":\"https://1.dkr.ecr.x\"},"
	  "{\"authorizationToken\":\"QVdTOjwxPg==\"}]}" },
	{ "ecr", "application/json", "{\"authorizationToken\":\"not base64\"}", NULL, NULL },
	{ "ecr", "application/json", "{\"authorizationToken\":\"QVdT\"}", NULL, NULL },
	{ "ecr", "application/json", "{\"authorizationToken\":\"QVdTOg==\"}", NULL, NULL },
	/* a key's name alone is no credential */
	{ "sts", "text/xml", "<R><AccessKeyId>AKIA</AccessKeyId></R>", "", NULL },
	{ "sts", "text/xml", "<R><SecretAccessKey/><AccessKeyId>AKIA</AccessKeyId></R>", "", NULL },
	{ "sts", "", " <a:R x='&gt;' y = \"z\"/>\n", NULL, NULL },
	{ "sts", "", " <a:R x='&gt;' y=\"z\" />\n", "", NULL },
};

struct told {
	char text[4096];
	char with[CAPTURE_SETS_MAX * CAPTURE_MEMBERS_MAX][16];
	size_t n;
	int fail;
};

static int
tell(void *arg, struct capture_set *set, struct err *err)
{
	struct told *told = arg;

	if (told->fail != 0)
		return err_set(err, told->fail, "no more");
	for (size_t i = 0; i < set->n; i++) {
		struct capture_member *m = &set->members[i];
		char until[64] = "";

		if (m->expires_in >= 0)
			snprintf(until, sizeof(until), "+%lld", (long long)m->expires_in);
		if (m->expires_at >= 0)
			snprintf(until, sizeof(until), "@%lld", (long long)m->expires_at);
		snprintf(told->text + strlen(told->text), sizeof(told->text) - strlen(told->text),
		         "%s/%d=%.*s%s;", m->name, (int)m->role, (int)m->value.len, m->value.at, until);
		snprintf(told->with[told->n], sizeof(told->with[0]), "<%zu>", told->n);
		m->with = scheme_text(told->with[told->n++]);
	}
	strncat(told->text, "|", sizeof(told->text) - strlen(told->text) - 1);
	return 0;
}

TEST(capture_answers)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct capture_kind *kind = capture_kind_find(cases[i].kind);
		OWN(buf_free) struct buf b;
		struct told told = {0};
		struct err err = {0};
		size_t found = 99;
		int r;

		CHECK(kind != NULL);
		buf_init(&b, CAPTURE_BODY_MAX);
		r = capture_rewrite(kind, scheme_text(cases[i].type), cases[i].body,
		                    strlen(cases[i].body), tell, &told, &b, &found, &err);
		if (cases[i].found == NULL) {
			CHECK(r < 0 && found == 99);
			continue;
		}
		if (r < 0)
			test_fail(__FILE__, __LINE__, "%s: %s", cases[i].body, err.text);
		CHECK_STR(told.text, cases[i].found);
		CHECK_U64(found, told.n);
		buf_put(&b, "", 1);
		CHECK_STR((char *)b.data, cases[i].want != NULL ? cases[i].want : "");
	}
}

static const struct {
	const char *kind, *type, *body, *why;
} refused[] = {
	{ "oauth2", "application/json", "{\"access_token\":", "not the JSON it should be" },
	{ "oauth2", "application/json", "{\"access_token\":\"a\",\"access_token\":\"b\"}",
	  "'access_token' twice" },
	{ "oauth2", "application/json", "{\"access_token\":\"a\"},", "not the JSON it should be" },
	{ "oauth2", "application/json", "{\"access_token\":\"0123456789\",\"x\":"
	  "\"Bearer 012\\u003345\\u0036789\"}", "has its 'access_token' in another place, too" },
	{ "oauth2", "application/json", "{\"access_token\":\"012345678\\u0039\","
	  "\"\\u0030123456789\":1}", "has its 'access_token' in another place, too" },
	{ "oauth2", "application/json", "{\"access_token\":17}", "'access_token' is no text" },
	{ "oauth2", "application/json", "{\"access_token\":[\"x\"]}", "'access_token' is no text" },
	{ "oauth2", "application/json", "{\"access_token\":\"0123456789\",\"x\":\"Bearer 0123456789\"}",
	  "has its 'access_token' in another place, too" },
	{ "oauth2", "application/json",
	  "[[[[[[[[[[[[[[[[[{\"access_token\":\"x\"}]]]]]]]]]]]]]]]]]", "too deep" },
	{ "oauth2", "application/json", "[{\"access_token\":\"a\"},{\"access_token\":\"a\"},"
	  "{\"access_token\":\"a\"},{\"access_token\":\"a\"},{\"access_token\":\"a\"}]",
	  "over 4 sets of credentials" },
	{ "oauth2", "", "access_token=a&access_token=b", "'access_token' twice" },
	/* a kind that the agent asked for: CBOR, protobuf, and its JSON without names */
	{ "ecr", "application/cbor", "\xa1\x71" "authorizationData\x81\xa1\x72" "authorizationToken\x6c"
	  "QVdTOnNlY3JldA==", "no JSON, XML or form" },
	{ "oauth2", "", "\n\x0bya29.secret_\x12\x06" "Bearer", "no JSON, XML or form" },
	{ "oauth2", "application/x-protobuf", "\n ya29.secret_secret_secret_secret", "no JSON, XML or form" },
	{ "oauth2", "application/json+protobuf", "[\"ya29.secret\",3599,\"Bearer\"]",
	  "no JSON, XML or form" },
	{ "sts", "text/xml", "<a><b></a></b>", "a closing tag is another's" },
	{ "sts", "text/xml", "<a></a><b/>", "two roots" },
	{ "sts", "text/xml", "<a></a>x", "text outside of the root" },
	{ "sts", "text/xml", "<a><b>", "it ends too soon" },
	{ "sts", "text/xml", "<a", "a tag does not end" },
	{ "sts", "text/xml", "<>", "a tag has no name" },
	{ "sts", "text/xml", " ", "ends too soon" },
	{ "sts", "text/xml", "<a b=c/>", "an attribute is broken" },
	{ "sts", "text/xml", "<a b=\"<\"/>", "an attribute is broken" },
	{ "sts", "text/xml", "<!DOCTYPE a [<!ENTITY x \"y\">]><a/>", "are not read" },
	{ "sts", "text/xml", "<a><!-- --></a>", "are not read" },
	{ "sts", "text/xml", "<a><SecretAccessKey><![CDATA[x]]></SecretAccessKey></a>",
	  "are not read" },
	{ "sts", "text/xml", "<a><SecretAccessKey>&#65;</SecretAccessKey></a>", "none of the five" },
	{ "sts", "text/xml", "<a><SecretAccessKey>&x;</SecretAccessKey></a>", "none of the five" },
	{ "sts", "text/xml", "<a><SecretAccessKey>a<b/></SecretAccessKey></a>", "elements in it" },
	{ "sts", "text/xml", "<a><SecretAccessKey>a</SecretAccessKey><SecretAccessKey>b"
	  "</SecretAccessKey></a>", "'SecretAccessKey' twice" },
	{ "sts", "text/xml", "<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>", "too deep" },
};

TEST(capture_refuses)
{
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		OWN(buf_free) struct buf b;
		struct told told = {0};
		struct err err = {0};
		size_t found = 99;
		int r;

		buf_init(&b, CAPTURE_BODY_MAX);
		r = capture_rewrite(capture_kind_find(refused[i].kind), scheme_text(refused[i].type),
		                    refused[i].body, strlen(refused[i].body), tell, &told, &b, &found,
		                    &err);
		if (r >= 0 || strstr(err.text, refused[i].why) == NULL)
			test_fail(__FILE__, __LINE__, "%s: %s", refused[i].body, err.text);
	}
}

TEST(capture_others_fail)
{
	static const char body[] = "{\"access_token\":\"secret token\"}";
	OWN(freep) char *long_body = malloc(CAPTURE_BODY_MAX + 1);
	OWN(buf_free) struct buf b, small;
	struct told told = { .fail = EDQUOT };
	struct err err = {0};
	size_t found = 0;

	buf_init(&b, CAPTURE_BODY_MAX);
	buf_init(&small, 4);
	CHECK_ERR(capture_rewrite(capture_kind_find("oauth2"), scheme_text("application/json"), body,
	                          strlen(body), tell, &told, &b, &found, &err), EDQUOT);
	told.fail = 0;
	CHECK_ERR(capture_rewrite(capture_kind_find("oauth2"), scheme_text("application/json"), body,
	                          strlen(body), tell, &told, &small, &found, &err), EFBIG);
	CHECK(strstr(err.text, "secret token") == NULL);
	CHECK(long_body != NULL);
	memset(long_body, ' ', CAPTURE_BODY_MAX + 1);
	CHECK_ERR(capture_rewrite(capture_kind_find("oauth2"), scheme_text(""), long_body,
	                          CAPTURE_BODY_MAX + 1, tell, &told, &b, &found, NULL), EFBIG);
	CHECK(capture_kind_find("nothing") == NULL);
}

TEST(capture_times)
{
	static const struct {
		const char *text;
		int64_t want;
	} times[] = {
		{ "1970-01-01T00:00:00Z", 0 },
		{ "2016-07-11T22:14:10Z", 1468275250 },
		{ "2016-07-11t22:14:10.123456Z", 1468275250 },
		{ "2016-07-12T00:14:10+02:00", 1468275250 },
		{ "2016-07-11T17:44:10-0430", 1468275250 },
		{ "2016-02-29T00:00:00Z", 1456704000 },
		{ "2016-07-11", -1 },
		{ "2016-07-11T22:14:10", -1 },
		{ "2016-13-11T22:14:10Z", -1 },
		{ "2016-07-11T24:14:10Z", -1 },
		{ "2016-07-11T22:14:10Zx", -1 },
		{ "1969-07-11T22:14:10Z", -1 },
		{ "", -1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(times); i++)
		CHECK(capture_parse_time(scheme_text(times[i].text)) == times[i].want);
}

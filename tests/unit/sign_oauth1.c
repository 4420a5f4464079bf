/* sign_oauth1.c - tests of sign/oauth1: requests that oauthlib signed, and the RFC's own. */
#include <errno.h>

#include "scheme_keys.h"
#include "scheme_lab.h"

/* Signed by oauthlib 3.2 with the placeholder and with the real key. */
static const struct {
	bool rsa;
	const char *request, *want;
} requests[] = {
	{ false,
	  "GET http://photos.example.net/photos?size=original&file=vacation.jpg\nauthorization: OAu"
	  "th oauth_nonce=\"n0nce\", oauth_timestamp=\"1700000000\", oauth_version=\"1.0\", oauth_s"
	  "ignature_method=\"HMAC-SHA1\", oauth_consumer_key=\"id%2Bplaceholder\", oauth_token=\"to"
	  "k%2Fplaceholder\", oauth_signature=\"TfRpaj3%2FSAO%2F6Tn6%2Fk0tbLkvB8o%3D\"\n\n",
	  "GET http://photos.example.net/photos?size=original&file=vacation.jpg\nauthorization: OAu"
	  "th oauth_nonce=\"n0nce\", oauth_timestamp=\"1700000000\", oauth_version=\"1.0\", oauth_s"
	  "ignature_method=\"HMAC-SHA1\", oauth_consumer_key=\"id%2Breal\", oauth_token=\"tok%2Frea"
	  "l\", oauth_signature=\"2YGYJgKMgcz3uInuptKWYOg5OCI%3D\"\n\n" },
	{ false,
	  "POST https://example.com:8443/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b\ncontent-type: app"
	  "lication/x-www-form-urlencoded\nauthorization: OAuth oauth_nonce=\"n0nce\", oauth_timest"
	  "amp=\"1700000000\", oauth_version=\"1.0\", oauth_signature_method=\"HMAC-SHA1\", oauth_c"
	  "onsumer_key=\"id%2Bplaceholder\", oauth_token=\"tok%2Fplaceholder\", oauth_signature=\"Z"
	  "%2BAT8%2BhB3ObA%2BX47NO2AlH2A8zg%3D\"\n\nc2=&a3=2+q",
	  "POST https://example.com:8443/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b\ncontent-type: app"
	  "lication/x-www-form-urlencoded\nauthorization: OAuth oauth_nonce=\"n0nce\", oauth_timest"
	  "amp=\"1700000000\", oauth_version=\"1.0\", oauth_signature_method=\"HMAC-SHA1\", oauth_c"
	  "onsumer_key=\"id%2Breal\", oauth_token=\"tok%2Freal\", oauth_signature=\"jV7aE04usVumLVl"
	  "dwb4sk6ThnHc%3D\"\n\nc2=&a3=2+q" },
	{ false,
	  "POST https://api.twitter.com/1.1/statuses/update.json?include_entities=true\ncontent-typ"
	  "e: application/x-www-form-urlencoded\nauthorization: OAuth oauth_nonce=\"n0nce\", oauth_"
	  "timestamp=\"1700000000\", oauth_version=\"1.0\", oauth_signature_method=\"HMAC-SHA1\", o"
	  "auth_consumer_key=\"id%2Bplaceholder\", oauth_token=\"tok%2Fplaceholder\", oauth_signatu"
	  "re=\"hqfS5gPx%2FMX%2BX5OBPLDCsxQjG00%3D\"\n\nstatus=Hello%20Ladies%20%2b%20Gentlemen%2c%"
	  "20a%20signed%20OAuth%20request%21",
	  "POST https://api.twitter.com/1.1/statuses/update.json?include_entities=true\ncontent-typ"
	  "e: application/x-www-form-urlencoded\nauthorization: OAuth oauth_nonce=\"n0nce\", oauth_"
	  "timestamp=\"1700000000\", oauth_version=\"1.0\", oauth_signature_method=\"HMAC-SHA1\", o"
	  "auth_consumer_key=\"id%2Breal\", oauth_token=\"tok%2Freal\", oauth_signature=\"qfXpNJkPn"
	  "rH%2Be4DG80tiKDhCz2I%3D\"\n\nstatus=Hello%20Ladies%20%2b%20Gentlemen%2c%20a%20signed%20O"
	  "Auth%20request%21" },
	{ false,
	  "PUT https://api.example.com/a%20b/%C3%A9~x?a=%E2%98%83&a=1&A=2\nauthorization: OAuth oau"
	  "th_nonce=\"n0nce\", oauth_timestamp=\"1700000000\", oauth_version=\"1.0\", oauth_signatu"
	  "re_method=\"HMAC-SHA1\", oauth_consumer_key=\"id%2Bplaceholder\", oauth_token=\"tok%2Fpl"
	  "aceholder\", oauth_signature=\"myet3IzIUFgGyuLVWVKfbwU5MxY%3D\"\n\n",
	  "PUT https://api.example.com/a%20b/%C3%A9~x?a=%E2%98%83&a=1&A=2\nauthorization: OAuth oau"
	  "th_nonce=\"n0nce\", oauth_timestamp=\"1700000000\", oauth_version=\"1.0\", oauth_signatu"
	  "re_method=\"HMAC-SHA1\", oauth_consumer_key=\"id%2Breal\", oauth_token=\"tok%2Freal\", o"
	  "auth_signature=\"ulxoA8jO99LgRf4qnBmdpKfvFsw%3D\"\n\n" },
	{ false,
	  "GET http://photos.example.net/photos?size=original&file=vacation.jpg&oauth_nonce=n0nce&o"
	  "auth_timestamp=1700000000&oauth_version=1.0&oauth_signature_method=HMAC-SHA1&oauth_consu"
	  "mer_key=id%2Bplaceholder&oauth_token=tok%2Fplaceholder&oauth_signature=TfRpaj3%2FSAO%2F6"
	  "Tn6%2Fk0tbLkvB8o%3D\n\n",
	  "GET http://photos.example.net/photos?size=original&file=vacation.jpg&oauth_nonce=n0nce&o"
	  "auth_timestamp=1700000000&oauth_version=1.0&oauth_signature_method=HMAC-SHA1&oauth_consu"
	  "mer_key=id%2Breal&oauth_token=tok%2Freal&oauth_signature=2YGYJgKMgcz3uInuptKWYOg5OCI%3D"
	  "\n\n" },
	{ false,
	  "POST https://example.com:8443/request?b5=%3D%253D&a3=a&c%40=&a2=r+b&oauth_nonce=n0nce&oa"
	  "uth_timestamp=1700000000&oauth_version=1.0&oauth_signature_method=HMAC-SHA1&oauth_consum"
	  "er_key=id%2Bplaceholder&oauth_token=tok%2Fplaceholder&oauth_signature=Z%2BAT8%2BhB3ObA%2"
	  "BX47NO2AlH2A8zg%3D\ncontent-type: application/x-www-form-urlencoded\n\nc2=&a3=2+q",
	  "POST https://example.com:8443/request?b5=%3D%253D&a3=a&c%40=&a2=r+b&oauth_nonce=n0nce&oa"
	  "uth_timestamp=1700000000&oauth_version=1.0&oauth_signature_method=HMAC-SHA1&oauth_consum"
	  "er_key=id%2Breal&oauth_token=tok%2Freal&oauth_signature=jV7aE04usVumLVldwb4sk6ThnHc%3D\n"
	  "content-type: application/x-www-form-urlencoded\n\nc2=&a3=2+q" },
	{ false,
	  "POST https://api.twitter.com/1.1/statuses/update.json?include_entities=true&oauth_nonce="
	  "n0nce&oauth_timestamp=1700000000&oauth_version=1.0&oauth_signature_method=HMAC-SHA1&oaut"
	  "h_consumer_key=id%2Bplaceholder&oauth_token=tok%2Fplaceholder&oauth_signature=hqfS5gPx%2"
	  "FMX%2BX5OBPLDCsxQjG00%3D\ncontent-type: application/x-www-form-urlencoded\n\nstatus=Hell"
	  "o%20Ladies%20%2b%20Gentlemen%2c%20a%20signed%20OAuth%20request%21",
	  "POST https://api.twitter.com/1.1/statuses/update.json?include_entities=true&oauth_nonce="
	  "n0nce&oauth_timestamp=1700000000&oauth_version=1.0&oauth_signature_method=HMAC-SHA1&oaut"
	  "h_consumer_key=id%2Breal&oauth_token=tok%2Freal&oauth_signature=qfXpNJkPnrH%2Be4DG80tiKD"
	  "hCz2I%3D\ncontent-type: application/x-www-form-urlencoded\n\nstatus=Hello%20Ladies%20%2b"
	  "%20Gentlemen%2c%20a%20signed%20OAuth%20request%21" },
	{ false,
	  "PUT https://api.example.com/a%20b/%C3%A9~x?a=%E2%98%83&a=1&A=2&oauth_nonce=n0nce&oauth_t"
	  "imestamp=1700000000&oauth_version=1.0&oauth_signature_method=HMAC-SHA1&oauth_consumer_ke"
	  "y=id%2Bplaceholder&oauth_token=tok%2Fplaceholder&oauth_signature=myet3IzIUFgGyuLVWVKfbwU"
	  "5MxY%3D\n\n",
	  "PUT https://api.example.com/a%20b/%C3%A9~x?a=%E2%98%83&a=1&A=2&oauth_nonce=n0nce&oauth_t"
	  "imestamp=1700000000&oauth_version=1.0&oauth_signature_method=HMAC-SHA1&oauth_consumer_ke"
	  "y=id%2Breal&oauth_token=tok%2Freal&oauth_signature=ulxoA8jO99LgRf4qnBmdpKfvFsw%3D\n\n" },
	{ false,
	  "POST https://example.com:8443/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b\ncontent-type: app"
	  "lication/x-www-form-urlencoded\n\nc2=&a3=2+q&oauth_nonce=n0nce&oauth_timestamp=170000000"
	  "0&oauth_version=1.0&oauth_signature_method=HMAC-SHA1&oauth_consumer_key=id%2Bplaceholder"
	  "&oauth_token=tok%2Fplaceholder&oauth_signature=Z%2BAT8%2BhB3ObA%2BX47NO2AlH2A8zg%3D",
	  "POST https://example.com:8443/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b\ncontent-type: app"
	  "lication/x-www-form-urlencoded\n\nc2=&a3=2+q&oauth_nonce=n0nce&oauth_timestamp=170000000"
	  "0&oauth_version=1.0&oauth_signature_method=HMAC-SHA1&oauth_consumer_key=id%2Breal&oauth_"
	  "token=tok%2Freal&oauth_signature=jV7aE04usVumLVldwb4sk6ThnHc%3D" },
	{ false,
	  "POST https://api.twitter.com/1.1/statuses/update.json?include_entities=true\ncontent-typ"
	  "e: application/x-www-form-urlencoded\n\nstatus=Hello+Ladies+%2B+Gentlemen%2C+a+signed+OA"
	  "uth+request%21&oauth_nonce=n0nce&oauth_timestamp=1700000000&oauth_version=1.0&oauth_sign"
	  "ature_method=HMAC-SHA1&oauth_consumer_key=id%2Bplaceholder&oauth_token=tok%2Fplaceholder"
	  "&oauth_signature=hqfS5gPx%2FMX%2BX5OBPLDCsxQjG00%3D",
	  "POST https://api.twitter.com/1.1/statuses/update.json?include_entities=true\ncontent-typ"
	  "e: application/x-www-form-urlencoded\n\nstatus=Hello+Ladies+%2B+Gentlemen%2C+a+signed+OA"
	  "uth+request%21&oauth_nonce=n0nce&oauth_timestamp=1700000000&oauth_version=1.0&oauth_sign"
	  "ature_method=HMAC-SHA1&oauth_consumer_key=id%2Breal&oauth_token=tok%2Freal&oauth_signatu"
	  "re=qfXpNJkPnrH%2Be4DG80tiKDhCz2I%3D" },
	{ false,
	  "POST https://example.com:8443/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b\ncontent-type: app"
	  "lication/x-www-form-urlencoded\nauthorization: OAuth oauth_nonce=\"n0nce\", oauth_timest"
	  "amp=\"1700000000\", oauth_version=\"1.0\", oauth_signature_method=\"HMAC-SHA256\", oauth"
	  "_consumer_key=\"id%2Bplaceholder\", oauth_token=\"tok%2Fplaceholder\", oauth_signature="
	  "\"GfmhJFGB8g73s6TToMq8GF0%2FCIX29DmBxea4SQ5BsV8%3D\"\n\nc2=&a3=2+q",
	  "POST https://example.com:8443/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b\ncontent-type: app"
	  "lication/x-www-form-urlencoded\nauthorization: OAuth oauth_nonce=\"n0nce\", oauth_timest"
	  "amp=\"1700000000\", oauth_version=\"1.0\", oauth_signature_method=\"HMAC-SHA256\", oauth"
	  "_consumer_key=\"id%2Breal\", oauth_token=\"tok%2Freal\", oauth_signature=\"B9DjKut2uW2LC"
	  "4aGfuFXlXf7tEEV2FGrJHzGcpxyPHo%3D\"\n\nc2=&a3=2+q" },
	{ false,
	  "POST https://example.com:8443/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b\ncontent-type: app"
	  "lication/x-www-form-urlencoded\nauthorization: OAuth oauth_nonce=\"n0nce\", oauth_timest"
	  "amp=\"1700000000\", oauth_version=\"1.0\", oauth_signature_method=\"HMAC-SHA512\", oauth"
	  "_consumer_key=\"id%2Bplaceholder\", oauth_token=\"tok%2Fplaceholder\", oauth_signature="
	  "\"TrF5dWoIoLXYF2PPZQYHRxpsaNMADth7UQiX0B8xOCKs7E%2BiSVJicLo91zv5SssdSeDXMzmstgue0RMKGXpt"
	  "tQ%3D%3D\"\n\nc2=&a3=2+q",
	  "POST https://example.com:8443/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b\ncontent-type: app"
	  "lication/x-www-form-urlencoded\nauthorization: OAuth oauth_nonce=\"n0nce\", oauth_timest"
	  "amp=\"1700000000\", oauth_version=\"1.0\", oauth_signature_method=\"HMAC-SHA512\", oauth"
	  "_consumer_key=\"id%2Breal\", oauth_token=\"tok%2Freal\", oauth_signature=\"RaBo9SBth6FkB"
	  "3U3nEunz5RB1OfIXB%2FAErVjuLqn8u4rNV1eXpFHidCZ6xAGUlM01mnxuBO8LbdYxlEaKosI9A%3D%3D\"\n\nc"
	  "2=&a3=2+q" },
	{ true,
	  "POST https://example.com:8443/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b\ncontent-type: app"
	  "lication/x-www-form-urlencoded\nauthorization: OAuth oauth_nonce=\"n0nce\", oauth_timest"
	  "amp=\"1700000000\", oauth_version=\"1.0\", oauth_signature_method=\"RSA-SHA1\", oauth_co"
	  "nsumer_key=\"id%2Bplaceholder\", oauth_token=\"tok%2Fplaceholder\", oauth_signature=\"yB"
	  "6Jm%2F1ZASplaia5tCuNQmPevF1F8BKaH%2FxhjeWSsfeFZIkJ1SVDhTe4898%2FD9ujeIbb80FnaVwL7Qkx7wbQ"
	  "ARbi35r4a8ktuU2rOHiel8cnyN2S%2BlRO7YBWFRXu2neqdzLyh%2FzmOfjE0Yp06TdUO9vSJrjWmB7f5eVcRGHI"
	  "OyNvsZnJq0nfeTJPkq28lekQqDt91nMntwyJCaJjAdbV6ZOeW8FUnaQI%2FfrwLPscfNlM1uJ7n2y8K5U4ZHABz6"
	  "JmvgXB89ujXFd3vTrI8pbiDSCUiHR2pjGuS%2F1S9%2FCOCIQvNOBmwPLpmPRBqhq3U3HOORHNB9q5n1EAI9mSVB"
	  "7AMg%3D%3D\"\n\nc2=&a3=2+q",
	  "POST https://example.com:8443/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b\ncontent-type: app"
	  "lication/x-www-form-urlencoded\nauthorization: OAuth oauth_nonce=\"n0nce\", oauth_timest"
	  "amp=\"1700000000\", oauth_version=\"1.0\", oauth_signature_method=\"RSA-SHA1\", oauth_co"
	  "nsumer_key=\"id%2Breal\", oauth_token=\"tok%2Freal\", oauth_signature=\"Us5U%2FKpqI38pWa"
	  "f2tGqtvtPXGulkvekxH0bXMeU%2F3auDhVsPZ3cd0nIkYf9WVkg00G%2FcAUYQWCSxNoBSKlfkmlxWop6mElA7TK"
	  "43wTXA3OwJZBevIRwWlhI4Xh7HABLROk3L3gCAjQMVDymLrlE%2B0hembQFY5Uh%2FhXuYCULFOGfNFs86DXX6LP"
	  "RyoUmEau1cT40zsf8IMhwR5f%2BYw0gpfv%2BdDtlUTNEW%2BNuvMv4jY3qE%2BfSA8R%2FiTCIHrbMj5Qe39%2B"
	  "dJB53t9BrGplSirJ4VzpM1Fs4p1hY%2FkF95BuHUZ0twjTl%2FzQ3pHlh0AY3iuTy3t5BlbqCzhe%2BRk3Ur9CnK"
	  "0A%3D%3D\"\n\nc2=&a3=2+q" },
	{ true,
	  "POST https://example.com:8443/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b\ncontent-type: app"
	  "lication/x-www-form-urlencoded\nauthorization: OAuth oauth_nonce=\"n0nce\", oauth_timest"
	  "amp=\"1700000000\", oauth_version=\"1.0\", oauth_signature_method=\"RSA-SHA256\", oauth_"
	  "consumer_key=\"id%2Bplaceholder\", oauth_token=\"tok%2Fplaceholder\", oauth_signature=\""
	  "sW1l%2Bnrb1GFNokL5AdsslBoVYu1Dw4mI7IkWmuOQ1BELQRdb1SSUIO63SWyqDgzEbc4AwQC3MC7CaYysS2RI4H"
	  "zQ%2Fnr5Hcsu0NfB0znT9pdRTPZTOAFBuplegUJp9FsxN8QVctEmv%2B1slCf98VD5egWygNjsV3yJeMhKVKLE82"
	  "wVAthTrXhVc6MGmp9jn309zWrZjyJNwTld1JBvBE9vqH8gC8ZroQL%2BXjZ0WeGgVaLmwvKcEbFWkNtstK%2BbmU"
	  "QCgzU4wW4iEGLWzWnnNvICth8P8Fkb8N3QUML2q4A%2BzqHP5eSDAl6msTZUCAAtVvXIAEafGDFB7QsP7%2FPGrc"
	  "lzpQ%3D%3D\"\n\nc2=&a3=2+q",
	  "POST https://example.com:8443/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b\ncontent-type: app"
	  "lication/x-www-form-urlencoded\nauthorization: OAuth oauth_nonce=\"n0nce\", oauth_timest"
	  "amp=\"1700000000\", oauth_version=\"1.0\", oauth_signature_method=\"RSA-SHA256\", oauth_"
	  "consumer_key=\"id%2Breal\", oauth_token=\"tok%2Freal\", oauth_signature=\"Y9%2FQQkSUDHka"
	  "qQiHfXnbuMnL1X3KcD%2FFTP9GmMQhrC6Dr74oGcJ%2Fuxs7cSUhTde4fQUQa%2BU0FZCnQKpJNvffu8MWHtuCGK"
	  "TdZNoxnbkXOEE%2FjS8xfIwQf%2FuRjYnP9%2BnZIigeFx5TTiK1whRtt%2FPbC2Zv4ng6fgym4Xkf7D9dboTeVl"
	  "6ud6tYzWE8c%2BBMwXRaGoIZasvWb9HxtYNxVGaVg9VTanKW0FNjGIdX249iLTD%2BDGPxPkVc5QE5M2gz%2F2Eg"
	  "OxreywiqjjQpiSIaBCqIox%2FdltByeWqsvr0iCQQECwAdRzpmtDO%2BNkW3O9hVfZTAsIdNFrJmCU43iA0m6yoS"
	  "tA%3D%3D\"\n\nc2=&a3=2+q" },
};

static struct sign_key
placeholder(bool rsa)
{
	return sl_key("id+placeholder",
	              rsa ? rsa_placeholder : "c%26placeholder%20secret&t%2Fplaceholder",
	              "tok/placeholder");
}

static struct sign_key
real(bool rsa)
{
	return sl_key("id+real", rsa ? rsa_real : "c%26real%20secret&t%2Freal", "tok/real");
}

TEST(oauth1_as_oauthlib)
{
	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		struct sign_key from = placeholder(requests[i].rsa), to = real(requests[i].rsa);
		OWN(sl_request_freep) struct sl_request *r = sl_request(requests[i].request);
		OWN(sl_request_freep) struct sl_request *want = sl_request(requests[i].want);
		OWN(freep) char *got = NULL, *want_text = sl_show(want);

		if (sl_sign(r, &sign_oauth1, NULL, &from, &to) < 0)
			test_fail(__FILE__, __LINE__, "%zu: %s: %s", i, requests[i].request, r->error);
		got = sl_show(r);
		CHECK_STR(got, want_text);
		CHECK(r->wanted_body == (r->body.len > 0));
	}
}

/* RFC 5849, 1.2: the third request, and the second, which has no signature. */
TEST(oauth1_rfc)
{
	static const char request[] =
		"GET http://photos.example.net/photos?file=vacation.jpg&size=original\n"
		"authorization: OAuth realm=\"Photos\", oauth_consumer_key=\"dpf43f3p2l4k3l03\", "
		"oauth_token=\"nnch734d00sl2jdk\", oauth_signature_method=\"HMAC-SHA1\", "
		"oauth_timestamp=\"137131202\", oauth_nonce=\"chapoH\", "
		"oauth_signature=\"MdpQcU8iPSUjWoN%2FUDMsK2sui9I%3D\"\n";
	static const char plain[] =
		"POST https://photos.example.net/token\n"
		"authorization: OAuth realm=\"Photos\", oauth_consumer_key=\"dpf43f3p2l4k3l03\", "
		"oauth_signature_method=\"PLAINTEXT\", oauth_signature=\"kd94hf93k423kf44%26\"\n";
	struct sign_key from = sl_key("dpf43f3p2l4k3l03", "kd94hf93k423kf44&pfkkdhi9sl3r4s00",
	                              "nnch734d00sl2jdk");
	struct sign_key to = sl_key("real", "a&b", "real token");
	struct sign_key alone = sl_key("dpf43f3p2l4k3l03", "kd94hf93k423kf44", "");
	OWN(sl_request_freep) struct sl_request *r = sl_request(plain);

	sl_check_there_and_back(request, &sign_oauth1, NULL, &from, &to);
	CHECK_ERR(sl_sign(r, &sign_oauth1, NULL, &alone, &to), ENOTSUP);
	CHECK(strstr(r->error, "PLAINTEXT is no signature") != NULL);
}

#define HEADER "GET https://a.example/\nauthorization: OAuth oauth_consumer_key=\"id\","

TEST(oauth1_refuses)
{
	static const struct {
		const char *request, *secret, *token, *why;
	} cases[] = {
		{ HEADER "oauth_signature_method=\"PLAINTEXT\",oauth_signature=\"s%26\"\n", "s", "",
		  "PLAINTEXT is no signature" },
		{ HEADER "oauth_signature_method=\"HMAC-SHA1\",oauth_signature=\"AAAA\"\n", "s", "",
		  "the OAuth signature is not the placeholder's" },
		{ HEADER "oauth_signature_method=\"HMAC-SHA1\",oauth_signature=\"!\"\n", "s", "",
		  "the OAuth signature is not the placeholder's" },
		{ HEADER "oauth_signature_method=\"HMAC-MD5\",oauth_signature=\"AAAA\"\n", "s", "",
		  "signature method is none of" },
		{ HEADER "oauth_signature=\"AAAA\"\n", "s", "", "signature method is none of" },
		{ HEADER "oauth_signature_method=\"HMAC-SHA1\"\n", "s", "", "no oauth_signature" },
		{ HEADER "oauth_token=\"x\",oauth_signature_method=\"HMAC-SHA1\",oauth_signature=\"AA\"\n",
		  "s", "tok", "the OAuth token is not the placeholder's" },
		{ HEADER "oauth_consumer_key=\"id\"\n", "s", "", "'oauth_consumer_key' twice" },
		{ HEADER "oauth_nonce=x\n", "s", "", "not a list of name=\"value\"" },
		{ "GET https://a.example/?oauth_consumer_key=x&oauth_signature=AA\n", "s", "",
		  "consumer key is not the placeholder's" },
	};
	struct sign_key to = sl_key("id", "real", "");

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct sign_key from = sl_key("id", cases[i].secret, cases[i].token);
		OWN(sl_request_freep) struct sl_request *r = sl_request(cases[i].request);
		OWN(freep) char *before = sl_show(r), *after = NULL;

		CHECK(sl_sign(r, &sign_oauth1, NULL, &from, &to) < 0);
		if (strstr(r->error, cases[i].why) == NULL)
			test_fail(__FILE__, __LINE__, "case %zu: %s", i, r->error);
		after = sl_show(r);
		CHECK_STR(after, before);
	}
}

TEST(oauth1_finds)
{
	static const struct {
		const char *request, *id;       /* id NULL: not found */
	} cases[] = {
		{ HEADER "x=\"y\"\n", "id" },
		{ "GET https://a.example/?oauth_consumer_key=k&oauth_signature=s\n", "k" },
		{ "GET https://a.example/?oauth_consumer_key=k\n", NULL },
		{ "GET https://a.example/\nauthorization: OAuth2 x\n", NULL },
		{ "GET https://a.example/\n", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(sl_request_freep) struct sl_request *r = sl_request(cases[i].request);
		struct http_text id = { NULL, 0 };

		CHECK(sign_oauth1.find(&r->head, &id) == (cases[i].id != NULL));
		CHECK(cases[i].id == NULL || http_text_is(id, cases[i].id));
	}
}

/* sign_hmac.c - tests of sign/hmac: examples that the services publish, and templates. */
#include "sign/sign_hmac.h"

#include <errno.h>

#include "base/err.h"
#include "scheme_lab.h"

/* Requests of the services' own documentation, with the keys that it prints. */
static const struct {
	const char *row, *id, *secret, *token, *other_secret;
	const char *request;
} published[] = {
	{ "github", "", "It's a Secret to Everybody", "", "other",
	  "POST https://a.example/hook\nx-hub-signature-256: sha256="
	  "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17\n\nHello, World!" },
	{ "slack", "", "8f742231b10e8888abcd99yyyzzz85a5", "", "other",
	  "POST https://a.example/\nx-slack-request-timestamp: 1531420618\nx-slack-signature: v0="
	  "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503\n\n"
	  "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id="
	  "G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command="
	  "%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2F"
	  "T1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id="
	  "398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c" },
	{ "twilio", "", "12345", "", "other",
	  "POST https://mycompany.com/myapp.php?foo=1&bar=2\nx-twilio-signature: "
	  "RSOYDt4T1cUTdK1PDd93/VVr8B8=\ncontent-type: application/x-www-form-urlencoded; "
	  "charset=utf-8\n\nTo=%2B18005551212&From=%2B14158675309&Digits=1234&Caller="
	  "%2B14158675309&CallSid=CA1234567890ABCDE" },
	{ "binance", "vmPUZE6mv9SD5VNHk4HlWFsOr6aKE2zvsw0MuIgwCIPy6utIco14y7Ju91duEh8A",
	  "NhqPtmdSJYdKjVHjA7PZj4Mge3R5YNiP1e3UZjInClVN65XAbvqqM6A7H5fATj0j", "", "other",
	  "POST https://api.binance.com/api/v3/order?symbol=LTCBTC&side=BUY&type=LIMIT&"
	  "timeInForce=GTC&quantity=1&price=0.1&recvWindow=5000&timestamp=1499827319559&signature="
	  "c8db56825ae71d6d79447849e617115f4a920fa2acdcab2b053c4b2838bd6b71\nx-mbx-apikey: "
	  "vmPUZE6mv9SD5VNHk4HlWFsOr6aKE2zvsw0MuIgwCIPy6utIco14y7Ju91duEh8A\n" },
	{ "binance", "vmPUZE6mv9SD5VNHk4HlWFsOr6aKE2zvsw0MuIgwCIPy6utIco14y7Ju91duEh8A",
	  "NhqPtmdSJYdKjVHjA7PZj4Mge3R5YNiP1e3UZjInClVN65XAbvqqM6A7H5fATj0j", "", "other",
	  "POST https://api.binance.com/api/v3/order\ncontent-type: "
	  "application/x-www-form-urlencoded\nx-mbx-apikey: "
	  "vmPUZE6mv9SD5VNHk4HlWFsOr6aKE2zvsw0MuIgwCIPy6utIco14y7Ju91duEh8A\n\n"
	  "symbol=LTCBTC&side=BUY&type=LIMIT&timeInForce=GTC&quantity=1&price=0.1&recvWindow=5000&"
	  "timestamp=1499827319559&signature="
	  "c8db56825ae71d6d79447849e617115f4a920fa2acdcab2b053c4b2838bd6b71" },
	{ "binance", "vmPUZE6mv9SD5VNHk4HlWFsOr6aKE2zvsw0MuIgwCIPy6utIco14y7Ju91duEh8A",
	  "NhqPtmdSJYdKjVHjA7PZj4Mge3R5YNiP1e3UZjInClVN65XAbvqqM6A7H5fATj0j", "", "other",
	  "POST https://api.binance.com/api/v3/order?symbol=LTCBTC&side=BUY&type=LIMIT&timeInForce="
	  "GTC\ncontent-type: application/x-www-form-urlencoded\nx-mbx-apikey: "
	  "vmPUZE6mv9SD5VNHk4HlWFsOr6aKE2zvsw0MuIgwCIPy6utIco14y7Ju91duEh8A\n\n"
	  "quantity=1&price=0.1&recvWindow=5000&timestamp=1499827319559&signature="
	  "0fd168b8ddb4876a0358a8d14d0c9f3da0e9b20c5d52b2a00fcf7d1c602f9a77" },
	{ "kraken", "the id", "kQH5HW/8p1uGOVjbgWA7FunAmGO8lsSUXNsu3eow76sz84Q18fWxnyRzBHCd3pd5nE9q"
	  "a99HAZtuZuj6F1huXg==", "", "b3RoZXI=",
	  "POST https://api.kraken.com/0/private/AddOrder\napi-key: the id\napi-sign: "
	  "4/dpxb3iT4tp/ZCVEwSnEsLxx0bqyhLpdfOpc6fn7OR8+UClSV5n9E6aSS8MPtnRfp32bAb0nmbRn6H8ndwLUQ==\n"
	  "content-type: application/x-www-form-urlencoded\n\nnonce=1616492376594&ordertype=limit&"
	  "pair=XBTUSD&price=37500&type=buy&volume=1.25" },
};

static struct sign_hmac
row(const char *name)
{
	const struct sign_hmac_template *t = sign_hmac_row(name);
	struct sign_hmac hmac;

	CHECK(t != NULL);
	CHECK_OK(sign_hmac_compile(t, &hmac, NULL));
	return hmac;
}

TEST(hmac_published_examples)
{
	for (size_t i = 0; i < ARRAY_LEN(published); i++) {
		struct sign_hmac hmac = row(published[i].row);
		struct sign_key from = sl_key(published[i].id, published[i].secret, "");
		struct sign_key to = sl_key(published[i].id[0] != '\0' ? "other id" : "",
		                            published[i].other_secret, "");

		sl_check_there_and_back(published[i].request, &sign_hmac, &hmac, &from, &to);
	}
}

/* Requests with one %s for the signature, and the message that the documentation says is
 * signed. */
static const struct {
	const char *row, *token;
	const EVP_MD *(*md)(void);
	enum sign_coding coding;
	const char *message, *request;
} described[] = {
	{ "stripe", "", EVP_sha256, SIGN_HEX, "1492774577.{}",
	  "POST https://a.example/\nstripe-signature: t=1492774577,v1=%s\n\n{}" },
	{ "shopify", "", EVP_sha256, SIGN_BASE64, "{}",
	  "POST https://a.example/\nx-shopify-hmac-sha256: %s\n\n{}" },
	{ "coinbase-prime", "pass phrase", EVP_sha256, SIGN_BASE64, "17POST/v1/x{}",
	  "POST https://a.example/v1/x?y=1\nx-cb-access-key: id\nx-cb-access-passphrase: pass phrase\n"
	  "x-cb-access-timestamp: 17\nx-cb-access-signature: %s\n\n{}" },
	{ "bybit", "", EVP_sha256, SIGN_HEX, "1658384314791id5000category=option&symbol=B",
	  "GET https://api.bybit.com/v5/order/realtime?category=option&symbol=B\n"
	  "x-bapi-sign: %s\nx-bapi-api-key: id\nx-bapi-timestamp: 1658384314791\n"
	  "x-bapi-recv-window: 5000\n" },
	{ "bybit", "", EVP_sha256, SIGN_HEX, "1658385579423id5000{\"category\": \"option\"}",
	  "POST https://api.bybit.com/v5/order/create\n"
	  "x-bapi-sign: %s\nx-bapi-api-key: id\nx-bapi-timestamp: 1658385579423\n"
	  "x-bapi-recv-window: 5000\n\n{\"category\": \"option\"}" },
	{ "okx", "pass phrase", EVP_sha256, SIGN_BASE64,
	  "2020-12-08T09:08:57.715ZGET/api/v5/account/balance?ccy=BTC",
	  "GET https://www.okx.com/api/v5/account/balance?ccy=BTC\nok-access-sign: %s\n"
	  "ok-access-key: id\nok-access-passphrase: pass phrase\n"
	  "ok-access-timestamp: 2020-12-08T09:08:57.715Z\n" },
	{ "bitfinex", "", EVP_sha384, SIGN_HEX, "/api/v2/auth/r/info/user1700{}",
	  "POST https://api.bitfinex.com/v2/auth/r/info/user\nbfx-signature: %s\nbfx-apikey: id\n"
	  "bfx-nonce: 1700\n\n{}" },
	{ "gate", "", EVP_sha512, SIGN_HEX,
	  "GET\n/api/v4/futures/orders\ncontract=BTC_USD&status=finished&limit=50\n"
	  "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2"
	  "877eec2f63b931bd47417a81a538327af927da3e\n1541993715",
	  "GET https://api.gateio.ws/api/v4/futures/orders?contract=BTC_USD&status=finished&limit=50\n"
	  "key: id\nsign: %s\ntimestamp: 1541993715\n" },
	/* a query that is nothing but its signature */
	{ "binance", "", EVP_sha256, SIGN_HEX, "",
	  "GET https://api.binance.com/api/v3/account?signature=%s\nx-mbx-apikey: id\n" },
};

TEST(hmac_described_messages)
{
	for (size_t i = 0; i < ARRAY_LEN(described); i++) {
		struct sign_hmac hmac = row(described[i].row);
		struct sign_key from = sl_key("id", "the secret", described[i].token);
		struct sign_key to = sl_key("real id", "another", "real token");
		OWN(freep) char *text = NULL;

		CHECK(asprintf(&text, described[i].request,
		               sl_hmac(described[i].md(), described[i].coding, "the secret",
		                       described[i].message)) > 0);
		sl_check_there_and_back(text, &sign_hmac, &hmac, &from, &to);
	}
}

TEST(hmac_coinbase_secret_is_base64)
{
	struct sign_hmac hmac = row("coinbase-exchange");
	struct sign_key from = sl_key("id", "dGhlIHNlY3JldA==", "pass"), bad;
	struct sign_key to = sl_key("real id", "YW5vdGhlcg==", "word");
	OWN(sl_request_freep) struct sl_request *r = NULL;
	OWN(freep) char *text = NULL;

	CHECK(asprintf(&text, "POST https://a.example/orders?a=1\ncb-access-key: id\n"
	               "cb-access-passphrase: pass\ncb-access-timestamp: 17\ncb-access-sign: %s\n\n{}",
	               sl_hmac(EVP_sha256(), SIGN_BASE64, "the secret",
	                       "17POST/orders?a=1{}")) > 0);
	sl_check_there_and_back(text, &sign_hmac, &hmac, &from, &to);
	r = sl_request(text);
	CHECK_OK(sl_sign(r, &sign_hmac, &hmac, &from, &to));
	CHECK(r->wanted_body);
	CHECK_STR(sl_field(r, "cb-access-key"), "real id");
	CHECK_STR(sl_field(r, "cb-access-passphrase"), "word");
	CHECK_STR(sl_field(r, "cb-access-sign"),
	          sl_hmac(EVP_sha256(), SIGN_BASE64, "another", "17POST/orders?a=1{}"));
	bad = sl_key("id", "no base64", "pass");
	CHECK_ERR(sl_sign(r, &sign_hmac, &hmac, &bad, &to), EKEYREJECTED);
}

/* Both of GitHub's signatures are made anew; a passphrase that is signed, too. */
TEST(hmac_second_signature)
{
	struct sign_hmac github = row("github"), kucoin = row("kucoin");
	struct sign_key from = sl_key("id", "pl4ceholder", "pass");
	struct sign_key to = sl_key("real", "real secret", "word");
	OWN(sl_request_freep) struct sl_request *r = NULL, *k = NULL;
	OWN(freep) char *text = NULL, *other = NULL;

	CHECK(asprintf(&text, "POST https://a.example/\nx-hub-signature: sha1=%s\n"
	               "x-hub-signature-256: sha256=%s\n\nbody",
	               sl_hmac(EVP_sha1(), SIGN_HEX, "pl4ceholder", "body"),
	               sl_hmac(EVP_sha256(), SIGN_HEX, "pl4ceholder", "body")) > 0);
	r = sl_request(text);
	CHECK_OK(sl_sign(r, &sign_hmac, &github, &from, &to));
	CHECK_STR(sl_field(r, "x-hub-signature") + 5,
	          sl_hmac(EVP_sha1(), SIGN_HEX, "real secret", "body"));
	r->head.fields[0].value = scheme_text("sha1=00");
	CHECK_ERR(sl_sign(r, &sign_hmac, &github, &to, &from), EKEYREJECTED);

	CHECK(asprintf(&other, "GET https://a.example/api/v1/accounts\nkc-api-key: id\n"
	               "kc-api-timestamp: 1\nkc-api-sign: %s\nkc-api-passphrase: %s\n",
	               sl_hmac(EVP_sha256(), SIGN_BASE64, "pl4ceholder", "1GET/api/v1/accounts"),
	               sl_hmac(EVP_sha256(), SIGN_BASE64, "pl4ceholder", "pass")) > 0);
	k = sl_request(other);
	CHECK_OK(sl_sign(k, &sign_hmac, &kucoin, &from, &to));
	CHECK_STR(sl_field(k, "kc-api-passphrase"),
	          sl_hmac(EVP_sha256(), SIGN_BASE64, "real secret", "word"));
	CHECK(!k->wanted_body);
}

/* Of several signatures in one field any may be right; only ours goes on. */
TEST(hmac_members)
{
	struct sign_hmac hmac = row("stripe");
	struct sign_key from = sl_key("", "pl4ceholder", ""), to = sl_key("", "real", "");
	OWN(sl_request_freep) struct sl_request *r = NULL;
	OWN(freep) char *text = NULL, *want = NULL;

	CHECK(asprintf(&text, "POST https://a.example/\nstripe-signature: t=12,v1=00ff, v1=%s,v0=aa\n"
	               "\nbody", sl_hmac(EVP_sha256(), SIGN_HEX, "pl4ceholder", "12.body")) > 0);
	r = sl_request(text);
	CHECK_OK(sl_sign(r, &sign_hmac, &hmac, &from, &to));
	CHECK(asprintf(&want, "t=12,v1=%s", sl_hmac(EVP_sha256(), SIGN_HEX, "real", "12.body")) > 0);
	CHECK_STR(sl_field(r, "stripe-signature"), want);
}

TEST(hmac_json_nonce)
{
	struct sign_hmac_template t = { .name = "t", .message = "{nonce}|{body}",
		.digest = SIGN_SHA256, .signature = SIGN_HEX, .at = "header:Sig",
		.nonce = "body:nonce" };
	struct sign_key from = sl_key("", "pl4ceholder", ""), to = sl_key("", "real", "");
	static const struct {
		const char *body, *message;
	} cases[] = {
		{ "{\"nonce\": 17}", "17|{\"nonce\": 17}" },
		{ "{\"nonce\":\"x\"}", "x|{\"nonce\":\"x\"}" },
		{ "{\"other\":1}", NULL },
		{ "not JSON", NULL },
	};
	struct sign_hmac hmac;

	CHECK_OK(sign_hmac_compile(&t, &hmac, NULL));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(sl_request_freep) struct sl_request *r = NULL;
		OWN(freep) char *text = NULL;

		CHECK(asprintf(&text, "POST https://a.example/\nsig: %s\n\n%s",
		               sl_hmac(EVP_sha256(), SIGN_HEX, "pl4ceholder",
		                       cases[i].message != NULL ? cases[i].message : ""),
		               cases[i].body) > 0);
		r = sl_request(text);
		if (cases[i].message != NULL)
			CHECK_OK(sl_sign(r, &sign_hmac, &hmac, &from, &to));
		else
			CHECK_ERR(sl_sign(r, &sign_hmac, &hmac, &from, &to), ENOENT);
	}
}

TEST(hmac_refuses)
{
	static const struct {
		const char *request, *id, *secret, *token, *why;
	} cases[] = {
		{ "GET https://a.example/\nok-access-key: id\n", "id", "s", "", "no signature" },
		{ "GET https://a.example/\nok-access-sign: AA==\nok-access-sign: AA==\n", "", "s", "",
		  "more than one signature" },
		{ "GET https://a.example/\nok-access-sign: AA==\nok-access-key: x\n", "id", "s", "",
		  "the key id in 'ok-access-key' is not the placeholder's" },
		{ "GET https://a.example/\nok-access-sign: AA==\nok-access-key: id\n"
		  "ok-access-passphrase: y\n", "id", "s", "z", "the token in 'ok-access-passphrase'" },
		{ "GET https://a.example/\nok-access-sign: AA==\nok-access-key: id\n", "id", "s", "",
		  "no timestamp where 'ok-access-timestamp'" },
		{ "GET https://a.example/\nok-access-sign: AA==\nok-access-timestamp: 1\n", "", "s", "",
		  "the okx signature is not the placeholder's for this request (it covers "
		  "{timestamp}{method}{target}{body})" },
		{ "GET https://a.example/\nok-access-sign: !\nok-access-timestamp: 1\n", "", "s", "",
		  "is not the placeholder's" },
		{ "GET https://a.example/\nok-access-sign: AA==\nok-access-timestamp: 1\n", "", "", "",
		  "the placeholder's secret is empty" },
	};
	struct sign_hmac hmac = row("okx");
	struct sign_key to = sl_key("id", "real", "");

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(sl_request_freep) struct sl_request *r = sl_request(cases[i].request);
		struct sign_key from = sl_key(cases[i].id, cases[i].secret, cases[i].token);

		CHECK(sl_sign(r, &sign_hmac, &hmac, &from, &to) < 0);
		if (strstr(r->error, cases[i].why) == NULL)
			test_fail(__FILE__, __LINE__, "case %zu: %s", i, r->error);
		CHECK(sl_sign(r, &sign_hmac, NULL, &from, &to) < 0);
	}
}

TEST(hmac_finds)
{
	static const struct {
		const char *request, *id;       /* id NULL: not found */
	} cases[] = {
		{ "GET https://a.example/?signature=x\nx-mbx-apikey: k\n", "k" },
		{ "GET https://a.example/?signature=x\n", NULL },
		{ "POST https://a.example/\ncontent-type: application/x-www-form-urlencoded\n\na=b",
		  NULL },
		{ "POST https://a.example/\nx-mbx-apikey: k\n"
		  "content-type: application/x-www-form-urlencoded\n\nsignature=b", "k" },
		{ "POST https://a.example/\nstripe-signature: t=1,v1=x\n", "" },
		{ "POST https://a.example/\nstripe-signature: t=1\n", NULL },
		{ "GET https://a.example/\n", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(sl_request_freep) struct sl_request *r = sl_request(cases[i].request);
		struct http_text id = { NULL, 0 };

		CHECK(sign_hmac.find(&r->head, &id) == (cases[i].id != NULL));
		CHECK(cases[i].id == NULL || http_text_is(id, cases[i].id));
	}
}

static const struct {
	const char *message, *at, *timestamp, *why;     /* why NULL: it is fine */
} templates[] = {
	{ "{body}", "header:x", NULL, NULL },
	{ "{{{method}}}:{header:a-b}{param:c}", "header:x:y", NULL, NULL },
	{ "{sha256.hex:{{{body}x}y", "param:x", NULL, NULL },
	{ "", "header:x", NULL, "there is no message" },
	{ "{bodi}", "header:x", NULL, "no part '{bodi}' (character 1 of the message): is "
	  "'{body}' meant?" },
	{ "ab{xxxxxxxx}", "header:x", NULL, "no part '{xxxxxxxx}' (character 3 of the message): "
	  "parts are method" },
	{ "{body", "header:x", NULL, "the brace at character 1 of the message is not closed" },
	{ "x{bo{dy}}", "header:x", NULL, "the brace at character 2 of the message is not closed" },
	{ "{body}}", "header:x", NULL, "the brace at character 7 of the message closes nothing" },
	{ "{sha256:{body}", "header:x", NULL, "the digest in the message is not closed" },
	{ "{sha256:{sha1:{body}}}", "header:x", NULL, "a digest within a digest (character 9" },
	{ "{sha256.octal:{body}}", "header:x", NULL, "character 1 of the message" },
	{ "{header:}", "header:x", NULL, "'{header:}' (character 1 of the message) has no name" },
	{ "{timestamp}", "header:x", NULL, "it is not said where the timestamp stands" },
	{ "{timestamp}", "header:x", "header:t", NULL },
	{ "{timestamp}", "header:x", "cookie:t", "the timestamp's place 'cookie:t' is not known" },
	{ "{timestamp}", "header:x", "header:t:", "lacks a name" },
	{ "{nonce}", "header:x", NULL, "where the nonce stands" },
	{ "{body}", NULL, NULL, "where the signature stands" },
	{ "{body}", "body:x", NULL, "where the signature stands" },
	{ "literal", "header:x", NULL, "no part of the request" },
	{ "{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}"
	  "{id}{id}{id}", "header:x", NULL, "over 24 parts" },
};

TEST(hmac_templates)
{
	for (size_t i = 0; i < ARRAY_LEN(templates); i++) {
		struct sign_hmac_template t = { .name = "mine", .message = templates[i].message,
			.at = templates[i].at, .timestamp = templates[i].timestamp,
			.signature = SIGN_HEX };
		struct sign_hmac hmac;
		struct err err = {0};
		int r = sign_hmac_compile(&t, &hmac, &err);

		if ((r == 0) != (templates[i].why == NULL) ||
		    (r < 0 && strstr(err.text, templates[i].why) == NULL))
			test_fail(__FILE__, __LINE__, "\"%s\": %s", templates[i].message, err.text);
		CHECK(r == 0 || strncmp(err.text, "the HMAC template 'mine': ", 26) == 0);
	}
}

TEST(hmac_braces_are_signed)
{
	struct sign_hmac_template t = { .name = "t", .message = "{{{method}}}{sha1.base64:x{body}}",
		.digest = SIGN_SHA512, .signature = SIGN_HEX, .prefix = "v=", .at = "param:s g" };
	struct sign_key from = sl_key("", "pl4ceholder", ""), to = sl_key("", "real", "");
	struct sign_hmac hmac;
	OWN(freep) char *text = NULL;

	CHECK_OK(sign_hmac_compile(&t, &hmac, NULL));
	CHECK(asprintf(&text, "GET https://a.example/?s%%20g=v%%3D%s\n\n{}",
	               sl_hmac(EVP_sha512(), SIGN_HEX, "pl4ceholder",
	                       "{GET}pCX1/YJtm/XIdrVGc1JHtimcH90=")) > 0);
	sl_check_there_and_back(text, &sign_hmac, &hmac, &from, &to);
}

/* hmac_rows.c - templates of well-known services whose signatures are an HMAC over parts of a
 * request. */
#include <string.h>

#include "sign/sign_hmac.h"

/* GitHub sends both. */
static const struct sign_hmac_template github_sha1 = {
	.name = "github-sha1", .message = "{body}", .digest = SIGN_SHA1, .signature = SIGN_HEX,
	.prefix = "sha1=", .at = "header:x-hub-signature",
};

/* KuCoin's passphrase is itself signed, from key version 2 on. */
static const struct sign_hmac_template kucoin_passphrase = {
	.name = "kucoin-passphrase", .message = "{token}", .digest = SIGN_SHA256,
	.signature = SIGN_BASE64, .at = "header:kc-api-passphrase",
};

const struct sign_hmac_template sign_hmac_rows[] = {
	/* webhooks */
	{ .name = "github", .message = "{body}", .digest = SIGN_SHA256, .signature = SIGN_HEX,
	  .prefix = "sha256=", .at = "header:x-hub-signature-256", .also = &github_sha1 },
	{ .name = "stripe", .message = "{timestamp}.{body}", .digest = SIGN_SHA256,
	  .signature = SIGN_HEX, .at = "header:stripe-signature:v1",
	  .timestamp = "header:stripe-signature:t" },
	{ .name = "slack", .message = "v0:{timestamp}:{body}", .digest = SIGN_SHA256,
	  .signature = SIGN_HEX, .prefix = "v0=", .at = "header:x-slack-signature",
	  .timestamp = "header:x-slack-request-timestamp" },
	{ .name = "twilio", .message = "{url}{form:sorted}", .digest = SIGN_SHA1,
	  .signature = SIGN_BASE64, .at = "header:x-twilio-signature" },
	{ .name = "shopify", .message = "{body}", .digest = SIGN_SHA256,
	  .signature = SIGN_BASE64, .at = "header:x-shopify-hmac-sha256" },
	/* exchanges */
	{ .name = "coinbase-exchange", .message = "{timestamp}{method}{target}{body}",
	  .digest = SIGN_SHA256, .secret = SIGN_BASE64, .signature = SIGN_BASE64,
	  .at = "header:cb-access-sign", .id = "header:cb-access-key",
	  .token = "header:cb-access-passphrase", .timestamp = "header:cb-access-timestamp" },
	{ .name = "coinbase-prime", .message = "{timestamp}{method}{path}{body}",
	  .digest = SIGN_SHA256, .signature = SIGN_BASE64,
	  .at = "header:x-cb-access-signature", .id = "header:x-cb-access-key",
	  .token = "header:x-cb-access-passphrase", .timestamp = "header:x-cb-access-timestamp" },
	{ .name = "binance", .message = "{query}{body}", .digest = SIGN_SHA256,
	  .signature = SIGN_HEX, .at = "param:signature", .id = "header:x-mbx-apikey" },
	{ .name = "kraken", .message = "{path}{sha256:{nonce}{body}}", .digest = SIGN_SHA512,
	  .secret = SIGN_BASE64, .signature = SIGN_BASE64, .at = "header:api-sign",
	  .id = "header:api-key", .nonce = "body:nonce" },
	{ .name = "bybit", .message = "{timestamp}{id}{header:x-bapi-recv-window}{query}{body}",
	  .digest = SIGN_SHA256, .signature = SIGN_HEX, .at = "header:x-bapi-sign",
	  .id = "header:x-bapi-api-key", .timestamp = "header:x-bapi-timestamp" },
	{ .name = "okx", .message = "{timestamp}{method}{target}{body}", .digest = SIGN_SHA256,
	  .signature = SIGN_BASE64, .at = "header:ok-access-sign", .id = "header:ok-access-key",
	  .token = "header:ok-access-passphrase", .timestamp = "header:ok-access-timestamp" },
	{ .name = "kucoin", .message = "{timestamp}{method}{target}{body}",
	  .digest = SIGN_SHA256, .signature = SIGN_BASE64, .at = "header:kc-api-sign",
	  .id = "header:kc-api-key", .timestamp = "header:kc-api-timestamp",
	  .also = &kucoin_passphrase },
	{ .name = "bitfinex", .message = "/api{path}{nonce}{body}", .digest = SIGN_SHA384,
	  .signature = SIGN_HEX, .at = "header:bfx-signature", .id = "header:bfx-apikey",
	  .nonce = "header:bfx-nonce" },
	{ .name = "gate", .message = "{method}\n{path}\n{query}\n{sha512.hex:{body}}\n{timestamp}",
	  .digest = SIGN_SHA512, .signature = SIGN_HEX, .at = "header:sign", .id = "header:key",
	  .timestamp = "header:timestamp" },
	{ .name = NULL },
};

const struct sign_hmac_template *
sign_hmac_row(const char *name)
{
	for (const struct sign_hmac_template *t = sign_hmac_rows; t->name != NULL; t++)
		if (strcmp(t->name, name) == 0)
			return t;
	return NULL;
}

/* sign_jwt.c - tests of sign/jwt: tokens that PyJWT made, and the RFCs' own. */
#include <errno.h>

#include "scheme_keys.h"
#include "scheme_lab.h"

/* Signed by PyJWT with the placeholder's key and with the real one (NULL where every
 * signature is another). */
static const struct {
	const char *algorithm, *placeholder, *real, *token, *want;
} tokens[] = {
	{ "HS256", "pl4ceholder secret", "the real secret",
	  "eyJhbGciOiJIUzI1NiIsImtpZCI6Im9uZSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJhZ2VudEBwcm9qZWN0Lml"
	  "hbS5nc2VydmljZWFjY291bnQuY29tIiwic2NvcGUiOiJodHRwczovL3d3dy5nb29nbGVhcGlzLmNvbS9hdXR"
	  "oL2Nsb3VkLXBsYXRmb3JtIiwiYXVkIjoiaHR0cHM6Ly9vYXV0aDIuZ29vZ2xlYXBpcy5jb20vdG9rZW4iLCJ"
	  "leHAiOjE3MDAwMDM2MDAsImlhdCI6MTcwMDAwMDAwMH0.Eug95zoTPgqp-fwvf3NBbuVwycP37fjMp0hUZyo"
	  "JfgI",
	  "eyJhbGciOiJIUzI1NiIsImtpZCI6Im9uZSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJhZ2VudEBwcm9qZWN0Lml"
	  "hbS5nc2VydmljZWFjY291bnQuY29tIiwic2NvcGUiOiJodHRwczovL3d3dy5nb29nbGVhcGlzLmNvbS9hdXR"
	  "oL2Nsb3VkLXBsYXRmb3JtIiwiYXVkIjoiaHR0cHM6Ly9vYXV0aDIuZ29vZ2xlYXBpcy5jb20vdG9rZW4iLCJ"
	  "leHAiOjE3MDAwMDM2MDAsImlhdCI6MTcwMDAwMDAwMH0.UyQ5eUoVPzMpgKJVINI4CfF4vuf24JOV2SO44Wp"
	  "CIn0" },
	{ "HS512", "pl4ceholder secret", "the real secret",
	  "eyJhbGciOiJIUzUxMiIsImtpZCI6Im9uZSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJhZ2VudEBwcm9qZWN0Lml"
	  "hbS5nc2VydmljZWFjY291bnQuY29tIiwic2NvcGUiOiJodHRwczovL3d3dy5nb29nbGVhcGlzLmNvbS9hdXR"
	  "oL2Nsb3VkLXBsYXRmb3JtIiwiYXVkIjoiaHR0cHM6Ly9vYXV0aDIuZ29vZ2xlYXBpcy5jb20vdG9rZW4iLCJ"
	  "leHAiOjE3MDAwMDM2MDAsImlhdCI6MTcwMDAwMDAwMH0.SdQuwKSVCdvQxvgIW0R29yOChVQXhygECirb9Cr"
	  "BaG4VwARIJYwwdtPzxhwSBtcc-hRenUvn9N3T-eGhjxie7Q",
	  "eyJhbGciOiJIUzUxMiIsImtpZCI6Im9uZSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJhZ2VudEBwcm9qZWN0Lml"
	  "hbS5nc2VydmljZWFjY291bnQuY29tIiwic2NvcGUiOiJodHRwczovL3d3dy5nb29nbGVhcGlzLmNvbS9hdXR"
	  "oL2Nsb3VkLXBsYXRmb3JtIiwiYXVkIjoiaHR0cHM6Ly9vYXV0aDIuZ29vZ2xlYXBpcy5jb20vdG9rZW4iLCJ"
	  "leHAiOjE3MDAwMDM2MDAsImlhdCI6MTcwMDAwMDAwMH0.ZlRrRCduW7sj391P2p1zwzvwIq1LgqOoUNz5tMi"
	  "N9GA3MK_hNr8ld0HrRpxdE2zt98RVHLNAMCbi5c2Y-8OSIA" },
	{ "RS256", rsa_placeholder, rsa_real,
	  "eyJhbGciOiJSUzI1NiIsImtpZCI6Im9uZSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJhZ2VudEBwcm9qZWN0Lml"
	  "hbS5nc2VydmljZWFjY291bnQuY29tIiwic2NvcGUiOiJodHRwczovL3d3dy5nb29nbGVhcGlzLmNvbS9hdXR"
	  "oL2Nsb3VkLXBsYXRmb3JtIiwiYXVkIjoiaHR0cHM6Ly9vYXV0aDIuZ29vZ2xlYXBpcy5jb20vdG9rZW4iLCJ"
	  "leHAiOjE3MDAwMDM2MDAsImlhdCI6MTcwMDAwMDAwMH0.swAxC51auFdSuD5lJfNbhd2aw3OBAkVn0SFMWzy"
	  "MBb9c2xTUdUjPek99VDpmbaRB-s_eIIf2rdxOCdMD3L_3k-rJuM5xJcpFrYWEk7rGYfnZylkRkp3mb06sIM_"
	  "eyqX9KHS0TGglkffJxS87fefE1nVHfh8l6KJqMYOoeuO_5oamvRRX7HPj9fMVpEczqDMVvcgBwWuu6EWotp0"
	  "cDngaTU0LTrINx_Hiau-8Hnk563gzyDCLxpeHO85mrHZHSBT-okgEcIu5B2BpYKB6Wak9wZ07l62biaf_ni1"
	  "ISvaH2v7c_81C5aQrFtz8HJYji41Dk95HuVdUUvuZgIHrm68rkw",
	  "eyJhbGciOiJSUzI1NiIsImtpZCI6Im9uZSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJhZ2VudEBwcm9qZWN0Lml"
	  "hbS5nc2VydmljZWFjY291bnQuY29tIiwic2NvcGUiOiJodHRwczovL3d3dy5nb29nbGVhcGlzLmNvbS9hdXR"
	  "oL2Nsb3VkLXBsYXRmb3JtIiwiYXVkIjoiaHR0cHM6Ly9vYXV0aDIuZ29vZ2xlYXBpcy5jb20vdG9rZW4iLCJ"
	  "leHAiOjE3MDAwMDM2MDAsImlhdCI6MTcwMDAwMDAwMH0.AA83CInxgQblw7fyI0vXT_dcLTFlQZQJQCJzzhW"
	  "4kecGUR6PhXIwizOgBJX-_QrBhhHfXzpgDZA0cgctLsRW45FZevZnBlEitH-LstgVq80AmWoJn9w9MH_u8GW"
	  "uPEqSlazg6zsdev_WZwSiLYCSGogUvOwU8HQ9njqe32fyrL-kSGir_Q-8VN4Kxyn_dttFeWpNjpKQdgh3n-P"
	  "EhYr9lIqIqeeeEEx24Wyd4GpYrsi5VPHbs7X12GM_cSGSzWi_6ryF2ukEQ0IuUFkgAdn-dXa9OYkuVN_rA9P"
	  "I29EPVc5NNgQVlZPRRoTGCZThh6ZK2bE5Q1Jzq0iQ7_VFXGcIew" },
	{ "RS384", rsa_placeholder, rsa_real,
	  "eyJhbGciOiJSUzM4NCIsImtpZCI6Im9uZSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJhZ2VudEBwcm9qZWN0Lml"
	  "hbS5nc2VydmljZWFjY291bnQuY29tIiwic2NvcGUiOiJodHRwczovL3d3dy5nb29nbGVhcGlzLmNvbS9hdXR"
	  "oL2Nsb3VkLXBsYXRmb3JtIiwiYXVkIjoiaHR0cHM6Ly9vYXV0aDIuZ29vZ2xlYXBpcy5jb20vdG9rZW4iLCJ"
	  "leHAiOjE3MDAwMDM2MDAsImlhdCI6MTcwMDAwMDAwMH0.Wlr4oEmoCKOkO_hjGU-T1M67hG1pOfzlpwp5_vb"
	  "5phc3MtA8Koe2Sgh4QpgBQv3Ziy0Td-1yFhG66IoxrYAXaQxbKf5xz93AgVZ8wf5oe7Qt6P5QXURmjFVdequ"
	  "3Wp3eQK7o7EbnPW_vdzPult1PwBuKCKVEntWZDAT-zsbfIVE6h-mfo1k6iiSas2DtY1sz7OucKJWZsUnOpZf"
	  "5r3TyR0GmtyU8xTg-vfV8aOEaMJjJMoSlonQob0yPFZtBxRLGYX--IhhKoG2K2R0tMvm2LmwRp1wIeyEowzr"
	  "MUDJE-MF_mtW5RamFkBU0LJH0hE7rtEN5-NwBfACPA_3dTc8oaA",
	  "eyJhbGciOiJSUzM4NCIsImtpZCI6Im9uZSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJhZ2VudEBwcm9qZWN0Lml"
	  "hbS5nc2VydmljZWFjY291bnQuY29tIiwic2NvcGUiOiJodHRwczovL3d3dy5nb29nbGVhcGlzLmNvbS9hdXR"
	  "oL2Nsb3VkLXBsYXRmb3JtIiwiYXVkIjoiaHR0cHM6Ly9vYXV0aDIuZ29vZ2xlYXBpcy5jb20vdG9rZW4iLCJ"
	  "leHAiOjE3MDAwMDM2MDAsImlhdCI6MTcwMDAwMDAwMH0.DxMF8mOcvWaj1KnDj0B9_IEauZGb2lpiwM5ASwV"
	  "2GL3Q8pA73aTrToCo6PKUvY5ghMNnDoHEZFiGctqvHzsHLk5SwbHVEDsQnxypoIKgkwVLfx5TpwYp_KS2z3-"
	  "Ld5NvEFhdXR_Up11fyCRXEJdKO-IqQlqfldkL9HeLr6FNGazIah9hIvq7nz5nwHSRxPV38fTz8e80DwMuUpZ"
	  "-lXOzx2wPe1wFt_kn8vgHxh16ngpZ6ZMFwn7F7cOPWHWKsU-r5vPH-FRSSeeWozI5RBwggTV_emaFiPTOl41"
	  "gPWa0dtPFfQk_la_XU82CMbMVCwacqCaNNWHZC4GfQhR8zgmapA" },
	{ "RS512", rsa_placeholder, rsa_real,
	  "eyJhbGciOiJSUzUxMiIsImtpZCI6Im9uZSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJhZ2VudEBwcm9qZWN0Lml"
	  "hbS5nc2VydmljZWFjY291bnQuY29tIiwic2NvcGUiOiJodHRwczovL3d3dy5nb29nbGVhcGlzLmNvbS9hdXR"
	  "oL2Nsb3VkLXBsYXRmb3JtIiwiYXVkIjoiaHR0cHM6Ly9vYXV0aDIuZ29vZ2xlYXBpcy5jb20vdG9rZW4iLCJ"
	  "leHAiOjE3MDAwMDM2MDAsImlhdCI6MTcwMDAwMDAwMH0.XGcR-jtquZteAKz683kyDVK1-40P6iAwm6W8O_y"
	  "ef8P3N35-1Xoy2oHQu_WQoUIWcjuxlhdiDwU0VLYcfpWfRVBIM7fHTIGrYjbByKJyYZiBoR8rN170moAlTaM"
	  "YdKbHWy90H2w7JCfgHnOUWvUgv-LnlcTD6dt6wWNwK9hdXaWLuh0J_8H5phksi-DCT-V4xhqYoMAGc1Tivs3"
	  "DqNtYDoMqE24qPuwTcELa1qnSAoON6iUG4_g8U7ysYL3exxaR-LPi8w99CdAZPU5VvwfmItUAb-vTsgXieP5"
	  "6EW59cG_jLzOqxjz90BcjSsaqp4Rh8wNL_DKijj0GcnAPNFZDPA",
	  "eyJhbGciOiJSUzUxMiIsImtpZCI6Im9uZSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJhZ2VudEBwcm9qZWN0Lml"
	  "hbS5nc2VydmljZWFjY291bnQuY29tIiwic2NvcGUiOiJodHRwczovL3d3dy5nb29nbGVhcGlzLmNvbS9hdXR"
	  "oL2Nsb3VkLXBsYXRmb3JtIiwiYXVkIjoiaHR0cHM6Ly9vYXV0aDIuZ29vZ2xlYXBpcy5jb20vdG9rZW4iLCJ"
	  "leHAiOjE3MDAwMDM2MDAsImlhdCI6MTcwMDAwMDAwMH0.lYp7CQ4mGUY75JussRMq09wZT9ygt1d5RIo-T3t"
	  "NwbtKjDnX3Duzhl6YYUP3AZvl3jmYaO6u_J5R2xZgMSH4S_Qdj6U_q8x88HybASmDSuAMc5rBT9NCW-zJuq9"
	  "NtbOijrJCw75fJXgaLYvH4xTvTMeTt5qyjZtQvHVkodmzpInoSxv-A4oqyA5C-U8TizrGXAS1BPayg62FpRs"
	  "Oc6ojRsPIcZjD8qit1sEOoQS-2L-iTktaD9dE7wMVRPVjU6EEGu_-rw4n6YuClJhyVtfIDXJekv95j_pcKj2"
	  "amsuImIoldLf3PS4agYO2kLEuvdrIxV2_P4C0yqNHIvMmOmvm1w" },
	{ "PS256", rsa_placeholder, rsa_real,
	  "eyJhbGciOiJQUzI1NiIsImtpZCI6Im9uZSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJhZ2VudEBwcm9qZWN0Lml"
	  "hbS5nc2VydmljZWFjY291bnQuY29tIiwic2NvcGUiOiJodHRwczovL3d3dy5nb29nbGVhcGlzLmNvbS9hdXR"
	  "oL2Nsb3VkLXBsYXRmb3JtIiwiYXVkIjoiaHR0cHM6Ly9vYXV0aDIuZ29vZ2xlYXBpcy5jb20vdG9rZW4iLCJ"
	  "leHAiOjE3MDAwMDM2MDAsImlhdCI6MTcwMDAwMDAwMH0.fjDbxtLBfy42A-XDk1VT5KQl_o2cfNijpYrQ1Oe"
	  "OZOEvob9D2v9DiCZP-xpli30g1NbO96Ds2TzUuCCobsBhTHCuhl83GmftcctaCfdd2tyrVASvynK4ovutGoj"
	  "SWsFNBT4E3uRGOdx7zpNso9om2Xl_pvDOjPlWezn9Q5_OlOaEXgHs3LvYcjM0aojg6sGtKH1o5ZWwuIJLIvz"
	  "vJKgNerFmguFuqAzjeAjDOTArIPkpTs3LJOnTqr-Xcg2JVa9MKUJYS6_EhESZXB8D_QCeXyqWO9xC3tXBui8"
	  "NzJkRF3UQpLpmlXg9wt6b0SDRkREFmNYGimwz2Y9P2oPV0qHfCw",
	  NULL },
	{ "ES256", ec_placeholder, ec_real,
	  "eyJhbGciOiJFUzI1NiIsImtpZCI6Im9uZSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJhZ2VudEBwcm9qZWN0Lml"
	  "hbS5nc2VydmljZWFjY291bnQuY29tIiwic2NvcGUiOiJodHRwczovL3d3dy5nb29nbGVhcGlzLmNvbS9hdXR"
	  "oL2Nsb3VkLXBsYXRmb3JtIiwiYXVkIjoiaHR0cHM6Ly9vYXV0aDIuZ29vZ2xlYXBpcy5jb20vdG9rZW4iLCJ"
	  "leHAiOjE3MDAwMDM2MDAsImlhdCI6MTcwMDAwMDAwMH0.lb9D_k9qrRazysC-v1IsyUMQ_gCF7S9oeSzAP8U"
	  "vjIAFVvrPklgBbiErd6b-IgVg2NTIBTZO_BTIKkHux3M1yA",
	  NULL },
	{ "ES384", ec384_placeholder, ec384_real,
	  "eyJhbGciOiJFUzM4NCIsImtpZCI6Im9uZSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJhZ2VudEBwcm9qZWN0Lml"
	  "hbS5nc2VydmljZWFjY291bnQuY29tIiwic2NvcGUiOiJodHRwczovL3d3dy5nb29nbGVhcGlzLmNvbS9hdXR"
	  "oL2Nsb3VkLXBsYXRmb3JtIiwiYXVkIjoiaHR0cHM6Ly9vYXV0aDIuZ29vZ2xlYXBpcy5jb20vdG9rZW4iLCJ"
	  "leHAiOjE3MDAwMDM2MDAsImlhdCI6MTcwMDAwMDAwMH0.1Ft5K6YBgl3-FliAR11OiBuKOp_KpQnp4Ob_mtQ"
	  "0vD33iMxzGImc44fVYPBeK3OQgEGHR2l1_RsPeQvp9M8YjVeG2J3O0HmpT1CcNwGMiuVGuFm61-Jh9vQvWVm"
	  "SREwz",
	  NULL },
	{ "EdDSA", ed_placeholder, ed_real,
	  "eyJhbGciOiJFZERTQSIsImtpZCI6Im9uZSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJhZ2VudEBwcm9qZWN0Lml"
	  "hbS5nc2VydmljZWFjY291bnQuY29tIiwic2NvcGUiOiJodHRwczovL3d3dy5nb29nbGVhcGlzLmNvbS9hdXR"
	  "oL2Nsb3VkLXBsYXRmb3JtIiwiYXVkIjoiaHR0cHM6Ly9vYXV0aDIuZ29vZ2xlYXBpcy5jb20vdG9rZW4iLCJ"
	  "leHAiOjE3MDAwMDM2MDAsImlhdCI6MTcwMDAwMDAwMH0.m7m0MBKAVSRASZ281Tkcokat3x3XySTmDWyhux_"
	  "rauvhLdp0S6Jf9bE7cCU5-t2W5e8V9Zzp4uOnt81ULPHyDQ",
	  "eyJhbGciOiJFZERTQSIsImtpZCI6Im9uZSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJhZ2VudEBwcm9qZWN0Lml"
	  "hbS5nc2VydmljZWFjY291bnQuY29tIiwic2NvcGUiOiJodHRwczovL3d3dy5nb29nbGVhcGlzLmNvbS9hdXR"
	  "oL2Nsb3VkLXBsYXRmb3JtIiwiYXVkIjoiaHR0cHM6Ly9vYXV0aDIuZ29vZ2xlYXBpcy5jb20vdG9rZW4iLCJ"
	  "leHAiOjE3MDAwMDM2MDAsImlhdCI6MTcwMDAwMDAwMH0.fXOif32P64PzNABqXnNONmF2hl21nkf1uDQjKme"
	  "Ar-VPsN1NHeZi_GKPcKgTaqmMFzk0HG3VPg4L9vhyF8-HBA" },
};

static const char *
token_of(const struct sl_request *r)
{
	return sl_field(r, "authorization") + strlen("Bearer ");
}

static char *
as_bearer(const char *token)
{
	char *text = NULL;

	CHECK(asprintf(&text, "GET https://api.github.com/app\nauthorization: Bearer %s\n",
	               token) > 0);
	return text;
}

static char *
as_form(const char *name, const char *token)
{
	char *text = NULL;

	CHECK(asprintf(&text, "POST https://oauth2.googleapis.com/token\ncontent-type: "
	               "application/x-www-form-urlencoded\n\ngrant_type="
	               "urn%%3Aietf%%3Aparams%%3Aoauth%%3Agrant-type%%3Ajwt-bearer&%s=%s&x=%%20",
	               name, token) > 0);
	return text;
}

TEST(jwt_bearer)
{
	for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
		struct sign_key from = sl_key("", tokens[i].placeholder, "");
		struct sign_key to = sl_key("", tokens[i].real, "");
		OWN(freep) char *text = as_bearer(tokens[i].token);
		OWN(sl_request_freep) struct sl_request *r = sl_request(text);
		const char *got;

		if (sl_sign(r, &sign_jwt, NULL, &from, &to) < 0)
			test_fail(__FILE__, __LINE__, "%s: %s", tokens[i].algorithm, r->error);
		got = token_of(r);
		if (tokens[i].want != NULL)
			CHECK_STR(got, tokens[i].want);
		CHECK(strncmp(got, tokens[i].token, (size_t)(strrchr(got, '.') - got)) == 0);
		CHECK(strcmp(got, tokens[i].token) != 0);
		/* Verifies with the real key, and no longer with the placeholder's. */
		CHECK_ERR(sl_sign(r, &sign_jwt, NULL, &from, &to), EKEYREJECTED);
		CHECK_OK(sl_sign(r, &sign_jwt, NULL, &to, &from));
	}
}

TEST(jwt_in_a_form)
{
	static const char *const names[] = { "assertion", "client_assertion" };
	struct sign_key from = sl_key("", rsa_placeholder, ""), to = sl_key("", rsa_real, "");

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		OWN(freep) char *text = as_form(names[i], tokens[2].token);
		OWN(freep) char *wanted = as_form(names[i], tokens[2].want);
		OWN(sl_request_freep) struct sl_request *r = sl_request(text), *want = sl_request(wanted);
		OWN(freep) char *got = NULL, *want_text = sl_show(want);

		CHECK_OK(sl_sign(r, &sign_jwt, NULL, &from, &to));
		CHECK(r->wanted_body);
		got = sl_show(r);
		CHECK_STR(got, want_text);
	}
}

/* Another party's assertion stays; one of the two must be ours. */
TEST(jwt_two_assertions)
{
	struct sign_key from = sl_key("", rsa_placeholder, ""), to = sl_key("", rsa_real, "");
	OWN(freep) char *text = NULL, *shown = NULL;
	OWN(sl_request_freep) struct sl_request *r = NULL;

	CHECK(asprintf(&text, "POST https://a.example/\ncontent-type: "
	               "application/x-www-form-urlencoded\n\nassertion=%s&client_assertion=%s",
	               tokens[2].want, tokens[2].token) > 0);
	r = sl_request(text);
	CHECK_OK(sl_sign(r, &sign_jwt, NULL, &from, &to));
	shown = sl_show(r);
	free(text);
	CHECK(asprintf(&text, "\n\nassertion=%s&client_assertion=%s", tokens[2].want,
	               tokens[2].want) > 0);
	CHECK(strstr(shown, text) != NULL);
	r->body = r->m.body;
	CHECK_ERR(sl_sign(r, &sign_jwt, NULL, &from, &to), EKEYREJECTED);
}

TEST(jwt_form_without_one_stays)
{
	OWN(sl_request_freep) struct sl_request *r = sl_request(
		"POST https://a.example/\ncontent-type: application/x-www-form-urlencoded\n\na=b");
	struct sign_key key = sl_key("", rsa_placeholder, "");
	struct http_text id;

	CHECK(sign_jwt.find(&r->head, &id) && id.len == 0);
	CHECK_OK(sl_sign(r, &sign_jwt, NULL, &key, &key));
	CHECK(r->wanted_body && r->m.body.at == NULL && r->head.length == 3);
}

/* RFC 7515, A.1, with its line breaks in the JSON. */
TEST(jwt_rfc)
{
	static const char hs256[] =
		"eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAs"
		"DQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
		"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
	static const char key[] = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0i"
	                          "PS4hcgUuTwjAzZr1Z9CAow";
	struct sign_jwt_options options = { NULL, SIGN_BASE64URL, NULL };
	struct sign_key from = sl_key("", key, ""), to = sl_key("", "b3RoZXI", "");
	OWN(freep) char *text = as_bearer(hs256);

	sl_check_there_and_back(text, &sign_jwt, &options, &from, &to);
}

static char *
encode(const char *header, const char *claims)
{
	OWN(buf_free) struct buf b;
	const char *mac;

	buf_init(&b, 4096);
	scheme_put_coded(&b, SIGN_BASE64URL, header, strlen(header));
	buf_put_text(&b, ".");
	scheme_put_coded(&b, SIGN_BASE64URL, claims, strlen(claims));
	buf_put(&b, "", 1);
	mac = sl_hmac(EVP_sha256(), SIGN_BASE64URL, "pl4ceholder secret", (char *)b.data);
	b.len--;
	buf_put_text(&b, ".");
	buf_put_text(&b, mac);
	return strndup((char *)b.data, b.len);
}

static void
check_part(const char *token, int which, const char *want)
{
	unsigned char data[1024];
	size_t len;

	for (; which > 0; which--)
		token = strchr(token, '.') + 1;
	CHECK_OK(scheme_decode(SIGN_BASE64URL, (struct http_text){ token, strcspn(token, ".") },
	                       data, sizeof(data) - 1, &len));
	data[len] = '\0';
	CHECK_STR((char *)data, want);
}

/* As Google's client wrote them for years. */
TEST(jwt_with_padding)
{
	struct sign_key from = sl_key("", "pl4ceholder secret", ""), to = sl_key("", "the real secret", "");
	static const struct {
		const char *padding;
		bool good;
	} cases[] = { { "", true }, { "=", true }, { "==", false }, { "===", false } };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		/* {"alg":"HS256"} takes 20 characters, {"aud":"aaaa"} 19. */
		OWN(freep) char *text = NULL, *token = NULL;
		OWN(sl_request_freep) struct sl_request *r = NULL;

		CHECK(asprintf(&token, "eyJhbGciOiJIUzI1NiJ9.eyJhdWQiOiJhYWFhIn0%s",
		               cases[i].padding) > 0);
		CHECK(asprintf(&text, "GET https://a.example/\nauthorization: Bearer %s.%s\n", token,
		               sl_hmac(EVP_sha256(), SIGN_BASE64URL, "pl4ceholder secret", token)) > 0);
		r = sl_request(text);
		CHECK((sl_sign(r, &sign_jwt, NULL, &from, &to) == 0) == cases[i].good);
		CHECK(i > 1 || strncmp(token_of(r), token, strlen(token)) == 0);
	}
}

TEST(jwt_ids_are_the_real_ones)
{
	static const struct {
		const char *header, *claims, *want_header, *want_claims;
	} cases[] = {
		{ "{\"typ\": \"JWT\", \"kid\": \"app-1\", \"alg\": \"HS256\"}",
		  "{\"z\": 1, \"iss\": \"other\", \"a\": \"app-1\"}",
		  "{\"typ\": \"JWT\", \"kid\": \"real-9\", \"alg\": \"HS256\"}",
		  "{\"z\": 1, \"iss\": \"other\", \"a\": \"app-1\"}" },
		{ "{\"typ\": \"JWT\", \"alg\": \"HS256\"}",
		  "{\"z\": 1, \"iss\": \"app-1\", \"sub\": \"app-1\", \"b\": [1.5, {\"y\": 1, \"x\": 2}]}",
		  "{\"typ\": \"JWT\", \"alg\": \"HS256\"}",
		  "{\"z\": 1, \"iss\": \"real-9\", \"sub\": \"real-9\", \"b\": [1.5, {\"y\": 1, "
		  "\"x\": 2}]}" },
		{ "{\"alg\": \"HS256\"}", "{\"sub\":\"app\\u002d1\",\"x\":{\"iss\":\"app-1\"},\"iss\" : "
		  "\"app-1\"}", "{\"alg\": \"HS256\"}",
		  "{\"sub\":\"real-9\",\"x\":{\"iss\":\"app-1\"},\"iss\" : \"real-9\"}" },
	};
	struct sign_key from = sl_key("app-1", "pl4ceholder secret", "");
	struct sign_key to = sl_key("real-9", "the real secret", "");

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(freep) char *token = encode(cases[i].header, cases[i].claims);
		OWN(freep) char *text = as_bearer(token);
		OWN(sl_request_freep) struct sl_request *r = sl_request(text);

		CHECK_OK(sl_sign(r, &sign_jwt, NULL, &from, &to));
		check_part(token_of(r), 0, cases[i].want_header);
		check_part(token_of(r), 1, cases[i].want_claims);
		CHECK_OK(sl_sign(r, &sign_jwt, NULL, &to, &from));
	}
}

TEST(jwt_audience)
{
	static const struct {
		const char *claims;
		int code;
	} cases[] = {
		{ "{\"aud\":\"https://a.example\"}", 0 },
		{ "{\"aud\":[\"https://a.example\"]}", 0 },
		{ "{\"aud\":\"https://b.example\"}", EPERM },
		{ "{\"aud\":[\"https://a.example\",\"https://b.example\"]}", EPERM },
		{ "{\"aud\":17}", EPERM },
		{ "{}", EPERM },
	};
	struct sign_jwt_options options = { "https://a.example", SIGN_RAW, NULL };
	struct sign_key from = sl_key("", "pl4ceholder secret", "");
	struct sign_key to = sl_key("", "the real secret", "");

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(freep) char *token = encode("{\"alg\":\"HS256\"}", cases[i].claims);
		OWN(freep) char *text = as_bearer(token);
		OWN(sl_request_freep) struct sl_request *r = sl_request(text);

		CHECK_ERR(sl_sign(r, &sign_jwt, &options, &from, &to), cases[i].code);
		CHECK_OK(sl_sign(r, &sign_jwt, NULL, cases[i].code == 0 ? &to : &from, &from));
	}
}

TEST(jwt_algorithm)
{
	struct sign_jwt_options options = { NULL, SIGN_RAW, "HS512" };
	struct sign_key from = sl_key("", "pl4ceholder secret", "");
	struct sign_key to = sl_key("", "the real secret", "");
	OWN(freep) char *text = as_bearer(tokens[0].token), *other = as_bearer(tokens[1].token);
	OWN(sl_request_freep) struct sl_request *r = sl_request(text), *fits = sl_request(other);

	CHECK_ERR(sl_sign(r, &sign_jwt, &options, &from, &to), EPERM);
	CHECK(strstr(r->error, "HS256, and the secret is for HS512 only") != NULL);
	CHECK_OK(sl_sign(fits, &sign_jwt, &options, &from, &to));
}

/* There is no assertion in what is that long: it need not wait. */
TEST(jwt_long_forms_go_by)
{
	OWN(freep) char *text = NULL;
	OWN(sl_request_freep) struct sl_request *r = NULL;
	struct http_text id;

	CHECK(asprintf(&text, "POST https://a.example/\ncontent-type: "
	               "application/x-www-form-urlencoded\n\na=%*d", SCHEME_FORM_MAX, 1) > 0);
	r = sl_request(text);
	CHECK(!sign_jwt.find(&r->head, &id));
	r->head.length = HTTP_LENGTH_UNKNOWN;
	CHECK(sign_jwt.find(&r->head, &id));
}

TEST(jwt_refuses)
{
	static const char public_key[] =
		"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
		"-----END PUBLIC KEY-----\n";
	static const struct {
		const char *header, *claims, *from, *to, *why;
	} cases[] = {
		{ "{\"alg\":\"none\"}", "{}", "pl4ceholder secret", "real", "algorithm is none of" },
		{ "{\"alg\":17}", "{}", "pl4ceholder secret", "real", "algorithm is none of" },
		{ "{\"alg\":\"HS256\",\"alg\":\"none\"}", "{}", "pl4ceholder secret", "real",
		  "has 'alg' twice" },
		{ "{\"alg\"}", "{}", "pl4ceholder secret", "real", "header is no JSON object" },
		{ "{\"alg\":\"HS256\"}", "{\"aud\":1,\"aud\":2}", "pl4ceholder secret", "real",
		  "has 'aud' twice" },
		{ "{\"alg\":\"HS256\",\"crit\":[\"b64\"]}", "{}", "pl4ceholder secret", "real",
		  "'crit'" },
		{ "{\"alg\":\"HS256\"}", "[]", "pl4ceholder secret", "real", "claims are no JSON" },
		{ "{\"alg\":\"HS256\"}", "{}", "wrong secret", "real", "JWT signature is not the "
		  "placeholder's" },
		/* a public key is no shared secret */
		{ "{\"alg\":\"HS256\"}", "{}", public_key, "real", "is a PEM key, and HS256 wants a "
		  "shared secret" },
		{ "{\"alg\":\"HS256\"}", "{}", "pl4ceholder secret", rsa_real, "the real key is a PEM "
		  "key" },
		{ "{\"alg\":\"RS256\"}", "{}", "pl4ceholder secret", rsa_real, "is no PEM key without a "
		  "passphrase, and RS256" },
		{ "{\"alg\":\"RS256\"}", "{}", ec_placeholder, rsa_real, "of another kind than RS256" },
		{ "{\"alg\":\"ES384\"}", "{}", ec_placeholder, ec_real, "of another kind than ES384" },
		{ "{\"alg\":\"ES256\"}", "{}", ec_placeholder, ec_real, "JWT signature is not" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct sign_key from = sl_key("", cases[i].from, ""), to = sl_key("", cases[i].to, "");
		OWN(freep) char *token = encode(cases[i].header, cases[i].claims);
		OWN(freep) char *text = as_bearer(token);
		OWN(sl_request_freep) struct sl_request *r = sl_request(text);
		OWN(freep) char *before = sl_show(r), *after = NULL;

		CHECK(sl_sign(r, &sign_jwt, NULL, &from, &to) < 0);
		if (strstr(r->error, cases[i].why) == NULL)
			test_fail(__FILE__, __LINE__, "case %zu: %s", i, r->error);
		after = sl_show(r);
		CHECK_STR(after, before);
	}
}

TEST(jwt_public_key_only_verifies)
{
	static const char public_key[] = "-----BEGIN PUBLIC KEY-----\n"
		"MCowBQYDK2VwAyEAbjrZuGnJKP6PsnzxggnIqAubJ47+ldQi/ylNc2iXOUk=\n"
		"-----END PUBLIC KEY-----\n";
	struct sign_key from = sl_key("", public_key, ""), to = sl_key("", ed_real, "");
	OWN(freep) char *text = as_bearer(tokens[8].token);
	OWN(sl_request_freep) struct sl_request *r = sl_request(text);

	CHECK_OK(sl_sign(r, &sign_jwt, NULL, &from, &to));
	CHECK(sl_sign(r, &sign_jwt, NULL, &to, &from) < 0);
	CHECK(strstr(r->error, "cannot sign") != NULL);
}

TEST(jwt_finds_only_its_own)
{
	static const char *const others[] = {
		"Bearer ya29.a.b", "Bearer eyJ", "Bearer eyJ.a", "Bearer eyJ.a.b.c", "Bearer ", "Basic eyJ.a.b",
		"Bearer eyJ..x",
	};
	struct http_text id;

	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		char text[128];
		OWN(sl_request_freep) struct sl_request *r = NULL;

		snprintf(text, sizeof(text), "GET https://a.example/\nauthorization: %.*s\n",
		         (int)strlen(others[i]) - (others[i][strlen(others[i]) - 1] == ' '), others[i]);
		r = sl_request(text);
		CHECK(!sign_jwt.find(&r->head, &id));
	}
}

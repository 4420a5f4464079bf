/* wire_scram.c - tests of SCRAM-SHA-256 with the example of RFC 7677. */
#include "wire/scram.h"

#include <errno.h>

#include "base/err.h"
#include "test.h"

#define NONCE "rOprNGfwEbeRWgbNEkqO"
#define REST "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
#define SALT "W22ZaJ0SNY7soEsUEjb6gQ=="
#define FIRST "r=" NONCE REST ",s=" SALT ",i=4096"
#define PROOF "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
#define SIGNATURE "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

static void
begin(struct scram *s, const char *header)
{
	struct scram_binding binding = { .header = header };
	char text[SCRAM_MESSAGE_MAX];

	CHECK_OK(scram_first(s, &binding, "user", NONCE, text));
	CHECK(strncmp(text, header, strlen(header)) == 0);
	CHECK_STR(text + strlen(header), "n=user,r=" NONCE);
}

TEST(scram_example)
{
	struct scram s;
	char text[SCRAM_MESSAGE_MAX];

	begin(&s, "n,,");
	CHECK_OK(scram_final(&s, "pencil", FIRST, strlen(FIRST), text, NULL));
	CHECK_STR(text, "c=biws,r=" NONCE REST ",p=" PROOF);
	CHECK_OK(scram_check(&s, "v=" SIGNATURE, 2 + strlen(SIGNATURE), NULL));
	/* Another password is another proof, and the server's is not believed. */
	begin(&s, "n,,");
	CHECK_OK(scram_final(&s, "pencils", FIRST, strlen(FIRST), text, NULL));
	CHECK(strstr(text, PROOF) == NULL);
	CHECK_ERR(scram_check(&s, "v=" SIGNATURE, 2 + strlen(SIGNATURE), NULL), EBADMSG);
}

TEST(scram_binding)
{
	struct scram_binding binding = { .header = "p=tls-server-end-point,,", .data = "ab", .len = 2 };
	struct scram s;
	char text[SCRAM_MESSAGE_MAX];

	CHECK_OK(scram_first(&s, &binding, "", NONCE, text));
	CHECK_STR(text, "p=tls-server-end-point,,n=,r=" NONCE);
	CHECK_OK(scram_final(&s, "pencil", FIRST, strlen(FIRST), text, NULL));
	CHECK(strncmp(text, "c=cD10bHMtc2VydmVyLWVuZC1wb2ludCwsYWI=,r=", 41) == 0);
}

TEST(scram_bad_servers)
{
	static const struct {
		const char *first;
		int want;
	} cases[] = {
		{ "", EBADMSG }, { "e=other-error", EBADMSG },
		{ "r=" NONCE ",s=" SALT ",i=4096", EBADMSG },           /* added nothing */
		{ "r=x" NONCE REST ",s=" SALT ",i=4096", EBADMSG },     /* is for another */
		{ "r=" NONCE " x,s=" SALT ",i=4096", EBADMSG },
		{ "m=ext," FIRST, EBADMSG },
		{ "r=" NONCE REST ",s=,i=4096", EBADMSG },
		{ "r=" NONCE REST ",s=W22Z!J0S,i=4096", EBADMSG },
		{ "r=" NONCE REST ",s=W22Z=J0S,i=4096", EBADMSG },
		{ "r=" NONCE REST ",s=W22,i=4096", EBADMSG },
		{ "r=" NONCE REST ",s=" SALT, EBADMSG },
		{ "r=" NONCE REST ",s=" SALT ",i=", EBADMSG },
		{ "r=" NONCE REST ",s=" SALT ",i=0", EBADMSG },
		{ "r=" NONCE REST ",s=" SALT ",i=-1", EBADMSG },
		{ "r=" NONCE REST ",s=" SALT ",i=04096", EBADMSG },
		{ "r=" NONCE REST ",s=" SALT ",i=99999999999", EBADMSG },
		{ "r=" NONCE REST ",s=" SALT ",i=200001", E2BIG },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct scram s;
		struct err err = {0};
		char text[SCRAM_MESSAGE_MAX];
		int r;

		begin(&s, "n,,");
		r = scram_final(&s, "pencil", cases[i].first, strlen(cases[i].first), text, &err);
		if (r != -cases[i].want || err.text[0] == '\0')
			test_fail(__FILE__, __LINE__, "%s: %d, %s", cases[i].first, r, err.text);
	}
}

TEST(scram_bad_signatures)
{
	static const char *const cases[] = { "", "v=", "v=AAAA", "x=" SIGNATURE, "v=" SIGNATURE "A",
		"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "e=invalid-proof" };
	struct scram s;
	char text[SCRAM_MESSAGE_MAX];

	begin(&s, "n,,");
	CHECK_OK(scram_final(&s, "pencil", FIRST, strlen(FIRST), text, NULL));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK_ERR(scram_check(&s, cases[i], strlen(cases[i]), NULL), EBADMSG);
}

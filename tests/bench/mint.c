/* mint.c - times the minting of placeholders; prints what and nanoseconds. */
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/own.h"
#include "vault/placeholder.h"

static const struct {
	const char *name, *like, *value;
	int rounds;
} cases[] = {
	{ "GitHub token", "github", "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", 2000 },
	{ "Anthropic key", "anthropic", "sk-ant-api03-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	  "0123456789abcdefghijklmnopqrstuvwxyzABCDEAA", 2000 },
	{ "guessed, 200 characters", "k@a.x", "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
	  "WXYZ0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefghijklmnopqrs"
	  "tuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcd", 2000 },
	{ "base64", "azure-storage", "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83v"
	  "EjRWeJCrze8SNFZ4kA==", 2000 },
	{ "JWT", "k@a.x", "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", 2000 },
	{ "P-256 key", "k@a.x", NULL, 200 },
};

static char *
new_key(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	BIO *out = BIO_new(BIO_s_mem());
	char *at, *text = NULL;
	long n;

	if (key != NULL && out != NULL &&
	    PEM_write_bio_PKCS8PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1) {
		n = BIO_get_mem_data(out, &at);
		text = strndup(at, (size_t)n);
	}
	EVP_PKEY_free(key);
	BIO_free(out);
	return text;
}

static double
measure(const struct secret *s, const struct guard *real, int rounds, struct err *err)
{
	struct timespec a, b;
	double best = 1e18, ns;

	for (int i = 0; i < 5; i++) {
		clock_gettime(CLOCK_MONOTONIC, &a);
		for (int k = 0; k < rounds; k++) {
			OWN(freep) char *text = NULL;

			if (placeholder_mint_text(&s->shapes[SECRET_SECRET], real, &text, err) < 0)
				return -1;
		}
		clock_gettime(CLOCK_MONOTONIC, &b);
		ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / rounds;
		best = ns < best ? ns : best;
	}
	return best;
}

int
main(void)
{
	OWN(freep) char *key = new_key();

	for (size_t i = 0; key != NULL && i < ARRAY_LEN(cases); i++) {
		const char *value = cases[i].value != NULL ? cases[i].value : key;
		OWN(secret_freep) struct secret *s = NULL;
		OWN(guard_free) struct guard real = {0};
		struct secret_short given;
		struct err err = {0};
		double ns = -1;

		if (secret_short_parse(cases[i].like, &given, &err) == 0 &&
		    secret_short_define(&given, &s, &err) == 0 &&
		    guard_copy(&real, value, strlen(value), &err) == 0)
			ns = measure(s, &real, cases[i].rounds, &err);
		if (ns < 0) {
			fprintf(stderr, "mint: %s\n", err.text);
			return 1;
		}
		printf("%s: %.0f\n", cases[i].name, ns);
	}
	return key == NULL;
}

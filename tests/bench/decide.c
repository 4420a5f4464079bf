/* decide.c - times decisions of policies with 1,000 rules; prints what and nanoseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy.h"

#define RULES 1000
#define ROUNDS 20000

static struct http_text
text_of(const char *text)
{
	return (struct http_text){ text, strlen(text) };
}

/* What a company might write: many services, each with a few paths and methods. */
static void
write_hosts(FILE *out)
{
	for (int i = 0; i < RULES / 4; i++)
		fprintf(out, "- {allow: s%d.example.com, methods: [GET], paths: [/v1/**, /v2/items/*]}\n"
		        "- {allow: s%d.example.com, methods: [POST], paths: [/v1/items]}\n"
		        "- {deny: '*.t%d.example.com', paths: [/admin/**]}\n"
		        "- {allow: '**.t%d.example.com', methods: [GET]}\n", i, i, i, i);
}

/* All of it about one host: nothing can be left out by its name. */
static void
write_paths(FILE *out)
{
	for (int i = 0; i < RULES; i++)
		fprintf(out, "- {allow: api.example.com, methods: [%s], paths: [/v1/repos/r%d/**]}\n",
		        i % 2 ? "GET" : "POST", i);
}

/* No name at all. */
static void
write_any(FILE *out)
{
	for (int i = 0; i < RULES; i++)
		fprintf(out, "- {deny: '*', paths: [/p%d/*/x]}\n", i);
}

static const struct {
	const char *name;
	void (*write)(FILE *out);
	const char *host, *method, *path;
} cases[] = {
	{ "hosts: first", write_hosts, "s0.example.com", "GET", "/v1/a/b/c" },
	{ "hosts: last", write_hosts, "a.b.t249.example.com", "GET", "/x/y" },
	{ "hosts: none", write_hosts, "www.elsewhere.org", "GET", "/x/y?a=b" },
	{ "paths: last", write_paths, "api.example.com", "GET", "/v1/repos/r999/issues/17" },
	{ "paths: none", write_paths, "api.example.com", "PUT", "/v1/repos/none/issues/17" },
	{ "any: last", write_any, "api.example.com", "PUT", "/p999/y/x" },
};

static double
measure(const struct policy *p, const struct policy_request *req)
{
	struct policy_decision decision;
	struct policy_logged logged;
	struct timespec a, b;
	double best = 1e18, ns;

	for (int i = 0; i < 5; i++) {
		clock_gettime(CLOCK_MONOTONIC, &a);
		for (int k = 0; k < ROUNDS; k++)
			policy_decide(p, req, &decision, &logged);
		clock_gettime(CLOCK_MONOTONIC, &b);
		ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / ROUNDS;
		best = ns < best ? ns : best;
	}
	return best;
}

int
main(void)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(policy_freep) struct policy *p = NULL;
		OWN(freep) char *text = NULL;
		struct http_head head = { .method = text_of(cases[i].method),
			.host = text_of(cases[i].host), .path = text_of(cases[i].path), .port = 443,
			.scheme = HTTP_TLS };
		struct policy_request req = { .head = &head, .host = cases[i].host, .port = 443 };
		struct err err = {0};
		size_t len;
		FILE *out = open_memstream(&text, &len);

		if (out == NULL)
			return 1;
		fputs("version: 1\negress:\n", out);
		cases[i].write(out);
		fclose(out);
		if (policy_load_text("bench", text, len, &p, NULL, &err) < 0) {
			fprintf(stderr, "decide: %s\n", err.text);
			return 1;
		}
		head.fields[head.n_fields++] = (struct http_field){ text_of("accept"), text_of("*/*") };
		printf("%s: %.0f\n", cases[i].name, measure(p, &req));
	}
	return 0;
}

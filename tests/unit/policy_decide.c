/* policy_decide.c - tests of policy/policy_decide, policy_index and policy_head. */
#include <stdio.h>

#include "base/own.h"
#include "policy/policy_parts.h"
#include "policy_lab.h"
#include "test.h"

#define GET "GET https://"
#define POST "POST https://"

static const struct {
	const char *rules, *request, *want;
} cases[] = {
	/* hosts */
	{ "", GET "a.example", "deny -1" },
	{ "- allow: a.example", GET "a.example", "allow 0" },
	{ "- allow: A.Example.", GET "a.example", "allow 0" },
	{ "- allow: a.example", GET "xa.example", "deny -1" },
	{ "- allow: a.example", GET "a.example.x", "deny -1" },
	{ "- allow: '*.example'", GET "a.example", "allow 0" },
	{ "- allow: '*.example'", GET "b.a.example", "deny -1" },
	{ "- allow: '*.example'", GET "example", "deny -1" },
	{ "- allow: '**.example'", GET "b.a.example", "allow 0" },
	{ "- allow: '**.example'", GET "example", "deny -1" },
	{ "- allow: '**.example'", GET "badexample", "deny -1" },
	{ "- allow: '*'", GET "b.a.example", "allow 0" },
	{ "- allow: '*'", GET "1.2.3.4", "deny -1" },
	{ "- allow: '*'", GET "host.cloister.internal", "deny -1" },
	{ "- allow: '**.internal'", GET "host.cloister.internal", "deny -1" },
	{ "- allow: host.cloister.internal:8080", "GET http://host.cloister.internal:8080",
	  "allow 0" },
	{ "- allow: 1.2.3.4", GET "1.2.3.4", "allow 0" },
	{ "- allow: 1.2.3.4", GET "1.2.3.5", "deny -1" },
	{ "- allow: 10.0.0.0/8", GET "10.200.3.4", "allow 0" },
	{ "- allow: 10.0.0.0/9", GET "10.127.3.4", "allow 0" },
	{ "- allow: 10.0.0.0/9", GET "10.128.3.4", "deny -1" },
	{ "- allow: 10.0.0.0/9", GET "[::ffff:10.1.2.3]", "allow 0" },
	{ "- allow: '2a01:db8::/32'", GET "[2a01:db8:1::1]", "allow 0" },
	{ "- allow: '2a01:db8::/32'", GET "[2a01:db9:1::1]", "deny -1" },
	{ "- allow: '::/0'", GET "[2a01:db9:1::1]", "allow 0" },
	{ "- allow: '::/0'", GET "10.0.0.1", "deny -1" },
	{ "- allow: 0.0.0.0/0", GET "[2a01:db9:1::1]", "deny -1" },
	{ "- allow: 0.0.0.0/0", GET "a.example", "deny -1" },
	{ "- allow: '[2a01:db8::1]:8443'", GET "[2a01:db8::1]:8443", "allow 0" },
	{ "- allow: '[2a01:db8::/32]:8443'", GET "[2a01:db8::1]:8443", "allow 0" },
	{ "- allow: [a.example, b.example]", GET "b.example", "allow 0" },
	/* order, over lists of different kinds */
	{ "- deny: a.example\n- allow: '**.example'", GET "a.example", "deny 0" },
	{ "- allow: a.example\n- deny: '**.example'\n- allow: '*'", GET "a.example", "allow 0" },
	{ "- allow: a.example\n- deny: '**.example'\n- allow: '*'", GET "b.example", "deny 1" },
	{ "- allow: a.example\n- deny: '**.example'\n- allow: '*'", GET "b.x", "allow 2" },
	{ "- {allow: '*', methods: [HEAD]}\n- ask: '*.b.c'\n- deny: '**.c'\n- allow: '*'\n",
	  GET "a.b.c", "ask 1" },
	{ "- log: '*'\n- allow: a.example", GET "a.example", "allow 1" },
	{ "- log: '*'", GET "a.example", "deny -1" },
	{ "- ask: a.example", GET "a.example", "ask 0" },
	/* fields that make servers see another request */
	{ "- {allow: a.example, methods: [GET]}", GET "a.example\nx-http-method-override: DELETE",
	  "deny -1" },
	{ "- {allow: a.example, methods: [GET, PUT]}", GET "a.example\nx-http-method-override: PUT",
	  "allow 0" },
	{ "- allow: a.example", GET "a.example\nx-http-method-override: DELETE", "allow 0" },
	{ "- {allow: a.example, paths: [/a]}", GET "a.example/a\nx-original-url: /b", "deny -1" },
	{ "- {allow: a.example, paths: [/a]}", GET "a.example/a\nx-rewrite-url: /b", "deny -1" },
	{ "- {deny: a.example, methods: [GET]}\n- allow: a.example",
	  GET "a.example\nx-http-method-override: PUT", "deny 0" },
	{ "- {deny: a.example, methods: [DELETE]}\n- allow: a.example",
	  POST "a.example\nx-http-method-override: DELETE", "deny 0" },
	{ "- {ask: a.example, methods: [DELETE, PUT]}\n- allow: a.example",
	  POST "a.example\nx-method-override: put", "ask 0" },
	{ "- {deny: a.example, methods: [DELETE]}\n- allow: a.example",
	  POST "a.example\nx.http.method: DELETE", "deny 0" },
	{ "- {deny: a.example, methods: [DELETE]}\n- allow: a.example",
	  POST "a.example\nx-http-method: DELETE,", "deny 0" },
	{ "- {deny: a.example, methods: [DELETE]}\n- allow: a.example",
	  POST "a.example\nx-http-method-override: PUT", "allow 1" },
	{ "- {deny: a.example, methods: [POST]}\n- allow: a.example",
	  POST "a.example\nx-http-method-override: PUT", "deny 0" },
	{ "- {allow: a.example, methods: [POST]}", POST "a.example\nx.http.method: DELETE", "deny -1" },
	{ "- {deny: a.example, paths: [/b/**]}\n- allow: a.example",
	  GET "a.example/a\nx-original-url: /b/c", "deny 0" },
	{ "- {ask: a.example, paths: [/b/**]}\n- allow: a.example",
	  GET "a.example/a\nx_rewrite_url: /b/c", "ask 0" },
	{ "- {allow: a.example, paths: [/a]}", GET "a.example/a\nx_original_url: /b", "deny -1" },
	/* ports and schemes */
	{ "- allow: a.example", GET "a.example:444", "deny -1" },
	{ "- allow: a.example", "GET http://a.example", "allow 0" },
	{ "- allow: a.example:444", GET "a.example:444", "allow 0" },
	{ "- allow: a.example:444", GET "a.example", "deny -1" },
	{ "- allow: [a.example:444, a.example:445]", GET "a.example:445", "allow 0" },
	{ "- {allow: a.example, ports: [80, 8000-8010]}", GET "a.example:8005", "allow 0" },
	{ "- {allow: a.example, ports: [80, 8000-8010]}", GET "a.example:8011", "deny -1" },
	{ "- {allow: [a.example, b.example:9], ports: 8}", GET "b.example:8", "deny -1" },
	{ "- {allow: a.example, scheme: https}", "GET http://a.example", "deny -1" },
	{ "- {allow: a.example, scheme: https}", "GET https://a.example:80", "deny -1" },
	{ "- {allow: a.example, scheme: http}", GET "a.example", "deny -1" },
	{ "- {allow: a.example, scheme: [http, https]}", GET "a.example", "allow 0" },
	{ "- deny: a.example\n- {allow: '*', ports: 1-65535}", GET "a.example:99", "deny 0" },
	/* methods, paths, query */
	{ "- {allow: a.example, methods: [GET, HEAD]}", "HEAD https://a.example", "allow 0" },
	{ "- {allow: a.example, methods: GET}", POST "a.example", "deny -1" },
	{ "- {allow: a.example, methods: GET}", "GETX https://a.example", "deny -1" },
	{ "- {allow: a.example, paths: [/repos/**]}", GET "a.example/repos/a/b?c=d", "allow 0" },
	{ "- {allow: a.example, paths: [/repos/*]}", GET "a.example/repos/a/b", "deny -1" },
	{ "- {allow: a.example, paths: /x}", GET "a.example/x?y", "allow 0" },
	{ "- {allow: a.example, paths: '/a b'}", GET "a.example/a%20b", "allow 0" },
	{ "- {allow: a.example, paths: '/a%20b'}", GET "a.example/a%20b", "allow 0" },
	{ "- {allow: a.example, paths: '/a!b'}", GET "a.example/a%21b", "allow 0" },
	{ "- {allow: a.example, paths: '/a%25b'}", GET "a.example/a%25b", "allow 0" },
	{ "- {deny: a.example, paths: '/a!b'}\n- allow: a.example", GET "a.example/a%21b",
	  "deny 0" },
	{ "- {allow: a.example, paths: /@*/*}", GET "a.example/@a%2Fb", "deny -1" },
	{ "- {allow: a.example, paths: /*}", GET "a.example/@a%2Fb", "deny -1" },
	{ "- {allow: a.example, paths: [/@*/*, /@*]}", GET "a.example/@a%2Fb", "allow 0" },
	{ "- {allow: a.example, paths: /**}", GET "a.example/@a%2Fb", "allow 0" },
	{ "- {deny: a.example, paths: /a/**}\n- allow: a.example", GET "a.example/a%2fb", "deny 0" },
	{ "- {deny: a.example, paths: /*}\n- allow: a.example", GET "a.example/a%2Fb", "deny 0" },
	{ "- {deny: a.example, paths: /*}\n- allow: a.example", GET "a.example/a/b", "allow 1" },
	{ "- {deny: a.example, paths: /a%2Fb}\n- allow: a.example", GET "a.example/a%2Fb",
	  "deny 0" },
	{ "- {allow: a.example, query: ''}", GET "a.example/", "allow 0" },
	{ "- {allow: a.example, query: ''}", GET "a.example/?", "allow 0" },
	{ "- {allow: a.example, query: ''}", GET "a.example/?x", "deny -1" },
	{ "- {allow: a.example, query: 'a=*'}", GET "a.example/?a=1", "allow 0" },
	{ "- {allow: a.example, query: 'a=*'}", GET "a.example/?a=1&b=2", "deny -1" },
	{ "- {allow: a.example, query: 'a=**'}", GET "a.example/?a=1&b=2", "allow 0" },
	{ "- {allow: a.example, query: {a: '1'}}", GET "a.example/?b=2&a=1", "allow 0" },
	{ "- {allow: a.example, query: {a: '1'}}", GET "a.example/?a=2", "deny -1" },
	{ "- {allow: a.example, query: {a: '1'}}", GET "a.example/?a=1&a=2", "deny -1" },
	{ "- {allow: a.example, query: {a: [1, 2]}}", GET "a.example/?a=1&a=2", "allow 0" },
	{ "- {allow: a.example, query: {a: 'x y'}}", GET "a.example/?a=x+y", "allow 0" },
	{ "- {allow: a.example, query: {'a b': 'x&y'}}", GET "a.example/?a%20b=x%26y", "allow 0" },
	{ "- {allow: a.example, query: {a: absent}}", GET "a.example/?b=1", "allow 0" },
	{ "- {allow: a.example, query: {a: absent}}", GET "a.example/?b=1&a", "deny -1" },
	{ "- {allow: a.example, query: {a: absent}}", GET "a.example/?b=1&%61=2", "deny -1" },
	{ "- {deny: a.example, query: {a: '1'}}\n- allow: a.example", GET "a.example/?a=2&a=1",
	  "deny 0" },
	/* An escaped slash can be said, and is then no slash. */
	{ "- {allow: a.example, paths: [/@s%2Fn, /@s/n]}", GET "a.example/@s%2Fn", "allow 0" },
	{ "- {allow: a.example, paths: [/@s%2Fn, /@s/n]}", GET "a.example/@s%252Fn", "deny -1" },
	{ "- {allow: a.example, paths: [/@s%2Fn, /@s/n]}", GET "a.example/@s%2Fn%2Fm", "deny -1" },
	{ "- {allow: a.example, paths: [/@s%2Fn, /x]}", GET "a.example/@s%2Fn", "deny -1" },
	{ "- {allow: a.example, paths: [/@s%2Fn, /x]}", GET "a.example/@s/n", "deny -1" },
	{ "- {deny: a.example, paths: [/@s%2Fn]}\n- allow: a.example", GET "a.example/@s%2Fn", "deny 0" },
	/* What one server reads so and another otherwise. */
	{ "- {allow: a.example, query: {a: absent}}", GET "a.example/?b=1;a=2", "deny -1" },
	{ "- {allow: a.example, query: {a: absent}}", GET "a.example/?a[]=2", "deny -1" },
	{ "- {allow: a.example, query: {a: absent}}", GET "a.example/?a%5Bx%5D=2", "deny -1" },
	{ "- {allow: a.example, query: {a: absent}}", GET "a.example/?+a=2", "deny -1" },
	{ "- {allow: a.example, query: {a: absent}}", GET "a.example/?A=2", "deny -1" },
	{ "- {allow: a.example, query: {a: absent}}", GET "a.example/?a%00b=2", "deny -1" },
	{ "- {allow: a.example, query: {a: absent}}", GET "a.example/?b=1&ab=2", "allow 0" },
	{ "- {allow: a.example, query: {a_b: '1'}}", GET "a.example/?a_b=1&a.b=2", "deny -1" },
	{ "- {allow: a.example, query: {a_b: '1'}}", GET "a.example/?a_b=1", "allow 0" },
	{ "- {allow: a.example, query: {a: '*'}}", GET "a.example/?a=1;b=2", "deny -1" },
	{ "- {allow: a.example, query: {a: '*'}}", GET "a.example/?a=1%3Bb=2", "allow 0" },
	{ "- {allow: a.example, query: 'a=*'}", GET "a.example/?a=1;b=2", "deny -1" },
	{ "- {allow: a.example, query: 'a=*;b=*'}", GET "a.example/?a=1;b=2", "allow 0" },
	{ "- {deny: a.example, query: {a: '1'}}\n- allow: a.example", GET "a.example/?b=2;a=1",
	  "deny 0" },
	{ "- {deny: a.example, query: {a: '1'}}\n- allow: a.example", GET "a.example/?a[]=1",
	  "deny 0" },
	{ "- {deny: a.example, query: {a: '1'}}\n- allow: a.example", GET "a.example/?a=1;b=2",
	  "deny 0" },
	{ "- {deny: a.example, query: {a: '1'}}\n- allow: a.example", GET "a.example/?b=2;c=1",
	  "allow 1" },
	{ "- {deny: a.example, query: {a: absent}}\n- allow: a.example", GET "a.example/?a[]=1",
	  "deny 0" },
	{ "- {allow: a.example, headers: {x-api: absent}}", GET "a.example/\nx_api: b", "deny -1" },
	{ "- {allow: a.example, headers: {x-api: absent}}", GET "a.example/\nx.api: b", "deny -1" },
	{ "- {allow: a.example, headers: {x-api: a}}", GET "a.example/\nx-api: a\nx_api: a",
	  "deny -1" },
	{ "- {allow: a.example, headers: {x-api: a}}", GET "a.example/\nx_api: a", "deny -1" },
	{ "- {deny: a.example, headers: {x-api: b}}\n- allow: a.example", GET "a.example/\nx_api: b",
	  "deny 0" },
	{ "- {deny: a.example, headers: {x-api: absent}}\n- allow: a.example",
	  GET "a.example/\nx_api: b", "deny 0" },
	/* headers */
	{ "- {allow: a.example, headers: {X-Api: '2024-*'}}", GET "a.example/\nx-api: 2024-01",
	  "allow 0" },
	{ "- {allow: a.example, headers: {X-Api: '2024-*'}}", GET "a.example/\nx-api: 2023-01",
	  "deny -1" },
	{ "- {allow: a.example, headers: {X-Api: '2024-*'}}", GET "a.example/", "deny -1" },
	{ "- {allow: a.example, headers: {x-api: a}}", GET "a.example/\nx-api: a\nx-api: b",
	  "deny -1" },
	{ "- {deny: a.example, headers: {x-api: b}}\n- allow: a.example",
	  GET "a.example/\nx-api: a\nx-api: b", "deny 0" },
	{ "- {allow: a.example, headers: {x-api: absent}}", GET "a.example/\nx-api: b", "deny -1" },
	{ "- {allow: a.example, headers: {x-api: absent}}", GET "a.example/\nx-b: b", "allow 0" },
	{ "- {allow: a.example, headers: [x-api, x-b]}", GET "a.example/\nx-api: b\nx-b: c", "allow 0" },
	{ "- {allow: a.example, headers: [x-api, x-b]}", GET "a.example/\nx-api: b", "deny -1" },
	{ "- {allow: a.example, headers: X-Api}", GET "a.example/\nx-api: ", "allow 0" },
	{ "- {allow: a.example, headers: x-api}", GET "a.example/\nx_api: b", "deny -1" },
	{ "- {deny: a.example, headers: x-api}\n- allow: a.example", GET "a.example/\nx_api: b", "deny 0" },
	/* cookies */
	{ "- {allow: a.example, cookies: {s: 'a*'}}", GET "a.example/\ncookie: t=1; s=ab", "allow 0" },
	{ "- {allow: a.example, cookies: {s: 'a*'}}", GET "a.example/\ncookie: t=1; s=b", "deny -1" },
	{ "- {allow: a.example, cookies: {s: 'a*'}}", GET "a.example/\ncookie: t=1; s=ab; s=b", "deny -1" },
	{ "- {allow: a.example, cookies: {s: 'a*'}}", GET "a.example/\ncookie: s=a\ncookie: s=b", "deny -1" },
	{ "- {allow: a.example, cookies: {s: 'a*'}}", GET "a.example/\ncookie: t=1\ncookie: s=a", "allow 0" },
	{ "- {allow: a.example, cookies: {s: 'a*'}}", GET "a.example/\ncookie: t=s=a", "deny -1" },
	{ "- {allow: a.example, cookies: {s: 'a*'}}", GET "a.example/", "deny -1" },
	{ "- {allow: a.example, cookies: {s: 'a*'}}", GET "a.example/\ncookie: S=a", "deny -1" },
	{ "- {allow: a.example, cookies: {s: 'a*'}}", GET "a.example/\ncookie: s=a; t=\"x\"", "deny -1" },
	{ "- {allow: a.example, cookies: [s, t]}", GET "a.example/\ncookie: t ; s=", "allow 0" },
	{ "- {allow: a.example, cookies: [s, t]}", GET "a.example/\ncookie: t", "deny -1" },
	{ "- {allow: a.example, cookies: {s: absent}}", GET "a.example/\ncookie: t=s", "allow 0" },
	{ "- {allow: a.example, cookies: {s: absent}}", GET "a.example/", "allow 0" },
	{ "- {allow: a.example, cookies: {s: absent}}", GET "a.example/\ncookie: t=1;s=2", "deny -1" },
	{ "- {allow: a.example, cookies: {s: absent}}", GET "a.example/\ncookie: t=1,s=2", "deny -1" },
	{ "- {deny: a.example, cookies: s}\n- allow: a.example", GET "a.example/\ncookie: t=1; s=2", "deny 0" },
	{ "- {deny: a.example, cookies: s}\n- allow: a.example", GET "a.example/\ncookie: t=1, s=2", "deny 0" },
	{ "- {deny: a.example, cookies: s}\n- allow: a.example", GET "a.example/\ncookie: t=\"1;\"s=2", "deny 0" },
	{ "- {deny: a.example, cookies: s}\n- allow: a.example", GET "a.example/\ncookie: S=2", "deny 0" },
	{ "- {deny: a.example, cookies: s}\n- allow: a.example", GET "a.example/\ncookie: t=2", "allow 1" },
	{ "- {deny: a.example, cookies: {s: absent}}\n- allow: a.example", GET "a.example/", "deny 0" },
	{ "- {allow: a.example, headers: {x-api: 'absent'}}", GET "a.example/\nx-api: absent",
	  "allow 0" },
	{ "- {allow: a.example, content_type: application/json}",
	  POST "a.example/\ncontent-type: Application/JSON ; charset=utf-8", "allow 0" },
	{ "- {allow: a.example, content_type: [text/*, application/json]}",
	  POST "a.example/\ncontent-type: text/plain", "allow 0" },
	{ "- {allow: a.example, content_type: application/json}", POST "a.example/", "deny -1" },
	{ "- {allow: a.example, content_type: application/json}",
	  POST "a.example/\ncontent-type: application/json\ncontent-type: text/html", "deny -1" },
	/* upgrades */
	{ "- allow: a.example", GET "a.example/\nupgrade: websocket", "deny -1" },
	{ "- {allow: a.example, websocket: true}", GET "a.example/\nupgrade: websocket",
	  "allow 0" },
	{ "- {allow: a.example, websocket: true}", GET "a.example/", "allow 0" },
	{ "- {allow: a.example, websocket: false}", GET "a.example/\nupgrade: websocket",
	  "deny -1" },
	{ "- {allow: a.example, upgrade: websocket}", GET "a.example/\nupgrade: websocket",
	  "allow 0" },
	{ "- {allow: a.example, upgrade: websocket}", GET "a.example/", "deny -1" },
	{ "- deny: a.example\n", GET "a.example/\nupgrade: websocket", "deny 0" },
	/* gRPC */
	{ "- {allow: a.example, grpc: {service: p.S, methods: [Get*]}}",
	  POST "a.example/p.S/GetX\ncontent-type: application/grpc+proto", "allow 0" },
	{ "- {allow: a.example, grpc: {service: p.S, methods: [Get*]}}",
	  POST "a.example/p.S/PutX\ncontent-type: application/grpc", "deny -1" },
	{ "- {allow: a.example, grpc: {service: p.S}}",
	  POST "a.example/p.S/PutX\ncontent-type: application/json", "deny -1" },
	{ "- {allow: a.example, grpc: {service: p.S}}",
	  GET "a.example/p.S/PutX\ncontent-type: application/grpc", "deny -1" },
	/* sizes */
	{ "- {allow: a.example, body: {max: 1K}}", POST "a.example/\nlength: 1024", "allow 0" },
	{ "- {allow: a.example, body: {max: 1K}}", POST "a.example/\nlength: 1025", "deny! 0" },
	{ "- {allow: a.example, body: {max: 1K}}", POST "a.example/\nlength: unknown", "allow 0" },
	{ "- {allow: a.example, body: {max: 1K}}\n- ask: a.example",
	  POST "a.example/\nlength: 1025", "ask 1" },
	{ "- allow: a.example", POST "a.example/\nlength: 10485761", "deny! 0" },
	{ "- {allow: a.example, body: {max: 1G}}", POST "a.example/\nlength: 10485761", "allow 0" },
	{ "- deny: a.example", POST "a.example/\nlength: 10485761", "deny 0" },
	/* protocols */
	{ "- {allow: a.example:5432, protocol: tcp}", "- tcp://a.example:5432", "allow 0" },
	{ "- {allow: a.example:5432, protocol: tcp}", GET "a.example:5432", "deny -1" },
	{ "- allow: a.example:5432", "- tcp://a.example:5432", "deny -1" },
	{ "- {allow: a.example, protocol: tls}", "- tls://a.example:443", "allow 0" },
	{ "- {allow: a.example, protocol: tls}", "- tls://a.example:80", "deny -1" },
	{ "- deny: a.example\n- {allow: '*', protocol: tcp, ports: 1-9}", "- tcp://a.example:7",
	  "deny 0" },
	{ "- {deny: a.example, methods: PUT}\n- {allow: '*', protocol: tcp, ports: 1-9}",
	  "- tcp://a.example:7", "allow 1" },
};

TEST(policy_decide)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(policy_freep) struct policy *p = lab_rules(cases[i].rules);
		const char *got = lab_decide(p, cases[i].request);

		if (strcmp(got, cases[i].want) != 0)
			test_fail(__FILE__, __LINE__, "%s\n%s\nis %s, not %s", cases[i].rules,
			          cases[i].request, got, cases[i].want);
	}
}

#define JSON_RULES                                                          \
	"- {deny: a.example, body: {json: {/model: gpt-*}}}\n"                  \
	"- {log: a.example, body: {regex: x}}\n"                                \
	"- {allow: a.example, body: {max: 5M, json: {/model: claude-*}}}\n"     \
	"- {ask: a.example, methods: [POST]}\n"                                 \
	"- {allow: b.example, body: {graphql: {operations: query}}}\n"          \
	"- {log: c.example, body: {regex: x}}\n"                                \
	"- {allow: c.example}\n"

TEST(policy_decide_with_bodies)
{
	static const struct {
		const char *request;
		int fits;                       /* -1: not looked into */
		const char *want;
	} bodies[] = {
		{ POST "a.example/\nlength: 9", -1, "deny? 0" },
		{ POST "a.example/\nlength: unknown", -1, "deny? 0" },
		{ POST "a.example/\nlength: 0", -1, "ask 3" },
		{ POST "a.example/\nlength: 9", 0x00, "ask 3" },
		{ POST "a.example/\nlength: 9", 0x01, "deny 0" },
		{ POST "a.example/\nlength: 9", 0x06, "allow 2" },
		{ POST "a.example/\nlength: 9", 0x02, "ask 3" },
		{ GET "b.example/?query=x", -1, "allow? 4" },
		{ GET "b.example/?query=x", 0x10, "allow 4" },
		{ GET "b.example/?query=x", 0x00, "deny -1" },
		{ POST "c.example/\nlength: 9", -1, "allow? 6" },
		{ POST "c.example/\nlength: 9", 0x20, "allow 6" },
	};
	OWN(policy_freep) struct policy *p = lab_rules(JSON_RULES);

	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		const char *got = bodies[i].fits < 0 ? lab_decide(p, bodies[i].request) :
		                  lab_decide_body(p, bodies[i].request, (unsigned)bodies[i].fits);

		if (strcmp(got, bodies[i].want) != 0)
			test_fail(__FILE__, __LINE__, "%s with %d is %s, not %s", bodies[i].request,
			          bodies[i].fits, got, bodies[i].want);
	}
}

TEST(policy_decide_reports_other_facts)
{
	OWN(policy_freep) struct policy *p = lab_rules(
		JSON_RULES
		"- {allow: d.example, secrets: allow, placeholders: pass, private: true, body: {max: 77}, reason: why}\n"
		"- allow: 10.1.0.0/16\n"
		"- allow: 0.0.0.0/0\n"
		"- allow: host.cloister.internal\n"
		"- {log: '*.e.example', reason: x}\n"
		"- {log: '**.e.example', reason: x}\n"
		"- allow: a.e.example\n"
		"- {allow: f.example, git: {push: '**'}}\n"
		"- {allow: h.example, git: {push: '**'}, body: {max: 9G}}\n"
		"- {allow: i.example, body: {max: 20M}}\n"
		"- {allow: j.example, body: {max: 9G}}\n"
		"- {allow: k.example, body: {regex: x}}\n");
	struct policy_decision d;
	struct policy_logged logged;
	struct lab_request lab;

	lab_request(&lab, POST "a.example/\nlength: 9");
	policy_decide(p, &lab.req, &d, &logged);
	CHECK_U64(d.held_max, 5 << 20);
	CHECK(!d.must_look && logged.n == 0);

	lab_request(&lab, POST "d.example/\nlength: 9");
	policy_decide(p, &lab.req, &d, &logged);
	CHECK(d.may_carry_secrets && !d.must_look && d.may_use_private && d.may_pass_placeholders);
	CHECK_U64(d.upload_max, 77);
	CHECK_STR(d.reason, "why");

	lab_request(&lab, GET "10.1.2.3/");
	policy_decide(p, &lab.req, &d, NULL);
	CHECK(!d.may_use_private && d.named_bits >= 96 + 8 && d.must_look && !d.may_carry_secrets && d.reason == NULL &&
	      !d.may_pass_placeholders);
	lab_request(&lab, GET "10.2.2.3/");
	policy_decide(p, &lab.req, &d, NULL);
	CHECK(d.verdict == POLICY_ALLOW && !d.may_use_private && d.named_bits < 96 + 8);
	lab_request(&lab, GET "host.cloister.internal/");
	policy_decide(p, &lab.req, &d, NULL);
	CHECK(d.may_use_private);

	lab_request(&lab, GET "a.e.example/");
	policy_decide(p, &lab.req, &d, &logged);
	CHECK(logged.n == 2 && logged.rules[0] == 11 && logged.rules[1] == 12 && d.rule == 13);
	CHECK_U64(d.held_max, POLICY_UPLOAD_MAX);
	CHECK_U64(d.upload_max, POLICY_UPLOAD_MAX);

	/* What no rule looks into may have to be held all the same. */
	lab_request(&lab, POST "i.example/\nlength: 9");
	policy_decide(p, &lab.req, &d, NULL);
	CHECK(!d.needs_body && d.must_look);
	CHECK_U64(d.held_max, 20 << 20);
	lab_request(&lab, POST "j.example/\nlength: 9");
	policy_decide(p, &lab.req, &d, NULL);
	CHECK_U64(d.held_max, POLICY_INSPECTED_MAX);
	CHECK_U64(d.upload_max, UINT64_C(9) << 30);
	lab_request(&lab, POST "k.example/\nlength: 9");
	policy_decide(p, &lab.req, &d, NULL);
	CHECK(d.needs_body);
	CHECK_U64(d.held_max, POLICY_HELD_MAX);

	lab_request(&lab, POST "f.example/r/git-receive-pack\nlength: unknown");
	policy_decide(p, &lab.req, &d, &logged);
	CHECK(d.needs_body);
	CHECK_U64(d.held_max, POLICY_UPLOAD_MAX);

	lab_request(&lab, POST "h.example/r/git-receive-pack\nlength: unknown");
	policy_decide(p, &lab.req, &d, &logged);
	CHECK(d.needs_body);
	CHECK_U64(d.held_max, POLICY_INSPECTED_MAX);
	CHECK_U64(d.upload_max, UINT64_C(9) << 30);
}

#define REFS "a.example/o/r.git/info/refs?service=git-"
#define PUSH POST "a.example/o/r/git-receive-pack\nlength: 9"

TEST(policy_decide_git)
{
	static const struct {
		const char *rules, *request, *want;
	} git[] = {
		{ "- {allow: a.example, git: fetch}", GET REFS "upload-pack", "allow 0" },
		{ "- {allow: a.example, git: fetch}", POST "a.example/o/r/git-upload-pack\nlength: 9",
		  "allow 0" },
		{ "- {allow: a.example, git: fetch}", GET REFS "receive-pack", "deny -1" },
		{ "- {allow: a.example, git: fetch}", PUSH, "deny -1" },
		{ "- {allow: a.example, git: fetch}", GET "a.example/o/r", "deny -1" },
		{ "- {allow: a.example, git: fetch}", GET REFS "upload-pack&x", "deny -1" },
		{ "- {allow: a.example, git: {}}", GET REFS "upload-pack", "allow 0" },
		{ "- {allow: a.example, git: {push: refs/heads/a}}", GET REFS "upload-pack", "allow 0" },
		{ "- {allow: a.example, git: {push: refs/heads/a}}", GET REFS "receive-pack", "allow 0" },
		{ "- {allow: a.example, git: {push: refs/heads/a}}", PUSH, "allow? 0" },
		{ "- {allow: a.example, git: {push: refs/heads/a, fetch: false}}",
		  GET REFS "upload-pack", "deny -1" },
		{ "- {deny: a.example, git: {push: refs/heads/a}}\n- allow: a.example",
		  GET REFS "receive-pack", "allow 1" },
		{ "- {deny: a.example, git: {push: refs/heads/a}}\n- allow: a.example", PUSH, "deny? 0" },
		{ "- {deny: a.example, git: {force: true}}\n- allow: a.example", PUSH "\nx: y",
		  "deny? 0" },
		{ "- {deny: a.example, git: {push: refs/heads/a}}\n- allow: a.example",
		  POST "a.example/o/r/git-receive-pack?x\nlength: 9", "deny? 0" },
		{ "- {ask: a.example, git: {push: refs/heads/a}}", GET REFS "receive-pack", "ask 0" },
		{ "- {allow: a.example, git: {repos: o/*}}", GET REFS "upload-pack", "allow 0" },
		{ "- {allow: a.example, git: {repos: o/r}}", GET REFS "upload-pack", "allow 0" },
		{ "- {allow: a.example, git: {repos: O/*}}", GET REFS "upload-pack", "deny -1" },
		{ "- {deny: a.example, git: {fetch: true, repos: O/R}}\n- allow: a.example",
		  GET REFS "upload-pack", "deny 0" },
		{ "- {deny: a.example, git: {fetch: true, repos: o/r}}\n- allow: a.example",
		  GET "a.example/O/R/info/refs?service=git-upload-pack", "deny 0" },
		{ "- {allow: a.example, git: {repos: p/*}}", GET REFS "upload-pack", "deny -1" },
		{ "- {allow: a.example, git: {repos: o/*}}",
		  GET "a.example/o/r/s/info/refs?service=git-upload-pack", "deny -1" },
		{ "- {allow: a.example, git: {repos: o/*}}",
		  GET "a.example/o%2Fr/info/refs?service=git-upload-pack", "deny -1" },
		{ "- {deny: a.example, git: {fetch: true, repos: o/*}}\n- allow: a.example",
		  GET "a.example/o%2Fr/info/refs?service=git-upload-pack", "deny 0" },
		{ "- {allow: a.example, git: {repos: '*'}}",
		  GET "a.example//info/refs?service=git-upload-pack", "allow 0" },
	};

	for (size_t i = 0; i < ARRAY_LEN(git); i++) {
		OWN(policy_freep) struct policy *p = lab_rules(git[i].rules);
		const char *got = lab_decide(p, git[i].request);

		if (strcmp(got, git[i].want) != 0)
			test_fail(__FILE__, __LINE__, "%s\n%s\nis %s, not %s", git[i].rules,
			          git[i].request, got, git[i].want);
	}
}

TEST(policy_before_there_is_a_request)
{
	OWN(policy_freep) struct policy *p = lab_rules(
		"- log: '*'\n"
		"- deny: no.example\n"
		"- {allow: db.example:5432, protocol: tcp}\n"
		"- {allow: pin.example, protocol: tls}\n"
		"- {allow: '*.example', methods: [GET]}\n"
		"- ask: ask.me\n"
		"- deny: 192.0.2.0/24\n"
		"- allow: 10.0.0.0/8\n"
		"- deny: silent.no\n"
		"- {deny: told.no, reason: use another}\n"
		"- {deny: some.no, methods: [GET]}\n"
		"- {deny: raw.no:443, protocol: tcp}\n");
	static const struct {
		const char *host;
		uint16_t port;
		enum policy_route route;
		bool mentioned;
	} routes[] = {
		{ "db.example", 5432, POLICY_ROUTE_TCP, true },
		{ "db.example", 443, POLICY_ROUTE_HTTP, true },
		{ "db.example", 22, POLICY_ROUTE_NONE, true },
		{ "pin.example", 443, POLICY_ROUTE_TLS, true },
		{ "pin.example", 80, POLICY_ROUTE_HTTP, true },
		{ "no.example", 22, POLICY_ROUTE_NONE, true },         /* whatever is spoken */
		{ "ask.me", 443, POLICY_ROUTE_HTTP, true },
		{ "x.y", 443, POLICY_ROUTE_NONE, false },
		{ "silent.no", 443, POLICY_ROUTE_NONE, false },
		{ "told.no", 443, POLICY_ROUTE_NONE, true },
		{ "some.no", 443, POLICY_ROUTE_HTTP, false },
		{ "raw.no", 443, POLICY_ROUTE_TCP, false },
		{ "10.1.1.1", 443, POLICY_ROUTE_HTTP, true },
		{ "11.1.1.1", 443, POLICY_ROUTE_NONE, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(routes); i++)
		if (policy_route(p, routes[i].host, routes[i].port) != routes[i].route ||
		    policy_mentions_host(p, routes[i].host) != routes[i].mentioned)
			test_fail(__FILE__, __LINE__, "%s:%d", routes[i].host, routes[i].port);
	CHECK(policy_denies_address(p, BY(7), "192.0.2.7", 443) == 6);
	CHECK(policy_denies_address(p, BY(6), "192.0.2.7", 443) == -1);
	CHECK(policy_denies_address(p, BY(-1), "192.0.3.7", 443) == -1);
	CHECK(policy_denies_address(p, BY(7), "no.example", 443) == -1);
}

/* Whatever the index does, it finds what asking every rule finds. */
TEST(policy_index_finds_entries)
{
	static const char *const names[] = { "a", "b.a", "c.b.a", "a.a", "x", "c.x", "a.b.c.d.e.f",
		"host.cloister.internal", "10.0.0.1", "[2a01:db8::1]" };
	static const char *const patterns[] = { "a", "b.a", "'*.a'", "'**.a'", "'*.b.a'", "'**.b.a'",
		"'*'", "'**.f'", "10.0.0.0/8", "'2a01:db8::/32'", "host.cloister.internal", "c.x" };
	char rules[16384];
	size_t len = 0;

	for (unsigned i = 0; i < 100; i++)
		len += (size_t)snprintf(rules + len, sizeof(rules) - len, "- {log: [%s, %s], ports: %u}\n",
		                        patterns[i * 7 % ARRAY_LEN(patterns)],
		                        patterns[(i * 5 + i / 12) % ARRAY_LEN(patterns)], i + 1);

	OWN(policy_freep) struct policy *p = lab_rules(rules);

	for (size_t n = 0; n < ARRAY_LEN(names); n++) {
		const struct policy_entry *entry;
		struct policy_walk walk;

		policy_walk_init(&walk, p, names[n], NULL);
		for (size_t r = 0; r < policy_n_rules(p); r++)
			for (size_t h = 0; h < p->rules[r].n_hosts; h++)
				if (policy_host_fits(&p->rules[r].hosts[h], names[n])) {
					entry = policy_walk_next(&walk);
					CHECK(entry != NULL && entry->rule == r && entry->host == h);
				}
		CHECK(policy_walk_next(&walk) == NULL);
	}
}

/* The index glimpses at paths: never behind their end. */
TEST(policy_index_stays_in_the_path)
{
	OWN(policy_freep) struct policy *p = lab_rules("- {allow: a.x, paths: /abcdefghij/k}\n");
	struct policy_decision d;
	struct lab_request lab;

	lab_request(&lab, GET "a.x/");
	for (size_t len = 1; len <= 13; len++) {
		OWN(freep) char *path = malloc(len);

		CHECK(path != NULL);
		memcpy(path, "/abcdefghij/k", len);
		lab.head.path = (struct http_text){ path, len };
		policy_decide(p, &lab.req, &d, NULL);
		CHECK(d.rule == (len == 13 ? 0 : -1));
	}
}

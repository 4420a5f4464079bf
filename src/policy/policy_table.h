/* policy_table.h - every key of a rule, one row each.
 *
 * The file that includes this defines CONDITION and SETTING, and takes from each row what it needs.
 * So one row drives reading, checking, matching, printing, encoding and the JSON Schema of a key,
 * and no process links functions that it does not call.
 *
 * The columns, with the file that takes them:
 *
 *   id, name     POLICY_KEY_id in policy_load.h, and the key in YAML
 *   flags        which other keys and verbs it excludes: enum policy_key_flags, policy_check.c
 *   read         from YAML into the draft of a rule: policy_read.c
 *   fits         whether a request's head fits: policy_head.c.  Of a condition on bodies, which
 *                src/inspect matches, or on the cell, which policy_bind() matches, any head fits
 *   covers       whether rule A matches everything that rule B matches, as far as this key goes:
 *                policy_check.c
 *   print        as part of the rule's one line: policy_text.c
 *   put, get     to and from messages: policy_put.c
 *   has          whether a rule has it.  NULL: every message has room for it.  Otherwise a message
 *                has it, by its name, only if a rule does
 *   shape, text  its form and its description in the schema: src/cli/policy_schema.c
 *
 * A SETTING matches nothing, so it has neither fits nor covers.
 *
 * New rows go to the end and have a `has`.  The order of all others is that of messages and of
 * printed rules, which hashes cover. */

SETTING(ALLOW, "allow", 0, policy_read_hosts, NULL, NULL, NULL, NULL,
        hosts, "let requests to these hosts through")
SETTING(DENY, "deny", 0, policy_read_hosts, NULL, NULL, NULL, NULL,
        hosts, "refuse them")
SETTING(ASK, "ask", 0, policy_read_hosts, NULL, NULL, NULL, NULL,
        hosts, "ask a person; until there is one, refuse")
SETTING(LOG, "log", 0, policy_read_hosts, NULL, NULL, NULL, NULL,
        hosts, "note them, and go on to the next rule")
SETTING(PROTOCOL, "protocol", POLICY_KEY_NOT_CALL, policy_read_protocol, NULL, NULL, NULL, NULL,
        protocol, "tcp: raw bytes to a named port; tls: passed through by its server name, unread")
SETTING(PORTS, "ports", POLICY_KEY_NOT_CALL, policy_read_ports, NULL, NULL, NULL, NULL,
        ports, "ports and ranges, for hosts without one; 80 and 443 otherwise")

CONDITION(SCHEME, "scheme", POLICY_KEY_NOT_CALL | POLICY_KEY_OF_REQUEST,
          policy_read_scheme, scheme_fits, schemes_cover, print_scheme, put_scheme, get_scheme, NULL,
          schemes, "")
CONDITION(METHODS, "methods", POLICY_KEY_NOT_CALL | POLICY_KEY_OF_REQUEST | POLICY_KEY_NOT_GIT | POLICY_KEY_NOT_GRPC,
          policy_read_methods, methods_fit, methods_cover, print_methods, put_methods, get_methods,
          NULL, methods, "in capitals")
CONDITION(PATHS, "paths", POLICY_KEY_NOT_CALL | POLICY_KEY_OF_REQUEST | POLICY_KEY_NOT_GIT | POLICY_KEY_NOT_GRPC,
          policy_read_paths, paths_fit, paths_cover, print_paths, put_paths, get_paths, NULL,
          paths, "globs: * within a segment, ** across")
CONDITION(QUERY, "query", POLICY_KEY_NOT_CALL | POLICY_KEY_OF_REQUEST | POLICY_KEY_NOT_GIT | POLICY_KEY_NOT_GRPC |
          POLICY_KEY_UNRECORDED,
          policy_read_query, query_fits, queries_cover, print_query, put_query, get_query, NULL,
          query, "a glob of the whole query ('' is none), or a map of parameters; `absent` for one "
          "that must not be there")
CONDITION(HEADERS, "headers", POLICY_KEY_NOT_CALL | POLICY_KEY_OF_REQUEST | POLICY_KEY_UNRECORDED,
          policy_read_headers, headers_fit, headers_cover, print_headers, put_headers, get_headers,
          NULL, fields, "names that must be there, or a map of globs; `absent` for one that must not "
          "be there")
CONDITION(CONTENT_TYPE, "content_type",
          POLICY_KEY_NOT_CALL | POLICY_KEY_OF_REQUEST | POLICY_KEY_NOT_GIT | POLICY_KEY_NOT_GRPC | POLICY_KEY_UNRECORDED,
          policy_read_content_type, content_type_fits, content_types_cover, print_content_type,
          put_content_type, get_content_type, NULL,
          content_types, "globs, without parameters")
CONDITION(GRPC, "grpc", POLICY_KEY_NOT_CALL | POLICY_KEY_OF_REQUEST | POLICY_KEY_NOT_GIT,
          policy_read_grpc, grpc_fits, grpc_covers, NULL, put_grpc, get_grpc, NULL,
          grpc, "")
CONDITION(UPGRADE, "upgrade", POLICY_KEY_NOT_CALL | POLICY_KEY_OF_REQUEST | POLICY_KEY_NOT_GIT | POLICY_KEY_NOT_GRPC,
          read_upgrade, upgrade_fits, upgrades_cover, NULL, put_upgrade, get_upgrade, NULL,
          websocket, "only WebSockets")
CONDITION(GIT, "git", POLICY_KEY_NOT_CALL | POLICY_KEY_OF_REQUEST,
          policy_read_git, git_fits, git_covers, print_git, put_git, get_git, NULL,
          git, "only requests of git over HTTP")
CONDITION(BODY, "body", POLICY_KEY_NOT_CALL | POLICY_KEY_OF_REQUEST,
          policy_read_body, any_fits, body_covers, print_body, put_body, get_body, NULL,
          body, "what the body must be")
SETTING(WEBSOCKET, "websocket", POLICY_KEY_NOT_CALL | POLICY_KEY_OF_REQUEST | POLICY_KEY_NOT_GIT | POLICY_KEY_NOT_GRPC |
        POLICY_KEY_PERMITS, read_websocket, print_upgrade_and_max, NULL, NULL, NULL,
        boolean, "WebSockets too")
SETTING(SECRETS, "secrets", POLICY_KEY_OF_HTTP | POLICY_KEY_PERMITS,
        read_secrets, print_secrets, put_passes, get_passes, NULL,
        secrets, "allow: bodies may hold what looks like a credential")
SETTING(PLACEHOLDERS, "placeholders", POLICY_KEY_NOT_CALL | POLICY_KEY_OF_HTTP | POLICY_KEY_PERMITS,
        read_placeholders, print_placeholders, NULL, NULL, NULL,
        placeholders, "pass: placeholders in bodies and WebSocket messages are sent as they are, not "
        "swapped; for models that the agent talks to")
SETTING(PRIVATE, "private", POLICY_KEY_NOT_CALL | POLICY_KEY_PERMITS,
        read_private, print_private, put_private, get_private, NULL,
        boolean, "the names may lead to private addresses")
CONDITION(PRINCIPAL, "principal", POLICY_KEY_OF_CELL,
          read_principal, any_fits, principals_cover, print_principal, put_principal, get_principal,
          NULL, principals, "globs: on whose behalf the cell acts")
CONDITION(CHAIN, "chain", POLICY_KEY_OF_CELL,
          read_chain, any_fits, chains_cover, print_chain, put_chain, get_chain, NULL,
          chains, "globs of the names of agents: one of the chain that led to the cell")

SETTING(REASON, "reason", 0, read_reason, NULL, NULL, NULL, NULL,
        reason, "shown to the agent")
SETTING(APPROVERS, "approvers", POLICY_KEY_OF_ASK, policy_read_approvers, NULL, NULL, NULL, NULL,
        approvers, "of ask: who may answer, by a user's name, uid:NUMBER or token:NAME; any operator "
        "if nothing is said")
SETTING(APPROVALS, "approvals", POLICY_KEY_OF_ASK, policy_read_approvals, NULL, NULL, NULL, NULL,
        approvals, "of ask: how many different people have to approve")
SETTING(TIMEOUT, "timeout", POLICY_KEY_OF_ASK, policy_read_timeout, NULL, NULL, NULL, NULL,
        timeout, "of ask: how long an answer is waited for, 1s to 24h; then it is refused")
SETTING(FREEZE, "freeze", POLICY_KEY_OF_ASK, policy_read_freeze, NULL, NULL, NULL, NULL,
        boolean, "of ask: the cell stands still until there is an answer")
SETTING(BUDGET, "budget", POLICY_KEY_PERMITS, policy_read_budget, NULL, NULL, NULL, NULL,
        budget, "")
SETTING(PRICE, "price", POLICY_KEY_PERMITS, policy_read_price, NULL, NULL, NULL, NULL,
        price, "what each request costs, in USD")
SETTING(USAGE, "usage", POLICY_KEY_NOT_CALL | POLICY_KEY_OF_HTTP | POLICY_KEY_PERMITS,
        policy_read_usage, NULL, NULL, NULL, NULL,
        usage, "answers tell of tokens as this provider's do")
SETTING(THEN, "then", 0, policy_read_then, NULL, NULL, NULL, NULL,
        then, "")

CONDITION(COOKIES, "cookies", POLICY_KEY_NOT_CALL | POLICY_KEY_OF_REQUEST | POLICY_KEY_UNRECORDED,
          policy_read_cookies, cookies_fit, cookies_cover, print_cookies, put_cookies, get_cookies,
          has_cookies, fields, "names that must be there, or a map of globs; `absent` for one that must "
          "not be there")
SETTING(REWRITE, "rewrite", POLICY_KEY_NOT_CALL | POLICY_KEY_OF_REQUEST | POLICY_KEY_SENDS,
        policy_read_rewrite, print_rewrite, policy_put_rewrite, policy_get_rewrite, has_rewrite,
        rewrite, "changes what is sent after it was allowed")
SETTING(HOOK, "hook", POLICY_KEY_OF_REQUEST | POLICY_KEY_SENDS,
        policy_read_hook, print_hook, policy_put_hook, policy_get_hook, has_hook,
        hook, "a program or a service of the operator's that judges each request")
CONDITION(ARGS, "args", POLICY_KEY_OF_REQUEST | POLICY_KEY_OF_CALL | POLICY_KEY_UNRECORDED,
          policy_read_args, call_fits, call_covers, print_call, policy_put_call, policy_get_call,
          has_call, args, "of a call: what its arguments must be, by JSON pointers")
SETTING(ANNOTATIONS, "annotations", POLICY_KEY_OF_REQUEST | POLICY_KEY_OF_CALL,
        policy_read_annotations, NULL, NULL, NULL, NULL,
        annotations, "of a tool: what the lock promises of it")
SETTING(USES, "uses", POLICY_KEY_NOT_CALL | POLICY_KEY_PERMITS, read_uses, print_uses, put_uses, get_uses, has_uses,
        uses, "the only secrets that its requests may use; [] for none")

#undef CONDITION
#undef SETTING

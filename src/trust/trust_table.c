/* trust_table.c - lists every host file that cloister reads, runs or believes. */
#include "trust/trust.h"

const struct trust_row trust_table[TRUST_USES] = {
	[TRUST_SECRET_COMMAND] = { "secret-command", TRUST_RUN, "the program that gives a secret" },
	[TRUST_KEY_COMMAND] = { "key-command", TRUST_RUN, "the program that gives the vault's key" },
	[TRUST_NOTIFY_COMMAND] = { "notify-command", TRUST_RUN, "a program of notify.yaml" },
	[TRUST_EDITOR] = { "editor", TRUST_RUN, "the editor" },
	[TRUST_BROWSER] = { "browser", TRUST_RUN, "the program that opens a browser" },
	[TRUST_POLICY] = { "policy", TRUST_READ, "the policy" },
	[TRUST_POLICY_FOUND] = { "policy-found", TRUST_READ, "the policy that was found" },
	[TRUST_POLICY_EXTENDED] = { "policy-extended", TRUST_READ, "a file that the policy extends" },
	[TRUST_WITHIN] = { "within", TRUST_READ, "a policy of --within" },
	[TRUST_SECRET_LIST] = { "secret-list", TRUST_READ, "a policy that gives secrets" },
	[TRUST_POLICY_SET] = { "policy-set", TRUST_READ, "the policy for a cell that runs" },
	[TRUST_DOCUMENT] = { "document", TRUST_READ, "the cell document" },
	[TRUST_SECRET_FILE] = { "secret-file", TRUST_READ, "the file that has a secret's value" },
	[TRUST_SECRET_DEFINITION] = { "secret-definition", TRUST_READ, "the definition of a secret" },
	[TRUST_ENV_FILE] = { "env-file", TRUST_READ, "a file of variables" },
	[TRUST_INPUT] = { "input", TRUST_LINKS, "the cell's standard input" },
	[TRUST_AUTHORITY] = { "authority", TRUST_READ, "a file of certificate authorities" },
	[TRUST_KNOWN_HOSTS] = { "known-hosts", TRUST_READ, "a list of SSH hosts' keys" },
	[TRUST_NOTIFY_FILE] = { "notify-file", TRUST_READ, "the list of whom to notify" },
	[TRUST_NOTIFY_SECRET] = { "notify-secret", TRUST_READ, "the key that signs a webhook" },
	[TRUST_REGISTERED] = { "registered", TRUST_READ, "the definition that is registered" },
	[TRUST_DISPATCH_INPUT] = { "dispatch-input", TRUST_LINKS, "a dispatch's input" },
	[TRUST_GRANT] = { "grant", TRUST_LINKS, "the path that is granted" },
	[TRUST_ROOTFS] = { "rootfs", TRUST_LINKS, "the root file system" },
};

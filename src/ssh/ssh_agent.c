/* ssh_agent.c - see ssh_agent.h. */
#include "ssh/ssh_agent.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sign/scheme_parts.h"

enum { REQUEST_IDENTITIES = 11, SIGN_REQUEST = 13, EXTENSION = 27 };
enum { RSA_SHA2_256 = 2, RSA_SHA2_512 = 4 };
#define USERAUTH_REQUEST 50
#define SERVICE "ssh-connection"
#define PLAIN "publickey"
#define HOSTBOUND "publickey-hostbound-v00@openssh.com"
#define MAGIC "SSHSIG"
#define MAGIC_LEN 6

/* For RSA the flags select the digest; without them it would be SHA-1. */
static bool
choose_algorithm(struct http_text key, uint32_t flags, char *out)
{
	if (!ssh_get_name(&key, SSH_ALGORITHM_MAX, out))
		return false;
	if (strcmp(out, "ssh-rsa") != 0)
		return true;
	if ((flags & (RSA_SHA2_256 | RSA_SHA2_512)) == 0)
		return false;
	snprintf(out, SSH_ALGORITHM_MAX + 1, "rsa-sha2-%d", (flags & RSA_SHA2_512) != 0 ? 512 : 256);
	return true;
}

static int
refuse(const char **ret_why, const char *why)
{
	*ret_why = why;
	return -EBADMSG;
}

static int
read_login(struct http_text data, struct ssh_request *r, const char **ret_why)
{
	struct http_text service, method, algorithm, key;
	uint8_t type;
	bool signs;

	if (!ssh_get_sized(&data, SSH_SESSION_MIN, SSH_SESSION_MAX, &r->session) ||
	    !ssh_get_u8(&data, &type) || type != USERAUTH_REQUEST ||
	    !ssh_get_name(&data, SSH_NAME_MAX, r->user) || !ssh_get_string(&data, &service) ||
	    !ssh_get_string(&data, &method) || !ssh_get_bool(&data, &signs) || !signs ||
	    !ssh_get_string(&data, &algorithm) || !ssh_get_string(&data, &key))
		return refuse(ret_why, "what is to be signed is neither a login nor a text that says what "
		              "it is for");
	if (!http_text_is(service, SERVICE))
		return refuse(ret_why, "the login is to another service than " SERVICE);
	if (http_text_is(method, HOSTBOUND)) {
		if (!ssh_get_sized(&data, 1, SSH_BLOB_MAX, &r->host_key))
			return refuse(ret_why, "the login names no host's key");
	} else if (!http_text_is(method, PLAIN)) {
		return refuse(ret_why, "the login is by another method than " PLAIN);
	}
	if (data.len != 0 || !scheme_same(key, r->key))
		return refuse(ret_why, "the login is with another key than is asked to sign");
	if (!http_text_is(algorithm, r->algorithm))
		return refuse(ret_why, "the login is with another algorithm than is asked to sign");
	r->asks = SSH_ASKS_LOGIN;
	return 0;
}

static int
read_text(struct http_text data, struct ssh_request *r, const char **ret_why)
{
	struct http_text reserved;
	size_t size;

	if (!ssh_get_name(&data, SSH_SPACE_MAX, r->space) || !ssh_get_string(&data, &reserved) ||
	    reserved.len != 0 || !ssh_get_name(&data, SSH_ALGORITHM_MAX, r->hash) ||
	    !ssh_get_string(&data, &r->digest) || data.len != 0)
		return refuse(ret_why, "the signature of a text cannot be read");
	size = strcmp(r->hash, "sha512") == 0 ? 64 : strcmp(r->hash, "sha256") == 0 ? 32 : 0;
	if (size == 0 || r->digest.len != size)
		return refuse(ret_why, "a text is signed by its SHA-256 or SHA-512");
	r->asks = SSH_ASKS_TEXT;
	return 0;
}

static int
read_sign(struct http_text rest, struct ssh_request *r, const char **ret_why)
{
	struct http_text data;
	uint32_t flags;

	if (!ssh_get_sized(&rest, 1, SSH_BLOB_MAX, &r->key) || !ssh_get_string(&rest, &data) ||
	    !ssh_get_u32(&rest, &flags) || rest.len != 0)
		return refuse(ret_why, "the request for a signature cannot be read");
	if (!choose_algorithm(r->key, flags, r->algorithm))
		return refuse(ret_why, "RSA is not signed with over SHA-1, which is forged: the client is "
		              "too old");
	if (data.len > MAGIC_LEN && memcmp(data.at, MAGIC, MAGIC_LEN) == 0) {
		data.at += MAGIC_LEN;
		data.len -= MAGIC_LEN;
		return read_text(data, r, ret_why);
	}
	return read_login(data, r, ret_why);
}

static int
read_extension(struct http_text rest, struct ssh_request *r, const char **ret_why)
{
	struct http_text name;

	r->asks = SSH_ASKS_OTHER;
	if (!ssh_get_string(&rest, &name))
		return refuse(ret_why, "the request cannot be read");
	if (!http_text_is(name, "session-bind@openssh.com"))
		return 0;
	if (!ssh_get_sized(&rest, 1, SSH_BLOB_MAX, &r->bind.host_key) ||
	    !ssh_get_sized(&rest, SSH_SESSION_MIN, SSH_SESSION_MAX, &r->bind.session) ||
	    !ssh_get_sized(&rest, 1, SSH_BLOB_MAX, &r->bind.signature) ||
	    !ssh_get_bool(&rest, &r->bind.forwarding) || rest.len != 0)
		return refuse(ret_why, "what tells of the session cannot be read");
	r->asks = SSH_ASKS_BIND;
	return 0;
}

int
ssh_request_read(struct http_text message, struct ssh_request *ret_request, const char **ret_why)
{
	uint8_t type;

	*ret_request = (struct ssh_request){ .asks = SSH_ASKS_OTHER };
	if (!ssh_get_u8(&message, &type))
		return refuse(ret_why, "the request is empty");
	switch (type) {
	case REQUEST_IDENTITIES:
		if (message.len != 0)
			return refuse(ret_why, "the request for a list cannot be read");
		ret_request->asks = SSH_ASKS_LIST;
		return 0;
	case SIGN_REQUEST:
		return read_sign(message, ret_request, ret_why);
	case EXTENSION:
		return read_extension(message, ret_request, ret_why);
	default:
		return 0;
	}
}

void
ssh_put_login(struct buf *b, const struct ssh_request *r)
{
	bool hostbound = r->host_key.at != NULL;

	ssh_put_string(b, r->session);
	ssh_put_u8(b, USERAUTH_REQUEST);
	ssh_put_str(b, r->user);
	ssh_put_str(b, SERVICE);
	ssh_put_str(b, hostbound ? HOSTBOUND : PLAIN);
	ssh_put_u8(b, 1);
	ssh_put_str(b, r->algorithm);
	ssh_put_string(b, r->key);
	if (hostbound)
		ssh_put_string(b, r->host_key);
}

void
ssh_put_text(struct buf *b, const struct ssh_request *r)
{
	buf_put(b, MAGIC, MAGIC_LEN);
	ssh_put_str(b, r->space);
	ssh_put_str(b, "");
	ssh_put_str(b, r->hash);
	ssh_put_string(b, r->digest);
}

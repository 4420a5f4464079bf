/* fuzz_gate.c - what the gate parses itself: first bytes, SOCKS, the table of names,
 * names of addresses.  The first byte says which. */
#include <assert.h>
#include <fcntl.h>

#include "proc/gate/gate_dns_ptr.c"
#include "proc/gate/gate_names.c"
#include "proc/gate/gate_sniff.c"
#include "proc/gate/gate_socks.c"

#include "fuzz.h"

/* What is told from a part must not be told otherwise from the whole. */
static void
fuzz_sniff(const uint8_t *data, size_t size)
{
	enum gate_sniffed last = GATE_SNIFF_MORE, now;
	struct client_hello hello;

	for (size_t n = 0; n <= size; n += n < 64 ? 1 : 97) {
		now = gate_sniff(data, n, &hello);
		assert(last == GATE_SNIFF_MORE || now == last);
		last = now;
	}
}

typedef int reader(const unsigned char *, size_t, size_t *, struct gate_socks *);

static int
read_greeting(const unsigned char *data, size_t len, size_t *ret_need, struct gate_socks *socks)
{
	(void)socks;
	return gate_socks5_greeting(data, len, ret_need);
}

static void
fuzz_socks(reader *read, const uint8_t *data, size_t size)
{
	struct gate_socks socks = {0}, again;
	char host[HTTP_HOST_MAX + 1];
	size_t len = 0, need = 1;
	uint16_t port;
	int r = -EAGAIN;

	/* As the gate does: never more than is asked for. */
	while (r == -EAGAIN && need <= size) {
		assert(need > len && need <= GATE_SOCKS_MAX);
		len = need;
		r = read(data, len, &need, &socks);
	}
	if (r != 0 || read == read_greeting)
		return;
	assert(http_authority_parse((struct http_text){ socks.host, strlen(socks.host) }, host,
	                            &port, NULL) == 0);
	assert(port == 0 && strcmp(host, socks.host) == 0 && socks.port != 0);
	again = socks;
	assert(read(data, size, &need, &again) == 0 && strcmp(again.host, socks.host) == 0);
}

static void
fuzz_names(const uint8_t *data, size_t size)
{
	int fd = memfd_create("names", MFD_CLOEXEC);
	struct gate_names *names;
	const char *name;

	assert(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	assert(gate_names_new(fd, &names, NULL) == 0);
	for (uint32_t i = 0; i < CELL_NET_NAMES_MAX; i++) {
		name = gate_names_get(names, i);
		if (name != NULL)
			assert(gate_names_add(names, name, 1) == i);
	}
	(void)gate_names_add(names, "a.example", UINT64_MAX);
	gate_names_free(names);
	close(fd);
}

static void
fuzz_ptr(const uint8_t *data, size_t size)
{
	struct sockaddr_storage address;
	char name[DNS_NAME_MAX + 1];

	if (size > DNS_NAME_MAX)
		size = DNS_NAME_MAX;
	memcpy(name, data, size);
	name[size] = '\0';
	(void)gate_dns_ptr_parse(name, &address);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	switch (data[0] % 6) {
	case 0:
		fuzz_sniff(data + 1, size - 1);
		break;
	case 1:
		fuzz_socks(read_greeting, data + 1, size - 1);
		break;
	case 2:
		fuzz_socks(gate_socks5_request, data + 1, size - 1);
		break;
	case 3:
		fuzz_socks(gate_socks4_request, data + 1, size - 1);
		break;
	case 4:
		fuzz_names(data + 1, size - 1);
		break;
	default:
		fuzz_ptr(data + 1, size - 1);
	}
	return 0;
}

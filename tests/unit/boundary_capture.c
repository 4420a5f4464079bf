/* boundary_capture.c - tests of boundary/capture: the packets of a hostile guest, written to its tap. */
#include "boundary/capture/capture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "boundary/microvm/vm_guest.h"
#include "test.h"

#define DNS 53
#define WAIT_MS 20000

/* A user namespace that exists until the test ends. */
static int
make_userns(void)
{
	char path[48], byte;
	int ready[2];
	pid_t pid;

	CHECK_OK(pipe2(ready, O_CLOEXEC));
	pid = fork();
	CHECK_OK(pid);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWUSER) == 0 && write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		test_skip("this machine lets nobody make user namespaces");
	close(ready[0]);
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* The internet checksum, over a pseudo header that is not sent too. */
static uint16_t
checksum(const void *data, size_t len, uint32_t sum)
{
	const unsigned char *at = data;

	for (size_t i = 0; i < len; i++)
		sum += (uint32_t)at[i] << (i % 2 == 0 ? 8 : 0);
	while (sum >> 16 != 0)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

struct frame {
	struct virtio_net_hdr header;
	struct ether_header ether;
	unsigned char rest[64];
} __attribute__((packed));

static size_t
put_udp(unsigned char *at, uint16_t port, char text, const void *addresses, size_t n)
{
	struct udphdr udp = { .source = htons(4000), .dest = htons(port), .len = htons(sizeof(udp) + 1) };
	uint32_t pseudo = sizeof(udp) + 1 + IPPROTO_UDP;

	memcpy(at, &udp, sizeof(udp));
	at[sizeof(udp)] = (unsigned char)text;
	pseudo += (uint16_t)~ntohs(checksum(addresses, n, 0));
	udp.check = checksum(at, sizeof(udp) + 1, pseudo);
	memcpy(at, &udp, sizeof(udp));
	return sizeof(udp) + 1;
}

static void
send_by_tap(int tap, const char *from, const char *to, char text)
{
	const bool is_v6 = strchr(from, ':') != NULL;
	struct frame frame = { .ether.ether_type = htons(is_v6 ? ETHERTYPE_IPV6 : ETHERTYPE_IP) };
	struct ip6_hdr v6 = { .ip6_flow = htonl(6u << 28), .ip6_nxt = IPPROTO_UDP, .ip6_hlim = 64 };
	struct ip v4 = { .ip_v = 4, .ip_hl = 5, .ip_ttl = 64, .ip_p = IPPROTO_UDP };
	struct ifreq host;
	size_t len;

	CHECK_OK(ioctl(tap, SIOCGIFHWADDR, &host));
	memcpy(frame.ether.ether_dhost, host.ifr_hwaddr.sa_data, sizeof(frame.ether.ether_dhost));
	frame.ether.ether_shost[0] = 2;
	if (is_v6) {
		CHECK(inet_pton(AF_INET6, from, &v6.ip6_src) == 1 && inet_pton(AF_INET6, to, &v6.ip6_dst) == 1);
		len = put_udp(frame.rest + sizeof(v6), DNS, text, &v6.ip6_src, 32);
		v6.ip6_plen = htons((uint16_t)len);
		memcpy(frame.rest, &v6, sizeof(v6));
		len += sizeof(v6);
	} else {
		CHECK(inet_pton(AF_INET, from, &v4.ip_src) == 1 && inet_pton(AF_INET, to, &v4.ip_dst) == 1);
		len = put_udp(frame.rest + sizeof(v4), DNS, text, &v4.ip_src, 8);
		v4.ip_len = htons((uint16_t)(len + sizeof(v4)));
		v4.ip_sum = checksum(&v4, sizeof(v4), 0);
		memcpy(frame.rest, &v4, sizeof(v4));
		len += sizeof(v4);
	}
	len += sizeof(frame.header) + sizeof(frame.ether);
	CHECK(write(tap, &frame, len) == (ssize_t)len);
}

/* The first packet that reaches the gate's resolver. */
static char
first_at(int gate)
{
	struct pollfd wait = { gate, POLLIN, 0 };
	char byte = 0;

	CHECK(poll(&wait, 1, WAIT_MS) == 1 && recv(gate, &byte, 1, 0) == 1);
	return byte;
}

TEST(capture_tap_takes_only_the_guests_address)
{
	OWN(closep) int userns = make_userns(), device = open("/dev/net/tun", O_PATH | O_CLOEXEC), tap = -1;
	OWN(capture_close) struct capture net = { -1, { -1, -1, -1, -1 } };
	struct err err = {0};

	if (device < 0)
		test_skip("there is no /dev/net/tun");
	if (capture_make(userns, true, &net, &err) < 0 || capture_enter((const int[]){ userns, net.netns }, &err) < 0)
		test_skip(err.text);
	if (capture_make_tap(device, &tap, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	send_by_tap(tap, "192.0.2.16", "8.8.8.8", 'a');
	send_by_tap(tap, "198.18.0.1", "8.8.8.8", 'b');
	send_by_tap(tap, "127.0.0.1", "8.8.8.8", 'c');
	send_by_tap(tap, VM_GUEST_ADDRESS4, "8.8.8.8", 'd');
	CHECK(first_at(net.sockets[CAPTURE_DNS4]) == 'd');
	if (net.sockets[CAPTURE_DNS6] < 0)
		return;
	send_by_tap(tap, "2001:db8::16", "2001:4860:4860::8888", 'e');
	send_by_tap(tap, "fe80::1", "2001:4860:4860::8888", 'f');
	send_by_tap(tap, VM_GUEST_ADDRESS6, "2001:4860:4860::8888", 'g');
	CHECK(first_at(net.sockets[CAPTURE_DNS6]) == 'g');
}

/* guest_net.c - the guest's network card, with fixed addresses: nothing is asked of the host. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <net/route.h>
#include <netinet/ether.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/microvm/vm_guest.h"
#include "proc/guest/guest.h"

#define CARD "eth0"
#define METRIC 1

static void
set_address(struct sockaddr *at, const char *text)
{
	struct sockaddr_in *in = (struct sockaddr_in *)at;

	*in = (struct sockaddr_in){ .sin_family = AF_INET };
	(void)inet_pton(AF_INET, text, &in->sin_addr);
}

static int
bring_up(int fd, const char *name)
{
	struct ifreq ifr = { .ifr_flags = IFF_UP | IFF_RUNNING };

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	return ioctl(fd, SIOCSIFFLAGS, &ifr);
}

static int
set_up_ipv4(int fd)
{
	struct rtentry route = { .rt_flags = RTF_UP | RTF_GATEWAY };
	struct ifreq ifr = { .ifr_name = CARD };

	set_address(&ifr.ifr_addr, VM_GUEST_ADDRESS4);
	if (ioctl(fd, SIOCSIFADDR, &ifr) < 0)
		return -errno;
	set_address(&ifr.ifr_netmask, VM_GUEST_MASK4);
	if (ioctl(fd, SIOCSIFNETMASK, &ifr) < 0 || bring_up(fd, CARD) < 0)
		return -errno;
	set_address(&route.rt_dst, "0.0.0.0");
	set_address(&route.rt_genmask, "0.0.0.0");
	set_address(&route.rt_gateway, VM_GUEST_HOST4);
	return ioctl(fd, SIOCADDRT, &route) < 0 ? -errno : 0;
}

/* A kernel without IPv6 is fine. */
static void
set_up_ipv6(void)
{
	OWN(closep) int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct in6_ifreq address = { .ifr6_prefixlen = VM_GUEST_BITS6 };
	struct in6_rtmsg route = { .rtmsg_flags = RTF_UP | RTF_GATEWAY, .rtmsg_metric = METRIC };

	(void)write_file_at(AT_FDCWD, "/proc/sys/net/ipv6/conf/" CARD "/accept_dad", "0", NULL);
	address.ifr6_ifindex = route.rtmsg_ifindex = (int)if_nametoindex(CARD);
	(void)inet_pton(AF_INET6, VM_GUEST_ADDRESS6, &address.ifr6_addr);
	(void)inet_pton(AF_INET6, VM_GUEST_HOST6, &route.rtmsg_gateway);
	if (fd >= 0 && ioctl(fd, SIOCSIFADDR, &address) == 0)
		(void)ioctl(fd, SIOCADDRT, &route);
}

/* Before the card is up: an address that is made from the card's would stay when that one changes. */
static void
choose_own_addresses(void)
{
	(void)write_file_at(AT_FDCWD, "/proc/sys/net/ipv6/conf/" CARD "/accept_ra", "0", NULL);
	(void)write_file_at(AT_FDCWD, "/proc/sys/net/ipv6/conf/" CARD "/addr_gen_mode", "1", NULL);
}

static int
set_mac(const char *mac, struct err *err)
{
	OWN(closep) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = { .ifr_name = CARD, .ifr_hwaddr.sa_family = ARPHRD_ETHER };
	struct ether_addr address;

	if (ether_aton_r(mac, &address) == NULL)
		return err_set(err, EBADMSG, "the guest's first message is malformed");
	memcpy(ifr.ifr_hwaddr.sa_data, &address, sizeof(address));
	if (fd < 0 || ioctl(fd, SIOCSIFHWADDR, &ifr) < 0)
		return err_errno(err, "the guest cannot set the address of its network card");
	return 0;
}

int
guest_set_up_net(struct err *err)
{
	OWN(closep) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r;

	if (fd < 0 || bring_up(fd, "lo") < 0)
		return err_errno(err, "the guest cannot bring its loopback up");
	/* Without capabilities, the agent could otherwise not bind port 80. */
	(void)write_file_at(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0", NULL);
	if (!guest_has_card())
		return 0;
	choose_own_addresses();
	r = set_up_ipv4(fd);
	if (r < 0)
		return err_set(err, -r, "the guest cannot set its network card up: %s", strerrordesc_np(-r));
	set_up_ipv6();
	return 0;
}

bool
guest_has_card(void)
{
	return if_nametoindex(CARD) != 0;
}

int
guest_wake_net(const char *mac, bool is_up, struct err *err)
{
	int r = is_up ? 0 : guest_set_up_net(err);

	return r < 0 ? r : set_mac(mac, err);
}

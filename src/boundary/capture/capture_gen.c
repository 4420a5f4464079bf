/* capture_gen.c - at build time, writes the netlink messages that make a network namespace a cell's
 * private internet: C on stdout, sent unchanged by capture.c.
 *
 * libnftnl and libmnl know the format of the messages.  Nothing in them depends on the cell: in a
 * new namespace the loopback is always interface 1. */
#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/table.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <linux/rtnetlink.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boundary/capture/capture.h"
#include "boundary/microvm/vm_guest.h"
#include "cell/cell_net.h"

#define LOOPBACK 1                      /* its interface number */
#define TABLE "cloister"
#define UNTRACKED_CHAIN "untracked"
#define CAPTURE_CHAIN "capture"
#define NAT_CHAIN "names"
#define FILTER_CHAIN "reject"
#define GUEST_CHAIN "guest"
#define GUEST_NAT_CHAIN "guestnames"
#define DNS_PORT 53
#define TCP_FLAGS 13                    /* their offset in the header */
#define TCP_SYN 0x02
#define TCP_SYN_ACK 0x12
#define NEIGHBOUR_SOLICITATION 135      /* types of ICMPv6 */
#define NEIGHBOUR_ADVERTISEMENT 136
#define PART_MAX 16384

static const struct family {
	const char *name;
	int af, nfproto;
	uint8_t icmp;                   /* protocol */
	uint8_t unreachable;            /* the code for an unreachable port */
	unsigned size, from, to;        /* of an address; offsets in a packet's header */
	const char *gate, *cell, *loopback;
	unsigned loopback_bits;
	const char *guest, *guests_gateway;
} families[] = {
	{ "4", AF_INET, NFPROTO_IPV4, IPPROTO_ICMP, 3, 4, 12, 16, CELL_NET_GATE4, CELL_NET_CELL4,
	  "127.0.0.0", 8, VM_GUEST_ADDRESS4, VM_GUEST_HOST4 },
	{ "6", AF_INET6, NFPROTO_IPV6, IPPROTO_ICMPV6, 4, 16, 8, 24, CELL_NET_GATE6,
	  CELL_NET_CELL6, "::1", 128, VM_GUEST_ADDRESS6, VM_GUEST_HOST6 },
};

/* One array of the output: messages, one behind the other. */
static struct part {
	char bytes[PART_MAX];
	size_t len;
} part;
static uint32_t sequence;

static void __attribute__((noreturn))
fail(const char *what)
{
	fprintf(stderr, "capture_gen: %s\n", what);
	exit(1);
}

static void *
not_null(void *p)
{
	if (p == NULL)
		fail("out of memory");
	return p;
}

static char *
room(void)
{
	if (part.len > PART_MAX - 4096)
		fail("a part is too large");
	memset(part.bytes + part.len, 0, PART_MAX - part.len);
	return part.bytes + part.len;
}

static void
done(const struct nlmsghdr *message)
{
	part.len += MNL_ALIGN(message->nlmsg_len);
}

static void
print_part(const char *name, const char *suffix)
{
	printf("static const unsigned char net_%s%s[%zu] = {", name, suffix, part.len);
	for (size_t i = 0; i < part.len; i++)
		printf("%s0x%02x,", i % 12 == 0 ? "\n\t" : " ", (unsigned char)part.bytes[i]);
	printf("\n};\n");
	part.len = 0;
}

static const void *
address(const struct family *f, const char *text)
{
	static unsigned char bytes[16];

	if (inet_pton(f->af, text, bytes) != 1)
		fail(text);
	return bytes;
}

/* ---- addresses and routes ------------------------------------------------------------ */

static struct nlmsghdr *
route_message(uint16_t type, uint16_t flags)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(room());

	message->nlmsg_type = type;
	message->nlmsg_flags = NLM_F_REQUEST | flags;
	message->nlmsg_seq = ++sequence;
	return message;
}

static void
raise_loopback(void)
{
	struct nlmsghdr *message = route_message(RTM_NEWLINK, 0);
	struct ifinfomsg *link = mnl_nlmsg_put_extra_header(message, sizeof(*link));

	link->ifi_index = LOOPBACK;
	link->ifi_flags = link->ifi_change = IFF_UP;
	done(message);
}

static void
add_address(const struct family *f, uint32_t link, const char *text)
{
	struct nlmsghdr *message = route_message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
	struct ifaddrmsg *body = mnl_nlmsg_put_extra_header(message, sizeof(*body));

	body->ifa_family = (uint8_t)f->af;
	body->ifa_prefixlen = (uint8_t)(f->size * 8);
	body->ifa_flags = f->af == AF_INET6 ? IFA_F_NODAD : 0;
	body->ifa_scope = RT_SCOPE_UNIVERSE;
	body->ifa_index = link;
	mnl_attr_put(message, IFA_LOCAL, f->size, address(f, text));
	mnl_attr_put(message, IFA_ADDRESS, f->size, address(f, text));
	done(message);
}

/* Makes every address local. */
static void
add_route(const struct family *f)
{
	struct nlmsghdr *message = route_message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL);
	struct rtmsg *body = mnl_nlmsg_put_extra_header(message, sizeof(*body));

	body->rtm_family = (uint8_t)f->af;
	body->rtm_table = RT_TABLE_LOCAL;
	body->rtm_protocol = RTPROT_STATIC;
	body->rtm_scope = RT_SCOPE_HOST;
	body->rtm_type = RTN_LOCAL;
	mnl_attr_put_u32(message, RTA_OIF, LOOPBACK);
	mnl_attr_put(message, RTA_PREFSRC, f->size, address(f, f->cell));
	done(message);
}

/* The one address that is not local: a guest's.  It is in the table that has all the others, where the
 * longer prefix counts. */
static void
add_guests_route(const struct family *f)
{
	struct nlmsghdr *message = route_message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL);
	struct rtmsg *body = mnl_nlmsg_put_extra_header(message, sizeof(*body));

	body->rtm_family = (uint8_t)f->af;
	body->rtm_dst_len = (uint8_t)(f->size * 8);
	body->rtm_table = RT_TABLE_LOCAL;
	body->rtm_protocol = RTPROT_STATIC;
	body->rtm_scope = RT_SCOPE_LINK;
	body->rtm_type = RTN_UNICAST;
	mnl_attr_put(message, RTA_DST, f->size, address(f, f->guest));
	mnl_attr_put_u32(message, RTA_OIF, TAP_INDEX);
	done(message);
}

/* ---- rules ------------------------------------------------------------------------------ */

static struct nftnl_rule *rule;

static void
add(struct nftnl_expr *e)
{
	nftnl_rule_add_expr(rule, e);
}

static struct nftnl_expr *
expr(const char *name)
{
	return not_null(nftnl_expr_alloc(name));
}

static void
load_payload(uint32_t base, uint32_t offset, uint32_t len)
{
	struct nftnl_expr *e = expr("payload");

	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_BASE, base);
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_OFFSET, offset);
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_LEN, len);
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_DREG, NFT_REG_1);
	add(e);
}

static void
compare(enum nft_cmp_ops op, const void *data, uint32_t len)
{
	struct nftnl_expr *e = expr("cmp");

	nftnl_expr_set_u32(e, NFTNL_EXPR_CMP_SREG, NFT_REG_1);
	nftnl_expr_set_u32(e, NFTNL_EXPR_CMP_OP, op);
	nftnl_expr_set(e, NFTNL_EXPR_CMP_DATA, data, len);
	add(e);
}

static void
address_is(const struct family *f, unsigned offset, const char *text)
{
	load_payload(NFT_PAYLOAD_NETWORK_HEADER, offset, f->size);
	compare(NFT_CMP_EQ, address(f, text), f->size);
}

/* A prefix of whole bytes needs no mask: fewer bytes are compared. */
static void
loopback_is(const struct family *f, enum nft_cmp_ops op)
{
	load_payload(NFT_PAYLOAD_NETWORK_HEADER, f->to, f->loopback_bits / 8);
	compare(op, address(f, f->loopback), f->loopback_bits / 8);
}

static void
goes_to_loopback(const struct family *f)
{
	loopback_is(f, NFT_CMP_EQ);
}

static void
leaves_the_cell(const struct family *f)
{
	loopback_is(f, NFT_CMP_NEQ);
	load_payload(NFT_PAYLOAD_NETWORK_HEADER, f->to, f->size);
	compare(NFT_CMP_NEQ, address(f, f->cell), f->size);
}

static void
protocol_is(uint8_t protocol)
{
	struct nftnl_expr *e = expr("meta");

	nftnl_expr_set_u32(e, NFTNL_EXPR_META_KEY, NFT_META_L4PROTO);
	nftnl_expr_set_u32(e, NFTNL_EXPR_META_DREG, NFT_REG_1);
	add(e);
	compare(NFT_CMP_EQ, &protocol, sizeof(protocol));
}

static void
comes_from_guest(void)
{
	static const uint32_t tap = TAP_INDEX;
	struct nftnl_expr *e = expr("meta");

	nftnl_expr_set_u32(e, NFTNL_EXPR_META_KEY, NFT_META_IIF);
	nftnl_expr_set_u32(e, NFTNL_EXPR_META_DREG, NFT_REG_1);
	add(e);
	compare(NFT_CMP_EQ, &tap, sizeof(tap));
}

static void
icmp_type_is(uint8_t type)
{
	load_payload(NFT_PAYLOAD_TRANSPORT_HEADER, 0, sizeof(type));
	compare(NFT_CMP_EQ, &type, sizeof(type));
}

static void
goes_to_port(uint16_t port)
{
	uint16_t wire = htons(port);

	load_payload(NFT_PAYLOAD_TRANSPORT_HEADER, 2, sizeof(wire));
	compare(NFT_CMP_EQ, &wire, sizeof(wire));
}

static void
opens_connection(void)
{
	static const uint8_t both = TCP_SYN_ACK, syn = TCP_SYN, none;
	struct nftnl_expr *e;

	load_payload(NFT_PAYLOAD_TRANSPORT_HEADER, TCP_FLAGS, sizeof(syn));
	e = expr("bitwise");
	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_SREG, NFT_REG_1);
	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_DREG, NFT_REG_1);
	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_LEN, sizeof(both));
	nftnl_expr_set(e, NFTNL_EXPR_BITWISE_MASK, &both, sizeof(both));
	nftnl_expr_set(e, NFTNL_EXPR_BITWISE_XOR, &none, sizeof(none));
	add(e);
	compare(NFT_CMP_EQ, &syn, sizeof(syn));
}

static void
put_in(uint32_t reg, const void *data, uint32_t len)
{
	struct nftnl_expr *e = expr("immediate");

	nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_DREG, reg);
	nftnl_expr_set(e, NFTNL_EXPR_IMM_DATA, data, len);
	add(e);
}

static void
decide(uint32_t verdict)
{
	struct nftnl_expr *e = expr("immediate");

	nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
	nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_VERDICT, verdict);
	add(e);
}

static void
accept_it(void)
{
	decide(NF_ACCEPT);
}

static void
name_gate(const struct family *f, uint16_t port)
{
	uint16_t wire = htons(port);

	put_in(NFT_REG_1, address(f, f->gate), f->size);
	put_in(NFT_REG_2, &wire, sizeof(wire));
}

/* The gate's socket gets the packet with its original address. */
static void
give_to_gate(const struct family *f, uint16_t port)
{
	struct nftnl_expr *e;

	name_gate(f, port);
	e = expr("tproxy");
	nftnl_expr_set_u32(e, NFTNL_EXPR_TPROXY_FAMILY, (uint32_t)f->nfproto);
	nftnl_expr_set_u32(e, NFTNL_EXPR_TPROXY_REG_ADDR, NFT_REG_1);
	nftnl_expr_set_u32(e, NFTNL_EXPR_TPROXY_REG_PORT, NFT_REG_2);
	add(e);
}

/* Replaces the address by the gate's, and restores it in the answers. */
static void
send_to_gate(const struct family *f, uint16_t port)
{
	struct nftnl_expr *e;

	name_gate(f, port);
	e = expr("nat");
	nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_TYPE, NFT_NAT_DNAT);
	nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_FAMILY, (uint32_t)f->nfproto);
	nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_REG_ADDR_MIN, NFT_REG_1);
	nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_REG_PROTO_MIN, NFT_REG_2);
	add(e);
}

static void
reject_it(const struct family *f)
{
	struct nftnl_expr *e = expr("reject");

	nftnl_expr_set_u32(e, NFTNL_EXPR_REJECT_TYPE, NFT_REJECT_ICMP_UNREACH);
	nftnl_expr_set_u8(e, NFTNL_EXPR_REJECT_CODE, f->unreachable);
	add(e);
}

static void
begin_rule(const struct family *f, const char *chain)
{
	rule = not_null(nftnl_rule_alloc());
	nftnl_rule_set_str(rule, NFTNL_RULE_TABLE, TABLE);
	nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, chain);
	nftnl_rule_set_u32(rule, NFTNL_RULE_FAMILY, (uint32_t)f->nfproto);
}

static void
end_rule(const struct family *f)
{
	struct nlmsghdr *message = nftnl_nlmsg_build_hdr(room(), NFT_MSG_NEWRULE,
		(uint16_t)f->nfproto, NLM_F_CREATE | NLM_F_APPEND, ++sequence);

	nftnl_rule_nlmsg_build_payload(message, rule);
	nftnl_rule_free(rule);
	done(message);
}

static void
add_chain(const struct family *f, const char *name, const char *type, uint32_t hook,
          int32_t priority, uint32_t policy)
{
	struct nftnl_chain *chain = not_null(nftnl_chain_alloc());
	struct nlmsghdr *message;

	nftnl_chain_set_str(chain, NFTNL_CHAIN_TABLE, TABLE);
	nftnl_chain_set_str(chain, NFTNL_CHAIN_NAME, name);
	nftnl_chain_set_str(chain, NFTNL_CHAIN_TYPE, type);
	nftnl_chain_set_u32(chain, NFTNL_CHAIN_HOOKNUM, hook);
	nftnl_chain_set_s32(chain, NFTNL_CHAIN_PRIO, priority);
	nftnl_chain_set_u32(chain, NFTNL_CHAIN_POLICY, policy);
	message = nftnl_nlmsg_build_hdr(room(), NFT_MSG_NEWCHAIN, (uint16_t)f->nfproto,
	                                NLM_F_CREATE, ++sequence);
	nftnl_chain_nlmsg_build_payload(message, chain);
	nftnl_chain_free(chain);
	done(message);
}

static void
add_table(const struct family *f)
{
	struct nftnl_table *table = not_null(nftnl_table_alloc());
	struct nlmsghdr *message;

	nftnl_table_set_str(table, NFTNL_TABLE_NAME, TABLE);
	message = nftnl_nlmsg_build_hdr(room(), NFT_MSG_NEWTABLE, (uint16_t)f->nfproto,
	                                NLM_F_CREATE, ++sequence);
	nftnl_table_nlmsg_build_payload(message, table);
	nftnl_table_free(table);
	done(message);
}

/* TCP goes to the gate, except for connections to the cell itself.  Only the packet that opens a
 * connection has to be redirected: the others find its socket.  Nothing is rewritten, so no
 * connection has to be tracked, which would cost each packet more than all of this. */
static void
add_capture(const struct family *f)
{
	add_chain(f, UNTRACKED_CHAIN, "filter", NF_INET_LOCAL_OUT, -300, NF_ACCEPT);
	begin_rule(f, UNTRACKED_CHAIN);
	protocol_is(IPPROTO_TCP);
	add(expr("notrack"));
	end_rule(f);
	add_chain(f, CAPTURE_CHAIN, "filter", NF_INET_PRE_ROUTING, -150, NF_ACCEPT);
	begin_rule(f, CAPTURE_CHAIN);
	protocol_is(IPPROTO_TCP);
	opens_connection();
	leaves_the_cell(f);
	give_to_gate(f, CELL_NET_CAPTURE_PORT);
	end_rule(f);
}

/* DNS queries go to the gate too, whichever server is asked. */
static void
add_names(const struct family *f)
{
	add_chain(f, NAT_CHAIN, "nat", NF_INET_LOCAL_OUT, -100, NF_ACCEPT);
	begin_rule(f, NAT_CHAIN);
	protocol_is(IPPROTO_UDP);
	goes_to_port(DNS_PORT);
	leaves_the_cell(f);
	send_to_gate(f, DNS_PORT);
	end_rule(f);
}

/* The rest is refused explicitly, so that clients fall back at once: a sender gets an error from
 * the call itself, and a waiting client gets ICMP. */
static void
add_refusal(const struct family *f)
{
	add_chain(f, FILTER_CHAIN, "filter", NF_INET_LOCAL_OUT, 0, NF_DROP);
	begin_rule(f, FILTER_CHAIN);
	protocol_is(IPPROTO_TCP);
	accept_it();
	end_rule(f);
	begin_rule(f, FILTER_CHAIN);
	goes_to_loopback(f);
	accept_it();
	end_rule(f);
	begin_rule(f, FILTER_CHAIN);
	address_is(f, f->to, f->cell);
	/* Answers of the gate, and the cell's traffic with itself. */
	accept_it();
	end_rule(f);
	begin_rule(f, FILTER_CHAIN);
	address_is(f, f->to, f->gate);
	protocol_is(IPPROTO_UDP);
	goes_to_port(DNS_PORT);
	accept_it();
	end_rule(f);
	begin_rule(f, FILTER_CHAIN);
	address_is(f, f->from, f->gate);
	accept_it();
	end_rule(f);
	begin_rule(f, FILTER_CHAIN);
	protocol_is(IPPROTO_UDP);
	reject_it(f);
	end_rule(f);
	begin_rule(f, FILTER_CHAIN);
	protocol_is(f->icmp);
	accept_it();
	end_rule(f);
}

static void
accept_from_guest(const struct family *f, uint8_t protocol)
{
	begin_rule(f, GUEST_CHAIN);
	comes_from_guest();
	address_is(f, f->from, f->guest);
	if (protocol != 0) {
		protocol_is(protocol);
		add(expr("notrack"));
	}
	accept_it();
	end_rule(f);
}

static void
accept_neighbour(const struct family *f, uint8_t type)
{
	begin_rule(f, GUEST_CHAIN);
	comes_from_guest();
	protocol_is(IPPROTO_ICMPV6);
	icmp_type_is(type);
	accept_it();
	end_rule(f);
}

/* A guest's kernel can send any packet.  Only those with its own address count, and the messages by which
 * it finds the host; so it announces no routes, and answers for nobody else. */
static void
add_guest(const struct family *f)
{
	add_chain(f, GUEST_CHAIN, "filter", NF_INET_PRE_ROUTING, -300, NF_ACCEPT);
	accept_from_guest(f, IPPROTO_TCP);
	accept_from_guest(f, 0);
	if (f->af == AF_INET6) {
		accept_neighbour(f, NEIGHBOUR_SOLICITATION);
		accept_neighbour(f, NEIGHBOUR_ADVERTISEMENT);
	}
	begin_rule(f, GUEST_CHAIN);
	comes_from_guest();
	decide(NF_DROP);
	end_rule(f);
	/* Connections are captured like all others.  Names need a rule of their own, because theirs is for
	 * packets that are sent here. */
	add_chain(f, GUEST_NAT_CHAIN, "nat", NF_INET_PRE_ROUTING, -100, NF_ACCEPT);
	begin_rule(f, GUEST_NAT_CHAIN);
	comes_from_guest();
	protocol_is(IPPROTO_UDP);
	goes_to_port(DNS_PORT);
	send_to_gate(f, DNS_PORT);
	end_rule(f);
}

int
main(void)
{
	printf("/* Made by capture_gen.c. */\n");
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		const struct family *f = &families[i];

		if (f->af == AF_INET)
			raise_loopback();
		add_address(f, LOOPBACK, f->cell);
		add_route(f);
		print_part("routes", f->name);
		add_address(f, TAP_INDEX, f->guests_gateway);
		add_guests_route(f);
		print_part("tap", f->name);
		add_table(f);
		add_capture(f);
		add_names(f);
		add_refusal(f);
		print_part("rules", f->name);
		add_guest(f);
		print_part("guest", f->name);
	}
	done(nftnl_batch_begin(room(), ++sequence));
	print_part("batch_begin", "");
	done(nftnl_batch_end(room(), ++sequence));
	print_part("batch_end", "");
	if (fflush(stdout) != 0 || ferror(stdout))
		fail("cannot write");
	return 0;
}

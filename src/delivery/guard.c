/* Which addresses webhooks may connect to: the list of refused networks, and webhook_allow. */
#include "delivery/guard.h"

#include "delivery/guard_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>

/* IPv6 is refused by default: only what IANA has assigned as global unicast (2000::/3) may be
 * called, less the special blocks within it, and the well-known prefix of NAT64. IPv4 has no
 * such block, so all its special ones are listed. Sources: the IANA IPv4 and IPv6 Special-
 * Purpose Address Registries (RFC 6890 and its updates), the IANA IPv6 Address Space and
 * multicast registries; for metadata, the clouds' own documents. In a table the narrower block
 * comes first, because its kind says more. */

struct block4 {
    uint8_t address[4];
    uint8_t prefix_bits;
    const char *kind;
};

struct block6 {
    uint8_t address[16];
    uint8_t prefix_bits;
    const char *kind;
};

static const struct block4 blocks4[] = {
    {{0}, 8, "unspecified"},                      /* "this network", RFC 791 */
    {{10}, 8, "private"},                         /* RFC 1918 */
    {{100, 100, 100, 200}, 32, "cloud metadata"}, /* Alibaba Cloud */
    {{100, 64}, 10, "carrier-grade NAT"},         /* RFC 6598 */
    {{127}, 8, "loopback"},                       /* RFC 1122 */
    {{168, 63, 129, 16}, 32, "cloud metadata"},   /* Azure's host agent, in public space */
    {{169, 254, 169, 254}, 32, "cloud metadata"}, /* AWS, Google Cloud, Azure and others */
    {{169, 254, 170, 2}, 32, "cloud metadata"},   /* AWS ECS: a task's credentials */
    {{169, 254, 170, 23}, 32, "cloud metadata"},  /* AWS EKS: a pod's credentials */
    {{169, 254}, 16, "link-local"},               /* RFC 3927 */
    {{172, 16}, 12, "private"},                   /* RFC 1918 */
    {{192, 0, 0, 192}, 32, "cloud metadata"},     /* Oracle Cloud */
    {{192, 0, 0}, 24, "reserved"},                /* IETF protocol assignments, RFC 6890 */
    {{192, 0, 2}, 24, "documentation"},           /* RFC 5737 */
    {{192, 88, 99}, 24, "6to4 relay"},            /* RFC 7526 */
    {{192, 168}, 16, "private"},                  /* RFC 1918 */
    {{198, 18}, 15, "benchmarking"},              /* RFC 2544 */
    {{198, 51, 100}, 24, "documentation"},        /* RFC 5737 */
    {{203, 0, 113}, 24, "documentation"},         /* RFC 5737 */
    {{224}, 4, "multicast"},                      /* RFC 5771 */
    {{255, 255, 255, 255}, 32, "broadcast"},      /* RFC 919 */
    {{240}, 4, "reserved"},                       /* RFC 1112 */
};

static const struct block6 blocks6[] = {
    {{0}, 128, "unspecified"},                                   /* ::, RFC 4291 */
    {{[15] = 1}, 128, "loopback"},                               /* ::1, RFC 4291 */
    {{0}, 96, "IPv4-compatible"},                                /* withdrawn by RFC 4291 */
    {{0x00, 0x64, 0xff, 0x9b, 0, 1}, 48, "private translation"}, /* 64:ff9b:1::/48, RFC 8215 */
    {{0x01}, 64, "discard-only"},                                /* 100::/64, RFC 6666 */
    {{0x20, 0x01, 0, 2}, 48, "benchmarking"},                    /* 2001:2::/48, RFC 5180 */
    {{0x20, 0x01, 0x0d, 0xb8}, 32, "documentation"},             /* 2001:db8::/32, RFC 3849 */
    {{0x3f, 0xff}, 20, "documentation"},                         /* 3fff::/20, RFC 9637 */
    {{0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, 0x54}, 128, "cloud metadata"}, /* fd00:ec2::254, AWS */
    {{0xfd, 0x20, 0x00, 0xce, [14] = 0x02, 0x54}, 128, "cloud metadata"}, /* fd20:ce::254, Google */
    {{0xfc}, 7, "private"},           /* fc00::/7, unique local, RFC 4193 */
    {{0xfe, 0x80}, 10, "link-local"}, /* fe80::/10, RFC 4291 */
    {{0xfe, 0xc0}, 10, "private"},    /* fec0::/10, site-local, RFC 3879 */
    {{0xff}, 8, "multicast"},         /* ff00::/8, RFC 4291 */
};

static const uint8_t mapped[12] = {[10] = 0xff, 0xff};
static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b}; /* 64:ff9b::/96, RFC 6052 */

static bool guard_has_prefix(const uint8_t *address, const uint8_t *prefix, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    if (memcmp(address, prefix, whole) != 0)
        return false;
    return rest == 0 || (address[whole] ^ prefix[whole]) >> (8 - rest) == 0;
}

static bool guard_is_mapped(const uint8_t address[16])
{
    return memcmp(address, mapped, sizeof(mapped)) == 0;
}

static bool guard_is_allowed(const struct guard *guard, const uint8_t address[16])
{
    /* "::/0" is all of IPv6, but not all of IPv4 by its mapped form. */
    unsigned prefix_bits_min = guard_is_mapped(address) ? 96 : 0;

    for (size_t i = 0; i < guard->allowed_count; i++) {
        const struct guard_network *network = &guard->allowed[i];

        if (network->prefix_bits >= prefix_bits_min &&
            guard_has_prefix(address, network->address, network->prefix_bits))
            return true;
    }
    return false;
}

static const char *guard_refusal4(const struct guard *guard, const uint8_t address[4])
{
    uint8_t wide[16];

    memcpy(wide, mapped, sizeof(mapped));
    memcpy(wide + 12, address, 4);
    if (guard_is_allowed(guard, wide))
        return NULL;
    for (size_t i = 0; i < sizeof(blocks4) / sizeof(blocks4[0]); i++)
        if (guard_has_prefix(address, blocks4[i].address, blocks4[i].prefix_bits))
            return blocks4[i].kind;
    return NULL;
}

/* Checks a Teredo address (RFC 4380): the server's address, flags and port, then the client's
 * with every bit inverted. */
static const char *guard_refusal_teredo(const struct guard *guard, const uint8_t address[16])
{
    const char *kind = guard_refusal4(guard, address + 4);
    uint8_t client[4];

    for (size_t i = 0; i < 4; i++)
        client[i] = (uint8_t)~address[12 + i];
    return kind ? kind : guard_refusal4(guard, client);
}

/* Checks an IPv4 address that is embedded in an IPv6 one. A translator with its own prefix (RFC
 * 6052, section 2.2) looks like any other network; its operator must block such addresses. */
static const char *guard_refusal_embedded(const struct guard *guard, const uint8_t address[16])
{
    static const uint8_t teredo[4] = {0x20, 0x01}, sixtofour[2] = {0x20, 0x02};
    static const uint8_t isatap[4] = {0x00, 0x00, 0x5e, 0xfe};

    if (memcmp(address, nat64, sizeof(nat64)) == 0)
        return guard_refusal4(guard, address + 12);
    const char *kind = NULL;
    if (memcmp(address, teredo, sizeof(teredo)) == 0)
        kind = guard_refusal_teredo(guard, address);
    else if (memcmp(address, sixtofour, sizeof(sixtofour)) == 0)
        kind = guard_refusal4(guard, address + 2);
    /* ISATAP (RFC 5214) is the last half of any prefix; two of its bits are the universal and
     * group bits. */
    if (!kind && (address[8] & ~0x03) == isatap[0] && memcmp(address + 9, isatap + 1, 3) == 0)
        kind = guard_refusal4(guard, address + 12);
    return kind;
}

static const char *guard_refusal6(const struct guard *guard, const uint8_t address[16])
{
    static const uint8_t global_unicast[1] = {0x20};    /* 2000::/3 */
    static const uint8_t teredo[4] = {0x20, 0x01};      /* 2001::/32 */
    static const uint8_t assignments[3] = {0x20, 0x01}; /* 2001::/23, RFC 2928 */

    if (guard_is_mapped(address))
        return guard_refusal4(guard, address + 12);
    if (guard_is_allowed(guard, address))
        return NULL;
    for (size_t i = 0; i < sizeof(blocks6) / sizeof(blocks6[0]); i++)
        if (guard_has_prefix(address, blocks6[i].address, blocks6[i].prefix_bits))
            return blocks6[i].kind;
    if (guard_has_prefix(address, assignments, 23) && !guard_has_prefix(address, teredo, 32))
        return "reserved";
    if (!guard_has_prefix(address, global_unicast, 3) && !guard_has_prefix(address, nat64, 96))
        return "reserved";
    return guard_refusal_embedded(guard, address);
}

const char *guard_refusal(const struct guard *guard, const struct sockaddr *address)
{
    /* The address is copied, because it may be aligned only for a struct sockaddr. */
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof(v4));
        return guard_refusal4(guard, (const uint8_t *)&v4.sin_addr);
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof(v6));
        return guard_refusal6(guard, v6.sin6_addr.s6_addr);
    }
    return "not of the internet";
}

bool guard_allows_host(const struct guard *guard, struct bytes host)
{
    static const uint8_t loopback4[4] = {127, 0, 0, 1}, loopback6[16] = {[15] = 1};
    uint8_t address[16];

    switch (guard_host_parse(host, address)) {
    case GUARD_HOST_NAME:
        return true;
    case GUARD_HOST_ADDRESS:
        return guard_refusal6(guard, address) == NULL;
    /* localhost may be 127.0.0.1 or ::1, and either may be allowed: this is decided at connect */
    case GUARD_HOST_LOCALHOST:
        return !guard_refusal4(guard, loopback4) || !guard_refusal6(guard, loopback6);
    case GUARD_HOST_INVALID:
        break;
    }
    return false;
}

/* ---- the list of allowed networks ---- */

static bool guard_parse_prefix_bits(const char *text, unsigned max, unsigned *ret_bits)
{
    size_t size = strlen(text);

    if (size == 0 || size > 3 || (size > 1 && text[0] == '0'))
        return false;
    unsigned bits = 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        bits = bits * 10 + (unsigned)(*text - '0');
    }
    *ret_bits = bits;
    return bits <= max;
}

static bool guard_has_bits_beyond(const uint8_t address[16], unsigned prefix_bits)
{
    for (unsigned bit = prefix_bits; bit < 128; bit++)
        if (address[bit / 8] >> (7 - bit % 8) & 1)
            return true;
    return false;
}

/* Splits `text` at its slash into address and prefix, and parses both. */
static bool guard_parse_network(char *text, struct guard_network *ret_network)
{
    char *slash = strchr(text, '/');

    if (slash)
        *slash = '\0';
    unsigned width = 128;
    if (inet_pton(AF_INET, text, ret_network->address + 12) == 1) {
        memcpy(ret_network->address, mapped, sizeof(mapped));
        width = 32;
    } else if (inet_pton(AF_INET6, text, ret_network->address) != 1) {
        return false;
    }
    unsigned bits = width;
    if (slash && !guard_parse_prefix_bits(slash + 1, width, &bits))
        return false;
    ret_network->prefix_bits = (uint8_t)(bits + 128 - width);
    return true;
}

enum error_code guard_init(struct guard *ret_guard, const char *allow, struct error *ret_error)
{
    static const char between[] = ", \t\r\n";
    struct guard guard = {0};

    for (allow += strspn(allow, between); *allow; allow += strspn(allow, between)) {
        size_t size = strcspn(allow, between);

        if (guard.allowed_count == GUARD_NETWORKS_MAX)
            return error_set(ret_error, ERROR_INVALID, "more than %d networks", GUARD_NETWORKS_MAX);
        char text[INET6_ADDRSTRLEN + 4];
        memcpy(text, allow, size < sizeof(text) ? size : 0);
        text[size < sizeof(text) ? size : 0] = '\0';
        struct guard_network network;
        if (!guard_parse_network(text, &network))
            return error_set(ret_error, ERROR_INVALID,
                             "\"%.*s\" is not a network such as 10.0.0.0/8 or fd00::/8",
                             size < 64 ? (int)size : 64, allow);
        if (guard_has_bits_beyond(network.address, network.prefix_bits))
            return error_set(ret_error, ERROR_INVALID,
                             "\"%.*s\" has bits set beyond its prefix: a network or an address?",
                             (int)size, allow);
        guard.allowed[guard.allowed_count++] = network;
        allow += size;
    }
    *ret_guard = guard;
    return ERROR_NONE;
}

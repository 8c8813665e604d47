/*
 * Goal: no address of a forbidden kind gets past the guard, however it is written or embedded, and
 * no public one is held back. Method: tables of addresses and of host spellings, each with what
 * must come of it; both edges of every block; every spelling checked against the C library's own
 * reading.
 */
#include "delivery/guard.h"

#include "delivery/guard_host.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/un.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct guard guard_of(const char *allow)
{
    struct guard guard;
    struct error error = {0};

    assert_int_equal(guard_init(&guard, allow, &error), ERROR_NONE);
    return guard;
}

static const char *guard_test_refusal(const struct guard *guard, const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return guard_refusal(guard, (struct sockaddr *)&v4);
    if (inet_pton(AF_INET6, text, &v6.sin6_addr) != 1)
        fail_msg("the table is wrong: %s", text);
    return guard_refusal(guard, (struct sockaddr *)&v6);
}

/* ---- addresses ---- */

struct address_case {
    const char *address;
    const char *kind; /* NULL: allowed */
};

static const struct address_case address_cases[] = {
    /* IPv4: the first and last of each block, and the neighbours outside */
    {"0.0.0.0", "unspecified"},
    {"0.255.255.255", "unspecified"},
    {"1.0.0.0", NULL},
    {"9.255.255.255", NULL},
    {"10.0.0.0", "private"},
    {"10.255.255.255", "private"},
    {"11.0.0.0", NULL},
    {"100.63.255.255", NULL},
    {"100.64.0.0", "carrier-grade NAT"},
    {"100.100.100.200", "cloud metadata"},
    {"100.127.255.255", "carrier-grade NAT"},
    {"100.128.0.0", NULL},
    {"126.255.255.255", NULL},
    {"127.0.0.0", "loopback"},
    {"127.0.0.1", "loopback"},
    {"127.255.255.255", "loopback"},
    {"128.0.0.0", NULL},
    {"168.63.129.15", NULL},
    {"168.63.129.16", "cloud metadata"},
    {"168.63.129.17", NULL},
    {"169.253.255.255", NULL},
    {"169.254.0.0", "link-local"},
    {"169.254.169.254", "cloud metadata"},
    {"169.254.170.2", "cloud metadata"},
    {"169.254.170.23", "cloud metadata"},
    {"169.254.255.255", "link-local"},
    {"169.255.0.0", NULL},
    {"172.15.255.255", NULL},
    {"172.16.0.0", "private"},
    {"172.31.255.255", "private"},
    {"172.32.0.0", NULL},
    {"191.255.255.255", NULL},
    {"192.0.0.0", "reserved"},
    {"192.0.0.192", "cloud metadata"},
    {"192.0.0.255", "reserved"},
    {"192.0.1.0", NULL},
    {"192.0.2.0", "documentation"},
    {"192.0.2.255", "documentation"},
    {"192.0.3.0", NULL},
    {"192.88.98.255", NULL},
    {"192.88.99.0", "6to4 relay"},
    {"192.88.99.255", "6to4 relay"},
    {"192.88.100.0", NULL},
    {"192.167.255.255", NULL},
    {"192.168.0.0", "private"},
    {"192.168.255.255", "private"},
    {"192.169.0.0", NULL},
    {"198.17.255.255", NULL},
    {"198.18.0.0", "benchmarking"},
    {"198.19.255.255", "benchmarking"},
    {"198.20.0.0", NULL},
    {"198.51.99.255", NULL},
    {"198.51.100.0", "documentation"},
    {"198.51.100.255", "documentation"},
    {"198.51.101.0", NULL},
    {"203.0.112.255", NULL},
    {"203.0.113.0", "documentation"},
    {"203.0.113.255", "documentation"},
    {"203.0.114.0", NULL},
    {"223.255.255.255", NULL},
    {"224.0.0.0", "multicast"},
    {"239.255.255.255", "multicast"},
    {"240.0.0.0", "reserved"},
    {"255.255.255.254", "reserved"},
    {"255.255.255.255", "broadcast"},
    {"8.8.8.8", NULL},
    /* IPv6 */
    {"::", "unspecified"},
    {"::1", "loopback"},
    {"::2", "IPv4-compatible"},
    {"::127.0.0.1", "IPv4-compatible"},
    {"::8.8.8.8", "IPv4-compatible"},
    {"::ffff:0:127.0.0.1", "reserved"}, /* IPv4-translated, RFC 2765 */
    {"::1:0:0:0", "reserved"},
    {"64:ff9a::1", "reserved"},
    {"64:ff9b:1::1", "private translation"},
    {"64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "private translation"},
    {"64:ff9b:2::1", "reserved"},
    {"64:ff9b::1:8.8.8.8", "reserved"}, /* outside the /96 */
    {"100::", "discard-only"},
    {"100::ffff:ffff:ffff:ffff", "discard-only"},
    {"100:0:0:1::1", "reserved"},
    {"1fff:ffff::1", "reserved"},
    {"2001:1::1", "reserved"},
    {"2001:2::1", "benchmarking"},
    {"2001:2:0:ffff::1", "benchmarking"},
    {"2001:10::1", "reserved"},
    {"2001:20::1", "reserved"},
    {"2001:1ff:ffff::1", "reserved"},
    {"2001:200::1", NULL},
    {"2001:4860:4860::8888", NULL},
    {"2001:db7:ffff::1", NULL},
    {"2001:db8::1", "documentation"},
    {"2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "documentation"},
    {"2001:db9::1", NULL},
    {"2606:4700:4700::1111", NULL},
    {"3ffe:ffff::1", NULL},
    {"3fff::1", "documentation"},
    {"3fff:fff:ffff::1", "documentation"},
    {"3fff:1000::1", NULL},
    {"4000::1", "reserved"},
    {"5f00::1", "reserved"},
    {"fbff:ffff::1", "reserved"},
    {"fc00::1", "private"},
    {"fd00:ec2::254", "cloud metadata"},
    {"fd20:ce::254", "cloud metadata"},
    {"fdff:ffff::1", "private"},
    {"fe00::1", "reserved"},
    {"fe80::1", "link-local"},
    {"febf:ffff::1", "link-local"},
    {"fec0::1", "private"},
    {"feff::1", "private"},
    {"ff02::1", "multicast"},
    {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "multicast"},
    /* IPv4 within IPv6 */
    {"::ffff:127.0.0.1", "loopback"},
    {"::ffff:10.1.2.3", "private"},
    {"::ffff:169.254.169.254", "cloud metadata"},
    {"::ffff:0.0.0.0", "unspecified"},
    {"::ffff:8.8.8.8", NULL},
    {"64:ff9b::127.0.0.1", "loopback"},
    {"64:ff9b::169.254.169.254", "cloud metadata"},
    {"64:ff9b::192.168.0.1", "private"},
    {"64:ff9b::8.8.8.8", NULL},
    {"2002:7f00:1::", "loopback"},
    {"2002:7f00:1::1", "loopback"},
    {"2002:a9fe:a9fe::", "cloud metadata"},
    {"2002:c0a8:101:1::1", "private"},
    {"2002:808:808::1", NULL},
    {"2001:0:0808:0808:0:0:80ff:fffe", "loopback"},       /* Teredo, client 127.0.0.1 */
    {"2001:0:0808:0808:0:0:3f57:fefe", "private"},        /* client 192.168.1.1 */
    {"2001:0:0808:0808:0:0:5601:5601", "cloud metadata"}, /* client 169.254.169.254 */
    {"2001:0:7f00:1:0:0:f7f7:f7f7", "loopback"},          /* server 127.0.0.1 */
    {"2001:0:0808:0808:0:0:f7f7:f7f7", NULL},             /* both 8.8.8.8 */
    {"2606:4700::5efe:127.0.0.1", "loopback"},            /* ISATAP */
    {"2606:4700::200:5efe:10.0.0.1", "private"},          /* the same, marked universal */
    {"2606:4700::100:5efe:169.254.169.254", "cloud metadata"},
    {"2606:4700::300:5efe:0.0.0.0", "unspecified"},
    {"2606:4700::5efe:8.8.8.8", NULL},
    {"2606:4700::400:5efe:127.0.0.1", NULL},      /* not ISATAP: an ordinary interface identifier */
    {"2002:808:808::5efe:127.0.0.1", "loopback"}, /* two embeddings, the second one bad */
};

/* proves: target-private */
static void test_addresses(void **state)
{
    struct guard guard = guard_of("");

    (void)state;
    for (size_t i = 0; i < COUNT(address_cases); i++) {
        const char *kind = guard_test_refusal(&guard, address_cases[i].address);
        const char *wanted = address_cases[i].kind;

        if ((kind == NULL) != (wanted == NULL) || (kind && strcmp(kind, wanted) != 0))
            fail_msg("%s: %s, not %s", address_cases[i].address, kind ? kind : "allowed",
                     wanted ? wanted : "allowed");
    }
}

/* Any other family is refused, so is an address that is not one of the internet. */
static void test_families(void **state)
{
    struct guard guard = guard_of("0.0.0.0/0, ::/0");
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr none = {.sa_family = AF_UNSPEC};

    (void)state;
    assert_non_null(guard_refusal(&guard, (struct sockaddr *)&local));
    assert_non_null(guard_refusal(&guard, &none));
}

/* ---- spellings ---- */

struct host_case {
    const char *host;
    const char *address; /* what it means; "name", "localhost" or "invalid" */
    bool allowed;        /* by a guard that allows nothing special */
};

static const struct host_case host_cases[] = {
    /* 127.0.0.1, as inet_aton reads it */
    {"127.0.0.1", "127.0.0.1", false},
    {"127.0.0.1.", "127.0.0.1", false},
    {"127.1", "127.0.0.1", false},
    {"127.0.1", "127.0.0.1", false},
    {"127.1.", "127.0.0.1", false},
    {"2130706433", "127.0.0.1", false},
    {"2130706433.", "127.0.0.1", false},
    {"0x7f000001", "127.0.0.1", false},
    {"0X7F000001", "127.0.0.1", false},
    {"0x7f.0x0.0x0.0x1", "127.0.0.1", false},
    {"0x7f.1", "127.0.0.1", false},
    {"0x0000000000000000000007f.1", "127.0.0.1", false},
    {"0177.0.0.1", "127.0.0.1", false},
    {"0177.0.0.01", "127.0.0.1", false},
    {"00000000177.1", "127.0.0.1", false},
    {"017700000001", "127.0.0.1", false},
    {"0177.0x0.1", "127.0.0.1", false},
    {"127.65535", "127.0.255.255", false},
    {"127.0x10000", "127.1.0.0", false},
    {"0", "0.0.0.0", false},
    {"00", "0.0.0.0", false},
    {"0x0", "0.0.0.0", false},
    {"0.0.0.0", "0.0.0.0", false},
    {"0.0", "0.0.0.0", false},
    {"0x7F.0.0.1", "127.0.0.1", false},
    {"4294967295", "255.255.255.255", false},
    /* the metadata service, and private networks */
    {"169.254.169.254", "169.254.169.254", false},
    {"2852039166", "169.254.169.254", false},
    {"0xa9fea9fe", "169.254.169.254", false},
    {"0xA9.0xFE.0xA9.0xFE", "169.254.169.254", false},
    {"0251.0376.0251.0376", "169.254.169.254", false},
    {"169.254.43518", "169.254.169.254", false},
    {"169.16689662", "169.254.169.254", false},
    {"10.1", "10.0.0.1", false},
    {"012.1", "10.0.0.1", false},
    {"192.168.257", "192.168.1.1", false},
    {"3232235777", "192.168.1.1", false},
    {"172.16.1", "172.16.0.1", false},
    /* percent-encoded */
    {"%31%32%37.0.0.1", "127.0.0.1", false},
    {"127%2e0%2E0%2e1", "127.0.0.1", false},
    {"%6cocalhost", "localhost", false},
    {"%4C%4F%43%41%4C%48%4F%53%54", "localhost", false},
    {"%ef%bc%91%ef%bc%92%ef%bc%97.0.0.1", "127.0.0.1", false},
    {"%2531.0.0.1", "invalid", false}, /* encoded twice */
    {"127.0.0.1%", "invalid", false},
    {"127.0.0.1%2", "invalid", false},
    {"127.0.0.1%00", "invalid", false},
    {"127.0.0.1%00.example.com", "invalid", false},
    {"127.0.0.1%0a", "invalid", false},
    /* characters that IDNA folds */
    {"１２７.０.０.１", "127.0.0.1", false},
    {"127。0。0。1", "127.0.0.1", false},
    {"127．0．0｡1", "127.0.0.1", false},
    {"①②⑦.⓪.⓪.①", "127.0.0.1", false},
    {"⑫7.1", "127.0.0.1", false},
    {"⒓7.1", "12.7.0.1", true},
    {"127⒈", "0.0.4.247", false},
    {"𝟏𝟚𝟩.𝟢.𝟶.¹", "127.0.0.1", false},
    {"₁₂₇.₀.₀.₁", "127.0.0.1", false},
    {"０ｘ７ｆ.1", "127.0.0.1", false},
    {"ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "localhost", false},
    {"ｌｏｃａｌｈｏｓｔ", "localhost", false},
    {"𝓵𝓸𝓬𝓪𝓵𝓱𝓸𝓼𝓽", "localhost", false},
    {"ℓocalhoſt", "localhost", false},
    {"local\u00adhost", "localhost", false},
    {"local\u200bhost\ufeff", "localhost", false},
    {"127.0.0.\u00ad1", "127.0.0.1", false},
    /* names for this machine */
    {"localhost", "localhost", false},
    {"LOCALHOST", "localhost", false},
    {"LocalHost.", "localhost", false},
    {"api.localhost", "localhost", false},
    {"a.b.localhost.", "localhost", false},
    {"localhost.localdomain", "localhost", false},
    {"ip6-localhost", "localhost", false},
    {"ip6-loopback", "localhost", false},
    /* IPv6 */
    {"[::1]", "::1", false},
    {"::1", "::1", false},
    {"[0:0:0:0:0:0:0:1]", "::1", false},
    {"[0000:0000:0000:0000:0000:0000:0000:0001]", "::1", false},
    {"[::]", "::", false},
    {"[::ffff:127.0.0.1]", "127.0.0.1", false},
    {"[::FFFF:7F00:1]", "127.0.0.1", false},
    {"[0:0:0:0:0:ffff:127.0.0.1]", "127.0.0.1", false},
    {"[::127.0.0.1]", "::7f00:1", false},
    {"[64:ff9b::a9fe:a9fe]", "64:ff9b::a9fe:a9fe", false},
    {"[2002:7f00:0001::]", "2002:7f00:1::", false},
    {"[fe80::1%25eth0]", "fe80::1", false},
    {"[fe80::1%eth0]", "fe80::1", false},
    {"[::1%25lo]", "::1", false},
    {"[FD00:EC2::254]", "fd00:ec2::254", false},
    {"[fd12:3456::1]", "fd12:3456::1", false},
    {"[ff02::1]", "ff02::1", false},
    {"[::1]]", "invalid", false},
    {"[[::1]]", "invalid", false},
    {"[::1", "invalid", false},
    {"[::1].", "invalid", false},
    {"[::1%25]x", "invalid", false},
    {"[127.0.0.1]", "invalid", false},
    {"[localhost]", "invalid", false},
    {"[v1.fe80::1]", "invalid", false},
    {"[]", "invalid", false},
    {"[", "invalid", false},
    {"%5B::1%5D", "invalid", false},
    {"[1:2:3:4:5:6:7:8:9]", "invalid", false},
    {"[::ffff:127.1]", "invalid", false},
    /* numbers that are no address: a resolver that cuts or wraps them must not get them */
    {"4294967296", "invalid", false},
    {"4294967297", "invalid", false},
    {"18446744073709551617", "invalid", false},
    {"0x17f000001", "invalid", false},
    {"256.0.0.1", "invalid", false},
    {"127.0.0.256", "invalid", false},
    {"383.0.0.1", "invalid", false}, /* 127 + 256 */
    {"127.0.0.1.5", "invalid", false},
    {"127.0.0.08", "invalid", false},
    {"127.0.0.0x", "invalid", false},
    {"1.2.3.4.", "1.2.3.4", true},
    {"127.0.0.1..", "invalid", false},
    {"127..0.1", "invalid", false},
    {".127.0.0.1", "invalid", false},
    {"example.123", "invalid", false},
    {"example.0x7f", "invalid", false},
    /* no hosts */
    {"", "invalid", false},
    {".", "invalid", false},
    {"..", "invalid", false},
    {" 127.0.0.1", "invalid", false},
    {"127.0.0.1 ", "invalid", false},
    {"127.0.0.1\t", "invalid", false},
    {"127.0.0.1 example.com", "invalid", false},
    {"user@127.0.0.1", "invalid", false},
    {"example.com@127.0.0.1", "invalid", false},
    {"127.0.0.1#.example.com", "invalid", false},
    {"127.0.0.1\\.example.com", "invalid", false},
    {"127.0.0.1/", "invalid", false},
    {"127.0.0.1:80", "invalid", false},
    {"a,b", "invalid", false},
    {"\xff\xfe", "invalid", false},
    {"\xc0\xb1\xc0\xb2\xc0\xb7.1", "invalid", false}, /* overlong "127" */
    {"\xed\xa0\x80", "invalid", false},
    {"-0x7f.1", "invalid", false},
    {"+127.0.0.1", "invalid", false},
    /* what may be called */
    {"example.com", "name", true},
    {"EXAMPLE.com.", "name", true},
    {"hooks.shop.example", "name", true},
    {"xn--bcher-kva.example", "name", true},
    {"bücher.example", "name", true},
    {"日本.例え", "name", true},
    {"a_b.example", "name", true},
    {"single", "name", true},
    {"127.0.0.1.nip.example", "name", true}, /* checked at connect */
    {"localhost.example", "name", true},
    {"notlocalhost", "name", true},
    {"0x7f.example", "name", true},
    {"3com", "name", true},
    {"1e100.net", "name", true},
    {"dead.beef", "name", true},
    {"8.8.8.8", "8.8.8.8", true},
    {"134744072", "8.8.8.8", true},
    {"010.8.8.8", "8.8.8.8", true}, /* octal 10 is 8, as inet_aton has it */
    {"[2606:4700:4700::1111]", "2606:4700:4700::1111", true},
    {"2606:4700:4700::1111", "2606:4700:4700::1111", true},
    {"[::ffff:8.8.8.8]", "8.8.8.8", true},
};

static void format_parsed(struct bytes host, char ret_text[INET6_ADDRSTRLEN])
{
    uint8_t address[16];

    switch (guard_host_parse(host, address)) {
    case GUARD_HOST_NAME:
        snprintf(ret_text, INET6_ADDRSTRLEN, "name");
        return;
    case GUARD_HOST_LOCALHOST:
        snprintf(ret_text, INET6_ADDRSTRLEN, "localhost");
        return;
    case GUARD_HOST_INVALID:
        snprintf(ret_text, INET6_ADDRSTRLEN, "invalid");
        return;
    case GUARD_HOST_ADDRESS:
        break;
    }
    if (IN6_IS_ADDR_V4MAPPED((struct in6_addr *)address))
        inet_ntop(AF_INET, address + 12, ret_text, INET6_ADDRSTRLEN);
    else
        inet_ntop(AF_INET6, address, ret_text, INET6_ADDRSTRLEN);
}

/* The address as text without inet_ntop's habit of showing ::a.b.c.d. */
static void normalize(const char *text, char ret_text[INET6_ADDRSTRLEN])
{
    uint8_t address[16];

    if (inet_pton(AF_INET6, text, address) == 1)
        inet_ntop(AF_INET6, address, ret_text, INET6_ADDRSTRLEN);
    else
        snprintf(ret_text, INET6_ADDRSTRLEN, "%s", text);
}

/* proves: target-private */
static void test_hosts(void **state)
{
    struct guard guard = guard_of("");

    (void)state;
    for (size_t i = 0; i < COUNT(host_cases); i++) {
        const struct host_case *it = &host_cases[i];

        char wanted[INET6_ADDRSTRLEN];
        normalize(it->address, wanted);
        char got[INET6_ADDRSTRLEN];
        format_parsed(bytes_of(it->host), got);
        if (strcmp(got, wanted) != 0)
            fail_msg("\"%s\" is %s, not %s", it->host, got, wanted);
        if (guard_allows_host(&guard, bytes_of(it->host)) != it->allowed)
            fail_msg("\"%s\" must be %s", it->host, it->allowed ? "allowed" : "refused");
    }
}

/* What the C library reads as an address, we read as the same one, or refuse. */
/* proves: target-private */
static void test_hosts_like_the_resolver(void **state)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};

    (void)state;
    size_t compared = 0;
    for (size_t i = 0; i < COUNT(host_cases); i++) {
        const char *host = host_cases[i].host;
        uint8_t address[16];
        enum guard_host kind = guard_host_parse(bytes_of(host), address);

        struct addrinfo *found;
        if (getaddrinfo(host, NULL, &hints, &found) != 0)
            continue;
        if (kind != GUARD_HOST_INVALID && kind != GUARD_HOST_ADDRESS)
            fail_msg("\"%s\" is an address", host);
        if (kind == GUARD_HOST_ADDRESS && found->ai_family == AF_INET)
            assert_memory_equal(address + 12,
                                &((struct sockaddr_in *)(void *)found->ai_addr)->sin_addr, 4);
        if (kind == GUARD_HOST_ADDRESS && found->ai_family == AF_INET6)
            assert_memory_equal(address,
                                &((struct sockaddr_in6 *)(void *)found->ai_addr)->sin6_addr, 16);
        compared++;
        freeaddrinfo(found);
    }
    assert_in_range(compared, 40, COUNT(host_cases));
}

/* A host that holds a NUL, or is longer than any host, is refused. */
static void test_hosts_of_odd_sizes(void **state)
{
    static char longest[5000];
    struct guard guard = guard_of("0.0.0.0/0,::/0");

    (void)state;
    memset(longest, 'a', sizeof(longest));
    assert_false(guard_allows_host(&guard, (struct bytes){longest, sizeof(longest)}));
    assert_false(guard_allows_host(&guard, (struct bytes){longest, 64}));
    assert_true(guard_allows_host(&guard, (struct bytes){longest, 63}));
    assert_false(guard_allows_host(&guard, (struct bytes){"a\0b", 3}));
    assert_false(guard_allows_host(&guard, (struct bytes){"[::1\0]", 6}));
    assert_false(guard_allows_host(&guard, (struct bytes){NULL, 0}));
}

/* ---- allowed networks ---- */

/* proves: webhook-allow */
static void test_allowed_networks(void **state)
{
    struct guard guard = guard_of(" 127.0.0.0/8, fd00:1::/32,10.1.2.3 ,169.254.169.254/32");

    (void)state;
    assert_null(guard_test_refusal(&guard, "127.0.0.1"));
    assert_null(guard_test_refusal(&guard, "127.255.255.255"));
    assert_null(guard_test_refusal(&guard, "::ffff:127.0.0.1"));
    assert_null(guard_test_refusal(&guard, "64:ff9b::127.0.0.1"));
    assert_null(guard_test_refusal(&guard, "2002:7f00:1::1"));
    assert_non_null(guard_test_refusal(&guard, "::1"));
    assert_non_null(guard_test_refusal(&guard, "::127.0.0.1"));
    assert_null(guard_test_refusal(&guard, "10.1.2.3"));
    assert_non_null(guard_test_refusal(&guard, "10.1.2.2"));
    assert_non_null(guard_test_refusal(&guard, "10.1.2.4"));
    assert_null(guard_test_refusal(&guard, "169.254.169.254"));
    assert_non_null(guard_test_refusal(&guard, "169.254.169.253"));
    assert_null(guard_test_refusal(&guard, "fd00:1:ffff::1"));
    assert_non_null(guard_test_refusal(&guard, "fd00:2::1"));
    assert_null(guard_test_refusal(&guard, "8.8.8.8"));
    assert_true(guard_allows_host(&guard, BYTES("localhost")));
    assert_true(guard_allows_host(&guard, BYTES("0x7f.1")));
    assert_false(guard_allows_host(&guard, BYTES("[::1]")));
    assert_false(guard_allows_host(&guard, BYTES("127.0.0.1.5")));
}

/* All of IPv6 does not open IPv4 by way of the mapped form; all of IPv4 opens it in every form. */
/* proves: webhook-allow */
static void test_whole_families(void **state)
{
    struct guard six = guard_of("::/0"), four = guard_of("0.0.0.0/0");

    (void)state;
    assert_null(guard_test_refusal(&six, "::1"));
    assert_null(guard_test_refusal(&six, "fe80::1"));
    assert_non_null(guard_test_refusal(&six, "127.0.0.1"));
    assert_non_null(guard_test_refusal(&six, "::ffff:127.0.0.1"));
    assert_true(guard_allows_host(&six, BYTES("localhost")));
    assert_null(guard_test_refusal(&four, "127.0.0.1"));
    assert_null(guard_test_refusal(&four, "::ffff:127.0.0.1"));
    assert_null(guard_test_refusal(&four, "2002:7f00:1::1"));
    assert_non_null(guard_test_refusal(&four, "::1"));
    struct guard mapped_four = guard_of("::ffff:10.0.0.0/104");
    assert_null(guard_test_refusal(&mapped_four, "10.9.9.9"));
    assert_non_null(guard_test_refusal(&mapped_four, "11.9.9.9")
                        ? NULL
                        : guard_test_refusal(&mapped_four, "127.0.0.1"));
}

/* proves: webhook-allow, webhook-networks */
static void test_bad_networks(void **state)
{
    static const char *const bad[] = {
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0.0/",
        "10.0.0.0/08",
        "10.0.0.0/8/8",
        "10.0.0.1/8",
        "10.0.0",
        "10",
        "0x0a.0.0.0/8",
        "010.0.0.0/8",
        "::1/129",
        "::/0000",
        "fe80::1%lo/64",
        "fe80::1/64",
        "localhost",
        "[::1]",
        "*",
        "/8",
        "127.0.0.0/8;::1",
        "10.0.0.0/8, nonsense",
        "1.2.3.4/4294967304",
    };
    struct guard guard = guard_of("10.0.0.0/8");
    char many[(GUARD_NETWORKS_MAX + 1) * 9 + 1] = "";

    (void)state;
    struct error error;
    for (size_t i = 0; i < COUNT(bad); i++) {
        error.text[0] = '\0';
        if (guard_init(&guard, bad[i], &error) != ERROR_INVALID || !error.text[0])
            fail_msg("\"%s\" must be refused", bad[i]);
    }
    assert_int_equal(guard_init(&guard, "10.0.0.0/8, nonsense", &error), ERROR_INVALID);
    assert_non_null(strstr(error.text, "\"nonsense\""));
    assert_int_equal(guard.allowed_count, 1); /* untouched */
    for (size_t i = 0; i <= GUARD_NETWORKS_MAX; i++) {
        snprintf(many + i * 9, 10, "10.0.0.1 ");
        assert_int_equal(guard_init(&guard, many, NULL),
                         i < GUARD_NETWORKS_MAX ? ERROR_NONE : ERROR_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_hosts_like_the_resolver),
        cmocka_unit_test(test_hosts_of_odd_sizes),
        cmocka_unit_test(test_allowed_networks),
        cmocka_unit_test(test_whole_families),
        cmocka_unit_test(test_bad_networks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

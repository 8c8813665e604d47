/*
 * Goal: no spelling of a host makes the guard read beyond its bounds, or read another address than
 * the C library and libcurl do. Method: any bytes as a host, as a list of networks and as an
 * address.
 */
#include "delivery/guard.h"

#include "delivery/guard_host.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

/* An address that somebody else reads out of the host must be the one that the guard saw. */
static void guard_fuzz_compare(struct bytes host, int family, const void *theirs)
{
    uint8_t ours[16], wide[16] = {[10] = 0xff, 0xff};
    enum guard_host kind = guard_host_parse(host, ours);

    if (family == AF_INET6)
        memcpy(wide, theirs, 16);
    else
        memcpy(wide + 12, theirs, 4);
    REQUIRE(kind == GUARD_HOST_INVALID ||
            (kind == GUARD_HOST_ADDRESS && memcmp(ours, wide, sizeof(wide)) == 0));
}

static void compare_with_libc(const char *host)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;

    if (getaddrinfo(host, NULL, &hints, &found) != 0)
        return;
    if (found->ai_family == AF_INET)
        guard_fuzz_compare(bytes_of(host), AF_INET,
                           &((struct sockaddr_in *)(void *)found->ai_addr)->sin_addr);
    else
        guard_fuzz_compare(bytes_of(host), AF_INET6,
                           &((struct sockaddr_in6 *)(void *)found->ai_addr)->sin6_addr);
    freeaddrinfo(found);
}

static void compare_with_curl(const char *host)
{
    CURLU *url = curl_url();

    REQUIRE(url);
    char text[300];
    snprintf(text, sizeof(text), "http://%s/", host);
    char address[16];
    char *normal = NULL;
    if (!strpbrk(host, "/?#@:[]\\") && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_HOST, &normal, 0) == CURLUE_OK &&
        inet_pton(AF_INET, normal, address) == 1)
        guard_fuzz_compare(bytes_of(host), AF_INET, address);
    curl_free(normal);
    curl_url_cleanup(url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6};
    struct bytes host = {(const char *)data, size};
    struct guard nothing;

    REQUIRE(guard_init(&nothing, "", NULL) == ERROR_NONE);
    if (guard_host_parse(host, address.sin6_addr.s6_addr) == GUARD_HOST_ADDRESS)
        REQUIRE(guard_allows_host(&nothing, host) ==
                !guard_refusal(&nothing, (struct sockaddr *)&address));
    if (size >= 16) {
        memcpy(&address.sin6_addr, data, 16);
        (void)guard_refusal(&nothing, (struct sockaddr *)&address);
    }
    char text[257];
    if (size >= sizeof(text) || memchr(data, '\0', size))
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    compare_with_libc(text);
    compare_with_curl(text);
    struct guard some;
    if (guard_init(&some, text, NULL) == ERROR_NONE)
        REQUIRE(!guard_refusal(&some, (struct sockaddr *)&address) ||
                guard_refusal(&nothing, (struct sockaddr *)&address));
    return 0;
}

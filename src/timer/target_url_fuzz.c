/*
 * target_url_fuzz - a target that is taken is one for libcurl too, which will call it: with the
 * same host, a port that is one, no user and no fragment.
 */
#include "timer/target_url.h"

#include "timer/queue_target.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static bool is_missing(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    bool is_there = curl_url_get(url, part, &text, 0) == CURLUE_OK;

    curl_free(text);
    return !is_there;
}

/* libcurl turns the odd forms of an IPv4 address into the usual one. What they all mean is
 * guard_fuzz's. */
static bool is_numeric(struct bytes host)
{
    size_t end = host.size;

    while (end > 0 && host.data[end - 1] != '.')
        end--;
    return end < host.size ? host.data[end] >= '0' && host.data[end] <= '9' : host.size > 0;
}

static void compare(const char *text, struct bytes host)
{
    CURLU *url = curl_url();
    char *theirs = NULL;

    REQUIRE(url && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK);
    REQUIRE(curl_url_get(url, CURLUPART_HOST, &theirs, 0) == CURLUE_OK);
    if (!is_numeric(host) && host.data[0] != '[')
        REQUIRE(strlen(theirs) == host.size && strncasecmp(theirs, host.data, host.size) == 0);
    REQUIRE(is_missing(url, CURLUPART_USER) && is_missing(url, CURLUPART_PASSWORD));
    REQUIRE(is_missing(url, CURLUPART_FRAGMENT));
    curl_free(theirs);
    curl_url_cleanup(url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct bytes url = {text, size}, host;
    struct queue_target target;
    struct error error = {0};

    REQUIRE(text);
    memcpy(text, data, size);
    text[size] = '\0';
    if (target_url_check(url, &host, &error)) {
        REQUIRE(error.text[0]);
    } else if (!host.size) {
        REQUIRE(queue_target_parse(url, &target));
    } else {
        REQUIRE(host.data > url.data && host.data + host.size <= url.data + url.size);
        compare(text, host);
    }
    free(text);
    return 0;
}

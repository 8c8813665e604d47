/*
 * target_url_fuzz - a URL that is taken is one for libcurl too, which will call it: with the same
 * scheme, host and port, the same path and query, no user and no fragment.
 */
#include "timer/target.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static bool target_url_is_missing(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    bool is_there = curl_url_get(url, part, &text, 0) == CURLUE_OK;

    curl_free(text);
    return !is_there;
}

/* libcurl turns the odd forms of an IPv4 address into the usual one. What they all mean is
 * guard_fuzz's. */
static bool target_url_is_numeric(struct bytes host)
{
    size_t end = host.size;

    while (end > 0 && host.data[end - 1] != '.')
        end--;
    return end < host.size ? host.data[end] >= '0' && host.data[end] <= '9' : host.size > 0;
}

static char *target_url_part_of(CURLU *url, CURLUPart part, unsigned flags)
{
    char *text = NULL;

    REQUIRE(curl_url_get(url, part, &text, flags) == CURLUE_OK);
    return text;
}

/* The path, a '?' and the query of a text from which `rest` is left behind the origin. */
static void target_url_compare_rest(CURLU *url, struct bytes rest)
{
    const char *mark = rest.size ? memchr(rest.data, '?', rest.size) : NULL;
    struct bytes path = {rest.data, mark ? (size_t)(mark - rest.data) : rest.size};
    char *theirs = target_url_part_of(url, CURLUPART_PATH, 0);

    REQUIRE(bytes_equal(bytes_of(theirs), path.size ? path : BYTES("/")));
    curl_free(theirs);
    if (mark) {
        theirs = target_url_part_of(url, CURLUPART_QUERY, 0);
        REQUIRE(bytes_equal(bytes_of(theirs), (struct bytes){mark + 1, rest.size - path.size - 1}));
        curl_free(theirs);
    } else {
        REQUIRE(target_url_is_missing(url, CURLUPART_QUERY));
    }
}

static void target_url_compare(struct bytes text, const struct target *target)
{
    const struct bytes host = target_slice(text, target->name);
    CURLU *url = curl_url();

    REQUIRE(url && curl_url_set(url, CURLUPART_URL, text.data, CURLU_PATH_AS_IS) == CURLUE_OK);
    char *theirs = target_url_part_of(url, CURLUPART_SCHEME, 0);
    REQUIRE(strcmp(theirs, target->kind == TARGET_HTTPS ? "https" : "http") == 0);
    curl_free(theirs);
    theirs = target_url_part_of(url, CURLUPART_HOST, 0);
    if (!target_url_is_numeric(host) && host.data[0] != '[')
        REQUIRE(strlen(theirs) == host.size && strncasecmp(theirs, host.data, host.size) == 0);
    curl_free(theirs);
    theirs = target_url_part_of(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
    REQUIRE(strtoul(theirs, NULL, 10) == target->port);
    curl_free(theirs);
    target_url_compare_rest(
        url, (struct bytes){text.data + target->origin_size, text.size - target->origin_size});
    REQUIRE(target_url_is_missing(url, CURLUPART_USER) &&
            target_url_is_missing(url, CURLUPART_PASSWORD));
    REQUIRE(target_url_is_missing(url, CURLUPART_FRAGMENT));
    curl_url_cleanup(url);
}

static void target_url_check_slice(struct bytes text, struct target_slice slice)
{
    REQUIRE((size_t)slice.at + slice.size <= text.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1);
    const struct bytes text = {copy, size};

    REQUIRE(copy);
    memcpy(copy, data, size);
    copy[size] = '\0';
    struct error error = {0};
    struct target target;
    if (target_parse(text, &target, &error)) {
        REQUIRE(error.text[0]);
    } else {
        REQUIRE(target.origin_size <= text.size);
        target_url_check_slice(text, target.name);
        target_url_check_slice(text, target.key);
        for (size_t i = 0; i < TARGET_PATHS_MAX; i++)
            target_url_check_slice(text, target.paths[i]);
        if (target.kind == TARGET_HTTP || target.kind == TARGET_HTTPS)
            target_url_compare(text, &target);
    }
    free(copy);
    return 0;
}

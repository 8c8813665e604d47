/*
 * Goal: whatever a stored timer holds, a request has well-formed headers, one each. Method: the
 * bytes are cut in three at zero bytes: target, content type, own headers.
 */
#include "delivery/webhook_request.h"

#include "delivery/webhook.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static struct bytes webhook_request_fuzz_cut(struct bytes *rest)
{
    const char *end = rest->size ? memchr(rest->data, '\0', rest->size) : NULL;
    struct bytes part = {rest->data, end ? (size_t)(end - rest->data) : rest->size};

    rest->data += part.size + (end != NULL);
    rest->size -= part.size + (end != NULL);
    return part;
}

/* No line holds what would end it for the receiver, and the first seven, and the last, are the
 * service's own. */
static void check_headers(const struct curl_slist *header)
{
    for (size_t i = 0; header; i++, header = header->next) {
        size_t name_size = strcspn(header->data, ":;");

        REQUIRE(!strpbrk(header->data, "\r\n"));
        REQUIRE(name_size > 0 && header->data[name_size]);
        REQUIRE(webhook_header_is_reserved((struct bytes){header->data, name_size}) ==
                (i < 7 || !header->next));
    }
}

/* No carriage return or newline but those that end a line. */
static void check_lines(struct bytes lines)
{
    while (lines.size > 0) {
        const struct bytes line = bytes_cut(&lines, '\n');

        REQUIRE(line.size > 2 && line.data[line.size - 1] == '\r');
        REQUIRE(!memchr(line.data, '\r', line.size - 1) && memchr(line.data, ':', line.size));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes rest = {(const char *)data, size};
    struct timer timer = {.due = {1795219199250}};
    struct delivery delivery = {.timer = &timer, .attempt = 1};
    struct webhook_envelope envelope = {.now_s = 1614265330};

    timer.texts.target = webhook_request_fuzz_cut(&rest);
    timer.texts.content_type = webhook_request_fuzz_cut(&rest);
    timer.texts.headers = rest;
    struct webhook_request request;
    webhook_request_init(&request);
    REQUIRE(webhook_request_build(&request, &delivery, &envelope) == ERROR_NONE);
    check_lines(webhook_request_lines(&request));
    check_headers(webhook_request_list(&request));
    webhook_request_deinit(&request);
    return 0;
}

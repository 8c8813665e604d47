/*
 * queue_target_fuzz - a target of the built-in queue is one for the C library's scanf too, with the
 * same name and priority; whatever the name, the full names of two tenants differ.
 */
#include "timer/queue_target.h"

#include "timer/target.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static bool queue_target_reference(const char *text, char ret_name[80], unsigned *ret_priority)
{
    char digit = '0' + QUEUE_PRIORITY_DEFAULT;
    int end = -1;

    if (sscanf(text, "queue:%79[A-Za-z0-9._-]%n", ret_name, &end) != 1 ||
        strlen(ret_name) > QUEUE_NAME_SIZE_MAX || strcmp(ret_name, ".") == 0 ||
        strcmp(ret_name, "..") == 0)
        return false;
    if (text[end]) {
        int more = -1;

        if (sscanf(text + end, "?priority=%1[0-9]%n", &(char[2]){0}[0], &more) != 1 ||
            text[end + more])
            return false;
        digit = text[end + more - 1];
    }
    *ret_priority = (unsigned)(digit - '0');
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[128];

    if (size >= sizeof(text) || memchr(data, '\0', size))
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    char name[80];
    struct target target;
    unsigned priority;
    if (target_parse(bytes_of(text), &target, NULL) || target.kind != TARGET_QUEUE) {
        REQUIRE(!queue_target_reference(text, name, &priority));
        return 0;
    }
    REQUIRE(queue_target_reference(text, name, &priority));
    struct bytes full = target_slice(bytes_of(text), target.name);
    REQUIRE(bytes_equal(full, bytes_of(name)) && target.priority == priority);
    char room[QUEUE_FULL_NAME_SIZE_MAX], other[QUEUE_FULL_NAME_SIZE_MAX];
    REQUIRE(!bytes_equal(queue_full_name(BYTES("shop"), full, room),
                         queue_full_name(BYTES(""), full, other)));
    return 0;
}

/*
 * json_merge_fuzz - json_merge against the pseudocode of RFC 7396, section 2, on jansson's values.
 * The input is two texts, target and patch, with a line break between them.
 *
 * They are compared where no object has a name twice: of those jansson keeps the last. Any pair of
 * JSON texts must give JSON, and merging the patch again must change nothing but blanks.
 */
#include "base/check.h"
#include "base/json_merge.h"

#include "base/json.h"
#include "base/json_oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool merge_fuzz_is(const json_t *json, int type)
{
    return json && (int)json_typeof(json) == type;
}

/* MergePatch(Target, Patch) of the RFC. */
static json_t *merge_fuzz_reference(const json_t *target, json_t *patch)
{
    if (!merge_fuzz_is(patch, JANSSON_OBJECT))
        return json_deep_copy(patch);
    json_t *result = merge_fuzz_is(target, JANSSON_OBJECT) ? json_deep_copy(target) : json_object();
    for (void *at = json_object_iter(patch); at; at = json_object_iter_next(patch, at)) {
        const char *name = json_object_iter_key(at);
        const size_t size = json_object_iter_key_len(at);
        json_t *value = json_object_iter_value(at);

        if (merge_fuzz_is(value, JANSSON_NULL))
            json_object_deln(result, name, size);
        else
            json_object_setn_new(result, name, size,
                                 merge_fuzz_reference(json_object_getn(result, name, size), value));
    }
    return result;
}

static bool merge_fuzz_is_json(struct bytes text)
{
    struct json_reader reader;

    json_reader_init(&reader, text);
    return json_skip(&reader, NULL) && json_finish(&reader);
}

static json_t *merge_fuzz_load(struct bytes text, size_t flags)
{
    json_error_t error;

    return json_loadb(text.data, text.size, JSON_DECODE_ANY | JSON_ALLOW_NUL | flags, &error);
}

static void merge_fuzz_compare(struct bytes target, struct bytes patch, struct bytes result)
{
    json_t *old = merge_fuzz_load(target, JSON_REJECT_DUPLICATES);
    json_t *change = merge_fuzz_load(patch, JSON_REJECT_DUPLICATES);

    if (old && change) {
        json_t *got = merge_fuzz_load(result, JSON_REJECT_DUPLICATES);
        json_t *wanted = merge_fuzz_reference(old, change);

        CHECK(json_equal(got, wanted));
        json_decref(got);
        json_decref(wanted);
    }
    json_decref(old);
    json_decref(change);
}

/* The second merge of a patch may change blanks; a third one changes nothing. */
static void merge_fuzz_check_again(struct bytes result, struct bytes patch)
{
    struct buffer second, third;

    buffer_init(&second);
    buffer_init(&third);
    CHECK(json_merge(result, patch, &second) == ERROR_NONE);
    merge_fuzz_compare(result, patch, buffer_bytes(&second));
    CHECK(json_merge(buffer_bytes(&second), patch, &third) == ERROR_NONE);
    CHECK(bytes_equal(buffer_bytes(&second), buffer_bytes(&third)));
    buffer_deinit(&second);
    buffer_deinit(&third);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes patch = {(const char *)data, size};
    struct bytes target = bytes_cut(&patch, '\n');
    struct buffer out;

    buffer_init(&out);
    enum error_code code = json_merge(target, patch, &out);
    const bool are_json =
        (target.size == 0 || merge_fuzz_is_json(target)) && merge_fuzz_is_json(patch);

    CHECK(code == (are_json ? ERROR_NONE : ERROR_NOT_JSON));
    if (are_json) {
        CHECK(merge_fuzz_is_json(buffer_bytes(&out)));
        merge_fuzz_compare(target, patch, buffer_bytes(&out));
        merge_fuzz_check_again(buffer_bytes(&out), patch);
    }
    buffer_deinit(&out);
    return 0;
}

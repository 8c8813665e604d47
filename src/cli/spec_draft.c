/* spec_draft.c - makes a document of a file. */
#include "cli/spec_draft.h"

#include <stdlib.h>

void spec_draft_init(struct spec_draft *draft)
{
    *draft = (struct spec_draft){.line = 0};
}

void spec_draft_deinit(struct spec_draft *draft)
{
    buffer_deinit(&draft->json);
    buffer_deinit(&draft->path);
    buffer_deinit(&draft->places);
}

size_t spec_enter(struct spec_draft *draft, struct bytes name, uint32_t line)
{
    const size_t size = draft->path.size;

    buffer_append_text(&draft->path, "/");
    for (size_t i = 0; i < name.size; i++) {
        const bool is_escaped = name.data[i] == '~' || name.data[i] == '/';

        buffer_append(&draft->path, is_escaped ? "~" : &name.data[i], 1);
        if (is_escaped)
            buffer_append(&draft->path, name.data[i] == '~' ? "0" : "1", 1);
    }
    const struct spec_place place = {bytes_hash(0, buffer_bytes(&draft->path)), line};
    buffer_append(&draft->places, &place, sizeof(place));
    return size;
}

void spec_leave(struct spec_draft *draft, size_t path_size)
{
    draft->path.size = path_size;
}

static int spec_draft_compare(const void *a, const void *b)
{
    const struct spec_place *left = a, *right = b;

    if (left->pointer != right->pointer)
        return left->pointer < right->pointer ? -1 : 1;
    return (left->line > right->line) - (left->line < right->line);
}

enum error_code spec_finish(struct spec_draft *draft, spec_take take, void *context,
                            struct error *ret_error)
{
    struct spec_place *places = (struct spec_place *)(void *)draft->places.data;
    const size_t count = draft->places.size / sizeof(*places);
    enum error_code code = ERROR_NONE;

    if (buffer_failed(&draft->json) || buffer_failed(&draft->path) || buffer_failed(&draft->places))
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    if (count)
        qsort(places, count, sizeof(*places), spec_draft_compare);
    for (size_t i = 1; !code && i < count; i++)
        if (places[i].pointer == places[i - 1].pointer)
            code = error_set(ret_error, ERROR_INVALID,
                             "line %u: this key is there twice, first in line %u", places[i].line,
                             places[i - 1].line);
    if (!code && (!draft->json.size || draft->json.data[0] != '{'))
        code = error_set(ret_error, ERROR_INVALID,
                         "line %u: a document is an object with `kind` and `name`", draft->line);
    if (!code)
        code = take(context,
                    &(struct spec_document){.json = buffer_bytes(&draft->json),
                                            .line = draft->line,
                                            .places = places,
                                            .place_count = count},
                    ret_error);
    buffer_clear(&draft->json);
    buffer_clear(&draft->path);
    buffer_clear(&draft->places);
    return code;
}

uint32_t spec_line(const struct spec_document *document, struct bytes pointer)
{
    for (; pointer.size > 0; pointer.size--) {
        const uint64_t wanted = bytes_hash(0, pointer);
        size_t low = 0, high = document->place_count;

        while (low < high) {
            const size_t middle = low + (high - low) / 2;

            if (document->places[middle].pointer < wanted)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < document->place_count && document->places[low].pointer == wanted)
            return document->places[low].line;
        while (pointer.size > 1 && pointer.data[pointer.size - 1] != '/')
            pointer.size--;
    }
    return document->line;
}

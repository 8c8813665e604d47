/*
 * spec_draft.h - a document of a file, and how one is made: its JSON member by member, with
 * the lines on which they are.
 *
 * Errors     Buffers remember that they could not grow; spec_finish reports it.
 * Threads    Any: no globals.
 */
#ifndef TICKWHEEL_CLI_SPEC_DRAFT_H
#define TICKWHEEL_CLI_SPEC_DRAFT_H

#include "base/bytes.h"
#include "base/error.h"

#include <stdint.h>

#define SPEC_DEPTH_MAX 60 /* levels of a document; a timer is sent one level deeper */

/* Where a member is. */
struct spec_place {
    uint64_t pointer; /* bytes_hash of its JSON pointer */
    uint32_t line;    /* from 1 */
};

struct spec_document {
    struct bytes json;               /* object, on one line, its members in their order */
    uint32_t line;                   /* first line, from 1 */
    const struct spec_place *places; /* sorted by pointer */
    size_t place_count;
};

/* Takes a document. Another code than ERROR_NONE, with its error, ends the reading. */
typedef enum error_code (*spec_take)(void *context, const struct spec_document *document,
                                     struct error *ret_error);

/* A document while it is read. */
struct spec_draft {
    struct buffer json, path; /* `path` is the JSON pointer of the value that is read */
    struct buffer places;     /* struct spec_place */
    uint32_t line;
};

void spec_draft_init(struct spec_draft *draft);
void spec_draft_deinit(struct spec_draft *draft);

/* Enters a member, and notes where it is. Returns the size of the path, for spec_leave. */
size_t spec_enter(struct spec_draft *draft, struct bytes name, uint32_t line);
void spec_leave(struct spec_draft *draft, size_t path_size);

/* Checks that no member occurs twice, gives the document to `take`, and empties the draft. */
enum error_code spec_finish(struct spec_draft *draft, spec_take take, void *context,
                            struct error *ret_error);

/* Returns the line of the member with this JSON pointer, or of the nearest one around it. */
uint32_t spec_line(const struct spec_document *document, struct bytes pointer);

#endif

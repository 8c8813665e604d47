/*
 * specs.h - reads a text of documents, YAML or JSON, as JSON with the lines of its members.
 *
 *     code = specs_read(text, take, context, &error);     take gets each document
 *     line = spec_line(&document, BYTES("/retry/base"));
 *
 * A text that is valid JSON is read as JSON: one object, or an array of objects. Any other text is
 * YAML, of which the core schema of version 1.2 is read: `no` and 12:30 are strings. What readers
 * of YAML understand differently is refused: numbers that JSON writes in another form (010, 0x1f,
 * .5), tags, anchors and aliases, keys that are not strings, and keys that occur twice.
 *
 * Time       O(text log members).
 * Errors     ERROR_INVALID with a sentence that begins with the line; NO_MEMORY. Then documents
 *            before may have been taken.
 * Ownership  A document is borrowed until `take` returns.
 * Threads    Any: no globals.
 */
#ifndef TICKWHEEL_CLI_SPECS_H
#define TICKWHEEL_CLI_SPECS_H

#include "cli/spec_draft.h"

enum error_code specs_read(struct bytes text, spec_take take, void *context,
                           struct error *ret_error);

#endif

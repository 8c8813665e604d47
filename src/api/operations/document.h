/*
 * document.h - the documentation that follows from the table of routes: the OpenAPI documents, and
 * the overview in docs/api.md.
 *
 * The table gives the paths, api/json/timer_fields.def the fields of a timer. The rest is in
 * openapi_parts.json, which is part of the program: schemas, parameters, and under `operations` the
 * members of an operation that the table does not have.
 *
 * Errors     Only want of memory, which the buffer remembers.
 * Threads    None; pure functions over constant tables.
 */
#ifndef TICKWHEEL_API_OPERATIONS_DOCUMENT_H
#define TICKWHEEL_API_OPERATIONS_DOCUMENT_H

#include "api/core/route.h"

/* Returns the errors of a route as bits of enum error_code: those of its row, and those that
 * follow from its scope and its body. */
uint64_t document_refusals(const struct route *route);

/* Appends the strict OpenAPI 3.1 document: what the server accepts and answers, as precisely as
 * JSON Schema allows. */
void document_format(const struct route *routes, size_t count, struct buffer *out);

/* Appends the plain document that is made from the strict one, for generators of clients. */
void document_format_plain(struct bytes strict, struct buffer *out);

/* Returns the text of a member of an object; empty if there is none, or the object is empty. */
struct bytes document_member(struct bytes object, struct bytes name);

/* Appends, as the member `properties` of the open schema, the fields of a timer that the schema of
 * this name has: TimerCreate, TimerPatch or Timer. Appends nothing for another name. `schemas` are
 * those that a field may refer to. */
void document_append_fields(struct bytes schema, struct bytes schemas, struct buffer *out);

/* Appends the overview, a list in Markdown with an entry for each section of the documents. */
void document_format_overview(const struct route *routes, size_t count, struct buffer *out);

/* src/api/operations/openapi_parts.json, built into the program. */
extern const char openapi_parts[];
extern const size_t openapi_parts_size;

#endif

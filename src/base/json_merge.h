/*
 * json_merge.h - JSON Merge Patch (RFC 7396): changes a JSON text by another one.
 *
 *     target  {"a": {"b": 1, "c": 2}, "d": [1]}
 *     patch   {"a": {"b": null}, "d": [2]}
 *     result  {"a":{"c": 2},"d":[2]}
 *
 * A member of the patch replaces the member of its name, null removes it, and an object merges with
 * an object. Any other value is taken as it is, with the nulls in its arrays. Names are compared
 * after their escapes are decoded. Of a name that the patch has twice, the last one counts; of a
 * name that the target has twice and the patch has, the result has one.
 *
 * Values that the patch leaves alone keep their bytes, and so do values of the patch without a null
 * to remove.
 *
 * Time       O((target + patch) log patch): each text is read once.
 * Errors     NOT_JSON when one of the texts is none, NO_MEMORY. `out` may then hold a part.
 * Ownership  The texts are borrowed during the call.
 * Threads    None: pure.
 */
#ifndef TICKWHEEL_BASE_JSON_MERGE_H
#define TICKWHEEL_BASE_JSON_MERGE_H

#include "base/bytes.h"
#include "base/error.h"

/* Appends the result. An empty `target` means no value. */
enum error_code json_merge(struct bytes target, struct bytes patch, struct buffer *out);

#endif

/*
 * named_file.h - the named targets of the configuration: a JSON file with an object for each
 * tenant, in which each name has a definition as clients send it (named_target.h). The tenant
 * without a name is "-".
 *
 *     {"-": {"billing": {"url": "https://api.billing.example/v1"}}, "shop": {"crm": {...}}}
 *
 * The result is a table of definitions whose values have secrets in clear text: it is for memory
 * alone, is never encoded, and is wiped when its last holder leaves.
 *
 * Errors     ERROR_INVALID with the path and the place, such as "#/shop/crm/auth/token", without
 *            secrets. ERROR_IO; ERROR_NO_MEMORY.
 * Threads    Any.
 */
#ifndef TICKWHEEL_DELIVERY_NAMED_FILE_H
#define TICKWHEEL_DELIVERY_NAMED_FILE_H

#include "delivery/named.h"

#define NAMED_FILE_SIZE_MAX (1 << 20)

/* Reads the text of a file. Every row has this time and this version, which has the bit
 * DEFINITION_CONFIGURED. The text must stay unchanged until it returns. */
enum error_code named_file_parse(struct named *named, struct bytes text, struct wall now,
                                 uint64_t version, struct definitions **ret_definitions,
                                 struct error *ret_error);

/* Like named_file_parse, for the file of this path. */
enum error_code named_file_load(struct named *named, const char *path, struct wall now,
                                uint64_t version, struct definitions **ret_definitions,
                                struct error *ret_error);

#endif

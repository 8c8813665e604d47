/*
 * yaml.h - reads a YAML text as JSON documents; what is refused says specs.h.
 *
 * Errors     As specs_read.
 * Threads    Any: no globals.
 */
#ifndef TICKWHEEL_CLI_YAML_H
#define TICKWHEEL_CLI_YAML_H

#include "cli/spec_draft.h"

/* Gives each document to `take`; those without content are passed over. */
enum error_code yaml_read(struct bytes text, spec_take take, void *context,
                          struct error *ret_error);

#endif

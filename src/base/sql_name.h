/* sql_name.h - the name of a table or function as SQL has it. */
#ifndef TICKWHEEL_BASE_SQL_NAME_H
#define TICKWHEEL_BASE_SQL_NAME_H

#include "base/bytes.h"

/* Appends "schema"."table" of schema.table. Fails as a buffer does. */
void sql_name_append(struct buffer *to, struct bytes name);

#endif

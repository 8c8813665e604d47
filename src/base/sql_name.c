/* sql_name.c - quotes names of SQL; see sql_name.h. */
#include "base/sql_name.h"

void sql_name_append(struct buffer *to, struct bytes name)
{
    buffer_append_text(to, "\"");
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] == '.')
            buffer_append_text(to, "\".\"");
        else if (name.data[i] == '"')
            buffer_append_text(to, "\"\"");
        else
            buffer_append(to, &name.data[i], 1);
    }
    buffer_append_text(to, "\"");
}

/* docs_testing.h - for tests: a file of the tree that the code makes is what the code makes now. */
#ifndef TICKWHEEL_OPS_DOCS_TESTING_H
#define TICKWHEEL_OPS_DOCS_TESTING_H

#include "sys/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static inline void assert_docs_current(const char *path, void (*format)(struct buffer *))
{
    struct buffer made, stored;
    struct error error;

    buffer_init(&made);
    buffer_init(&stored);
    format(&made);
    if (files_read(path, 1 << 20, &stored, &error))
        fail_msg("%s", error.text);
    if (!bytes_equal(buffer_bytes(&made), buffer_bytes(&stored)))
        fail_msg("%s is not what the table makes: run `make docs`", path);
    buffer_deinit(&made);
    buffer_deinit(&stored);
}

#endif
